"""Tiles filled with zeros: which conditions go, which stay, and that the result is the same."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir
from minitensor.codegen import CUDA_PASSES, Target, lowered
from minitensor.codegen.passes.fill_tiles import fill_tiles

TARGET = Target("cuda", 1, 0, "a100")
UNTIL = [name for name, _ in CUDA_PASSES].index("fill_tiles") + 1


def product(m, n, k, reducer=mt.sum, local=False, own=True, combine=lambda a, b: a * b):
    """A product of matrices in tiles of 8 x 8, its threads 4 x 4."""
    a = mt.placeholder((m, k), name="A")
    b = mt.placeholder((k, n), name="B")
    r = mt.reduce_axis(k, name="k")
    c = mt.compute((m, n), lambda i, j: reducer(combine(a[i, r], b[r, j]), axis=r), name="C")
    s = mt.Schedule(mt.lower([a, b, c], name="product"))
    out = s.cache_write("C", "local")
    i, j, r = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, 4, 2])
    j_0, j_1, j_2 = s.split(j, [None, 4, 2])
    k_0, k_1 = s.split(r, [None, 4])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2)
    s.reverse_compute_at(out, j_0)
    for buffer in ("A", "B") if own else ("A",):
        fetch = s.cache_read("C", buffer, "shared")
        s.compute_at(fetch, k_0)
        fused = s.fuse(*s.get_loops(fetch)[-2:])
        _, y, x = s.split(fused, [None, 4, 4])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
    if local:
        copy = s.cache_read("C", "A_shared", "local")
        s.compute_at(copy, k_1)
    rows, columns = s.get_loops(out)[-2:]
    o_1, o_2 = s.split(rows, [None, 2])
    p_1, p_2 = s.split(columns, [None, 2])
    s.reorder(o_1, p_1, o_2, p_2)
    for row, column in ((i_1, j_1), (o_1, p_1)):
        s.bind(row, "threadIdx.y")
        s.bind(column, "threadIdx.x")
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    return s


def filled(s):
    """The program after the pass; it means what it meant."""
    after = lowered(s.program, TARGET, CUDA_PASSES[:UNTIL], check=True)
    rng = np.random.default_rng(0)
    shapes = [b.shape for b in s.program.inputs]
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    expected = mt.interpret(s.history[0], *arrays)
    (result,), _ = ir.interpret(after, arrays)
    np.testing.assert_array_equal(result, expected)
    return after


def conditions(program, buffer):
    """The conditions around the stores to a buffer."""
    found = []

    def visit(stmt, around):
        if isinstance(stmt, ir.Store) and stmt.buffer == buffer:
            found.extend(around)
        if isinstance(stmt, ir.If):
            around = [*around, *map(ir.print_expr, ir.conjuncts(stmt.condition))]
        for child in ir.children(stmt):
            if not isinstance(child, ir.Expr):
                visit(child, around)

    visit(program.body, [])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("size", [(13, 11, 7), (16, 11, 8), (23, 17, 10), (9, 16, 5)])
def test_a_sum_has_no_conditions(size, local):
    after = filled(product(*size, local=local))
    for buffer in ("C_local", "A_shared", "B_shared", "A_shared_local"):
        assert conditions(after, buffer) == []
    assert conditions(after, "C") or size[0] % 8 == size[1] % 8 == 0


def test_sizes_that_tiles_divide_are_left_as_they_are():
    s = product(16, 16, 8)
    before = lowered(s.program, TARGET, CUDA_PASSES[: UNTIL - 1])
    assert filled(s) == before


def test_a_maximum_is_no_sum():
    after = filled(product(13, 11, 7, reducer=mt.max))
    assert conditions(after, "C_local")


def test_a_sum_of_what_is_not_zero_keeps_its_condition():
    after = filled(product(16, 16, 7, combine=lambda a, b: a * b + 1.0))
    assert conditions(after, "C_local") == ["k_0*4 + k_1 < 7"]


def test_a_factor_that_is_in_no_tile_keeps_all_conditions():
    after = filled(product(13, 11, 7, own=False))
    assert "k_0*4 + k_1 < 7" in conditions(after, "C_local")


FLOAT = ir.DType.of("float32")


def by_hand(inside, read_guard=True):
    """A sum over two rounds, of which a condition leaves out elements in one of them.

    inside      whether the sums live in one round
    read_guard  whether what reads them stands under the condition too
    """
    tx, r, x = map(ir.Var, ("tx", "r", "x"))
    tile = ir.Buffer("tile", (4,), FLOAT, ir.Scope.SHARED)
    sums = ir.Buffer("sums", (2,), FLOAT, ir.Scope.LOCAL)
    given, out = ir.Buffer("given", (4,), FLOAT), ir.Buffer("out", (2, 4, 2), FLOAT)
    condition = ir.less(r + x, 2)
    load = ir.Load("sums", (x,), FLOAT)
    begin = ir.For("x", 2, ir.Store("sums", (x,), ir.const(0.0, FLOAT)))
    step = ir.Store("sums", (x,), ir.Binary("+", load, ir.Load("tile", (tx,), FLOAT)))
    update = ir.For("x", 2, ir.If(condition, step))
    store: ir.Stmt = ir.Store("out", (r, tx, x), load)
    store = ir.For("x", 2, ir.If(condition, store) if read_guard else store)
    fill = ir.Store("tile", (tx,), ir.Load("given", (tx,), FLOAT))
    if inside:
        body = ir.For("r", 2, ir.Alloc(sums, ir.sequence(begin, fill, update, store)))
    else:
        body = ir.Alloc(sums, ir.sequence(begin, fill, ir.For("r", 2, ir.sequence(update, store))))
    body = ir.Alloc(tile, ir.For("tx", 4, body, ir.LoopKind.THREAD_IDX_X))
    program = ir.Program("p", (given, out), (), body)
    ir.verify(program)
    return program


def conditions_after(program):
    return conditions(fill_tiles(program, TARGET), "sums")


def test_a_sum_that_lives_on_keeps_a_condition_that_changes():
    assert conditions_after(by_hand(inside=True)) == []
    assert conditions_after(by_hand(inside=False)) == ["r + x < 2"]


def test_a_sum_that_is_read_keeps_its_condition():
    assert conditions_after(by_hand(inside=True, read_guard=False)) == ["r + x < 2"]
