"""The order of visits, held against the interpreter's own."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir, pictures
from minitensor.pictures import order, walk
from tests.unit.pictures.common import SVG, operator, parsed, product, scheduled


def by_loops(program, buffer):
    """The elements of a buffer in the order of the program's loops, in plain Python."""
    seen = []

    def go(stmt, values):
        if isinstance(stmt, ir.For):
            for n in range(stmt.extent):
                go(stmt.body, {**values, stmt.var: n})
        elif isinstance(stmt, ir.Seq):
            for one in stmt.stmts:
                go(one, values)
        elif ir.evaluate(stmt.predicate, values):
            iters = {i.var: ir.evaluate(i.binding, values) for i in stmt.iters}
            first = all(iters[i.var] == 0 for i in stmt.iters if i.kind is not ir.IterKind.SPATIAL)
            for access in walk.accesses_of(stmt):
                wanted = all(bool(ir.evaluate(c, iters)) == w for c, w in access.guards)
                if access.buffer == buffer and wanted and (first or not access.first):
                    seen.append(tuple(int(ir.evaluate(i, iters)) for i in access.indices))

    go(program.body, {})
    return seen


def visited(program, name, moving=False):
    buffer = program.buffers[name]
    found, horizon = walk.in_order(program, buffer, 1 << 16, moving)
    assert horizon == float("inf")
    every = walk.joined(found, buffer.shape)
    every = every.at(np.argsort(every.time, kind="stable"))
    return [tuple(walk.indices_of(int(e), buffer.shape)) for e in every.element]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["matmul", "conv2d", "softmax", "cumsum", "stencil2d", "max_pool2d"]
)
def test_visits_come_in_the_order_of_the_program(name):
    program = operator(name)
    for buffer in program.buffers:
        wanted = by_loops(program, buffer)
        assert visited(program, buffer) == wanted
        few = visited(program, buffer, moving=True)
        assert list(dict.fromkeys(few)) == list(dict.fromkeys(wanted))
        assert len(few) <= len(wanted)


def test_lanes_are_one_step():
    heat, moves = pictures.order_pictures(scheduled().program, "B")
    assert "step 1: B[0, 0] … B[0, 11] (12 lanes) read by i_0=0, k=0, i_1=0, j=0" in heat.text
    assert "From one step to the next, in elements: +0" in heat.text
    assert "Parallel iterations are shown one after the other" in heat.text
    assert moves.moves and not heat.moves
    delays = {e.get("style") for e in parsed(moves).iter(SVG + "rect") if e.get("style")}
    assert "animation-delay:0s" in delays and len(delays) > 8
    assert "prefers-reduced-motion" in moves.svg()


def test_each_element_has_a_cell():
    heat, _ = pictures.order_pictures(product(), "A")
    assert "first visit of 128 of its 128 elements." in heat.text
    assert "blank" not in heat.svg()
    paths = list(parsed(heat).iter(SVG + "path"))
    assert len(paths) == len(order.VIRIDIS)


def test_a_billion_iterations_are_not_enumerated():
    program = operator_of(4096)
    heat, moves = pictures.order_pictures(program, "A")
    assert "those that are visited later are left out" in heat.text
    assert len(heat.svg()) + len(moves.svg()) < 200_000
    assert "68,719,476,736 times, less what guards leave out" in heat.text
    assert "blank: later, or never" in heat.svg()


def operator_of(size):
    return mt.lower(mt.workloads.matmul(m=size, n=size, k=size), name="large")


def test_a_buffer_without_axes():
    A = mt.placeholder((3,), name="A")
    r = mt.reduce_axis((0, 3), name="r")
    B = mt.compute((), lambda: mt.sum(A[r], axis=r), name="B")
    program = mt.lower([A, B], name="total")
    assert "B[]" in pictures.order_pictures(program, "B")[0].text


def test_an_index_that_depends_on_data_is_not_drawn():
    A = mt.placeholder((8,), "float32", name="A")
    at = mt.placeholder((4,), "int32", name="at")
    B = mt.compute((4,), lambda i: A[mt.minimum(mt.maximum(at[i], 0), 7)], name="B")
    program = mt.lower([A, at, B], name="gather")
    assert pictures.order_pictures(program, "A") == []
    assert len(pictures.order_pictures(program, "B")) == 2
    _, notes = pictures.program_pictures(program)
    assert "The visits of A are not drawn" in notes[0]
