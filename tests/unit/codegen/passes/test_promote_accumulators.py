"""The passes that keep tiles in registers: what they take, and what they leave."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import codegen
from minitensor.codegen import PASSES, Target
from minitensor.ir import (
    Alloc,
    Buffer,
    Const,
    DType,
    For,
    Load,
    LoopKind,
    Program,
    Ramp,
    Scope,
    Store,
    Var,
    interpret,
    print_stmt,
    sequence,
    verify,
)
from minitensor.testing import assert_equivalent

TARGET = Target("c", num_cores=1, vector_bits=512)


def after(program, last="promote_accumulators", target=TARGET):
    """The text after the passes up to `last`, each held against what the program computes."""
    program = getattr(program, "program", program)
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
            return print_stmt(program.body)
    raise AssertionError(f"no pass {last}")


def matmul(m=8, n=32, k=5):
    A = mt.placeholder((m, k), name="A")
    B = mt.placeholder((k, n), name="B")
    r = mt.reduce_axis(k, name="k")
    return mt.lower(
        [A, B, mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")]
    )


def tiled(rows=2, columns=16, **sizes):
    s = mt.Schedule(matmul(**sizes))
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, columns])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.unroll(i_1)
    s.vectorize(j_1)
    return s


def test_a_tile_is_kept_across_its_reduction():
    assert (
        after(tiled(m=2, n=16))
        == """\
C_acc = empty(float32[2, 16])  # local
for i_1 in unroll(2):
    for j_1 in vectorize(16):
        C_acc[i_1, j_1] = 0.0
for k in range(5):
    for i_1 in unroll(2):
        for j_1 in vectorize(16):
            C_acc[i_1, j_1] = C_acc[i_1, j_1] + A[i_1, k] * B[k, j_1]
for i_1 in unroll(2):
    for j_1 in vectorize(16):
        C[i_1, j_1] = C_acc[i_1, j_1]"""
    )


def test_a_tile_becomes_variables():
    text = after(tiled(m=2, n=32, columns=32), "name_registers")
    assert "C_acc_1_16 = empty(float32x16[])  # register" in text
    assert "C_acc[" not in text
    assert text.count("= empty(") == 4


def test_what_is_found_is_read_first():
    s = mt.Schedule(matmul(m=2, n=2))
    s.decompose_reduction("C", "i")
    assert (
        after(s)
        == """\
for C_init_i in range(2):
    for C_init_j in range(2):
        C[C_init_i, C_init_j] = 0.0
for i in range(2):
    for j in range(2):
        C_acc = empty(float32[])  # local
        C_acc[()] = C[i, j]
        for k in range(5):
            C_acc[()] = C_acc[()] + A[i, k] * B[k, j]
        C[i, j] = C_acc[()]"""
    )


def test_a_tile_is_kept_across_all_the_loops_of_a_reduction():
    s = mt.Schedule(matmul(m=2, n=2, k=6))
    s.split("k", [2, 3])
    assert (
        after(s)
        == """\
for i in range(2):
    for j in range(2):
        C_acc = empty(float32[])  # local
        C_acc[()] = 0.0
        for k_0 in range(2):
            for k_1 in range(3):
                C_acc[()] = C_acc[()] + A[i, k_0*3 + k_1] * B[k_0*3 + k_1, j]
        C[i, j] = C_acc[()]"""
    )


def test_several_values_are_filled_before_their_loop():
    text = after(mt.lower(mt.workloads.argmax(4, 6)))
    first = text[: text.index("    for k in")].splitlines()
    assert first[-2:] == [
        "    B_acc = empty(int64[])  # local",
        "    B_acc[()] = 0",
    ]


def test_an_order_that_has_the_tile_outside_needs_no_array():
    text = after(matmul(m=2, n=2))
    assert "C_acc = empty(float32[])  # local" in text


@pytest.mark.parametrize(
    ("why", "schedule"),
    [
        ("the tile is a serial loop", lambda s: s.reorder("k", "i", "j")),
        (
            "the tile is too large",
            lambda s: [s.reorder("k", "i", "j"), s.unroll("i"), s.unroll("j")],
        ),
    ],
)
def test_what_cannot_be_in_registers_stays(why, schedule):
    s = mt.Schedule(matmul(m=33, n=3, k=3))
    schedule(s)
    assert "_acc" not in after(s), why


def test_a_tile_larger_than_the_registers_stays():
    assert "_acc" not in after(tiled(rows=8, columns=128, m=8, n=128, k=2))
    assert "_acc" in after(tiled(rows=8, columns=64, m=8, n=64, k=2))
    narrow = Target("c", num_cores=1, vector_bits=128)
    assert "_acc" not in after(tiled(rows=8, columns=64, m=8, n=64, k=2), target=narrow)


def test_a_condition_inside_keeps_a_loop_as_it_is():
    A = mt.placeholder((6, 4), name="A")
    B = mt.placeholder((6, 4), name="B")
    k = mt.reduce_axis(4, name="k")
    C = mt.compute((6,), lambda i: mt.sum(A[i, k] * B[i, 3 - k], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.reorder("k", "i")
    s.split("i", [4, 2])
    s.unroll("i_1")
    s.reorder("i_0", "k")
    program = s.program
    without = dict(PASSES)["erase_blocks"](program, TARGET)
    assert "if i_0*2 + i_1 < 6" in str(without)
    assert "_acc" not in str(dict(PASSES)["promote_accumulators"](without, TARGET))
    assert "_acc" in after(s)  # where the loops have been cut there is no condition


def test_a_condition_that_is_one_for_a_tile_may_stand_inside_where_the_tile_is_filled():
    """Two parts of a tile, of 4 and 2 columns, begin with values of one buffer."""
    A, B = mt.placeholder((7,), name="A"), mt.placeholder((3, 48, 6), name="B")
    P = mt.compute((9,), lambda i: mt.if_then_else((i > 0) & (i < 8), A[i - 1], 0.0), name="P")
    k, c = mt.reduce_axis(3, name="k"), mt.reduce_axis(48, name="c")
    C = mt.compute((7, 6), lambda y, x: mt.sum(P[y + k] * B[k, c, x], axis=[k, c]), name="C")
    program = mt.lower([A, B, C])
    s = mt.Schedule(program)
    s.skip_padding("C", "y")
    x_0, x_1 = s.split("x", [None, 4])
    s.reorder("y", "k", "c", x_0, x_1)
    s.unroll(x_0)
    s.vectorize(x_1)
    text = after(s)
    nest = text[text.index("for y in range(7)") :]
    assert nest.count("if 1 <= k + y and k + y < 8") == 2
    updates = [line for line in nest.splitlines() if "B[" in line]
    assert len(updates) == 2
    assert all("_acc" in line and "C[" not in line for line in updates)
    assert_equivalent(program, s, targets=("interpreter", "c"))


def test_small_temporaries_are_variables_themselves():
    A = mt.placeholder((4, 6), name="A")
    k = mt.reduce_axis(6, name="k")
    B = mt.compute((4,), lambda i: mt.sum(A[i, k], axis=k), name="B")
    C = mt.compute((4,), lambda x: B[x] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.compute_at("B", "x")
    text = after(s, "name_registers")
    assert "_acc" not in text
    assert "B = empty(float32[])" in text


def test_unrolled_reductions_are_summed_in_registers_too():
    A = mt.placeholder((34,), name="A")
    W = mt.placeholder((3,), name="W")
    k = mt.reduce_axis(3, name="k")
    B = mt.compute((32,), lambda x: mt.sum(A[x + k] * W[k], axis=k), name="B")
    s = mt.Schedule(mt.lower([A, W, B]))
    x, k = s.get_loops("B")
    s.reorder(k, x)
    s.unroll(k)
    s.vectorize(x)
    text = after(s, "name_registers")
    assert text.count("B[ramp(") == 2  # two vectors are stored once each, and never loaded
    assert_equivalent(mt.lower([A, W, B]), s)


def test_arrays_with_indices_that_vary_stay_arrays():
    A = mt.placeholder((4, 6), name="A")
    B = mt.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="B")
    C = mt.compute((4, 6), lambda x, y: B[x, y] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.compute_at("B", "x")
    assert "B = empty(float32[6])" in after(s, "name_registers")


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("columns", [16, 13, 40])
@pytest.mark.parametrize("bits", [0, 128, 512])
def test_odd_tiles_in_c(columns, bits):
    s = tiled(rows=3, columns=columns, m=7, n=45, k=4)
    after(s, "name_registers", Target("c", num_cores=1, vector_bits=bits))
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype("f") for shape in ((7, 4), (4, 45)))
    kernel = mt.build(s, Target("c", num_cores=1, vector_bits=bits))
    assert np.array_equal(kernel(a, b), a @ b)


def test_a_small_temporary_that_a_later_loop_indexes_is_summed_in_registers_too():
    A = mt.placeholder((4, 5), name="A")
    B = mt.placeholder((5, 16), name="B")
    r = mt.reduce_axis(5, name="k")
    C = mt.compute((4, 16), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = mt.compute((4, 16), lambda i, j: C[i, j] + 1.0, name="D")
    program = mt.lower([A, B, D])
    s = mt.Schedule(program)
    i_0, i_1 = s.split("i", [None, 2])
    s.reorder(i_0, "k", i_1, "j")
    s.unroll(i_1)
    s.vectorize("j")
    s.reverse_compute_at("D", i_0)  # its loop over rows stays a loop: C cannot be in registers
    text = after(s, "name_registers")
    assert "C = empty(float32[2, 16])" in text
    assert "C_acc_1_0 = empty(float32x16[])  # register" in text
    assert_equivalent(program, s)


def test_a_fill_that_another_reads_stays_where_it_is():
    real, first = DType.of("float32"), (Const(0),)
    A, C, D = (Buffer(b, (n,), real, Scope.GLOBAL) for b, n in (("A", 8), ("C", 1), ("D", 1)))
    c, d, a = Load("C", first, real), Load("D", first, real), Load("A", (Var("k"),), real)
    updates = sequence(Store("C", first, c + a), Store("D", first, d + a))
    body = sequence(Store("D", first, Const(5.0, real)), Store("C", first, d), For("k", 8, updates))
    program = Program("main", (A, C, D), (), body)
    after = dict(PASSES)["promote_accumulators"](program, TARGET)
    assert "D_acc[()] = D_acc[()] + A[k]" in print_stmt(after.body)
    values = [np.arange(8, dtype="float32")]
    assert [x[0] for x in interpret(after, values, ["C", "D"])[0]] == [33.0, 33.0]


def test_at_the_end_of_an_axis_each_part_of_a_tile_is_kept():
    s = mt.Schedule(matmul(m=2, n=28))
    j_0, j_1, j_2 = s.split("j", [None, 2, 8])
    s.reorder(j_0, "k", "i", j_1, j_2)
    s.unroll("i")
    s.unroll(j_1)
    s.vectorize(j_2)
    target = Target("c", num_cores=1, vector_bits=256)
    assert after(s, target=target).endswith(
        """\
C_acc2 = empty(float32[2, 8])  # local
C_acc3 = empty(float32[2, 4])  # local
for i in unroll(2):
    for j_2 in vectorize(8):
        C_acc2[i, j_2] = 0.0
for i in unroll(2):
    for j_2 in vectorize(4):
        C_acc3[i, j_2] = 0.0
for k in range(5):
    for i in unroll(2):
        for j_2 in vectorize(8):
            C_acc2[i, j_2] = C_acc2[i, j_2] + A[i, k] * B[k, j_2 + 16]
        for j_2 in vectorize(4):
            C_acc3[i, j_2] = C_acc3[i, j_2] + A[i, k] * B[k, j_2 + 24]
for i in unroll(2):
    for j_2 in vectorize(8):
        C[i, j_2 + 16] = C_acc2[i, j_2]
for i in unroll(2):
    for j_2 in vectorize(4):
        C[i, j_2 + 24] = C_acc3[i, j_2]"""
    )
    assert "C_acc3_" in after(s, "name_registers", target)


@pytest.mark.parametrize(("start", "apart"), [(8, True), (12, True), (7, False), (0, False)])
def test_parts_that_share_an_element_are_not_kept(start, apart):
    """The second part begins `start` elements behind the first, which has eight."""
    real, lane = DType.of("float32"), Var("lane")
    A, C = Buffer("A", (4, 32), real), Buffer("C", (32,), real)

    def part(first):
        index = (lane + Const(first),)
        value = Load("C", index, real) * Const(3.0, real) + Load("A", (Var("k"), *index), real)
        return For("lane", 8, Store("C", index, value), LoopKind.VECTORIZE)

    fill = For("lane", 8, sequence(*(Store("C", (lane + Const(n),), Const(float(n + 1), real))
                                     for n in (0, start))), LoopKind.UNROLL)  # fmt: skip
    loop = For("k", 4, sequence(part(0), part(start)))
    clear = For("i", 32, Store("C", (Var("i"),), Const(0.0, real)))
    program = Program("main", (A, C), (), sequence(clear, fill, loop))
    made = dict(PASSES)["promote_accumulators"](program, TARGET)
    assert ("C_acc2" in print_stmt(made.body)) is apart
    a = np.random.default_rng(0).integers(-4, 5, (4, 32)).astype("float32")
    expected, found = (interpret(p, [a], ["C"])[0][0] for p in (program, made))
    np.testing.assert_array_equal(found, expected)


def with_consumer(change=lambda s, i, j: s.vectorize(j)):
    """A product whose tile of 2 x 16 is followed by what adds 1 to it."""
    A, B = mt.placeholder((4, 8), name="A"), mt.placeholder((8, 32), name="B")
    k = mt.reduce_axis(8, name="k")
    C = mt.compute((4, 32), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = mt.compute((4, 32), lambda i, j: C[i, j] + 1.0, name="D")
    s = mt.Schedule(mt.lower([A, B, D]))
    i_0, i_1 = s.split("i", [None, 2])
    j_0, j_1 = s.split("j", [None, 16])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.vectorize(j_1)
    s.unroll(i_1)
    *_, i_d, j_d = s.reverse_compute_at("D", j_0)
    change(s, i_d, j_d)
    return s


def test_a_consumer_reads_the_registers_of_a_tile():
    text = str(codegen.lowered(with_consumer().program, TARGET))
    assert "C_0_0 = empty(float32x16[])  # register" in text and "C[" not in text
    assert text.count("D[") == 2
    assert_equivalent(with_consumer().program, with_consumer(), ["passes", "c"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda s, i, j: (s.parallel(i), s.vectorize(j)),
        lambda s, i, j: s.vectorize(s.split(j, [4, 4])[1]),  # its vectors are others
        lambda s, i, j: s.vectorize(i),
    ],
)
def test_a_consumer_of_other_parts_reads_an_array(change):
    s = with_consumer(change)
    assert "C = empty(float32[2, 16])" in str(codegen.lowered(s.program, TARGET))
    assert_equivalent(with_consumer().program, s, ["passes", "c"])


def ragged_rows(n, ways=2, lanes=8, reducer=mt.sum):
    """A sum of rows whose partial results are the lanes of a few vectors."""
    A = mt.placeholder((3, n), name="A")
    k = mt.reduce_axis(n, name="k")
    B = mt.compute((3,), lambda i: reducer(A[i, k], axis=k), name="B")
    s = mt.Schedule(mt.lower([A, B]))
    _, k_1, k_2 = s.split("k", [None, ways, lanes])
    partial = s.rfactor(s.fuse(k_1, k_2))
    loops = s.compute_at(partial, "B_i")
    way, lane = s.split(loops[-1], [ways, lanes])
    s.unroll(way)
    s.vectorize(lane)
    s.unroll(s.get_loops("B")[-1])
    return s


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("n", [17, 24, 30, 31, 47, 79])
@pytest.mark.parametrize("reducer", [mt.sum, mt.max, mt.argmax])
def test_what_remains_of_a_row_leaves_its_vectors_in_registers(n, reducer):
    """Elements of a vector are in an array just where they are used by themselves."""
    s = ragged_rows(n, reducer=reducer)
    text = after(s, "name_registers", Target("c", num_cores=1, vector_bits=256))
    assert "B_rf_0 = empty(" in text
    assert "B_rf = empty(" not in text


def test_elements_of_a_vector_that_is_not_stored_first_stay_an_array():
    """Nothing would be in its variable where they are."""
    A, C = (Buffer(name, (8,), DType.of("float32")) for name in "AC")
    T = Buffer("T", (8,), DType.of("float32"), Scope.REGISTER)
    lanes = Ramp(Const(0), 1, 8)
    wide = A.dtype.with_lanes(8)
    first = [Store("T", (Const(n),), Load("A", (Const(n),), A.dtype)) for n in range(8)]
    last = Store("C", (lanes,), Load("T", (lanes,), wide))
    program = Program("copy", (A, C), (), Alloc(T, sequence(*first, last)))
    verify(program)
    kept = dict(PASSES)["name_registers"](program, TARGET)
    assert print_stmt(kept.body) == print_stmt(program.body)
