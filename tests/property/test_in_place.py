"""Results in the memory of an input: drawn programs under drawn schedules compute the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ir
from minitensor.codegen import Target, in_place, lowered, overwritten
from minitensor.ir import interpret
from minitensor.testing import arrays_for, schedules
from tests.parts import times

TARGET = Target("c", num_cores=2, vector_bits=256)
RELAXED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def run_over(program, result, arrays):
    """The outputs of a program, by name; that called `result` holds one of the arrays at first, and
    is copied at the end, for the interpreter returns what it has made.
    """
    buffer = program.buffers[result]
    copy = ir.Buffer("copied", buffer.shape, buffer.dtype)
    iters = [
        ir.Iter(f"i_{n}", s, ir.IterKind.SPATIAL, ir.Var(f"copied_{n}"))
        for n, s in enumerate(buffer.shape)
    ]
    place = tuple(ir.Var(i.var) for i in iters)
    block = ir.Block(
        "copying", tuple(iters), ir.Store(copy.name, place, ir.Load(result, place, buffer.dtype))
    )
    loops = [ir.For(f"copied_{n}", s, ir.NOTHING) for n, s in enumerate(buffer.shape)]
    body = ir.sequence(program.body, ir.nest(loops, block))
    names = [b.name for b in program.outputs if b.name != result]
    whole = program.replace(params=(*program.params, copy), body=body)
    return dict(zip([*names, result], interpret(whole, arrays, [*names, copy.name])[0]))


@st.composite
def residuals(draw):
    """Something of x, and r added to each element of it."""
    rows, columns, inner = (draw(st.integers(1, 6)) for _ in range(3))
    x = mt.placeholder((rows + inner - 1, columns), name="x")
    w = mt.placeholder((inner, columns), name="w")
    r = mt.placeholder((rows, columns), name="r")
    k = mt.reduce_axis(inner, name="k")
    first = mt.compute(
        (rows, columns),
        draw(
            st.sampled_from(
                [
                    lambda i, j: x[i, j] * w[0, j],
                    lambda i, j: mt.sum(x[i + k, j] * w[k, j], axis=k),
                    lambda i, j: mt.max(x[i + k, j], axis=k),
                ]
            )
        ),
        name="first",
    )
    result = mt.compute((rows, columns), lambda i, j: first[i, j] + r[i, j], name="result")
    if draw(st.booleans()):
        sums = result
        result = mt.compute((rows, columns), lambda i, j: mt.maximum(sums[i, j], 0.0), name="last")
    inputs = [x, w, r] if "w" in str(mt.lower([x, w, r, result]).body) else [x, r]
    return mt.lower([*inputs, result])


@given(st.data())
@settings(RELAXED, max_examples=times(80, 800))
def test_programs_compute_the_same(data):
    program = data.draw(residuals())
    scheduled = data.draw(schedules(program)).program
    arrays = dict(zip([b.name for b in program.inputs], data.draw(arrays_for(program))))
    expected = dict(
        zip([b.name for b in program.outputs], interpret(program, list(arrays.values()))[0])
    )
    pairs = list(overwritten(scheduled))
    event(f"{len(pairs)} pairs")
    for read, result in pairs:
        changed = in_place(scheduled, read, result)
        ir.verify(changed)
        names = [read if b.name == result else b.name for b in changed.params]
        held = [arrays[name] for name in names if name in arrays]
        for kernel in (changed, lowered(changed, TARGET)):
            found = run_over(kernel, result, held)
            for name, array in expected.items():
                assert np.array_equal(found[name], array), name


@pytest.mark.parametrize(
    "element",
    [
        lambda x, y, i: x[7 - i] + y[i],
        lambda x, y, i: x[i] + x[7 - i],
        lambda x, y, i: mt.if_then_else(y[i] > 0, x[i], x[7 - i]),
    ],
)
def test_an_input_that_is_read_elsewhere_is_not_overwritten(element):
    x, y = (mt.placeholder((8,), name=n) for n in "xy")
    z = mt.compute((8,), lambda i: element(x, y, i), name="z")
    assert ("x", "z") not in overwritten(mt.lower([x, y, z]))


def test_an_input_that_another_block_reads_is_not_overwritten():
    x = mt.placeholder((8,), name="x")
    k = mt.reduce_axis(8, name="k")
    total = mt.compute((), lambda: mt.sum(x[k], axis=k), name="total")
    y = mt.compute((8,), lambda i: x[i] / total[()], name="y")
    assert list(overwritten(mt.lower([x, y]))) == []


def test_what_runs_twice_is_not_overwritten():
    x = mt.placeholder((8,), name="x")
    y = mt.compute((8,), lambda i: x[i] + 1, name="y")
    program = mt.lower([x, y])
    assert list(overwritten(program)) == [("x", "y")]
    again = ir.For("again", 2, program.body)
    assert list(overwritten(program.replace(body=again))) == []


@pytest.mark.parametrize("other", [((4, 2), "float32"), ((8,), "int32")])
def test_an_input_of_another_type_is_not_overwritten(other):
    shape, dtype = other
    x = mt.placeholder(shape, dtype, name="x")
    y = mt.compute((8,), lambda i: x[(i // 2, i % 2)[-len(shape) :]].astype("float32"), name="y")
    assert list(overwritten(mt.lower([x, y]))) == []
