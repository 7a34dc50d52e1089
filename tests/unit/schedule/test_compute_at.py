"""compute_at."""

import itertools
import textwrap

import pytest

import minitensor as mt
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
    matmul_relu,
    normalised,
    padded,
    row_scans,
    start,
    stencil,
    strided,
    three,
)


def test_compute_at_recomputes_the_halo():
    A = mt.placeholder((34,), name="A")
    P = mt.compute((34,), lambda y: A[y] * 2, name="P")
    C = mt.compute((32,), lambda y: P[y] + P[y + 2], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.split("C_y", [8, 4])
    assert s.compute_at("P", "C_y_0") == ("P_y",)
    golden(
        s,
        """
        P = empty(float32[34])
        for C_y_0 in range(8):
            for P_y in range(6):
                P[C_y_0*4 + P_y] = A[C_y_0*4 + P_y] * 2.0
            for C_y_1 in range(4):
                C[C_y_0*4 + C_y_1] = P[C_y_0*4 + C_y_1] + P[C_y_0*4 + C_y_1 + 2]
        """,
    )


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 5, 8, 11])
@pytest.mark.parametrize("halo", [0, 1, 3])
def test_compute_at_every_level_of_a_stencil(n, halo, level):
    s = mt.Schedule(stencil(n, halo))
    loops = s.split("y", [None, 2, 2])
    s.compute_at("P", loops[level])
    check(s)


@pytest.mark.parametrize("n", [0, 1])
def test_compute_at_of_nothing_and_of_one(n):
    s = mt.Schedule(chain(n))
    s.compute_at("B", "j")
    check(s)
    s = mt.Schedule(chain(n))
    s.reverse_compute_at("C", "i")
    check(s)


def test_compute_at_root_leaves_the_program():
    s = mt.Schedule(chain())
    before = s.program
    assert s.compute_at("B", "root") == ()
    assert s.reverse_compute_at("C", "root") == ()
    assert s.program is before
    check(s)


def test_compute_at_a_loop_with_a_tail():
    s = mt.Schedule(chain(10))
    s.split("j", [None, 4])
    s.compute_at("B", "j_0")
    golden(
        s,
        """
        B = empty(float32[10])
        for j_0 in range(3):
            for B_i in range(4):
                if j_0*4 + B_i < 10:
                    B[j_0*4 + B_i] = A[j_0*4 + B_i] * 2.0
            for j_1 in range(4):
                if j_0*4 + j_1 < 10:
                    C[j_0*4 + j_1] = B[j_0*4 + j_1] + 1.0
        """,
    )


def test_compute_at_a_loop_with_too_many_iterations():
    s = mt.Schedule(chain(5))
    s.split("j", [4, 3])
    s.compute_at("B", "j_0")
    check(s)
    s = mt.Schedule(chain(5))
    s.split("j", [4, 3])
    s.compute_at("B", "j_1")
    golden(
        s,
        """
        B = empty(float32[5])
        for j_0 in range(4):
            for j_1 in range(3):
                for B_i in range(1):
                    if j_0*3 + j_1 < 5 and j_0*3 + B_i + j_1 < 5:
                        B[j_0*3 + B_i + j_1] = A[j_0*3 + B_i + j_1] * 2.0
                if j_0*3 + j_1 < 5:
                    C[j_0*3 + j_1] = B[j_0*3 + j_1] + 1.0
        """,
    )


def test_compute_at_the_innermost_loop_of_a_matrix_product():
    A, B = mt.placeholder((4, 6), name="A"), mt.placeholder((6, 5), name="B")
    P = mt.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="P")
    k = mt.reduce_axis(6, name="k")
    C = mt.compute((4, 5), lambda x, y: mt.sum(P[x, k] * B[k, y], axis=k), name="C")
    program = mt.lower([A, B, C])
    for loop in ("x", "y", "k"):
        s = mt.Schedule(program)
        s.compute_at("P", loop)
        check(s)
    s = mt.Schedule(program)
    k0, k1 = s.split("k", [None, 4])
    s.reorder(k0, "x", k1, "y")
    for loop in (k0, "x", k1, "y"):
        twin = s.copy()
        twin.compute_at("P", loop)
        check(twin)


@pytest.mark.parametrize(
    ("builder", "block"),
    [(diagonal, "B"), (strided, "B"), (padded, "B"), (fed_rowsum, "P"), (normalised, "M")],
)
def test_compute_at_every_loop_of_the_only_reader(builder, block):
    (reader,) = mt.Schedule(builder()).get_consumers(block)
    for loop in mt.Schedule(builder()).get_loops(reader):
        s = mt.Schedule(builder())
        s.compute_at(block, loop)
        check(s)
        outer, inner = (s := mt.Schedule(builder())).split(loop, [None, 3])
        for half in (outer, inner):
            twin = s.copy()
            twin.compute_at(block, half)
            check(twin)


def test_compute_at_under_padding_computes_what_is_inside():
    s = mt.Schedule(padded(8, 2))
    s.split("y", [3, 4])
    s.compute_at("B", "y_0")
    golden(
        s,
        """
        B = empty(float32[8])
        for y_0 in range(3):
            for B_i in range(4):
                if 2 <= y_0*4 + B_i and y_0*4 + B_i < 10:
                    B[y_0*4 + B_i - 2] = A[y_0*4 + B_i - 2] * 2.0
            for y_1 in range(4):
                C[y_0*4 + y_1] = if_then_else(2 <= y_0*4 + y_1 and y_0*4 + y_1 < 10, READ, 0.0)
        """.replace("READ", "B[y_0*4 + y_1 - 2]"),
    )


def test_compute_at_of_a_reduction_is_started_in_each_iteration():
    s = mt.Schedule(matmul_relu(4, 5, 3))
    s.compute_at("C", "y")
    golden(
        s,
        """
        C = empty(float32[4, 5])
        for x in range(4):
            for y in range(5):
                for C_i, C_j, C_k in grid(1, 1, 3):
                    if C_k == 0:
                        C[C_i + x, C_j + y] = 0.0
                    C[C_i + x, C_j + y] += A[C_i + x, C_k] * B[C_k, C_j + y]
                D[x, y] = max(C[x, y], 0.0)
        """,
    )


@pytest.mark.parametrize("before", ["i", "j", "k"])
@pytest.mark.parametrize("target", ["x", "y_0", "y_1"])
def test_compute_at_of_a_decomposed_reduction(before, target):
    s = mt.Schedule(matmul_relu(3, 7, 2))
    s.decompose_reduction("C", before)
    s.split("y", [None, 4])
    s.compute_at("C", target)
    check(s)
    s.parallel("x")
    check(s)


def test_compute_at_takes_both_halves_of_a_reduction_along():
    s = mt.Schedule(matmul_relu(5, 8, 3))
    init = s.decompose_reduction("C", "i")
    s.split("y", [None, 4])
    loops = s.compute_at("C", "y_0")
    assert loops == ("C_i", "C_j", "C_k")
    golden(
        s,
        """
        C = empty(float32[5, 8])
        for x in range(5):
            for y_0 in range(2):
                for C_init_i2, C_init_j2 in grid(1, 4):
                    C[C_init_i2 + x, y_0*4 + C_init_j2] = 0.0  # block C_init
                for C_i, C_j in grid(1, 4):
                    for C_k in range(3):
                        C[C_i + x, y_0*4 + C_j] += A[C_i + x, C_k] * B[C_k, y_0*4 + C_j]
                for y_1 in range(4):
                    D[x, y_0*4 + y_1] = max(C[x, y_0*4 + y_1], 0.0)
        """,
    )
    s.compute_at("C", "y_1")
    check(s)
    refused(s, "R1", "C writes it too", lambda: s.compute_at(init, "y_1"))


def test_compute_at_of_an_update_that_reads_its_neighbours_is_no_half():
    A = mt.placeholder((4,), name="A")

    def step(W, x, y):
        return W[x, y] + mt.if_then_else(y > 0, W[x, y - 1], 0.0) + A[x]

    W = mt.update((4, 3), step, init=0.0, name="W")
    D = mt.compute((4, 3), lambda a, b: W[a, b] * 2, name="D")
    s = mt.Schedule(mt.lower([A, D]))
    refused(s, "R1", "W_init writes it too", lambda: s.compute_at("W", "a"))


def test_compute_at_of_two_buffers():
    A = mt.placeholder((4, 6), name="A")
    k = mt.reduce_axis(6, name="k")
    both = mt.comm_reducer(lambda a, b: (a[0] + b[0], mt.maximum(a[1], b[1])), (0, -100.0))
    S, M = mt.compute((4,), lambda i: both((A[i, k], A[i, k]), axis=k), name="SM")
    D = mt.compute((3,), lambda x: S[x] + M[x + 1], name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.compute_at("SM_0", "x")
    check(s)
    s = mt.Schedule(argmax(7, 3))
    s.split("x", [None, 3])
    s.compute_at("C", "x_0")
    check(s)


def test_compute_at_of_an_ordered_update_keeps_its_order():
    for loop in ("a", "b"):
        s = mt.Schedule(row_scans())
        s.compute_at("W", loop)
        check(s)
    s = mt.Schedule(row_scans())
    s.split("a", [None, 3])
    (x, y) = s.compute_at("W", "a_0")
    assert "W[a_0*3 + W_x, W_y] = if_then_else(1 <= W_y" in str(s.program)
    refused(s, "R3", "drives the ordered update", lambda: s.parallel(y))
    s.parallel(x)
    check(s)


def test_compute_at_of_several_readers():
    s = mt.Schedule(three(9))
    s.split("j", [None, 4])
    s.compute_at("B", "j_0")
    s.split("x", [None, 4])
    s.compute_at("C", "x_0")
    check(s)
    s = mt.Schedule(fork(9))
    s.split("y", [None, 4])
    s.compute_at("R", "y_0")
    s.compute_at("Q", "y_0")
    s.compute_at("P", "y_0")
    golden(
        s,
        """
        P = empty(float32[9])
        Q = empty(float32[9])
        R = empty(float32[9])
        for y_0 in range(3):
            for P_i in range(4):
                if y_0*4 + P_i < 9:
                    P[y_0*4 + P_i] = A[y_0*4 + P_i] * 2.0
            for R_x in range(4):
                if y_0*4 + R_x < 9:
                    R[y_0*4 + R_x] = P[y_0*4 + R_x] - 1.0
            for Q_j in range(4):
                if y_0*4 + Q_j < 9:
                    Q[y_0*4 + Q_j] = P[y_0*4 + Q_j] + 1.0
            for y_1 in range(4):
                if y_0*4 + y_1 < 9:
                    S[y_0*4 + y_1] = Q[y_0*4 + y_1] * R[y_0*4 + y_1]
        """,
    )


def test_compute_at_again_further_inside():
    s = mt.Schedule(stencil(12))
    a, b, c = s.split("y", [2, 3, 2])
    for loop in (a, b, c):
        s.compute_at("P", loop)
        check(s)


def test_compute_at_moves_what_was_scheduled_and_forgets_its_loops():
    s = mt.Schedule(chain(12))
    i0, i1 = s.split("i", [3, 4])
    s.parallel(i0)
    s.vectorize(i1)
    s.split("j", [3, 4])
    assert s.compute_at("B", "j_0") == ("B_i",)
    assert i0 not in str(s.program)
    check(s)


def test_compute_at_through_a_permutation_and_a_reshape():
    A = mt.placeholder((4, 6), name="A")
    B = mt.compute((4, 6), lambda i, j: A[i, j] * 2, name="B")
    T = mt.compute((6, 4), lambda p, q: B[q, p] + 1, name="T")
    F = mt.compute((24,), lambda f: T[f // 4, f % 4], name="F")
    for first, second in itertools.product(("p", "q"), range(3)):
        s = mt.Schedule(mt.lower([A, F]))
        s.compute_at("B", first)
        loops = s.split("f", [2, 3, 4])
        s.compute_at("T", loops[second])
        check(s)


def test_compute_at_a_fused_loop():
    s = mt.Schedule(chain2d(3, 4))
    fused = s.fuse("x", "y")
    s.compute_at("B", fused)
    check(s)
    s = mt.Schedule(chain2d(3, 4))
    outer, _ = s.split(s.fuse("x", "y"), [None, 5])
    s.compute_at("B", outer)
    check(s)


def test_compute_at_inside_a_parallel_and_a_bound_loop():
    s = mt.Schedule(stencil(12))
    s.split("y", [3, 4])
    s.parallel("y_0")
    s.compute_at("P", "y_0")
    check(s)
    s = mt.Schedule(stencil(12))
    s.split("y", [3, 4])
    s.bind("y_0", "blockIdx.x")
    s.bind("y_1", "threadIdx.x")
    s.compute_at("P", "y_0")
    check(s)


def test_compute_at_of_a_scalar():
    A = mt.placeholder((4,), name="A")
    S = mt.compute((), lambda: A[0] + A[3], name="S")
    D = mt.compute((4,), lambda i: A[i] - S[()], name="D")
    s = mt.Schedule(mt.lower([A, D]))
    assert s.compute_at("S", "i") == ()
    check(s)


def test_compute_at_where_the_index_depends_on_data_takes_the_whole_axis():
    s = mt.Schedule(gather(5, 4))
    s.compute_at("B", "x")
    assert "for B_j in range(5):" in str(s.program)
    check(s)


@pytest.mark.parametrize(
    "steps",
    [
        [lambda s: s.compute_at("B", "x"), lambda s: s.compute_inline("I")],
        [lambda s: s.compute_at("B", "x"), lambda s: s.compute_at("I", "x")],
        [
            lambda s: s.compute_at("B", "x"),
            lambda s: s.transform_layout("I", lambda i: (i * 2,)),
        ],
        [lambda s: s.compute_at("B", "x"), lambda s: s.cache_read("C", "I", "local")],
        [lambda s: s.compute_at("B", "x"), lambda s: s.cache_write("I", "local")],
        [lambda s: s.split("x", [None, 4]), lambda s: s.compute_at("B", "x_1")],
        [lambda s: s.split("x", [5, 4]), lambda s: s.compute_at("B", "x_0")],
        [lambda s: s.compute_at("I", "x"), lambda s: s.compute_at("B", "x")],
    ],
    ids=["inline", "at", "layout", "read", "write", "tail", "oversize", "at-at"],
)
def test_a_gathered_producer_and_its_index_both_move(steps):
    s = mt.Schedule(gather(5, 6))
    for step in steps:
        step(s)
        check(s)


def test_compute_at_with_an_init_that_reads():
    A = mt.placeholder((4, 3), name="A")
    P = mt.compute((4, 3), lambda i, j: A[i, j] + 1.0, name="P")
    k = mt.reduce_axis(3, name="k")
    W = mt.update((4,), lambda W, y: W[y] * 2 + A[y, k], axis=k, init=lambda y: P[y, 2], name="W")
    for loop in ("y", "k"):
        s = mt.Schedule(mt.lower([A, W]))
        s.compute_at("P", loop)
        check(s)


def test_a_producer_is_not_widened_beyond_what_feeds_it():
    s = mt.Schedule(pairs())
    unit = s.add_unit_loop("a")
    s.compute_at("P", unit)
    (own,) = s.compute_at("X", unit)
    s.split(own, [4, 4])
    check(s)
    try:
        s.compute_at("P", "a")
    except mt.ScheduleError as error:
        assert error.rule == "R5"
    check(s)


def outputs_too():
    A = mt.placeholder((8,), name="A")
    B = mt.compute((8,), lambda i: A[i] * 2, name="B")
    C = mt.compute((8,), lambda j: B[j] + 1, name="C")
    return mt.lower([A, B, C])


def pairs():
    """X = A * 2; P = X + 1, of which D[a, b] = P[a] + P[b] reads a quarter"""
    A = mt.placeholder((16,), name="A")
    X = mt.compute((16,), lambda i: A[i] * 2, name="X")
    P = mt.compute((16,), lambda j: X[j] + 1, name="P")
    D = mt.compute((4, 4), lambda a, b: P[a] + P[b], name="D")
    return mt.lower([A, D])


REFUSALS = [
    Refusal(
        "compute_at",
        "R1",
        after(matmul_relu, lambda s: s.split("k", [None, 4], tail="cut")),
        lambda s: s.compute_at("C", "x"),
        r"R1: the producer alone writes its buffers, .* \(C_tail writes it too\)",
        marks=("# block C_tail; <- writes C", "if k_0 == 0 and k_1 == 0:  # <- writes C"),
    ),
    Refusal(
        "compute_at",
        "R2",
        start(three),
        lambda s: s.compute_at("C", "j"),
        "R2: the loop does not enclose the producer$",
        choices=("x",),
        marks=("for j in range(8):  # <- target", "# <- inside it"),
    ),
    Refusal(
        "compute_at",
        "R3",
        start(outputs_too),
        lambda s: s.compute_at("B", "j"),
        r"R3: the producer's buffers are not outputs of the program \(B is one\)",
        marks=("# <- an output",),
    ),
    Refusal(
        "compute_at",
        "R4",
        start(fork),
        lambda s: s.compute_at("P", "x"),
        r"R4: a reader of the buffers is under the loop; each other one .* \(Q is not\)",
        choices=("j",),
        marks=("for x in range(8):  # <- target", "^^^^ also reads P"),
    ),
    Refusal(
        "compute_at",
        "R5",
        after(
            pairs,
            lambda s: s.add_unit_loop("a"),
            lambda s: s.compute_at("P", "u"),
            lambda s: s.compute_at("X", "u"),
        ),
        lambda s: s.compute_at("P", "a"),
        r"R5: everything the producer reads is computed before it \(X is not complete there\)",
        marks=("X[X_i] = A[X_i] * 2.0  # <- computes X",),
    ),
    Refusal(
        "compute_at",
        "R6",
        after(chain, lambda s: s.transform_layout("B", lambda i: (i // 2, i % 4))),
        lambda s: s.compute_at("B", "j"),
        "R6: each axis of the producer's store is indexed by an iter of its own, or by digits of ",
        marks=("# <- stores elsewhere",),
    ),
    Refusal(
        "compute_at",
        "R7",
        after(chain2d, lambda s: s.vectorize("x")),
        lambda s: s.compute_at("B", "y"),
        "R7: the loop is not vectorized, nor inside a vectorized loop$",
        marks=("for x in vectorize(4):  # <- is vectorized",),
    ),
    Refusal(
        "compute_at",
        "K1",
        after(
            stencil,
            lambda s: s.split("y", [2, 4]),
            lambda s: s.set_scope("P", "shared"),
            lambda s: s.bind("y_0", "threadIdx.x"),
        ),
        lambda s: s.compute_at("P", "y_0"),
        r"K1: .*\(one iteration of y_0 may write an element of P that another may write\)",
        marks=('for y_0 in bind(2, "threadIdx.x"):  # <- threadIdx.x loop',),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_the_error_in_full():
    A = mt.placeholder((4, 6), name="A")
    P = mt.compute((4, 6), lambda i, j: A[i, j] * 3, name="P")
    Q = mt.compute((4, 6), lambda y, x: P[y, x] * 2, name="Q")
    R = mt.compute((4, 6), lambda y, z: Q[y, 5 - z] + P[3 - y, z] + 1, name="R")
    s = mt.Schedule(mt.lower([A, R], name="example"))
    _, x = s.compute_at("Q", "R_y")
    with pytest.raises(mt.ScheduleError) as caught:
        s.compute_at("P", x)
    assert str(caught.value) == textwrap.dedent(
        """\
        compute_at("P", "Q_x") breaks R4: a reader of the buffers is under the loop; each other """
        """one comes after the loop, whose iterations compute all that it reads """
        """(R is not: it reads more)
            def example(A: float32[4, 6], R: float32[4, 6]):
                P = empty(float32[4, 6])
                Q = empty(float32[4, 6])
                for i in range(4):
                    for j in range(6):
                        P[i, j] = A[i, j] * 3.0
                for R_y in range(4):
                    for Q_y in range(1):
                        for Q_x in range(6):  # <- target
                            Q[Q_y + R_y, Q_x] = P[Q_y + R_y, Q_x] * 2.0
                    for z in range(6):
                        R[R_y, z] = Q[R_y, 5 - z] + P[3 - R_y, z] + 1.0
                                                    ^^^^^^^^^^^^^ also reads P
            legal: "R_y"
            instead: choose a loop around all readers
            (step 2 of this schedule)"""
    )
    s.compute_at("P", "R_y")
    check(s)


def test_compute_at_the_first_reader_where_another_comes_after():
    """All of P is computed in the loop of Q, a part in each iteration; R finds it all."""
    s = mt.Schedule(fork(9))
    j, _ = s.split("j", [None, 4])
    (i,) = s.compute_at("P", j)
    s.vectorize(i)
    golden(
        s,
        """
        P = empty(float32[9])
        Q = empty(float32[9])
        R = empty(float32[9])
        for j_0 in range(3):
            for P_i in vectorize(4):
                if j_0*4 + P_i < 9:
                    P[j_0*4 + P_i] = A[j_0*4 + P_i] * 2.0
            for j_1 in range(4):
                if j_0*4 + j_1 < 9:
                    Q[j_0*4 + j_1] = P[j_0*4 + j_1] + 1.0
        for x in range(9):
            R[x] = P[x] - 1.0
        for y in range(9):
            S[y] = Q[y] * R[y]
        """,
    )
    check(s)


@pytest.mark.parametrize(
    ("first", "accepted"),
    [
        (lambda P, j: P[7 - j], True),
        (lambda P, j: P[j // 2 * 2], False),  # half of it
        (lambda P, j: P[j] + P[mt.minimum(j + 1, 7)], False),  # some of it twice
    ],
)
def test_compute_at_the_first_reader_asks_what_others_find(first, accepted):
    A = mt.placeholder((8,), name="A")
    P = mt.compute((8,), lambda i: A[i] * 2, name="P")
    Q = mt.compute((8,), lambda j: first(P, j), name="Q")
    R = mt.compute((8,), lambda x: P[x] + Q[7 - x], name="R")
    s = mt.Schedule(mt.lower([A, R]))
    if accepted:
        s.compute_at("P", "j")
        check(s)
    else:
        refused(s, "R4", r"R is not: it reads more", lambda: s.compute_at("P", "j"))


def test_compute_at_where_nothing_reads():
    A = mt.placeholder((4,), name="A")
    W = mt.compute((4,), lambda i: A[i] + 1, name="W")
    C = mt.compute((4,), lambda j: A[j] * 2, name="C")
    s = mt.Schedule(mt.lower([A, W, C]))
    refused(s, "R3", "W is one", lambda: s.compute_at("W", "j"))
    s = mt.Schedule(mt.lower([A, W, C]))
    s.cache_write("W", "local")
    refused(s, "R4", "W_local is not", lambda: s.compute_at("W", "j"), choices=("ax0",))


def test_compute_at_a_loop_of_its_own():
    s = mt.Schedule(chain())
    refused(s, "R2", "does not enclose", lambda: s.compute_at("B", "i"), choices=("j",))
    refused(s, "R1", "does not enclose", lambda: s.reverse_compute_at("C", "j"))


def test_compute_at_in_parts_of_a_cut_loop():
    s = mt.Schedule(chain(10))
    s.split("j", [None, 4], tail="cut")
    refused(s, "R4", "C_tail is not", lambda: s.compute_at("B", "j_0"), choices=())
    refused(s, "R4", "C is not", lambda: s.compute_at("B", "j_tail"), choices=())
    s = mt.Schedule(chain(10))
    s.split("i", [None, 4], tail="cut")
    refused(s, "R1", "B_tail writes it too", lambda: s.compute_at("B", "j"))
    refused(s, "R4", "B has 2 writers", lambda: s.reverse_compute_at("C", "i_0"))


@pytest.mark.parametrize(
    ("builder", "call"),
    [
        (three, lambda s, loop: s.compute_at("B", loop)),
        (fork, lambda s, loop: s.compute_at("R", loop)),
    ],
)
def test_the_loops_listed_as_legal_are_legal(builder, call):
    s = mt.Schedule(builder())
    with pytest.raises(mt.ScheduleError) as caught:
        call(s, "i")
    assert caught.value.choices
    for loop in caught.value.choices:
        twin = s.copy()
        call(twin, loop)
        check(twin)


def test_what_a_guard_left_out_of_a_shared_loop_is_not_there():
    """The copy would be made of two elements, of which the loop that both share computes one."""
    A = mt.placeholder((5,), name="A")
    B = mt.compute((5,), lambda y: A[y] * 2.0, name="B")
    s = mt.Schedule(mt.lower([A, mt.compute((5,), lambda x: B[x] + 1.0, name="C")]))
    s.reverse_compute_at("C", "y")
    outer, _ = s.split(s.get_loops("C")[-1], [None, 2])
    copy = s.cache_write("B", "global")
    (loop,) = s.compute_at("B", s.get_loops(copy)[-1])
    s.split(loop, [None, 8])
    refused(s, "R5", "B_global is not complete there", lambda: s.compute_at(copy, outer))
    check(s)


def test_a_tile_that_is_larger_than_the_axis_reads_what_is_there():
    """All of the axis is computed, so whatever a guarded tile reads of it is."""
    A = mt.placeholder((3, 4), name="A")
    T = mt.compute((3, 4), lambda i, k: A[i, k] + 1, name="T")
    s = mt.Schedule(mt.lower([A, mt.compute((3, 4), lambda i, k: T[i, k] * 2, name="C")]))
    i_0, i_1, _ = s.split(s.get_loops("C")[0], [None, 4, 2])
    s.split(s.compute_at("T", i_0)[0], [None, 2])
    s.compute_at(s.cache_read("C", "T", "local"), i_1)
    check(s)
