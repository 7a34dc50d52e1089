"""Reducers of positions that come in order do not compare them, and give the same results."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.codegen import Target, lowered
from minitensor.codegen.passes.order_positions import order_positions
from minitensor.ir import (
    FLOAT32,
    Binary,
    Block,
    Const,
    If,
    IterKind,
    Var,
    interpret,
    rewrite,
    verify,
    walk,
)
from minitensor.ir.extrema import arg_extremum, in_order

TARGET = Target("c", num_cores=1, vector_bits=256)
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 2.0)


def program(reducer=mt.argmax, shape=(3, 21), dtype="float32", axes=1):
    """Positions of extrema over the last axes of an array."""
    X = mt.placeholder(shape, dtype, name="X")
    over = [mt.reduce_axis(n, f"k{a}") for a, n in enumerate(shape[-axes:])]
    rows = shape[:-axes]
    return mt.lower(
        [X, mt.compute(rows, lambda *i: reducer(X[(*i, *over)], axis=tuple(over)), name="Y")]
    )


def ordered(p):
    """The program before its blocks are erased."""
    changed = order_positions(p)
    verify(changed)
    return changed


def compares(p):
    """The number of comparisons of positions in it."""
    return sum(
        isinstance(n, Binary) and n.op == "<" and str(n.a.dtype) == "int64"
        for block in p.blocks.values()
        for n in walk(block.body)
        for r in [getattr(n, "reducer", None)]
        for result in ([] if r is None else r.results)
        for n in walk(result)
    )


def same(p, array):
    (wanted,) = interpret(p, [array], ["Y"])[0]
    for after in (ordered(p), lowered(p, TARGET, check=True)):
        (found,) = interpret(after, [array], ["Y"])[0]
        assert found.tobytes() == wanted.tobytes()


def drawn(rng, shape, dtype="float32"):
    special = np.array(SPECIAL if np.dtype(dtype).kind == "f" else (-3, -2, 0, 1, 2), dtype)
    return special[rng.integers(0, len(special), shape)]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("reducer", [mt.argmax, mt.argmin])
@pytest.mark.parametrize("axes", [1, 2])
def test_positions_that_rise_are_not_compared(reducer, dtype, axes):
    p = program(reducer, (3, 4, 5), dtype, axes) if axes == 2 else program(reducer, dtype=dtype)
    assert compares(p) > 0
    assert compares(ordered(p)) == 0
    rng = np.random.default_rng(0)
    for _ in range(8):
        same(p, drawn(rng, p.inputs[0].shape, dtype))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("lanes", [1, 4, 16, 32])
def test_rows_of_one_value_in_lanes(value, lanes):
    """The first lanes begin with a position of their own; not where some lanes have none."""
    s = mt.Schedule(program())
    _, lane = s.split("k0", [None, lanes])
    s.vectorize(s.compute_at(s.rfactor(lane), s.get_loops("Y")[0])[-1])
    assert (compares(ordered(s.program)) < compares(s.program)) == (lanes <= 21)
    same(s.program, np.full((3, 21), value, "float32"))


@pytest.mark.parametrize("swapped", [False, True])
def test_positions_that_fall_back_are_compared(swapped):
    s = mt.Schedule(program(shape=(3, 24)))
    outer, inner = s.split("k0", [None, 4])
    if swapped:
        s.reorder(inner, outer)
    assert (compares(ordered(s.program)) == 0) == (not swapped)
    rng = np.random.default_rng(1)
    for _ in range(8):
        same(s.program, drawn(rng, (3, 24)))


@pytest.mark.parametrize("first", [0, 1, 5])
def test_positions_whose_first_is_left_out_are_compared(first):
    """A row of the lowest value has the first position that counts, which is not 0."""

    def behind(node):
        if not isinstance(node, Block):
            return node
        (k,) = [i.var for i in node.iters if i.kind is IterKind.REDUCE]
        return replace(node, body=If(Binary("<", Const(first - 1), Var(k)), node.body))

    p = program()
    p = p.replace(body=rewrite(p.body, behind))
    assert (compares(ordered(p)) == 0) == (first == 0)
    x = drawn(np.random.default_rng(first), (3, 21))
    x[0] = -np.inf
    same(p, x)


def test_a_reducer_that_only_has_the_name_is_left_alone():
    argmin = arg_extremum("argmin", FLOAT32)
    assert in_order(argmin) is not None
    last = replace(argmin, results=in_order(argmin).results)
    assert in_order(last) is None
    assert in_order(replace(argmin, name="argmax")) is None


@pytest.mark.slow
@given(data=st.data())
def test_any_order_of_loops_gives_the_same_positions(data):
    axes = data.draw(st.integers(1, 2))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=axes + 1, max_size=axes + 1)))
    s = mt.Schedule(program(data.draw(st.sampled_from([mt.argmax, mt.argmin])), shape, axes=axes))
    for loop in list(s.get_loops("Y")):
        if data.draw(st.booleans()):
            s.split(loop, [None, data.draw(st.integers(1, 4))])
    loops = s.get_loops("Y")
    if data.draw(st.booleans()):
        s.reorder(*data.draw(st.permutations(loops)))
    if data.draw(st.booleans()):
        reduced = [loop for loop in s.get_loops("Y") if loop.startswith("k")]
        s.rfactor(data.draw(st.sampled_from(reduced)))
    same(s.program, drawn(np.random.default_rng(data.draw(st.integers(0, 99))), shape))
