"""Random schedules for a GPU: all is well, faults that are planted are found, and campaigns run."""

import contextlib
from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ir
from minitensor.codegen import generate_together, lowered
from minitensor.errors import LoweringError
from minitensor.runtime import find_toolchain, load_emulated, native_target
from minitensor.testing import (
    Draws,
    FailedError,
    assert_equivalent,
    batch,
    campaign,
    check_mapping,
    check_meaning,
    compare,
    drawn,
    kernel_schedules,
    pair_of,
    programs,
    script_of,
)
from minitensor.testing.oracle import listed
from tests.parts import examples
from tests.run.testing.planted import CUDA

pytestmark = pytest.mark.slow
TARGET = "cuda-emulator"
PAIRS = 400


@pytest.fixture(scope="module", autouse=True)
def _needs_cxx():
    a = mt.placeholder((1,), name="A")
    program = mt.lower([a, mt.compute((1,), lambda i: a[i], name="C")])
    try:
        mt.build(program, target=TARGET)
    except mt.CompileError as failure:
        pytest.skip(failure.message)


def test_pairs_pass_in_every_order_of_threads():
    done = batch.run_batch("right", range(16), lambda what, number: None, target=TARGET)
    assert done.failures == {}
    assert done.counts.kernels >= 12
    assert done.counts.barriers >= 7


@pytest.mark.parametrize("name", CUDA)
def test_a_planted_fault_is_found_by_the_interpreter(name):
    def failing():
        for n in range(PAIRS):
            pair = pair_of(name, n, TARGET)
            try:
                check_mapping(pair, check_meaning(pair))
            except FailedError as failed:
                return pair, failed
        raise AssertionError(f"no pair of {PAIRS} shows {name}")

    with CUDA[name]():
        pair, failed = failing()
    assert failed.failure.kind == "pass"
    check_mapping(pair, check_meaning(pair))  # it was the fault, and not the pair


def test_a_planted_fault_is_found_by_the_emulator():
    """The interpreter does not look at kernels here."""
    module = import_module("minitensor.testing.pairs")
    with patch.object(module, "MOST_INTERPRETED", 0), CUDA["no barriers"]():
        done = batch.run_batch("planted", range(12), lambda what, number: None, target=TARGET)
    kinds = {failed.failure.kind for failed in done.failures.values()}
    assert kinds == {"native"}
    assert any("no barrier is between" in str(failed) for failed in done.failures.values())


def test_a_campaign_for_a_gpu(run, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "BATCH", 4)
    out = tmp_path / "out"
    words = ("fuzz", "--seconds", 1, "--seed", 3, "--jobs", 1, "--target", TARGET, "--out", out)
    done = run(*words)
    assert done.status == 0, done.out
    assert "for a GPU: " in done.out and "with barriers" in done.out
    other = run(*words[:7], "--out", out)
    assert other.status == 1
    assert "target cuda-emulator; name another folder" in other.err


def test_a_failure_is_a_script_for_the_emulator():
    pair = pair_of(0, 3, TARGET)
    failure = FailedError("native", AssertionError("3 is not 4"), pair).failure
    text = script_of(pair, failure, 0, 3, TARGET)
    assert '["interpreter", "cuda-emulator"]' in text
    again = script_of(None, failure, 0, 3, TARGET)
    assert "check_pair(pair_of(0, 3, 'cuda-emulator'))" in again


@examples(5, 15, deadline=None, database=None)
@given(st.data())
def test_each_pass_for_a_gpu_may_be_left_out(data):
    """In the interpreter, after each of the others."""
    program = data.draw(programs(max_stages=3, max_steps=300))
    schedule = data.draw(kernel_schedules(program))
    optional = [n for n, _ in mt.codegen.CUDA_PASSES if n not in mt.codegen.REQUIRED]
    optional.remove("map_threads")
    draws = Draws(data.draw)
    without = [draws.pick(optional)] if draws.chance(70) else optional
    with contextlib.suppress(LoweringError):  # no GPU runs it
        assert_equivalent(program, schedule, ["cuda-passes"], without=without)


def test_equivalence_in_the_emulator():
    a = mt.placeholder((4, 16), name="A")
    t = mt.compute((4, 16), lambda i, j: a[i, j] + 1.0, name="T")
    c = mt.compute((4, 16), lambda i, j: t[i, 15 - j] * 2.0, name="C")
    program = mt.lower([a, c], name="rows")
    s = mt.Schedule(program)
    i, j = s.get_loops("C")
    s.bind(s.compute_at("T", i)[-1], "threadIdx.x")
    s.bind(i, "blockIdx.x")
    s.bind(j, "threadIdx.x")
    where = ("cuda-emulator", "cuda-passes", mt.Target("cuda-emulator", device="h100"))
    assert_equivalent(program, s, where)
    with CUDA["no barriers"](), pytest.raises(mt.ExecutionError, match="no barrier is between"):
        assert_equivalent(program, s.program, ["cuda-emulator"])


ANY_ORDER = ("max", "min", "any", "all", "argmax", "argmin")
"""Reductions that no order changes."""


@st.composite
def of_reals(draw):
    """A program, mostly of floats of all widths, and a schedule for a GPU."""
    floats = ("float32", "float64", "float16", "bfloat16")
    program = draw(programs(dtypes=(*floats, "int32", "bool")))
    return program, draw(kernel_schedules(program))


def is_exact(program):
    reductions = [node for node in ir.walk(program.body) if isinstance(node, ir.Reduce)]
    return all(
        node.reducer.name in ANY_ORDER or not any(v.dtype.is_float for v in node.values)
        for node in reductions
    )


def reals(program):
    rng = np.random.default_rng(0)
    made = []
    for b in program.inputs:
        scale = 10.0 ** rng.integers(-3, 4, b.shape) if b.dtype.is_float else 1
        values = rng.normal(size=b.shape) * scale
        special = rng.choice([0.0, -0.0, np.inf, np.nan], b.shape)
        if b.dtype.is_float:
            values = np.where(rng.random(b.shape) < 0.1, special, values)
        made.append(ir.pack(values if b.dtype.is_float else np.rint(values).astype(int), b.dtype))
    return made


def test_a_schedule_does_not_change_a_bit_of_reals():
    target, drawn_pairs = native_target(mt.Target(TARGET)), []
    for n in range(24):
        program, schedule = drawn(of_reals(), f"reals:{n}")
        with contextlib.suppress(LoweringError):
            both = (program, schedule.program)
            for one in both:
                lowered(one, target)
            drawn_pairs += [both] if is_exact(program) else []
    assert len(drawn_pairs) > 10
    text = generate_together([(p, target) for both in drawn_pairs for p in both])
    kernels = load_emulated(text, find_toolchain(), check=True, order="shuffled", time_limit=100)
    for (program, scheduled), plain, other in zip(drawn_pairs, kernels[::2], kernels[1::2]):
        arrays = reals(program)
        expected, got = listed(plain(*arrays)), listed(other(*arrays))
        compare(program.outputs, expected, got, "scheduled", scheduled)
