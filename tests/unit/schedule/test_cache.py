"""cache_read, cache_write, set_scope, storage_align."""

import contextlib

import pytest

import minitensor as mt
from minitensor.ir import Scope
from minitensor.search.features import Structure
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    argmax,
    chain,
    chain2d,
    diagonal,
    fed_rowsum,
    fork,
    gather,
    grid,
    horner,
    matmul,
    matmul_relu,
    padded,
    row_scans,
    rowsum,
    scale,
    scan,
    start,
    started_update,
    stencil,
    strided,
    three,
    total,
)

SCOPES = ["global", "local", "register", "shared"]
scopes = pytest.mark.parametrize("scope", SCOPES)


def add(n=8):
    """C[i] = A[i] + 1"""
    A = mt.placeholder((n,), name="A")
    C = mt.compute((n,), lambda i: A[i] + 1.0, name="C")
    return mt.lower([A, C])


# ---- cache_read


def test_cache_read():
    s = mt.Schedule(add())
    assert s.cache_read("C", "A", "local") == "A_local"
    golden(
        s,
        """
        A_local = empty(float32[8])  # local
        for ax0 in range(8):
            A_local[ax0] = A[ax0]
        for i in range(8):
            C[i] = A_local[i] + 1.0
        """,
    )


def gram(n=8, m=6):
    """C[i, j] = the sum over k of A[i, k] * A[j, k]"""
    A, k = mt.placeholder((n, m), name="A"), mt.reduce_axis(m, name="k")
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * A[j, k], axis=k), name="C")
    return mt.lower([A, C])


def test_cache_read_at_one_of_two_places():
    s = mt.Schedule(gram())
    assert s.cache_read("C", "A", "global", place=1) == "A_global"
    s.transform_layout("A_global", lambda j, k: (j // 4, k, j % 4))
    golden(
        s,
        """
        A_global = empty(float32[2, 6, 4])
        for ax0 in range(8):
            for ax1 in range(6):
                A_global[ax0//4, ax1, ax0%4] = A[ax0, ax1]
        for i in range(8):
            for j in range(8):
                for k in range(6):
                    if k == 0:
                        C[i, j] = 0.0
                    C[i, j] += A[i, k] * A_global[j//4, k, j%4]
        """,
    )


@pytest.mark.parametrize("place", [0, 1])
def test_a_copy_of_one_place_moves_and_is_described_in_batches(place):
    s = mt.Schedule(gram(), seed=0)
    i_0, _ = s.split("i", s.sample_perfect_tile("i", 2, decision=[2, 4]))
    copy = s.cache_read("C", "A", "local", place=place)
    s.compute_at(copy, i_0)
    s.cache_read("C", "A", "global")  # the place that is left
    check(s)
    many = Structure(s).extents({0: [[1, 8], [4, 2]]})
    for number, factors in enumerate(([1, 8], [4, 2])):
        other = s.trace.with_decisions({0: factors}).apply(s.history[0])
        loops = {name: site.loop.extent for name, site in mt.ir.loop_sites(other.program).items()}
        assert {name: extents[number] for name, extents in many.items()} == loops


@scopes
def test_cache_read_into_every_scope(scope):
    s = mt.Schedule(matmul())
    assert s.cache_read("C", "A", scope) == f"A_{scope}"
    assert s.program.buffers[f"A_{scope}"].scope is Scope(scope)
    check(s)


def test_copies_of_one_element():
    s = mt.Schedule(chain(1))
    s.cache_read("C", "B", "local")
    s.cache_read("B", "A", "local")
    s.cache_write("C", "local")
    s.cache_write("B", "local")
    check(s)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.cache_read("C", "B", "local"),
        lambda s: s.cache_read("B", "A", "local"),
        lambda s: s.cache_write("C", "local"),
        lambda s: s.cache_write("B", "local"),
    ],
)
def test_copies_of_nothing_are_made_or_refused(call):
    s = mt.Schedule(chain(0))
    with contextlib.suppress(mt.ScheduleError):
        call(s)
    check(s)


def test_cache_read_of_a_temporary_stands_after_its_writer():
    s = mt.Schedule(chain(8))
    s.cache_read("C", "B", "shared")
    golden(
        s,
        """
        B = empty(float32[8])
        B_shared = empty(float32[8])  # shared
        for i in range(8):
            B[i] = A[i] * 2.0
        for ax0 in range(8):
            B_shared[ax0] = B[ax0]
        for j in range(8):
            C[j] = B_shared[j] + 1.0
        """,
    )


def test_cache_read_copies_what_is_read_and_no_more():
    A = mt.placeholder((20, 20), name="A")
    C = mt.compute((4, 5), lambda i, j: A[i + 3, j * 2] + A[i + 4, j * 2], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.cache_read("C", "A", "local")
    assert "for ax0 in range(5):" in str(s.program)
    assert "for ax1 in range(9):" in str(s.program)
    check(s)


@pytest.mark.parametrize(
    ("builder", "block", "buffer"),
    [
        (stencil, "C", "P"),
        (diagonal, "C", "B"),
        (strided, "C", "B"),
        (gather, "C", "B"),
        (gather, "C", "I"),
        (padded, "C", "B"),
        (argmax, "C", "A"),
        (argmax, "D", "C"),
        (scan, "W", "A"),
        (row_scans, "W", "P"),
        (row_scans, "D", "W"),
        (horner, "W", "A"),
        (total, "S", "A"),
        (fed_rowsum, "C", "P"),
    ],
)
def test_cache_read_of_any_kind_of_read(builder, block, buffer):
    s = mt.Schedule(builder())
    s.cache_read(block, buffer, "local")
    check(s)
    copy = f"{buffer}_local"
    for loop in s.get_loops(block):
        twin = s.copy()
        twin.compute_at(copy, loop)
        check(twin)


def test_cache_read_of_a_scalar():
    A = mt.placeholder((), name="A")
    C = mt.compute((3,), lambda i: A[()] * i, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.cache_read("C", "A", "register")
    s.compute_at("A_register", "i")
    check(s)


def test_cache_read_leaves_other_readers():
    s = mt.Schedule(fork())
    s.cache_read("Q", "P", "local")
    assert "Q[j] = P_local[j] + 1.0" in str(s.program)
    assert "R[x] = P[x] - 1.0" in str(s.program)
    check(s)


def test_cache_read_in_an_init():
    A = mt.placeholder((4, 3), name="A")
    k = mt.reduce_axis(3, name="k")
    W = mt.update((4,), lambda W, y: W[y] * 2 + A[y, k], axis=k, init=lambda y: A[y, 2], name="W")
    s = mt.Schedule(mt.lower([A, W]))
    s.cache_read("W", "A", "local")
    assert "A[" not in str(s.program).split("for y")[1]
    check(s)


def test_cache_read_in_a_shared_loop():
    s = mt.Schedule(stencil(10))
    outer, _ = s.split("y", [None, 4])
    s.compute_at("P", outer)
    s.cache_read("C", "P", "local")
    golden(
        s,
        """
        P = empty(float32[12])
        P_local = empty(float32[12])  # local
        for y_0 in range(3):
            for P_i in range(6):
                if y_0*4 + P_i < 12:
                    P[y_0*4 + P_i] = A[y_0*4 + P_i] * 2.0
            for ax0 in range(6):
                if y_0*4 + ax0 < 12:
                    P_local[y_0*4 + ax0] = P[y_0*4 + ax0]
            for y_1 in range(4):
                if y_0*4 + y_1 < 10:
                    C[y_0*4 + y_1] = P_local[y_0*4 + y_1] + P_local[y_0*4 + y_1 + 2]
        """,
    )


def test_cache_read_after_cut_and_decomposed_writers():
    s = mt.Schedule(chain(10))
    s.split("i", [None, 4], tail="cut")
    s.cache_read("C", "B", "local")
    check(s)
    s = mt.Schedule(matmul_relu())
    s.decompose_reduction("C", "k")
    s.cache_read("D", "C", "local")
    check(s)
    s = mt.Schedule(row_scans())
    s.cache_read("D", "W", "local")
    check(s)


def test_cache_read_packs_a_matrix():
    s = mt.Schedule(matmul(4, 12, 5))
    j0, j1 = s.split("j", [None, 4])
    s.reorder(j0, "i", "k", j1)
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda k, j: (j // 4, k, j % 4))
    s.vectorize(j1)
    s.parallel(j0)
    assert s.program.buffers[packed].shape == (3, 5, 4)
    check(s)


def test_copies_of_copies_have_names_of_their_own():
    s = mt.Schedule(add())
    names = [s.cache_read("C", "A", "local")]
    names.append(s.cache_read("C", names[-1], "local"))
    names.append(s.cache_read(names[0], "A", "local"))
    names.append(s.cache_write("C", "local"))
    names.append(s.cache_write(names[-1], "local"))
    assert len(set(names)) == 5
    check(s)


# ---- cache_write


def test_cache_write():
    s = mt.Schedule(add())
    assert s.cache_write("C", "local") == "C_local"
    golden(
        s,
        """
        C_local = empty(float32[8])  # local
        for i in range(8):
            C_local[i] = A[i] + 1.0  # block C
        for ax0 in range(8):
            C[ax0] = C_local[ax0]  # block C_local
        """,
    )


@scopes
def test_cache_write_into_every_scope(scope):
    s = mt.Schedule(matmul())
    copy = s.cache_write("C", scope)
    assert s.program.buffers[copy].scope is Scope(scope)
    check(s)


@pytest.mark.parametrize(
    ("builder", "block"),
    [
        (scale, "C"),
        (rowsum, "C"),
        (total, "S"),
        (scan, "W"),
        (row_scans, "W"),
        (horner, "W"),
        (stencil, "P"),
        (gather, "I"),
        (padded, "B"),
        (padded, "C"),
    ],
)
def test_cache_write_of_any_block(builder, block):
    s = mt.Schedule(builder())
    s.cache_write(block, "local")
    check(s)


def test_cache_write_stays_outside_the_reduction():
    s = mt.Schedule(matmul(4, 5, 6))
    i0, i1 = s.split("i", [2, 2])
    s.reorder(i0, "k", i1, "j")
    s.cache_write("C", "register")
    golden(
        s,
        """
        C_register = empty(float32[4, 5])  # register
        for i_0 in range(2):
            for k in range(6):
                for i_1 in range(2):
                    for j in range(5):
                        if k == 0:  # block C
                            C_register[i_0*2 + i_1, j] = 0.0
                        C_register[i_0*2 + i_1, j] += A[i_0*2 + i_1, k] * B[k, j]
        for ax0 in range(4):
            for ax1 in range(5):
                C[ax0, ax1] = C_register[ax0, ax1]  # block C_register
        """,
    )
    s.reverse_compute_at("C_register", i0)
    check(s)


def test_cache_write_inside_a_loop_that_another_block_shares():
    s = mt.Schedule(matmul_relu(5, 4, 3))
    outer, _ = s.split("x", [None, 2])
    s.compute_at("C", outer)
    s.cache_write("C", "local")
    assert s.get_loops("C_local")[0] == outer
    check(s)


def test_cache_write_then_read():
    s = mt.Schedule(chain2d(5, 6))
    s.cache_write("B", "local")
    s.cache_read("C", "B", "shared")
    s.compute_inline("B_local")
    s.compute_inline("B_shared")
    check(s)


def test_cache_write_of_a_tile_of_a_matrix_product():
    s = mt.Schedule(matmul(5, 7, 6))
    i0, i1 = s.split("i", [None, 2])
    j0, j1 = s.split("j", [None, 4])
    k0, k1 = s.split("k", [None, 4])
    s.reorder(i0, j0, k0, k1, i1, j1)
    copy = s.cache_write("C", "register")
    s.reverse_compute_at(copy, j0)
    check(s)


def test_cache_write_of_exact_tiles_moves_into_them():
    s = mt.Schedule(matmul(4, 8, 6))
    i0, i1 = s.split("i", [None, 2])
    j0, j1 = s.split("j", [None, 4])
    k0, k1 = s.split("k", [None, 4])
    s.reorder(i0, j0, k0, k1, i1, j1)
    copy = s.cache_write("C", "register")
    loops = s.reverse_compute_at(copy, j0)
    s.decompose_reduction("C", k0)
    s.vectorize(j1)
    s.vectorize(loops[-1])
    s.parallel(i0)
    check(s)


# ---- set_scope and storage_align


def test_set_scope():
    s = mt.Schedule(chain())
    assert s.set_scope("B", "local") is None
    golden(
        s,
        """
        B = empty(float32[8])  # local
        for i in range(8):
            B[i] = A[i] * 2.0
        for j in range(8):
            C[j] = B[j] + 1.0
        """,
    )
    s.set_scope("B", "global")
    assert "# local" not in str(s.program)
    check(s)


@scopes
def test_set_scope_to_every_scope(scope):
    s = mt.Schedule(chain())
    s.set_scope("B", scope)
    check(s)


def test_set_scope_keeps_the_alignment():
    s = mt.Schedule(chain2d())
    s.storage_align("B", 0, 8, 1)
    s.set_scope("B", "shared")
    assert s.program.buffers["B"].alignment == ((0, 8, 1),)
    check(s)


def test_storage_align():
    A = mt.placeholder((8, 32), name="A")
    B = mt.compute((8, 32), lambda i, j: A[i, j] * 2, name="B")
    C = mt.compute((8, 32), lambda i, j: B[i, j] + 1, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    assert s.storage_align("B", 0, 32, 1) is None
    golden(
        s,
        """
        B = empty(float32[8, 32])  # stride of axis 0 aligned to 32 + 1
        for i in range(8):
            for j in range(32):
                B[i, j] = A[i, j] * 2.0
        for C_i in range(8):
            for C_j in range(32):
                C[C_i, C_j] = B[C_i, C_j] + 1.0
        """,
    )


def test_storage_align_again_replaces_and_negative_axes_count_from_the_end():
    A = mt.placeholder((2, 3, 4), name="A")
    B = mt.compute((2, 3, 4), lambda i, j, k: A[i, j, k] * 2, name="B")
    C = mt.compute((2, 3, 4), lambda i, j, k: B[i, j, k] + 1, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.storage_align("B", -2, 8)
    s.storage_align("B", 0, 64, offset=3)
    s.storage_align("B", 1, 16, 15)
    assert s.program.buffers["B"].alignment == ((0, 64, 3), (1, 16, 15))
    check(s)


def test_set_scope_shared_makes_threads_share():
    s = mt.Schedule(stencil(8))
    outer, _ = s.split("y", [2, 4])
    s.compute_at("P", outer)
    s.bind(outer, "threadIdx.x")
    message = "one iteration of y_0 may write an element of P that another may write"
    refused(s, "K1", message, lambda: s.set_scope("P", "shared"))
    s.set_scope("P", "local")
    check(s)


def test_set_scope_shared_of_a_scalar_under_a_thread_loop():
    A = mt.placeholder((4, 3), name="A")
    k = mt.reduce_axis(3, name="k")
    C = mt.compute((), lambda: mt.sum(A[0, k], axis=k), name="C")
    D = mt.compute((4,), lambda i: C[()] + A[i, 0], name="D")
    for thread in ("threadIdx.x", "threadIdx.z", "vthread"):
        s = mt.Schedule(mt.lower([A, D]))
        s.bind("i", thread)
        s.compute_at("C", "i")
        refused(s, "K1", "of C", lambda s=s: s.set_scope("C", "shared"))
    s = mt.Schedule(mt.lower([A, D]))
    s.bind("i", "blockIdx.x")
    s.compute_at("C", "i")
    s.set_scope("C", "shared")
    check(s)


# ---- rules


def output_twice():
    A = mt.placeholder((4, 4), name="A")
    B = mt.compute((4, 4), lambda i, j: A[i, j] * 2, name="B")
    C = mt.compute((4, 4), lambda x, y: B[x, y] + B[y, x], name="C")
    return mt.lower([A, C])


def halo_in_threads(s):
    outer, _ = s.split("y", [2, 4])
    s.compute_at("P", outer)
    s.bind(outer, "threadIdx.x")


REFUSALS = [
    Refusal(
        "cache_read",
        "R1",
        start(chain),
        lambda s: s.cache_read("C", "A", "local"),
        r'^cache_read\("C", "A", "local"\) breaks R1: the block reads the buffer$',
        choices=("B",),
        marks=("C[j] = B[j] + 1.0  # <- does not read it",),
    ),
    Refusal(
        "cache_read",
        "R2",
        start(scan),
        lambda s: s.cache_read("W", "W", "local"),
        "R2: the block does not write the buffer$",
        marks=("# <- writes it",),
    ),
    Refusal(
        "cache_read",
        "R3",
        after(chain, lambda s: s.transform_layout("B", lambda i: (i // 4, i % 4))),
        lambda s: s.cache_read("C", "B", "local"),
        "R3: the buffer is an input, or its writers index each axis by an iter of its own$",
        marks=("# <- writes B",),
    ),
    Refusal(
        "cache_read",
        "R4",
        after(
            stencil,
            lambda s: s.split("y", [2, 4]),
            lambda s: s.compute_at("P", "y_0"),
            lambda s: s.split("P_i", [2, 4]),
        ),
        lambda s: s.cache_read("C", "P", "local"),
        "R4: what is copied has been computed before$",
        marks=("# <- reads more than was computed",),
    ),
    Refusal(
        "cache_read",
        "R5",
        start(gram),
        lambda s: s.cache_read("C", "A", "local", place=2),
        r"R5: 0 <= place < the number of .* \(place=2, and the block reads it at 2\)",
        choices=("0", "1"),
    ),
    Refusal(
        "cache_read",
        "K1",
        after(stencil, halo_in_threads),
        lambda s: s.cache_read("C", "P", "shared"),
        r"K1: .*\(one iteration of y_0 may write an element of P_shared that another may write\)",
    ),
    Refusal(
        "cache_write",
        "R1",
        after(rowsum, lambda s: s.split("k", [None, 4], tail="cut")),
        lambda s: s.cache_write("C", "local"),
        r"R1: the block alone writes its buffers, or with .* \(C_tail writes it too\)",
        marks=("# block C_tail; <- writes it",),
    ),
    Refusal(
        "cache_write",
        "R2",
        after(chain, lambda s: s.transform_layout("B", lambda i: (i // 4, i % 4))),
        lambda s: s.cache_write("B", "local"),
        "R2: each axis of the store is indexed by an iter of its own, the same in all stores$",
        marks=("# <- stores elsewhere",),
    ),
    Refusal(
        "cache_write",
        "R4",
        after(
            stencil,
            lambda s: s.split("y", [2, 4]),
            lambda s: s.compute_at("P", "y_0"),
            lambda s: s.split("P_i", [2, 4]),
        ),
        lambda s: s.cache_write("P", "local"),
        "R4: the nest writes a box of the buffer$",
        marks=("# <- not known to write a box",),
    ),
    Refusal(
        "cache_write",
        "K1",
        after(stencil, halo_in_threads),
        lambda s: s.cache_write("P", "shared"),
        r"K1: .*\(one iteration of y_0 may write an element of P_shared that another may write\)",
    ),
    Refusal(
        "set_scope",
        "R1",
        start(chain),
        lambda s: s.set_scope("A", "local"),
        r"R1: the buffer is a temporary \(A is a parameter\)",
        choices=("B",),
    ),
    Refusal(
        "set_scope",
        "K1",
        after(stencil, halo_in_threads),
        lambda s: s.set_scope("P", "shared"),
        r"K1: .*\(one iteration of y_0 may write an element of P that another may write\)",
    ),
    Refusal(
        "storage_align",
        "R1",
        start(grid),
        lambda s: s.storage_align("C", 0, 8),
        r"R1: the buffer is a temporary \(C is a parameter\)",
    ),
    Refusal(
        "storage_align",
        "R2",
        start(chain2d),
        lambda s: s.storage_align("B", 1, 8),
        r"R2: .*and not the last \(B has rank 2, axis=1\)",
    ),
    Refusal(
        "storage_align",
        "R3",
        start(chain2d),
        lambda s: s.storage_align("B", 0, 8, 8),
        r"R3: 0 <= offset < factor \(factor=8, offset=8\)",
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_cache_write_of_a_reduction_of_several_values():
    s = mt.Schedule(argmax(4, 6))
    assert s.cache_write("C", "local") == "C_local"
    copy = str(s.program).split("# block C_local")[0].splitlines()[-1]
    assert copy.strip() == "C[ax0] = C_local[ax0]"
    assert "C_value[ax0] = C_value_local[ax0]" in str(s.program)
    check(s)
    i0, _ = s.split("i", [None, 3])
    s.reverse_compute_at("C_local", i0)
    s.decompose_reduction("C", "k")
    s.parallel(i0)
    check(s)
    s = mt.Schedule(argmax(4, 6))
    s.decompose_reduction("C", "i")
    s.split("k", [2, 3])
    s.rfactor("k_0")
    s.cache_write("C_rf", "local")
    s.cache_write("C", "register")
    check(s)


@pytest.mark.parametrize("before", ["i", "j", "k"])
def test_cache_write_of_a_decomposed_reduction(before):
    s = mt.Schedule(matmul_relu(5, 8, 3))
    s.decompose_reduction("C", before)
    copy = s.cache_write("C", "local")
    assert str(s.program).count("C_local[") == 3
    check(s)
    if before == "i":
        s.reverse_compute_at(copy, "i")
        check(s)


def test_cache_write_reroutes_both_halves_of_a_reduction():
    s = mt.Schedule(rowsum(4, 6))
    s.decompose_reduction("C", "i")
    s.cache_write("C", "local")
    golden(
        s,
        """
        C_local = empty(float32[4])  # local
        for C_init_i in range(4):
            C_local[C_init_i] = 0.0  # block C_init
        for i in range(4):
            for k in range(6):
                C_local[i] += A[i, k]  # block C
        for ax0 in range(4):
            C[ax0] = C_local[ax0]  # block C_local
        """,
    )


def test_cache_write_of_one_of_two_writers():
    s = mt.Schedule(started_update())
    refused(s, "R1", "W_init writes it too", lambda: s.cache_write("W", "local"))
    refused(s, "R1", "W writes it too", lambda: s.cache_write("W_init", "local"))
    s = mt.Schedule(scale(10))
    s.split("i", [None, 4], tail="cut")
    refused(s, "R1", "C writes it too", lambda: s.cache_write("C_tail", "local"))


def test_cache_read_of_both_reads_at_once():
    s = mt.Schedule(output_twice())
    s.cache_read("C", "B", "local")
    assert str(s.program).count("B_local[") == 3
    check(s)


def test_storage_align_of_vectors_and_scalars():
    s = mt.Schedule(three())
    refused(s, "R2", "B has rank 1", lambda: s.storage_align("B", 0, 8))
    refused(s, "R2", "B has rank 1", lambda: s.storage_align("B", -1, 8))
    s = mt.Schedule(chain2d())
    refused(s, "R2", "axis=-1", lambda: s.storage_align("B", -1, 8))
    refused(s, "R2", "axis=-3", lambda: s.storage_align("B", -3, 8))
    refused(s, "R3", "factor=0, offset=0", lambda: s.storage_align("B", 0, 0))
