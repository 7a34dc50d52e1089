"""Each pass on the program it is for: the text it gives, and that it means the same."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir
from minitensor.codegen import (
    PASSES,
    REQUIRED,
    Target,
    generate,
    lowered,
    passes_without,
    report_of,
)
from minitensor.ir import For, If, interpret, print_expr, print_stmt, verify, walk
from minitensor.testing import assert_equivalent

TARGET = Target("c", num_cores=1, vector_bits=512)


def run(program, last, target=TARGET):
    """The program after the passes up to and with the one called `last`, each checked."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, b.shape).astype(b.dtype) for b in program.inputs]
    names = [b.name for b in program.outputs]
    expected, _ = interpret(program, arrays)
    for name, step in PASSES:
        program = step(program, target)
        verify(program)
        for a, b in zip(expected, interpret(program, arrays, names)[0]):
            assert np.array_equal(a, b), name
        if name == last:
            return program
    raise AssertionError(f"no pass {last}")


def body(program, last, target=TARGET):
    return print_stmt(run(program, last, target).body)


def vector_add(n=20):
    A = mt.placeholder((n,), name="A")
    B = mt.compute((n,), lambda i: A[i] + 1.0, name="B")
    return mt.Schedule(mt.lower([A, B]))


def row_sum(m=4, n=20):
    A = mt.placeholder((m, n), name="A")
    k = mt.reduce_axis(n, name="k")
    B = mt.compute((m,), lambda i: mt.sum(A[i, k], axis=k), name="B")
    return mt.Schedule(mt.lower([A, B]))


# ---- leaving passes out


def test_a_pass_can_be_left_out():
    s = vector_add()
    s.vectorize("i")
    assert "float32x16" in generate(s.program, TARGET).source
    text = generate(s.program, TARGET, passes=passes_without(["vectorize_loops"])).source
    assert "float32x16" not in text
    assert "vectorize" in print_stmt(
        lowered(s.program, TARGET, passes_without(["vectorize_loops"])).body
    )


@pytest.mark.parametrize("name", [*REQUIRED, "vectorise_loops"])
def test_only_a_pass_that_is_not_required_can_be_left_out(name):
    with pytest.raises(mt.ArgumentError, match=rf"expected one of .*, but got without='{name}'"):
        passes_without([name])


# ---- check_bounds


def checks(expression, extent=10):
    A = mt.placeholder((10,), name="A")
    B = mt.compute((extent,), lambda i: expression(A, i), name="B")
    program = mt.lower([A, B])
    return "in_bounds" in str(dict(PASSES)["check_bounds"](program, TARGET))


@pytest.mark.parametrize(
    ("expression", "extent", "checked"),
    [
        (lambda A, i: A[i], 10, False),
        (lambda A, i: A[9 - i], 10, False),
        (lambda A, i: A[i * 2 % 10], 10, False),
        (lambda A, i: mt.if_then_else(i < 10, A[i], 0.0), 20, False),
        (lambda A, i: mt.if_then_else(i >= 10, 0.0, A[i]), 20, False),
        (lambda A, i: mt.if_then_else(mt.logical_or(i < 3, i >= 13), 0.0, A[i - 3]), 20, False),
        (lambda A, i: A[mt.minimum(i, 9)], 20, False),
        (lambda A, i: mt.if_then_else(A[i] > 0, A[(i * i) % 10], 0.0), 10, False),
        (lambda A, i: mt.if_then_else(A[i] > 0, A[i * i // 9], 0.0), 10, False),
        (lambda A, i: A[A[i].astype("int32")], 10, True),
        (lambda A, i: mt.if_then_else(A[i] > 90, A[i + 1], 0.0), 10, True),
    ],
)
def test_only_what_cannot_be_proven_is_checked(expression, extent, checked):
    assert checks(expression, extent) == checked


# ---- erase_blocks


def test_an_init_moves_in_front_of_its_reduction():
    assert (
        body(row_sum().program, "erase_blocks")
        == """\
for i in range(4):
    B[i] = 0.0
    for k in range(20):
        B[i] += A[i, k]""".replace("B[i] += A[i, k]", "B[i] = B[i] + A[i, k]")
    )


def test_an_init_stays_where_moving_it_would_be_wrong():
    s = row_sum()
    s.fuse("i", "k")
    text = body(s.program, "erase_blocks")
    assert "if i_k%20 == 0:\n        B[i_k//20] = 0.0" in text


def test_an_init_that_the_rest_of_a_cut_loop_never_reaches_is_not_done_there():
    # two reduction axes fused and cut after 24 of 200 iterations: the rest goes on with the sum
    A = mt.placeholder((5, 40), name="A")
    k, l = mt.reduce_axis(5, name="k"), mt.reduce_axis(40, name="l")
    definition = mt.lower([A, mt.compute((), lambda: mt.sum(A[k, l], axis=[k, l]), name="S")])
    s = mt.Schedule(definition)
    s.split(s.fuse("k", "l"), [3, 8], tail="cut")
    first, rest = body(s.program, "erase_blocks").split("for k_l_tail")
    assert first.startswith("S[()] = 0.0\n")
    assert "if (k_l_tail + 24)//40 == 0 and (k_l_tail + 24)%40 == 0:" in rest
    assert_equivalent(definition, s, targets=("interpreter", "passes"))


def test_a_reduction_of_several_values_computes_each_once():
    A = mt.placeholder((9,), name="A")
    k = mt.reduce_axis(9, name="k")
    B = mt.compute((), lambda: mt.argmax(A[k], axis=k), name="B")
    text = body(mt.lower([A, B]), "erase_blocks")
    assert text.count("A[k]") == 1
    assert "B_y = empty(float32[])  # register" in text


def test_a_temporary_is_allocated_where_it_lives():
    s = vector_add()
    C = s.cache_write("B", "local")
    i_0, _ = s.split(s.get_loops("B")[0], [None, 5])
    s.reverse_compute_at(C, i_0)
    assert (
        body(s.program, "shrink_storage")
        == """\
for i_0 in range(4):
    B_local = empty(float32[5])  # local
    for i_1 in range(5):
        B_local[i_1] = A[i_0*5 + i_1] + 1.0
    for B_local_ax0 in range(5):
        B[i_0*5 + B_local_ax0] = B_local[B_local_ax0]"""
    )


# ---- shrink_storage


def test_storage_shrinks_to_the_halo():
    A = mt.placeholder((34,), name="A")
    P = mt.compute((34,), lambda y: A[y] * 2.0, name="P")
    C = mt.compute((32,), lambda y: P[y] + P[y + 2], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    y_0, _ = s.split(s.get_loops("C")[0], [None, 4])
    s.compute_at("P", y_0)
    assert "P = empty(float32[6])" in body(s.program, "shrink_storage")


# ---- simplify and partition_loops


def conditions(program):
    return [n for n in walk(program.body) if isinstance(n, If)]


def test_a_tail_costs_a_tail_and_not_a_slow_loop():
    s = vector_add(20)
    s.split("i", [None, 8])
    assert (
        body(s.program, "partition_loops")
        == """\
for i_0 in range(2):
    for i_1 in range(8):
        B[i_0*8 + i_1] = A[i_0*8 + i_1] + 1.0
for i_1 in range(4):
    B[i_1 + 16] = A[i_1 + 16] + 1.0"""
    )


def test_a_concurrent_loop_gets_two_bodies_and_one_fork():
    s = vector_add(20)
    i_0, _ = s.split("i", [None, 8])
    s.parallel(i_0)
    program = run(s.program, "partition_loops")
    assert isinstance(program.body, For)
    assert print_stmt(program.body.body).startswith("if i_0 < 2:")


@pytest.mark.slow
def test_a_loop_fused_of_several_has_bodies_for_each():
    A = mt.placeholder((5, 13, 21), name="A")
    B = mt.compute((5, 13, 21), lambda h, i, j: A[h, i, j] + 1.0, name="B")
    s = mt.Schedule(mt.lower([A, B]))
    (h_0, h_1), (i_0, i_1), (j_0, j_1) = (
        s.split(loop, [None, size]) for loop, size in (("h", 2), ("i", 4), ("j", 8))
    )
    s.reorder(h_0, i_0, j_0, h_1, i_1, j_1)
    s.parallel(s.fuse(h_0, i_0, j_0))
    program = run(s.program, "partition_loops")
    loop = program.body
    assert isinstance(loop, For) and loop.extent == 3 * 4 * 3
    asked = conditions(program)
    assert {print_expr(n.condition) for n in asked} == {
        f"{loop.var}//12 < 2", f"{loop.var}//3%4 < 3", f"{loop.var}%3 < 2",
    }  # fmt: skip
    inside = [n for n in walk(loop.body) if isinstance(n, For)]
    assert inside
    assert not any(isinstance(part, If) for n in inside for part in walk(n))
    assert_equivalent(mt.lower([A, B]), s, targets=["interpreter", "c"])
    assert "parallel(36):  two versions of its body: guards hold for" in str(mt.explain(s, "c"))


def rows_by_parts(rows):
    """A product of matrices, its rows in tiles of 8, and what starts it in front."""
    A, B = mt.placeholder((rows, 64), name="A"), mt.placeholder((64, 16), name="B")
    k = mt.reduce_axis(64, name="k")
    C = mt.compute((rows, 16), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    i_0, i_1 = s.split("i", [None, 8])
    s.reorder(i_0, i_1, "k", "j")
    s.vectorize("j")
    s.decompose_reduction("C", i_0)
    return s


@pytest.mark.slow
def test_a_guard_of_elements_leaves_the_hot_part_though_it_is_asked_seldom():
    s = rows_by_parts(61)
    assert not conditions(run(s.program, "partition_loops"))
    assert_equivalent(s.history[0], s, targets=["interpreter", "c"])


@pytest.mark.parametrize("channels", [8, 64])
def test_a_guard_of_terms_stays_where_it_is_asked_seldom(channels):
    X, Y = mt.placeholder((6, channels), name="X"), mt.placeholder((3, channels), name="Y")

    def padded(i, c):
        return mt.if_then_else(mt.logical_and(i > 0, i < 7), X[i - 1, c], 0.0)

    P = mt.compute((8, channels), padded, name="P")
    k, c = mt.reduce_axis(3, name="k"), mt.reduce_axis(channels, name="c")
    C = mt.compute((6,), lambda y: mt.sum(P[y + k, c] * Y[k, c], axis=[k, c]), name="C")
    s = mt.Schedule(mt.lower([X, Y, C]))
    s.skip_padding("C", "y")
    found = conditions(run(s.program, "partition_loops"))
    assert len(found) == (channels == 64)
    assert_equivalent(s.history[0], s, targets=["interpreter", "c"])


def test_guards_of_several_axes_leave_the_hot_part():
    A = mt.placeholder((13, 21), name="A")
    B = mt.compute((13, 21), lambda i, j: A[i, j] + 1.0, name="B")
    s = mt.Schedule(mt.lower([A, B]))
    i_0, i_1 = s.split("i", [None, 4])
    j_0, j_1 = s.split("j", [None, 8])
    s.reorder(i_0, j_0, i_1, j_1)
    assert not conditions(run(s.program, "partition_loops"))


def test_an_oversize_factor_leaves_no_empty_iterations():
    s = vector_add(5)
    s.split("i", [None, 16])
    assert body(s.program, "partition_loops") == "for i_1 in range(5):\n    B[i_1] = A[i_1] + 1.0"


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_iterations_that_do_nothing_go(kind):
    """32 parts of 2 rows are asked for, and 28 have any; in a parallel loop too, whose iterations
    are shared out before it is known what they do.
    """
    s = vector_add(56)
    outer, _ = s.split("i", [32, None])
    if kind == "parallel":
        s.parallel(outer)
    text = body(s.program, "partition_loops")
    assert "(28)" in text and "if " not in text


def test_iterations_that_only_allocate_go():
    A = mt.placeholder((9, 5), name="A")
    B = mt.compute((9, 5), lambda i, j: A[i, j] + 1.0, name="B")
    s = mt.Schedule(mt.lower([A, mt.compute((9, 5), lambda i, j: B[i, j] * 2.0, name="C")]))
    part, _ = s.split(s.get_loops("C")[0], [4, None])
    s.compute_at("B", part)
    program = run(s.program, "partition_loops")
    (outer,) = (node for node in walk(program.body) if isinstance(node, For) and node.var == part)
    assert outer.extent == 3, "of three rows each; a fourth has none"
    assert not conditions(program)


def test_a_fused_loop_keeps_its_iterations():
    """Those of a part of it that do nothing are counted with the others."""
    A = mt.placeholder((56, 3), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((56, 3), lambda i, j: A[i, j] + 1.0, name="B")]))
    outer, inner = s.split("i", [32, None])
    s.reorder(outer, "j", inner)
    s.parallel(s.fuse(outer, "j"))
    assert "parallel(96)" in body(s.program, "partition_loops")


@pytest.mark.parametrize("shift", [1, 20, 63])
def test_lanes_are_cut_where_an_index_wraps(shift):
    A = mt.placeholder((4, 64), name="A")
    rolled = mt.compute((4, 64), lambda i, j: A[(i + 3) % 4, (j + shift) % 64], name="B")
    program = mt.lower([A, rolled])
    s = mt.Schedule(program)
    s.vectorize("j")
    text = body(s.program, "partition_loops")
    assert f"vectorize({64 - shift})" in text or shift == 63
    assert "%64" not in text and "(i + 3)%4" in text
    assert_equivalent(program, s, targets=("interpreter", "passes", "c"))


def test_lanes_of_which_indices_wrap_more_than_once_are_left():
    A = mt.placeholder((8,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((64,), lambda j: A[j % 8], name="B")]))
    s.vectorize("j")
    assert "j%8" in body(s.program, "partition_loops")


def test_nested_non_dividing_splits():
    s = vector_add(61)
    s.split("i", [None, 3, 7])
    assert not conditions(run(s.program, "partition_loops"))


def test_loops_of_one_iteration_and_of_none_disappear():
    A = mt.placeholder((1, 0, 3), name="A")
    B = mt.compute((1, 0, 3), lambda i, j, k: A[i, j, k], name="B")
    C = mt.compute((1, 3), lambda i, j: 2.0, name="C")
    assert body(mt.lower([A, B, C]), "simplify") == "for C_j in range(3):\n    C[0, C_j] = 2.0"


# ---- vectorize_loops and unroll_loops


def test_a_vectorized_loop_in_pieces():
    s = vector_add(31)
    s.vectorize("i")
    assert (
        body(s.program, "vectorize_loops")
        == """\
B[ramp(0, 1, 16)] = A[ramp(0, 1, 16)] + broadcast(1.0, 16)
B[ramp(16, 1, 15)] = A[ramp(16, 1, 15)] + broadcast(1.0, 15)"""
    )


def test_a_long_vectorized_loop_stays_a_loop():
    s = vector_add(1024)
    s.vectorize("i")
    assert body(s.program, "vectorize_loops").startswith("for i in range(64):")


def test_loops_inside_a_vectorized_loop_are_widened():
    s = row_sum(16, 5)
    s.vectorize("i")
    text = body(s.program, "vectorize_loops")
    assert "for k in range(5):" in text
    assert "A[ramp(0, 1, 16), k]" in text


def test_a_value_that_is_the_same_in_every_lane_stays_a_scalar():
    A = mt.placeholder((4,), name="A")
    B = mt.compute((4, 16), lambda i, j: A[i] * 2.0, name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.vectorize("j")
    assert "broadcast(A[i] * 2.0, 16)" in body(s.program, "vectorize_loops")


@pytest.mark.parametrize("n", [16, 40])
def test_lanes_are_told_apart_from_a_loop_of_that_name(n):
    A = mt.placeholder((60,), name="A")
    read = lambda i, i_lane: A[i_lane * 3 + (i * i) % 17]
    B = mt.compute((5, n), lambda i_lane, i: read(i, i_lane), name="B")
    C = mt.compute((n, 5), lambda i, i_lane: read(i, i_lane), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.vectorize(s.get_loops("B")[1])
    s.vectorize(s.get_loops("C")[0])
    assert_equivalent(mt.lower([A, B, C]), s, targets=("interpreter", "passes"))


@pytest.mark.parametrize(("before", "behind"), [(2, 2), (0, 3), (5, 0), (30, 30)])
def test_lanes_are_cut_where_an_index_is_clamped(before, behind):
    """As the edges of an image are repeated: in between neighbours are read."""
    A = mt.placeholder((3, 60), name="A")
    columns = 60 + before + behind
    at = lambda j: mt.minimum(mt.maximum(j - before, 0), 59)
    B = mt.compute((3, columns), lambda i, j: A[i, at(j)], name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.vectorize("j")
    assert "lanes(" not in body(s.program, "simplify again")
    a = np.arange(180, dtype="f").reshape(3, 60)
    wanted = a[:, np.clip(np.arange(columns) - before, 0, 59)]
    np.testing.assert_array_equal(mt.build(s, mt.Target("c", 1))(a), wanted)


@pytest.mark.parametrize("few", [2, 40])
def test_a_loop_is_cut_around_few_iterations_if_the_rest_has_no_guard_then(few):
    """Not where a guard would stay in the rest, as that of a triangle does."""
    k = ir.Var("k")
    shape = (ir.Buffer("B", (80, 80), ir.DType.of("float32")),)
    one, i = ir.const(1.0, ir.DType.of("float32")), ir.Var("i")
    for bound, parts in ((ir.Const(few), 2), (i + 1, 1)):
        inner = ir.sequence(
            ir.Store("B", (i, k), ir.const(0.0, ir.DType.of("float32"))),
            ir.If(ir.less(k, bound), ir.Store("B", (i, k), one)),
        )
        program = ir.Program("p", shape, (), ir.For("i", 80, ir.For("k", 80, inner)))
        after = run(program, "partition_loops")
        assert sum(loop.var == "k" for loop in ir.loops_of(after.body)) == parts
        np.testing.assert_array_equal(interpret(program, [])[0], interpret(after, [])[0])


def test_padding_is_cut_off_vectors():
    A = mt.placeholder((40,), name="A")
    inside = lambda i: mt.logical_and(i >= 3, i < 35)
    B = mt.compute((40,), lambda i: mt.if_then_else(inside(i), A[i - 3], 0.0), name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.vectorize("i")
    text = body(s.program, "vectorize_loops")
    assert "B[ramp(i*16 + 3, 1, 16)] = A[ramp(i*16, 1, 16)]" in text
    assert "if_then_else" not in text
    assert_equivalent(mt.lower([A, B]), s, targets=("interpreter", "passes"))


def test_loops_around_vectors_are_cut_where_padding_makes_lanes_differ():
    A = mt.placeholder((62,), name="A")
    B = mt.compute((64,), lambda i: mt.if_then_else(i >= 2, A[i - 2], 0.0), name="B")
    s = mt.Schedule(mt.lower([A, B]))
    _, i_1 = s.split("i", [None, 16])
    s.vectorize(i_1)
    text = body(s.program, "vectorize_loops")
    assert "B[ramp(i_0*16 + 16, 1, 16)] = A[ramp(i_0*16 + 14, 1, 16)]" in text
    assert "if_then_else" not in text


def test_padding_that_cannot_be_cut_off_evaluates_only_the_taken_side():
    A = mt.placeholder((16,), name="A")
    gathered, repeated = (
        mt.compute((16,), lambda i, at=at: mt.if_then_else(i % 4 == 0, A[at(i)], 0.0), name="B")
        for at in (lambda i: i * i // 16, lambda i: i // 4)
    )
    for B, together in ((gathered, False), (repeated, True)):
        s = mt.Schedule(mt.lower([A, B]))
        s.vectorize("i")
        text = body(s.program, "vectorize_loops")
        assert ("lanes(if_then_else(" in text) != together
        assert ("select(lanes(i_lane%4" in text) == together


def test_a_strided_store_is_a_vector_whose_lanes_are_far_apart():
    A = mt.placeholder((16, 3), name="A")
    B = mt.compute((16, 3), lambda i, j: A[i, j] + 1.0, name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.vectorize("i")
    text = body(s.program, "vectorize_loops")
    assert "B[ramp(0, 1, 16), j] = A[ramp(0, 1, 16), j] + broadcast(1.0, 16)" in text
    source = mt.build(s, mt.Target("c", vector_bits=512)).source
    assert "scatter_float32x16(&B[j], 3, gather_float32x16(&A[j], 3) +" in source


def test_a_target_without_vectors():
    s = vector_add(31)
    s.vectorize("i")
    scalar = Target("c", num_cores=1, vector_bits=0)
    assert "ramp" not in body(s.program, "simplify again", scalar)


def test_unrolled_loops_are_written_out():
    s = vector_add(3)
    s.unroll("i")
    assert (
        body(s.program, "simplify again")
        == "B[0] = A[0] + 1.0\nB[1] = A[1] + 1.0\nB[2] = A[2] + 1.0"
    )


def windowed(c=4, n=16, width=6, kernel=7):
    """A sum over channels and a window whose tile is a vector of the width in each row."""
    A = mt.placeholder((c, n + kernel - 1), name="A")
    W = mt.placeholder((c, width, kernel), name="W")
    rc, rx = mt.reduce_axis(c, name="rc"), mt.reduce_axis(kernel, name="rx")
    body = lambda f, x: mt.sum(A[rc, x + rx] * W[rc, f, rx], axis=[rc, rx])
    s = mt.Schedule(mt.lower([A, W, mt.compute((width, n), body, name="C")]))
    s.reorder("rc", "rx", "f", "x")
    for loop in ("rx", "f"):
        s.unroll(loop)
    s.vectorize("x")
    return s


@pytest.mark.slow
def test_a_window_around_a_tile_is_left_to_the_compiler():
    """The loops of the tile are written out, for registers have names; that of the window not."""
    s = windowed()
    lines = body(s.program, "name_registers").splitlines()
    assert [line for line in lines if "unroll" in line] == ["    for rx in unroll(7):"]
    assert sum("C_acc_5_0[()] = C_acc_5_0[()] + " in line for line in lines) == 1
    assert "#pragma GCC unroll 7\n" in mt.build(s, target=TARGET).source
    assert_equivalent(windowed().program, s, targets=["passes", "interpreter", "c"])


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "loads"), [(True, 11), (False, 5)])
def test_a_window_whose_rows_are_read_again_is_written_out(shared, loads):
    """Five rows of a tile, and seven places: eleven rows are read."""
    A = mt.placeholder((11, 22), name="A")
    W, k = mt.placeholder((7,), name="W"), mt.reduce_axis(7, name="k")
    at = lambda y, x: (y + k, x) if shared else (y, x + k)
    value = lambda y, x: mt.sum(A[at(y, x)] * W[k], axis=k)
    s = mt.Schedule(mt.lower([A, W, mt.compute((5, 16), value, name="C")]))
    s.reorder("k", "y", "x")
    for loop in ("k", "y"):
        s.unroll(loop)
    s.vectorize("x")
    target = Target("c", num_cores=1, vector_bits=512)
    text = body(s.program, "name_values", target)
    assert ("for k in unroll(7)" in text) == (not shared)
    assert text.count("A[") == loads
    assert_equivalent(s.history[0], s, targets=["passes", "interpreter", "c"])


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bits", "width", "vectors", "stays"),
    [(256, 6, 2, True), (256, 4, 3, True), (256, 4, 2, False), (256, 12, 1, False),
     (256, 6, 3, False), (512, 6, 2, False), (512, 12, 2, True)],
)  # fmt: skip
def test_a_window_around_a_tile_that_fills_the_registers_stays_a_loop(bits, width, vectors, stays):
    """12 sums, two vectors and a number are 15 of 16 registers, and 9 are not many."""
    lanes = bits // 32
    A = mt.placeholder((4, width + 2), name="A")
    W = mt.placeholder((4, 3, vectors * lanes), name="W")
    rc, rx = mt.reduce_axis(4, name="rc"), mt.reduce_axis(3, name="rx")
    value = lambda x, f: mt.sum(A[rc, x + rx] * W[rc, rx, f], axis=[rc, rx])
    s = mt.Schedule(mt.lower([A, W, mt.compute((width, vectors * lanes), value, name="C")]))
    wide, lane = s.split("f", [None, lanes])
    s.reorder("rc", "rx", "x", wide, lane)
    for loop in ("rx", "x", wide):
        s.unroll(loop)
    s.vectorize(lane)
    target = Target("c", num_cores=1, vector_bits=bits)
    assert ("for rx in range(3):" in body(s.program, "unroll_loops", target)) == stays
    assert "in unroll(3)" in print_stmt(s.program.body)
    found = [r for r in report_of(s.program, target).remarks if r.where == "rx"]
    assert [r.text for r in found] == (
        ["stays a loop: what it repeats fills the vector registers"] if stays else []
    )


def test_a_short_window_is_written_out():
    assert "unroll" not in body(windowed(width=3, kernel=3).program, "unroll_loops")


@pytest.mark.parametrize(
    "value",
    [
        lambda A, i, j: mt.if_then_else(i < 40, A[i, j], 0.0),
        lambda A, i, j: A[i // 2, j] + A[i % 3, j],
    ],
    ids=["a condition", "a quotient"],
)
def test_what_constants_decide_is_written_out(value):
    A = mt.placeholder((50, 8), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((50, 8), lambda i, j: value(A, i, j), name="B")]))
    s.vectorize("j")
    s.unroll("i")
    assert "unroll" not in body(s.program, "unroll_loops")


def test_what_would_be_too_long_stays_a_loop():
    s = vector_add(1000)
    s.unroll("i")
    assert "unroll(1000)" in body(s.program, "unroll_loops")
    A = mt.placeholder((1000,), name="A")
    stages = [A]
    for _ in range(3):
        stages.append(mt.compute((1000,), lambda i, t=stages[-1]: t[i] + 1.0, name="B"))
    s = mt.Schedule(mt.lower([A, stages[-1]]))
    for block in reversed(s.get_blocks()[:2]):
        s.compute_at(block, s.get_loops(s.get_blocks()[-1])[0])
    s.unroll(s.get_loops(s.get_blocks()[-1])[0])
    assert "range(1000)" in body(s.program, "unroll_loops")
