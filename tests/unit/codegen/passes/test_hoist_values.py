"""Functions of what loops do not change are called outside of them, with identical results."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir
from minitensor.codegen import PASSES, Target, lowered
from minitensor.ir import interpret

TARGET = Target("c", num_cores=1, vector_bits=256)
ORDER = [name for name, _ in PASSES]


def hoisted(schedule):
    """The text after the pass, which is verified; interpreted, it means what it did before."""
    passes = PASSES[: ORDER.index("hoist_values") + 1]
    before = lowered(schedule.program, TARGET, passes[:-1])
    after = lowered(schedule.program, TARGET, passes, check=True)
    arrays = [np.random.default_rng(0).normal(size=b.shape).astype("f") for b in after.inputs]
    names = [b.name for b in schedule.program.outputs]
    with np.errstate(all="ignore"):
        old, new = (interpret(p, arrays, names)[0] for p in (before, after))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(old, new))
    return ir.print_stmt(after.body)


def scaled(value, shape=(3, 4, 8), lanes=True):
    """C[c, y, x] of A[c, y, x] and B[c], by default with x in lanes."""
    A, B = mt.placeholder(shape, name="A"), mt.placeholder(shape[:1], name="B")
    C = mt.compute(shape, lambda c, y, x: value(A, B, c, y, x), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    if lanes:
        s.vectorize("x")
    return s


def test_what_neither_loop_changes_goes_outside_of_both():
    for lanes in (True, False):
        text = hoisted(scaled(lambda A, B, c, y, x: A[c, y, x] * mt.sigmoid(B[c]), lanes=lanes))
        before, _, after = text.partition("for y")
        assert "sigmoid_0[()] = sigmoid(B[c])" in before and "sigmoid(" not in after


def test_each_goes_as_far_as_it_can():
    text = hoisted(
        scaled(lambda A, B, c, y, x: A[c, y, x] * mt.exp(B[c]) + mt.tanh(B[c] * A[c, y, 0]))
    )
    before, _, after = text.partition("for y")
    assert "= exp(B[c])" in before and "tanh" not in before
    assert after.count("tanh(") == 1 and "exp(" not in after


def test_a_call_inside_of_another_goes_with_it():
    text = hoisted(scaled(lambda A, B, c, y, x: A[c, y, x] * mt.exp(mt.sqrt(B[c]))))
    assert text.partition("for y")[0].count("exp_0[()] = exp(sqrt(B[c]))") == 1


def test_what_a_condition_may_forbid_stays():
    def chosen(A, B, c, y, x):
        return mt.if_then_else(A[c, y, x] > 0, mt.log(B[c]), 0.0)

    assert "log_0" not in hoisted(scaled(chosen, lanes=False))
    assert "log_0" in hoisted(scaled(chosen)).partition("for y")[0]  # lanes compute both sides


def test_it_does_not_leave_a_parallel_loop():
    s = scaled(lambda A, B, c, y, x: A[c, y, x] * mt.sigmoid(B[1]))
    s.parallel("c")
    text = hoisted(s)
    assert "sigmoid(" not in text.partition("for c")[0]
    assert "sigmoid_0[()] = sigmoid(B[1])" in text.partition("for y")[0]


def test_what_the_loop_writes_is_read_there():
    f32 = ir.DType.of("float32")
    first = ir.Load("B", (ir.Const(0),), f32)
    for name, expected in (("B", False), ("A", True)):
        value = ir.Call("exp", (ir.Load(name, (ir.Const(0),), f32),), f32)
        loop = ir.For("i", 4, ir.Store("B", (ir.Const(0),), ir.Binary("+", first, value)))
        body = ir.sequence(ir.Store("B", (ir.Const(0),), ir.Const(0.5, f32)), loop)
        params = tuple(ir.Buffer(name, (1,), f32) for name in "AB")
        program = ir.Program("p", params, (), body)
        after = dict(PASSES)["hoist_values"](program, TARGET)
        a = np.array([0.25], np.float32)
        assert interpret(program, [a])[0][0].tobytes() == interpret(after, [a])[0][0].tobytes()
        assert ("exp_0" in ir.print_stmt(after.body)) == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_stay(dtype):
    A, B = mt.placeholder((3, 8), dtype, name="A"), mt.placeholder((3,), dtype, name="B")
    C = mt.compute((3, 8), lambda i, j: A[i, j] * mt.exp(B[i]), name="C")
    program = lowered(mt.lower([A, B, C]), TARGET, PASSES[: ORDER.index("hoist_values") + 1])
    assert "exp_0" not in ir.print_stmt(program.body)
