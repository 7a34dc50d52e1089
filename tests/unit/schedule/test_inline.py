"""compute_inline and reverse_compute_inline."""

import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    argmax,
    chain,
    chain2d,
    diagonal,
    fork,
    gather,
    horner,
    matmul_relu,
    normalised,
    padded,
    rowsum,
    scale,
    scan,
    start,
    stencil,
    strided,
    three,
)

# ---- compute_inline


def test_compute_inline():
    s = mt.Schedule(chain())
    assert s.compute_inline("B") is None
    golden(
        s,
        """
        for j in range(8):
            C[j] = A[j] * 2.0 + 1.0
        """,
    )
    assert s.program.temporaries == ()


def test_compute_inline_into_every_reader():
    s = mt.Schedule(fork())
    s.compute_inline("P")
    golden(
        s,
        """
        Q = empty(float32[8])
        R = empty(float32[8])
        for j in range(8):
            Q[j] = A[j] * 2.0 + 1.0
        for x in range(8):
            R[x] = A[x] * 2.0 - 1.0
        for y in range(8):
            S[y] = Q[y] * R[y]
        """,
    )


def test_compute_inline_at_several_places_of_one_reader():
    s = mt.Schedule(stencil(8))
    s.compute_inline("P")
    golden(
        s,
        """
        for y in range(8):
            C[y] = A[y] * 2.0 + A[y + 2] * 2.0
        """,
    )


@pytest.mark.parametrize(
    ("builder", "block"),
    [(diagonal, "B"), (strided, "B"), (gather, "B"), (gather, "I"), (padded, "B"), (three, "C")],
)
def test_compute_inline_at_any_index(builder, block):
    s = mt.Schedule(builder())
    s.compute_inline(block)
    check(s)


def test_compute_inline_into_a_reduction_and_an_update():
    A = mt.placeholder((3, 4), name="A")
    P = mt.compute((3, 4), lambda i, j: A[i, j] + 1.0, name="P")
    k = mt.reduce_axis(4, name="k")
    C = mt.compute((3,), lambda x: mt.max(P[x, k], axis=k), name="C")
    W = mt.update((3,), lambda W, y: W[y] + P[y, k], axis=k, init=lambda y: P[y, 0], name="W")
    s = mt.Schedule(mt.lower([A, C, W]))
    s.compute_inline("P")
    assert "P" not in s.program.buffers
    check(s)


def test_compute_inline_a_chain_of_blocks():
    s = mt.Schedule(three())
    s.compute_inline("B")
    s.compute_inline("C")
    golden(
        s,
        """
        for x in range(8):
            D[x] = A[x] * 2.0 + 1.0 - A[x]
        """,
    )


@pytest.mark.parametrize("n", [0, 1])
def test_compute_inline_of_nothing_and_of_one(n):
    s = mt.Schedule(chain(n))
    s.compute_inline("B")
    check(s)


def test_compute_inline_of_a_scalar():
    A = mt.placeholder((), name="A")
    B = mt.compute((), lambda: A[()] * 2, name="B")
    C = mt.compute((3,), lambda i: B[()] + i, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.compute_inline("B")
    check(s)


def test_compute_inline_of_what_was_scheduled():
    s = mt.Schedule(chain(10))
    outer, inner = s.split("i", [None, 4])
    s.vectorize(inner)
    s.parallel(outer)
    s.compute_inline("B")
    check(s)


def test_compute_inline_of_what_was_moved():
    s = mt.Schedule(stencil(8))
    outer, _ = s.split("y", [None, 3])
    s.compute_at("P", outer)
    s.compute_inline("P")
    assert s.get_blocks() == ("C",)
    check(s)


def test_compute_inline_of_a_copy():
    s = mt.Schedule(chain())
    copy = s.cache_read("C", "B", "local")
    s.compute_inline(copy)
    copy = s.cache_write("B", "local")
    s.compute_inline(copy)
    check(s)


def test_compute_inline_of_the_first_of_two_that_share_a_loop():
    s = mt.Schedule(three(9))
    outer, _ = s.split("j", [None, 4])
    s.compute_at("B", outer)
    s.reverse_compute_at("D", outer)
    s.compute_inline("B")
    s.compute_inline("C")
    check(s)


def test_compute_inline_takes_what_the_block_read_out_of_its_loop():
    A = mt.placeholder((10,), name="A")
    X = mt.compute((10,), lambda i: A[i] * 2.0, name="X")
    P = mt.compute((8,), lambda j: X[j] + X[j + 2], name="P")
    C = mt.compute((8,), lambda y: P[y] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.compute_at("X", "j")
    s.compute_inline("P")
    check(s)


def test_compute_inline_in_a_condition_of_padding():
    s = mt.Schedule(padded(5, 3))
    s.compute_inline("B")
    golden(
        s,
        """
        for y in range(11):
            C[y] = if_then_else(3 <= y and y < 8, A[y - 3] * 2.0, 0.0)
        """,
    )


def test_compute_inline_where_the_index_depends_on_data():
    s = mt.Schedule(gather())
    s.compute_inline("I")
    s.compute_inline("B")
    check(s)


# ---- reverse_compute_inline


def test_reverse_compute_inline():
    s = mt.Schedule(chain())
    assert s.reverse_compute_inline("C") is None
    golden(
        s,
        """
        for i in range(8):
            C[i] = A[i] * 2.0 + 1.0  # block B
        """,
    )
    assert s.get_blocks() == ("B",)


def test_reverse_compute_inline_keeps_the_schedule_of_the_producer():
    s = mt.Schedule(chain(10))
    outer, inner = s.split("i", [None, 4])
    s.parallel(outer)
    s.vectorize(inner)
    s.reverse_compute_inline("C")
    golden(
        s,
        """
        for i_0 in parallel(3):
            for i_1 in vectorize(4):
                if i_0*4 + i_1 < 10:  # block B
                    C[i_0*4 + i_1] = A[i_0*4 + i_1] * 2.0 + 1.0
        """,
    )


def test_reverse_compute_inline_of_a_transposed_reader():
    A = mt.placeholder((3, 5), name="A")
    B = mt.compute((3, 5), lambda i, j: A[i, j] * 2, name="B")
    C = mt.compute((5, 3), lambda x, y: B[y, x] + B[y, x], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.reverse_compute_inline("C")
    golden(
        s,
        """
        for i in range(3):
            for j in range(5):
                C[j, i] = A[i, j] * 2.0 + A[i, j] * 2.0  # block B
        """,
    )


def test_reverse_compute_inline_of_a_smaller_reader():
    A = mt.placeholder((8, 5), name="A")
    B = mt.compute((8, 5), lambda i, j: A[i, j] * 2, name="B")
    C = mt.compute((3, 5), lambda x, y: B[x, y] + 1, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.reverse_compute_inline("C")
    golden(
        s,
        """
        for i in range(8):
            for j in range(5):
                if i < 3:  # block B
                    C[i, j] = A[i, j] * 2.0 + 1.0
        """,
    )


def test_after_reverse_compute_inline_of_a_smaller_reader():
    def prepared():
        A = mt.placeholder((8,), name="A")
        B = mt.compute((8,), lambda i: A[i] * 2, name="B")
        C = mt.compute((6,), lambda x: B[x] + 1, name="C")
        D = mt.compute((6,), lambda y: C[y] - 3, name="D")
        s = mt.Schedule(mt.lower([A, D]))
        s.reverse_compute_inline("C")
        return s

    for step in (
        lambda s: s.cache_write("B", "local"),
        lambda s: s.cache_read("D", "C", "local"),
        lambda s: s.compute_at("B", "y"),
        lambda s: s.reverse_compute_at("D", "i"),
        lambda s: s.split("i", [None, 3], tail="cut"),
        lambda s: s.transform_layout("C", lambda i: (i // 4, i % 4)),
        lambda s: s.parallel("i"),
        lambda s: s.reverse_compute_inline("D"),
    ):
        s = prepared()
        try:
            step(s)
        except mt.ScheduleError:
            assert len(s.trace) == 1
        check(s)


def test_reverse_compute_inline_with_other_inputs():
    A = mt.placeholder((8,), name="A")
    K = mt.compute((8,), lambda x: A[x] + 3, name="K")
    B = mt.compute((8,), lambda i: A[i] * 2, name="B")
    C = mt.compute((8,), lambda y: B[y] + K[7 - y] + A[0], name="C")
    s = mt.Schedule(mt.lower([A, K, C]))
    s.reverse_compute_inline("C")
    golden(
        s,
        """
        for x in range(8):
            K[x] = A[x] + 3.0
        for i in range(8):
            C[i] = A[i] * 2.0 + K[7 - i] + A[0]  # block B
        """,
    )


def test_reverse_compute_inline_of_the_end_of_a_chain_back_to_its_start():
    s = mt.Schedule(three())
    s.reverse_compute_inline("D")
    s.reverse_compute_inline("C")
    golden(
        s,
        """
        for i in range(8):
            D[i] = A[i] * 2.0 + 1.0 - A[i]  # block B
        """,
    )


def test_reverse_compute_inline_of_a_copy():
    s = mt.Schedule(chain())
    copy = s.cache_write("B", "local")
    s.reverse_compute_inline(copy)
    assert s.get_blocks() == ("B", "C")
    check(s)


@pytest.mark.parametrize("n", [0, 1])
def test_reverse_compute_inline_of_nothing_and_of_one(n):
    s = mt.Schedule(chain(n))
    s.reverse_compute_inline("C")
    check(s)


def test_reverse_compute_inline_of_scalars():
    A = mt.placeholder((), name="A")
    B = mt.compute((), lambda: A[()] * 2, name="B")
    C = mt.compute((), lambda: B[()] + 1, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.reverse_compute_inline("C")
    check(s)


@pytest.mark.parametrize(("n", "m"), [(8, 10), (0, 3), (1, 2)])
def test_reverse_compute_inline_of_a_reader_with_padding_behind(n, m):
    A = mt.placeholder((n,), name="A")
    B = mt.compute((n,), lambda i: A[i] * 2, name="B")
    C = mt.compute((m,), lambda j: mt.if_then_else(j < n, B[j], 0.0), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    refused(s, "R4", "at its own iters", lambda: s.reverse_compute_inline("C"))


# ---- rules


def growing(depth):
    """T0 = 32 * A, T<n+1> = 32 * T<n>, each a tensor of its own, its value a sum of 32 loads"""
    A = mt.placeholder((2,), name="A")
    last = A

    def times_32(x):
        for _ in range(5):
            x = x + x
        return x

    for n in range(depth):
        last = mt.compute((2,), lambda i, t=last: times_32(t[i]), name=f"T{n}")
    return mt.lower([A, last])


def deep(x, n):
    for _ in range(n):
        x = x + 1.5
    return x


def deep_chain(n, m):
    A = mt.placeholder((2,), name="A")
    B = mt.compute((2,), lambda i: deep(A[i], n), name="B")
    C = mt.compute((2,), lambda j: deep(B[j], m), name="C")
    return mt.lower([A, C])


def two_temporaries():
    A = mt.placeholder((4,), name="A")
    B = mt.compute((4,), lambda i: A[i] * 2, name="B")
    K = mt.compute((4,), lambda x: A[x] + 3, name="K")
    C = mt.compute((4,), lambda y: B[y] + K[y], name="C")
    return mt.lower([A, C])


def late_input():
    A = mt.placeholder((4,), name="A")
    B = mt.compute((4,), lambda i: A[i] * 2, name="B")
    K = mt.compute((4,), lambda x: A[x] + 3, name="K")
    C = mt.compute((4,), lambda y: B[y] + K[3 - y], name="C")
    D = mt.compute((4,), lambda z: C[z] + K[z], name="D")
    return mt.lower([A, D])


def shifted_reader():
    A = mt.placeholder((5,), name="A")
    B = mt.compute((5,), lambda i: A[i] * 2, name="B")
    C = mt.compute((4,), lambda j: B[j + 1], name="C")
    return mt.lower([A, C])


REFUSALS = [
    Refusal(
        "compute_inline",
        "R1",
        start(matmul_relu),
        lambda s: s.compute_inline("C"),
        r'^compute_inline\("C"\) breaks R1: .* \(C is a reduction or an update\)$',
        marks=("if k == 0:  # <- not a plain store",),
    ),
    Refusal(
        "compute_inline",
        "R2",
        start(chain2d, outputs="B"),
        lambda s: s.compute_inline("B"),
        "R2: the block's buffer is not an output of the program$",
        marks=("# <- writes an output",),
    ),
    Refusal(
        "compute_inline",
        "R3",
        after(chain, lambda s: s.split("i", [None, 3], tail="cut")),
        lambda s: s.compute_inline("B"),
        r"R3: the block is the only one that writes its buffer \(B_tail writes B too\)",
        marks=("# <- writes B", "# block B_tail; <- writes B"),
    ),
    Refusal(
        "compute_inline",
        "R4",
        after(chain, lambda s: s.transform_layout("B", lambda i: (i // 4, i % 4))),
        lambda s: s.compute_inline("B"),
        "R4: each axis of the store is indexed by an iter of its own$",
        marks=("# <- stores elsewhere",),
    ),
    Refusal(
        "compute_inline",
        "R5",
        after(lambda: growing(4), lambda s: s.compute_inline("T0")),
        lambda s: s.compute_inline("T1"),
        r"R5: .*\(the expressions would become too large\)",
    ),
    Refusal(
        "compute_inline",
        "K1",
        after(
            lambda: stencil_chain(8),
            lambda s: s.compute_at("X", "j"),
            lambda s: s.parallel("j"),
        ),
        lambda s: s.compute_inline("P"),
        r"K1: .*\(one iteration of j may write an element of X that another may write\)",
    ),
    Refusal(
        "reverse_compute_inline",
        "R1",
        start(rowsum),
        lambda s: s.reverse_compute_inline("C"),
        r"R1: .*\(C is a reduction or an update\)",
        marks=("# <- not a plain store",),
    ),
    Refusal(
        "reverse_compute_inline",
        "R2",
        start(two_temporaries),
        lambda s: s.reverse_compute_inline("C"),
        r"R2: .*\(temporaries it reads: B, K\)",
        marks=("# <- to inline into its producer",),
    ),
    Refusal(
        "reverse_compute_inline",
        "R3",
        start(matmul_relu),
        lambda s: s.reverse_compute_inline("D"),
        r"R3: .*\(C is a reduction or an update\)",
        marks=("# <- not a plain store",),
    ),
    Refusal(
        "reverse_compute_inline",
        "R4",
        start(shifted_reader),
        lambda s: s.reverse_compute_inline("C"),
        "R4: the block reads it at its own iters, each used once, and does not go on behind it$",
        marks=("# <- reads it elsewhere",),
    ),
    Refusal(
        "reverse_compute_inline",
        "R5",
        start(late_input),
        lambda s: s.reverse_compute_inline("C"),
        r"R5: .*\(K is computed too late\)",
        marks=("# <- computes K",),
    ),
    Refusal(
        "reverse_compute_inline",
        "R6",
        after(three, lambda s: s.transform_layout("C", lambda i: (i // 4, i % 4))),
        lambda s: s.reverse_compute_inline("C"),
        "R6: each axis of both stores is indexed by an iter of its own$",
        marks=("# <- producer", "# <- consumer"),
    ),
    Refusal(
        "reverse_compute_inline",
        "R7",
        after(lambda: growing(4), lambda s: s.reverse_compute_inline("T1")),
        lambda s: s.reverse_compute_inline("T2"),
        r"R7: .*\(the expressions would become too large\)",
    ),
    Refusal(
        "reverse_compute_inline",
        "K1",
        after(
            lambda: chain(5),
            lambda s: s.split("j", [2, 5]),
            lambda s: s.compute_at("B", "j_0"),
            lambda s: s.parallel("j_0"),
        ),
        lambda s: s.reverse_compute_inline("C"),
        r"K1: .*\(one iteration of j_0 may write an element of C that another may write\)",
    ),
]


def stencil_chain(n):
    A = mt.placeholder((n + 2,), name="A")
    X = mt.compute((n + 2,), lambda i: A[i] * 2.0, name="X")
    P = mt.compute((n,), lambda j: X[j] + X[j + 2], name="P")
    C = mt.compute((n,), lambda y: P[y] + 1.0, name="C")
    return mt.lower([A, C])


@pytest.mark.slow
@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


@pytest.mark.parametrize(
    ("builder", "block"), [(scan, "W"), (horner, "W"), (argmax, "C"), (normalised, "M")]
)
def test_updates_and_reductions_are_not_inlined(builder, block):
    s = mt.Schedule(builder())
    refused(s, "R1", f"{block} is a reduction or an update", lambda: s.compute_inline(block))


def test_outputs_are_not_inlined():
    s = mt.Schedule(scale())
    refused(s, "R2", "not an output", lambda: s.compute_inline("C"))


@pytest.mark.slow
@pytest.mark.usefixtures("shallow")
def test_inlining_stops_before_expressions_are_too_deep():
    s = mt.Schedule(deep_chain(1200, 1200))
    refused(s, "R5", "nested too deep", lambda: s.compute_inline("B"))
    again = "nested too deep|too large"
    refused_at_once(s, "R7", again, lambda: s.reverse_compute_inline("C"))


def test_a_reader_at_two_places_is_not_inlined_backwards():
    s = mt.Schedule(stencil())
    refused(s, "R4", "at its own iters", lambda: s.reverse_compute_inline("C"))
    s = mt.Schedule(diagonal())
    marks = ("# <- uses an iter twice",)
    refused(s, "R4", "each used once", lambda: s.reverse_compute_inline("C"), marks=marks)


def test_a_producer_with_two_readers_is_not_merged():
    s = mt.Schedule(fork())
    refused(s, "R2", "temporaries it reads: P", lambda: s.reverse_compute_inline("Q"))
    s = mt.Schedule(scale())
    refused(s, "R2", "temporaries it reads: none", lambda: s.reverse_compute_inline("C"))
    s = mt.Schedule(chain2d(outputs="B"))
    refused(s, "R2", "temporaries it reads: none", lambda: s.reverse_compute_inline("C"))


def refused_at_once(s, rule, match, call):
    """`refused`, of programs that are too large to be printed and run again and again."""
    before = s.program
    with pytest.raises(mt.ScheduleError, match=match) as caught:
        call()
    assert caught.value.rule == rule
    assert s.program is before and len(s.trace) == 0


def doubled(value, times):
    """An expression of 2**times reads of `value`."""
    for _ in range(times):
        value = value + value * 2
    return value


@pytest.mark.slow
def test_what_no_memory_would_hold_is_refused_before_it_is_made():
    A = mt.placeholder((8,), name="A")
    B = mt.compute((8,), lambda i: doubled(A[i], 12), name="B")
    C = mt.compute((8,), lambda i: doubled(B[i], 12), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    refused_at_once(s, "R5", "expressions would become too large", lambda: s.compute_inline("B"))
    refused_at_once(
        s, "R7", "expressions would become too large", lambda: s.reverse_compute_inline("C")
    )


@pytest.mark.slow
def test_an_expression_that_many_blocks_would_get_is_refused_for_the_whole_program():
    A = mt.placeholder((8,), name="A")
    B = mt.compute((8,), lambda i: doubled(A[i], 11), name="B")
    readers = [mt.compute((8,), lambda i, n=n: B[i] + n, name=f"C{n}") for n in range(20)]
    s = mt.Schedule(mt.lower([A, *readers]))
    refused_at_once(s, "R5", "program would become too large", lambda: s.compute_inline("B"))


def test_a_load_at_an_index_that_is_inlined_too_counts_as_what_it_becomes():
    """T[T[…]] grows with each level: 2 reads of i in each value make 2**12 of twelve levels."""
    T = mt.compute((8,), lambda i: (i + i * i) % 8, name="T")

    def chained(i):
        for _ in range(16):
            i = T[i]
        return i

    C = mt.compute((8,), chained, name="C")
    s = mt.Schedule(mt.lower([C]))
    refused(s, "R5", "expressions would become too large", lambda: s.compute_inline("T"))
