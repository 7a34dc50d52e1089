"""mt.build(…, passes=, dump=): passes from outside run, are verified, and never share a cache."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import PASSES, Target, generate, lowered
from tests.outside.passes import (
    count_stores,
    forgetful,
    malformed,
    negated,
    of_a_program_alone,
    without_parameters,
    without_stores,
)
from tests.unit.schedule.programs import scale

TARGET = Target("c", num_cores=1, vector_bits=128)


def test_a_pass_from_outside_runs_where_it_stands():
    program = scale(8)
    passes = [*PASSES, ("count_stores", count_stores)]
    assert dict(lowered(program, TARGET, passes).body.annotations) == {"stores": 1}
    first = lowered(program, TARGET, [("count_stores", count_stores), *PASSES])
    assert dict(first.body.annotations) == {"stores": 0}  # a block is not a store yet


def test_a_kernel_of_other_passes_is_never_taken_from_a_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path))
    program = scale(8)
    a = np.arange(8, dtype=np.float32)
    plain = mt.build(program, TARGET)
    other = mt.build(program, TARGET, passes=[*PASSES, ("negated", negated)])
    again = mt.build(program, TARGET)
    assert np.array_equal(other(a), -plain(a)) and np.array_equal(again(a), plain(a))
    assert plain.source == again.source != other.source
    assert other.bind(A=a)().tolist() == (-plain(a)).tolist()


def test_dump_is_given_the_difference_of_each_pass():
    s, seen = mt.Schedule(scale(2)), []
    s.unroll("i")
    generate(s.program, TARGET, passes=[*PASSES, ("negated", negated)], dump=seen.append)
    assert len(seen) == len(PASSES) + 1
    assert "--- simplify: no difference" in seen
    (written_out,) = [text for text in seen if "+++ unroll_loops" in text]
    assert [line for line in written_out.splitlines() if line.startswith("-    ")] == [
        "-    for i in unroll(2):",
        "-        C[i] = A[i] * 2.0",
    ]
    assert "+    C[0] = -(A[0] * 2.0)" in seen[-1].splitlines()


@pytest.mark.parametrize(
    "passes, error, match",
    [
        (5, mt.ArgumentError, "expected pairs of a name and a function"),
        ([negated], mt.ArgumentError, "expected pairs of a name and a function"),
        ([("negated", "f")], mt.ArgumentError, "expected pairs of a name and a function"),
        ([("negated", negated)], mt.ArgumentError, "passes lacks 'check_bounds'"),
        (PASSES[:1], mt.ArgumentError, "passes lacks 'erase_blocks'"),
        ([*PASSES, ("m", malformed)], mt.VerifyError, "i"),
        ([*PASSES, ("m", forgetful)], mt.ArgumentError, "a program"),
        ([*PASSES, ("m", without_parameters)], mt.ArgumentError, "changes the parameters"),
        ([*PASSES, ("m", without_stores)], mt.ArgumentError, "no longer stores to C"),
        ([*PASSES, ("m", of_a_program_alone)], mt.ArgumentError, "'m' raises TypeError"),
        ([*PASSES, *PASSES], mt.ArgumentError, "'check_bounds' twice"),
        ([*PASSES[:2], PASSES[1], *PASSES[2:]], mt.ArgumentError, "'erase_blocks' twice"),
        ([PASSES[6], *PASSES[:6]], mt.ArgumentError, "in another order"),
    ],
)
def test_what_cannot_run_is_refused(passes, error, match):
    with pytest.raises(error, match=match):
        mt.build(scale(8), TARGET, passes=passes)


def test_the_interpreter_runs_no_passes():
    with pytest.raises(mt.ArgumentError, match="runs no passes"):
        mt.build(scale(8), "interpreter", passes=PASSES)
    with pytest.raises(mt.ArgumentError, match="expected a function of a text"):
        mt.build(scale(8), TARGET, dump="file")
