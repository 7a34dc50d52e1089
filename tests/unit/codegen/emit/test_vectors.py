"""Vectors of floats in the text: chosen, rounded and converted on their bits, never by lane."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.testing import assert_equivalent

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint16", "int32", "int64", "bool")
FLOATS = DTYPES[:4]
LANES = {"float64": 8, "int64": 8, "uint16": 32, "int8": 64, "bool": 64}
FUNCTIONS = {
    "select": lambda a, b: mt.select(a < b, b, a),
    "select of others": lambda a, b: mt.select(a == b, b, a),
    "a narrow condition": lambda a, b: mt.select(a.astype("int8") == 0, b, a),
    "a wide condition": lambda a, b: mt.select(a.astype("float64") == 0, b, a),
    "maximum": mt.maximum,
    "minimum": mt.minimum,
}
OF_FLOATS = {
    "relu": lambda a, b: mt.select(a < 0, 0.0, a),
    "abs": lambda a, b: mt.abs(a),
    "exp": lambda a, b: mt.exp(a - b),
    "tanh": lambda a, b: mt.tanh(a),
    "sigmoid": lambda a, b: mt.sigmoid(a),
    "log": lambda a, b: mt.log(a),
}


def text_of(function, dtype, lanes):
    A, B = (mt.placeholder((64,), dtype, name=n) for n in "AB")
    s = mt.Schedule(mt.lower([A, B, mt.compute((64,), lambda i: function(A[i], B[i]), name="C")]))
    s.vectorize(s.split("i", [None, lanes])[1])
    return generate(s.program, Target("c", num_cores=1, vector_bits=512)).source


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in FUNCTIONS for d in DTYPES] + [(n, d) for n in OF_FLOATS for d in FLOATS],
)
def test_vectors_are_not_taken_apart(name, dtype):
    text = text_of({**FUNCTIONS, **OF_FLOATS}[name], dtype, LANES.get(dtype, 16))
    by_lane = re.findall(r"for \(int i = 0; [^)]*\) \w\[i\] = (\w+)", text)
    assert {*by_lane} <= {"__builtin_fmaf", "__builtin_fma"}  # where there is no barrier
    assert re.search(r"\w+\d+x\d+ ", text)


@pytest.mark.parametrize(
    ("choose", "name"),
    [
        (lambda a, b: mt.select(a < b, a, b), "lesser"),
        (lambda a, b: mt.select(b > a, a, b), "lesser"),
        (lambda a, b: mt.select(a > b, a, b), "greater"),
        (lambda a, b: mt.select(a < b, b, a), "greater"),
    ],
)
def test_the_lesser_of_two_floats_is_a_function_with_an_instruction(choose, name):
    assert f"{name}_float32x8(" in text_of(choose, "float32", 8)
    assert "select_int32x8(" in text_of(choose, "int32", 8)


def test_a_choice_of_equal_numbers_is_none():
    """A comparison of -0.0 with 0.0 by <= holds, and the instruction would give the other zero."""
    text = text_of(lambda a, b: mt.select(a <= b, a, b), "float32", 8)
    assert "lesser" not in text and "greater" not in text


def test_a_number_is_not_spread_twice_for_vectors_of_two_lengths():
    """A row of 20 columns: two vectors of eight lanes, and one of four."""
    program = mt.lower(mt.workloads.matmul(4, 20, 16))
    s = mt.Schedule(program)
    i, j, k = s.get_loops("C")
    s.reorder(k, i, j)
    s.unroll(i)
    s.vectorize(j)
    text = generate(s.program, Target("c", num_cores=1, vector_bits=256)).source
    inner = text[text.index("for (int64_t k") :]
    assert "splat_float32x8(A_0)" in inner and "lanes_0_4_float32x8(A_1)" in inner
    assert "splat_float32x4(" not in inner
    a, b = (np.random.default_rng(n).integers(-4, 5, 80 * n).astype("float32") for n in (1, 4))
    a, b = np.resize(a, (4, 16)), np.resize(b, (16, 20))
    np.testing.assert_array_equal(mt.build(s)(a, b), a @ b)


@pytest.mark.parametrize("bits", [256, 512])
def test_a_wide_vector_that_is_used_again_is_loaded_once(bits):
    """As a variable that GCC cannot take from memory again; the 16 shorter ones may be needed."""
    A, B = mt.placeholder((4, 64), name="A"), mt.placeholder((4,), name="B")
    k = mt.reduce_axis(4, "k")
    C = mt.compute((2, 64), lambda i, j: mt.sum(A[k, j] * B[k], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.reorder("k", "i", "j")
    s.unroll("i")
    s.vectorize(s.split("j", [None, bits // 32])[1])
    s.reorder("j_0", "k", "i", "j_1")
    target = Target("c", num_cores=1, vector_bits=bits)
    text = generate(s.program, target).source
    assert ("= held_float32x16(load_float32x16(" in text) == (bits == 512)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, x.shape).astype("float32") for x in (A, B))
    wanted = np.broadcast_to(b @ a, (2, 64))
    np.testing.assert_array_equal(mt.build(s, target=target)(a, b), wanted)


@pytest.mark.parametrize("lanes", [10, 16])
def test_each_vector_of_an_array_is_read_at_its_own_place(lanes):
    """D has a vector for each k: numbers that are the same in all lanes."""
    A, B = mt.placeholder((lanes + 1,), name="A"), mt.placeholder((2,), name="B")
    D = mt.compute((2,), lambda d: B[d] * 2.0, name="D")
    k = mt.reduce_axis(2, name="k")
    C = mt.compute((lanes,), lambda y: mt.sum(A[k + y] * D[k], axis=k), name="C")
    program = mt.lower([A, B, C])
    s = mt.Schedule(program)
    s.compute_at("D", "y")
    s.vectorize("y")
    assert "D[k]" in mt.build(s).source
    assert_equivalent(program, s, targets=("interpreter", "c"))


def test_lanes_that_are_apart_are_numbers_to_a_compiler():
    """Rows as lanes: each of them is read on its own, where a condition on the column allows it."""
    X = mt.placeholder((3, 4), name="X")

    def padded(y, x):
        inside = mt.logical_and(y >= 2, y < 5, x >= 2, x < 6)
        return mt.if_then_else(inside, X[y - 2, x - 2], 0.0)

    P = mt.compute((7, 8), padded, name="P")
    program = mt.lower([X, P])
    s = mt.Schedule(program)
    s.vectorize("y")
    source = generate(s.program, Target("c", num_cores=1, vector_bits=512)).source
    assert "no vectors here: a masked load may read all" in source
    assert_equivalent(program, s, targets=("interpreter", "c"))
