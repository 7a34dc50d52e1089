"""Schedules do not change a bit: on random reals, any schedule of a definition in which the order
of the operations is settled gives what the definition gives, in C and in the interpreter.

Elsewhere numbers are small and whole, so that sums are exact in any order; these are not.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor.ir.dtype import compute_dtype, pack, unpack
from tests.parts import times
from tests.run.together import built_together

FLOATS = ("float16", "bfloat16", "float32", "float64")
N, K = 48, 5
"""Elements of each tensor, and of a reduction."""
EXACT_UNARY = [
    lambda a: -a,
    mt.abs,
    lambda a: mt.sqrt(mt.abs(a)),
    lambda a: a * 0.3,
    lambda a: a / 4,
    lambda a: a / 3,
    mt.floor,
]
UNARY = [*EXACT_UNARY, mt.exp, mt.tanh, mt.sigmoid, mt.erf, mt.sin, mt.cos, mt.log1p, mt.expm1]
"""The functions at the end are the interpreter's to a few units in the last place only."""
BINARY = [
    *[lambda a, b: a * b] * 4,
    *[lambda a, b: a + b] * 3,
    *[lambda a, b: a - b] * 3,
    lambda a, b: a / b,
    mt.minimum,
    mt.maximum,
    lambda a, b: mt.select(a < b, a, b * a),
    lambda a, b: mt.if_then_else(a * b < a, b, a),
]


@st.composite
def values(draw, unary, depth=4):
    """A function of three values and their type, by which an expression is made of them."""
    if depth == 0 or draw(st.integers(0, 9)) == 0:
        n = draw(st.integers(0, 2))
        return lambda given: given[n]
    if draw(st.integers(0, 4)) == 0:
        inner, f = draw(values(unary, depth - 1)), draw(st.sampled_from(unary))
        return lambda given: f(inner(given))
    a, b = draw(values(unary, depth - 1)), draw(values(unary, depth - 1))
    f = draw(st.sampled_from(BINARY))
    if draw(st.integers(0, 7)) == 0:
        other = draw(st.sampled_from(FLOATS))
        return lambda given: f(a(given).astype(other), b(given)).astype(str(given[0].dtype))
    return lambda given: f(a(given), b(given))


@st.composite
def definitions(draw, dtype, unary):
    """Two stages, the second elementwise or an extremum over an axis."""
    first, second = draw(values(unary)), draw(values(unary))
    A, B, C = (mt.placeholder((N + K,), dtype, name=n) for n in "ABC")
    P = mt.compute((N + K,), lambda i: first([A[i], B[i], C[i]]), name="P")
    reduced = draw(st.sampled_from([None, mt.max, mt.min]))
    if reduced is None:
        Q = mt.compute((N,), lambda i: second([P[i], B[i], A[i + K]]), name="Q")
    else:
        k = mt.reduce_axis(K, name="k")
        Q = mt.compute((N,), lambda i: reduced(second([P[i + k], B[i], A[i + k]]), k), name="Q")
    outputs = [P, Q] if draw(st.booleans()) else [Q]
    return mt.lower([A, B, C, *outputs])


def schedules(program):
    """The ways to run it: in registers of several widths, unrolled, in parallel, inlined."""
    ways = {"as written": mt.Schedule(program)}
    for width in (4, 16):
        s = ways[f"vectors of {width}"] = mt.Schedule(program)
        for block in s.get_blocks():
            loops = s.get_loops(block)
            outer, inner = s.split(loops[0], [None, width])
            if len(loops) > 1:
                s.reorder(*loops[1:], inner)
            s.vectorize(inner)
    s = ways["unrolled"] = mt.Schedule(program)
    for block in s.get_blocks():
        s.unroll(s.split(s.get_loops(block)[0], [None, 6])[1])
    s = ways["parallel"] = mt.Schedule(program)
    for block in s.get_blocks():
        s.parallel(s.split(s.get_loops(block)[0], [None, 7])[0])
    if len(program.outputs) == 1 and "P" in ways["as written"].get_blocks():
        ways["inlined"] = mt.Schedule(program)
        ways["inlined"].compute_inline("P")
        s = ways["fused"] = mt.Schedule(program)
        outer, inner = s.split(s.get_loops("Q")[0], [None, 8])
        s.compute_at("P", outer)
        s.vectorize(s.get_loops("P")[-1])
    return ways


def reals(program, seed):
    """Arrays of normal variates, a few of them tiny or huge, as a call takes them."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in program.inputs:
        values = rng.normal(size=buffer.shape)
        values[::11] *= 2.0 ** rng.integers(-14, 14, values[::11].shape)
        arrays.append(pack(values.astype(compute_dtype(buffer.dtype)), buffer.dtype))
    return arrays


def bits(program, results):
    """The bits of the results; the same for every NaN."""
    arrays = results if isinstance(results, tuple) else (results,)
    values = [unpack(a, b.dtype) for a, b in zip(arrays, program.outputs, strict=True)]
    return [np.where(v == v, v, np.array(np.nan, v.dtype)).tobytes() for v in values]


def assert_same_bits(programs, with_interpreter):
    target = mt.Target("c", num_cores=2)
    ways = {(n, way): s for n, p in enumerate(programs) for way, s in schedules(p).items()}
    kernels = built_together({key: (schedule, target) for key, schedule in ways.items()})
    for n, program in enumerate(programs):
        arrays = reals(program, n)
        wanted = bits(program, kernels[n, "as written"](*arrays))
        if with_interpreter:
            with np.errstate(all="ignore"):
                assert bits(program, mt.interpret(program, *arrays)) == wanted, program
        for (number, way), kernel in kernels.items():
            if number == n:
                assert bits(program, kernel(*arrays)) == wanted, f"{way}: {program}"


RELAXED = settings(
    deadline=None,
    max_examples=2,
    phases=(Phase.generate,),  # each example is a run of the compiler: none to reduce a failure
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
@RELAXED
def test_schedules_and_the_interpreter_have_the_same_bits(dtype, data):
    programs = [data.draw(definitions(dtype, EXACT_UNARY)) for _ in range(times(2, 3))]
    assert_same_bits(programs, with_interpreter=True)


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
@RELAXED
def test_schedules_have_the_same_bits_where_functions_are_called(dtype, data):
    programs = [data.draw(definitions(dtype, UNARY)) for _ in range(times(2, 3))]
    assert_same_bits(programs, with_interpreter=False)
