"""bind(loop, "threadIdx.x") of the loop that rfactor leaves: threads combine partial results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.ir import LoopKind
from tests.parts import examples
from tests.unit.schedule.common import check, golden, kinds
from tests.unit.schedule.programs import argmax, fed_rowsum, matmul, rowsum


def factored(program, extent=8):
    """The innermost part of the reduction is an axis of partial results, on threads."""
    s = mt.Schedule(program)
    (loop,) = [name for name in s.get_loops("C") if name.startswith("k")]
    _, inner = s.split(loop, [None, extent])
    return s, s.rfactor(inner, axis=-1), s.get_loops("C")[-1]


def test_threads_combine_what_rfactor_left():
    s, _, last = factored(rowsum(4, 32))
    s.bind(last, "threadIdx.x")
    s.bind("k_1", "threadIdx.x")
    golden(
        s,
        """
        C_rf = empty(float32[4, 8])
        for i in range(4):
            for k_0 in range(4):
                for k_1 in bind(8, "threadIdx.x"):
                    if k_0 == 0:
                        C_rf[i, k_1] = 0.0
                    C_rf[i, k_1] += A[i, k_0*8 + k_1]
        for C_i in range(4):
            for C_k_1 in bind(8, "threadIdx.x"):
                if C_k_1 == 0:
                    C[C_i] = 0.0
                C[C_i] += C_rf[C_i, C_k_1]
        """,
    )
    check(s)


def test_a_part_of_what_rfactor_left():
    s, _, last = factored(rowsum(4, 32), 12)
    _, inner = s.split(last, [None, 4])
    s.bind(inner, "threadIdx.x")
    check(s)


@pytest.mark.parametrize("thread", ["threadIdx.y", "threadIdx.z", "vthread", "blockIdx.x"])
def test_other_indices_do_not_combine(thread):
    s, _, last = factored(rowsum(4, 32))
    with pytest.raises(mt.ScheduleError, match=r"R2: .* drives the reduction of C\)"):
        s.bind(last, thread)


def test_a_reduction_without_partial_results_asks_for_rfactor():
    s = mt.Schedule(rowsum(4, 32))
    with pytest.raises(mt.ScheduleError, match=r'instead: rfactor\("k", axis=-1\) first'):
        s.bind("k", "threadIdx.x")


def test_a_loop_of_rows_and_partial_results_does_not_combine():
    s, _, _ = factored(rowsum(4, 32))
    fused = s.fuse(*s.get_loops("C"))
    with pytest.raises(mt.ScheduleError, match="split the fused loop"):
        s.bind(fused, "threadIdx.x")


def test_later_steps_keep_what_threads_combine():
    s, partial, last = factored(rowsum(4, 32), 32)
    s.bind(last, "threadIdx.x")
    with pytest.raises(mt.ScheduleError, match="R1"):
        s.split(last, [None, 4])
    s.compute_at(partial, last)
    check(s)


def test_what_threads_combine_stays_an_element():
    s = mt.Schedule(fed_rowsum())
    s.bind("k", "threadIdx.x")
    with pytest.raises(mt.ScheduleError, match=r"K1: .*C what is no partial result of rfactor"):
        s.compute_inline("P")
    check(s)


def test_nothing_may_read_the_result_beside_it():
    s, _, last = factored(rowsum(4, 32))
    s.bind(last, "threadIdx.x")
    copy = s.cache_write("C", "local")
    with pytest.raises(mt.ScheduleError, match="R3"):
        s.reverse_compute_at(copy, s.get_loops("C")[-1])
    s.reverse_compute_at(copy, s.get_loops("C")[0])
    check(s)


@pytest.mark.slow
@pytest.mark.parametrize("program", [matmul, rowsum, argmax, fed_rowsum])
@examples(15, 100)
@given(data=st.data())
def test_threads_combine_after_any_steps(program, data):
    s, _, last = factored(program(), data.draw(st.integers(1, 7)))
    if data.draw(st.booleans()):
        last = s.split(last, [None, data.draw(st.integers(1, 5))])[1]
    if len(s.get_loops("C")) > 1 and data.draw(st.booleans()):
        s.reorder(*data.draw(st.permutations(s.get_loops("C"))))
    s.bind(last, "threadIdx.x")
    assert kinds(s)[last] is LoopKind.THREAD_IDX_X
    check(s)
