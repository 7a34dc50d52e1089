"""reverse_compute_at of a block to another reader of what it reads: two consumers in one loop."""

import pytest

import minitensor as mt
from tests.unit.schedule.common import check, golden, refused
from tests.unit.schedule.programs import chain


def readers(first, second, n=12, outputs=2):
    """P[i] = A[i] * 2, and two tensors Q and R that read it, given as (extent, function)."""
    A = mt.placeholder((n,), name="A")
    P = mt.compute((n,), lambda i: A[i] * 2.0, name="P")
    Q = mt.compute((first[0],), lambda j: first[1](P, j), name="Q")
    R = mt.compute((second[0],), lambda x: second[1](P, x), name="R")
    return mt.Schedule(mt.lower([A, Q, R]))


def plain(P, j):
    return P[j] + 1.0


def test_two_readers_and_their_producer_in_one_loop():
    s = readers((8, plain), (8, lambda P, x: P[x] - 1.0), n=8)
    s.split("j", [None, 4])
    assert s.reverse_compute_at("R", "j_0") == ("R_x",)
    s.compute_at("P", "j_0")
    golden(
        s,
        """
        P = empty(float32[8])
        for j_0 in range(2):
            for P_i in range(4):
                P[j_0*4 + P_i] = A[j_0*4 + P_i] * 2.0
            for j_1 in range(4):
                Q[j_0*4 + j_1] = P[j_0*4 + j_1] + 1.0
            for R_x in range(4):
                R[j_0*4 + R_x] = P[j_0*4 + R_x] - 1.0
        """,
    )
    s.parallel("j_0")
    check(s)


SECOND = {
    "the same": (12, plain),
    "mirrored": (12, lambda P, x: P[11 - x] + 1.0),
    "a part": (7, lambda P, x: P[x + 3] + 1.0),
    "windows": (6, lambda P, x: P[2 * x] + 1.0),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("tile", [1, 2, 4, 5, 6])
def test_a_reader_joins_another(name, tile):
    s = readers((12, plain), SECOND[name])
    s.split("j", [None, tile])
    if name == "windows" and tile % 2:
        refused(s, "R5", "index 0 of P does not", lambda: s.reverse_compute_at("R", "j_0"))
    else:
        s.reverse_compute_at("R", "j_0")
        s.parallel("j_0")
    check(s)


def test_readers_of_an_input_join():
    A = mt.placeholder((4, 6), name="A")
    k = mt.reduce_axis(6, name="k")
    M = mt.compute((4,), lambda i: mt.max(A[i, k], axis=k), name="M")
    S = mt.compute((4,), lambda x: mt.sum(A[x, k], axis=k), name="S")
    s = mt.Schedule(mt.lower([A, M, S]))
    s.split("i", [None, 3])
    s.reverse_compute_at("S", "i_0")
    check(s)


def test_a_reader_that_stops_early_has_no_iterations_for_the_rest():
    s = readers((5, plain), (12, plain))
    s.split("j", [8, None])
    refused(s, "R5", "not for all of x", lambda: s.reverse_compute_at("R", "j_0"))


def test_iterations_of_which_the_other_reader_has_none():
    """The loop runs 12 elements, and the reader that it was made for has 5."""
    s = readers((5, plain), (12, plain))
    s.split("j", [3, 4])
    s.reverse_compute_at("R", "j_0")
    check(s)


@pytest.mark.parametrize("halo", [0, 2])
def test_overlapping_reads_would_repeat_the_other(halo):
    s = readers((12 - halo, lambda P, j: P[j] + P[j + halo]), (12, plain))
    s.split("j", [None, 2])
    if halo:
        refused(s, "R10", "repeat it", lambda: s.reverse_compute_at("R", "j_0"))
    else:
        s.reverse_compute_at("R", "j_0")
    check(s)


def test_a_loop_that_does_not_tell_instances_apart_would_repeat_them():
    A = mt.placeholder((4, 6), name="A")
    B = mt.compute((4, 5), lambda i, j: A[i, j] * 2.0, name="B")
    C = mt.compute((4,), lambda x: A[x, 0] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    refused(s, "R5", "index 1 of A does not", lambda: s.reverse_compute_at("C", "j"))
    s.reverse_compute_at("C", "i")
    check(s)
    D = mt.compute((4,), lambda x: mt.if_then_else(x < 9, A[x, 0], 0.0), name="D")
    E = mt.compute((3, 4), lambda r, i: A[i, 0] + r, name="E")
    s = mt.Schedule(mt.lower([A, E, D]))
    refused(s, "R10", "iterations of r repeat it", lambda: s.reverse_compute_at("D", "r"))


def test_a_loop_without_iterations_takes_nothing():
    A = mt.placeholder((4,), name="A")
    E = mt.compute((0, 4), lambda r, i: A[i] * 2.0, name="E")
    D = mt.compute((4,), lambda x: A[x] + 1.0, name="D")
    s = mt.Schedule(mt.lower([A, E, D]))
    refused(s, "R5", "there are no iterations", lambda: s.reverse_compute_at("D", "i"))
    check(s)


def test_a_reader_is_not_moved_down_to_another():
    s = readers((12, plain), (12, plain))
    refused(s, "R2", "or read there before", lambda: s.reverse_compute_at("Q", "x"))


def test_a_reader_waits_for_what_else_it_reads():
    A = mt.placeholder((8,), name="A")
    P = mt.compute((8,), lambda i: A[i] * 2.0, name="P")
    Q = mt.compute((8,), lambda j: P[j] + 1.0, name="Q")
    R = mt.compute((8,), lambda x: Q[7 - x] - 1.0, name="R")
    S = mt.compute((8,), lambda y: P[y] + R[y], name="S")
    s = mt.Schedule(mt.lower([A, Q, S]))
    refused(s, "R8", "R is not complete there", lambda: s.reverse_compute_at("S", "j"))


def test_two_readers_of_a_panel():
    s = readers((12, plain), (12, lambda P, x: P[x] - 1.0))
    s.transform_layout("P", lambda i: (i // 4, i % 4))
    s.split("j", [None, 2])
    s.reverse_compute_at("R", "j_0")
    s.compute_at("P", "j_0")
    check(s)


def test_the_readers_of_a_chain_join_in_turn():
    s = mt.Schedule(chain(8))
    s.split("i", [None, 4])
    copy = s.cache_read("B", "A", "local")
    s.compute_at(copy, "i_0")
    s.reverse_compute_at("C", "i_0")
    check(s)
