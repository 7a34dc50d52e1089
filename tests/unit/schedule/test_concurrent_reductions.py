"""parallel and vectorize of loops that drive a reduction: rfactor comes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ir
from minitensor.ir import IterKind, LoopKind, blocks_of
from minitensor.schedule.dependence import driven
from tests.parts import examples
from tests.unit.schedule.common import check, golden, kinds
from tests.unit.schedule.programs import (
    argmax,
    fed_rowsum,
    grid,
    matmul,
    matmul_relu,
    row_scans,
    rowsum,
    total,
)


def test_a_reduction_is_parallel_after_the_advice_is_followed():
    s = mt.Schedule(rowsum(4, 32))
    _, inner = s.split("k", [None, 8])
    with pytest.raises(mt.ScheduleError, match=r'instead: rfactor\("k_1", axis=-1\) first'):
        s.parallel(inner)
    s.rfactor(inner, axis=-1)
    s.parallel(inner)
    assert kinds(s)["k_1"] is LoopKind.PARALLEL
    check(s)


def test_vectorize_a_reduction():
    s = mt.Schedule(rowsum(4, 32))
    _, inner = s.split("k", [None, 8])
    assert s.vectorize(inner) == "C_rf"
    golden(
        s,
        """
        C_rf = empty(float32[4, 8])
        for i in range(4):
            for k_0 in range(4):
                for k_1 in vectorize(8):
                    if k_0 == 0:
                        C_rf[i, k_1] = 0.0
                    C_rf[i, k_1] += A[i, k_0*8 + k_1]
        for C_i in range(4):
            for C_k_1 in range(8):
                if C_k_1 == 0:
                    C[C_i] = 0.0
                C[C_i] += C_rf[C_i, C_k_1]
        """,
    )


SUMS = [matmul, rowsum, argmax, total, fed_rowsum, matmul_relu, row_scans, grid]


@pytest.mark.slow
@examples(40, 400)
@given(st.sampled_from(SUMS), st.data())
def test_vectorize_is_rfactor_first_where_a_loop_drives_a_reduction(program, data):
    s = mt.Schedule(program())
    for _ in range(data.draw(st.integers(0, 2))):
        loop = data.draw(st.sampled_from(sorted(kinds(s))))
        s.split(loop, [None, data.draw(st.integers(1, 5))])
    loop = data.draw(st.sampled_from(sorted(kinds(s))))
    blocks = blocks_of(ir.loop_sites(s.program)[loop].loop)
    sums = [b for b in blocks if driven(b, loop, (IterKind.REDUCE,))]
    twin = s.copy()
    try:
        partial = twin.rfactor(loop, axis=-1) if len(sums) == 1 else None
        twin.vectorize(loop)
    except mt.ScheduleError:
        with pytest.raises(mt.ScheduleError):
            s.vectorize(loop)
        return
    assert s.vectorize(loop) == partial
    assert s.program == twin.program
    check(s)
