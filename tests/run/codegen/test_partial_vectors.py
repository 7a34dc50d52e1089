"""Iterations that are left over by whole vectors, in the first lanes of one more."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target, generate, generate_together
from minitensor.runtime import find_toolchain, native_target
from minitensor.sanitize import Sanitizer, load_sanitized, run_guarded
from tests.run.together import built_together

EXTENTS = [3, 5, 6, 7, 9, 11, 13, 15, 19, 23, 31, 45]


def chain(rows, columns, dtype, reverse=False):
    """A product with a bias, relu and a row of its own, in vectors along the columns."""
    A = mt.placeholder((rows, 5), dtype, name="A")
    B = mt.placeholder((5, columns), dtype, name="B")
    b = mt.placeholder((columns, 2), dtype, name="b")
    k = mt.reduce_axis((0, 5), name="k")
    C = mt.compute((rows, columns), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    place = (lambda j: columns - 1 - j) if reverse else (lambda j: j)

    def last(i, j):
        value = C[i, place(j)] + b[j, 1]
        return mt.select(value > 3.0, value, value * 2.0 + mt.abs(b[j, 0]))

    D = mt.compute((rows, columns), last, name="D")
    s = mt.Schedule(mt.lower([A, B, b, D]))
    i, j, k = s.get_loops("C")
    s.reorder(i, k, j)
    s.vectorize(j)
    s.vectorize(s.get_loops("D")[-1])
    return s


def arrays_of(program, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, b.shape).astype(str(b.dtype)) for b in program.inputs]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64", "int16", "uint8"])
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_every_rest(dtype, bits, reverse):
    target = Target("c", 1, bits)
    schedules = {columns: chain(3, columns, dtype, reverse) for columns in EXTENTS}
    kernels = built_together({n: (s, target) for n, s in schedules.items()})
    for columns, s in schedules.items():
        arrays = arrays_of(s.program)
        (want,), _ = mt.ir.interpret(s.program, arrays)
        assert np.array_equal(kernels[columns](*arrays), want), columns


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int64", "int16", "uint8"])
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_nothing_behind_an_array_is_touched(dtype, bits):
    target = native_target(Target("c", 1, bits))
    programs = [chain(3, columns, dtype).program for columns in EXTENTS]
    emitted = generate_together([(program, target) for program in programs])
    kernels = load_sanitized(Sanitizer.GUARDS, emitted, find_toolchain())
    for columns, program, kernel in zip(EXTENTS, programs, kernels, strict=True):
        assert run_guarded(kernel, arrays_of(program)).faults == (), columns


@pytest.mark.parametrize(
    ("columns", "dtype", "parts"),
    [
        (7, "float32", {"load_7_float32x8", "store_7_float32x8", "every_second_7_float32x8"}),
        (13, "float32", {"load_5_float32x8", "store_5_float32x8", "every_second_5_float32x8"}),
        (11, "float64", {"load_3_float64x4", "store_3_float64x4", "every_second_3_float64x4"}),
        (12, "float32", set()),
        (10, "float32", set()),
        (7, "int32", {"load_7_int32x8", "store_7_float32x8", "every_second_7_int32x8"}),
        (7, "uint8", {"load_7_uint8x8", "store_7_float32x8", "every_second_7_uint8x8"}),
    ],
)
def test_the_text_has_parts(columns, dtype, parts):
    text = generate(chain(4, columns, dtype).program, Target("c", 1, 256)).source
    assert set(re.findall(r"\b(?:load|store|every_second)_\d+_\w+", text)) == parts
    assert text.count("typedef float float32x8 ") == (dtype != "float64")


def test_integers_are_not_divided_by_what_no_lane_was_given():
    A, B = (mt.placeholder((13,), "int32", name=n) for n in "AB")
    C = mt.compute((13,), lambda i: A[i] // B[i] + A[i] % B[i], name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.vectorize(s.get_loops("C")[0])
    a, b = np.arange(-6, 7, dtype="int32"), np.arange(1, 14, dtype="int32")
    assert np.array_equal(mt.build(s)(a, b), a // b + a % b)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [5, 13, 29])
def test_functions_have_the_bits_of_scalars(columns):
    X = mt.placeholder((6, columns), name="X")
    E = mt.compute((6, columns), lambda i, j: mt.exp(X[i, j]) + mt.log(X[i, j]), name="E")
    s = mt.Schedule(mt.lower([X, E]))
    s.vectorize(s.get_loops("E")[-1])
    x = np.random.default_rng(columns).uniform(0.1, 9, (6, columns)).astype("f")
    plain = mt.build(mt.lower([X, E]))(x)
    for bits in (128, 256, 512):
        assert np.array_equal(mt.build(s, target=Target("c", 1, bits))(x), plain)


def reduce_in_lanes(s, block, lanes):
    """Reduce the rows of a block in the lanes of a register, then those in half of one."""
    vectors = s.rfactor(s.split(s.get_loops(block)[-1], [None, lanes])[1])
    vector = s.rfactor(s.split(s.get_loops(block)[-1], [None, lanes // 2])[1])
    around = s.get_loops(block)[0]
    for partial in (vector, vectors):
        *_, steps, lane = s.compute_at(partial, around)
        s.unroll(steps)
        s.vectorize(lane)


def rows(columns, lanes, reduced):
    """Sums or maxima of four rows."""
    A = mt.placeholder((4, columns), name="A")
    k = mt.reduce_axis(columns, name="k")
    s = mt.Schedule(mt.lower([A, mt.compute((4,), lambda i: reduced(A[i, k], axis=k), name="C")]))
    reduce_in_lanes(s, "C", lanes)
    return s


@pytest.mark.slow
@pytest.mark.parametrize("reduced", [mt.sum, mt.max])
@pytest.mark.parametrize(("lanes", "bits"), [(4, 128), (8, 256), (16, 512)])
def test_what_is_left_of_a_row_stays_in_registers(lanes, bits, reduced):
    rng, target = np.random.default_rng(lanes), Target("c", 1, bits)
    schedules = {rest: rows(2 * lanes + rest, lanes, reduced) for rest in range(1, lanes)}
    kernels = built_together({rest: (s, target) for rest, s in schedules.items()})
    for rest, s in schedules.items():
        text = generate(s.program, target).source
        assert "_part" not in text, rest
        if rest > 2:
            assert f"first_{rest}_float32x{lanes}(" in text
        a = rng.integers(-4, 5, (4, 2 * lanes + rest)).astype("f")
        a[1, -1], a[2, -1], a[3, -1] = np.nan, -np.inf, -0.0
        (want,), _ = mt.ir.interpret(s.program, [a])
        np.testing.assert_array_equal(kernels[rest](a), want)


def test_registers_keep_the_lanes_behind_a_rest():
    """A row of -0.0 has a sum of -0.0 in no lane, and a maximum of -5 is not one of zeros."""
    s = rows(16 + 7, 8, mt.max)
    a = np.full((4, 23), -5, np.float32)
    np.testing.assert_array_equal(mt.build(s, target=Target("c", 1, 256))(a), a[:, 0])


def test_several_registers_of_one_row():
    A = mt.placeholder((3, 15), name="A")
    k, l = mt.reduce_axis(15, name="k"), mt.reduce_axis(15, name="l")
    M = mt.compute((3,), lambda i: mt.max(A[i, k], axis=k), name="M")
    S = mt.compute((3,), lambda i: mt.sum(A[i, l] * A[i, l], axis=l), name="S")
    s = mt.Schedule(mt.lower([A, mt.compute((3,), lambda i: M[i] + S[i], name="C")]))
    reduce_in_lanes(s, "M", 8)
    reduce_in_lanes(s, "S", 8)
    a = np.random.default_rng(0).integers(-4, 5, (3, 15)).astype("f")
    target = Target("c", 1, 256)
    assert generate(s.program, target).source.count("first_7_float32x8(") == 3
    np.testing.assert_array_equal(mt.build(s, target=target)(a), a.max(1) + (a * a).sum(1))


def every_second(dtype, n, first):
    """Elements 2 i + first of an array that ends with the last of them."""
    A = mt.placeholder((2 * n - 1 + first,), dtype, name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((n,), lambda i: A[2 * i + first] + A[0], name="B")]))
    s.vectorize("i")
    return s


@pytest.mark.slow
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_every_second_element_is_taken_from_two_vectors(bits):
    target = native_target(Target("c", 1, bits))
    cases = [
        (dtype, n, first)
        for dtype in ("float32", "float64", "int32", "int64", "int16", "float16", "uint8")
        for n in (7, 8, 14, 16, 30, 33, 61, 64)
        for first in (0, 1)
    ]
    programs = [every_second(*case).program for case in cases]
    emitted = generate_together([(program, target) for program in programs])
    texts = [generate(program, target).source for program in programs]
    assert all("every_second_" in text for text, (_, n, _) in zip(texts, cases) if n == 16)
    kernels = load_sanitized(Sanitizer.GUARDS, emitted, find_toolchain())
    for case, program, kernel in zip(cases, programs, kernels, strict=True):
        arrays = arrays_of(program)
        (want,), _ = mt.ir.interpret(program, arrays)
        ran = run_guarded(kernel, arrays)
        assert ran.faults == (), case
        assert np.array_equal(ran.outputs[0], want), case
