"""Searches for a GPU: estimates without one, and measurements where there is one."""

import importlib

import numpy as np
import pytest

import minitensor as mt
from minitensor import runtime
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, CompileError, ExecutionError, MeasureError, TuningError
from minitensor.runtime import Timing
from minitensor.search.runner import Device, Estimates, Settings, Status, gpu

W = mt.workloads
module = importlib.import_module("minitensor.search.tune.search")
EMULATED = Target("cuda-emulator", device="a100").resolved(1, 0)


@pytest.fixture
def unseen(monkeypatch):
    """The emulator is not asked."""
    monkeypatch.setattr(module, "emulated", lambda *given: (True, "not looked at"))


@pytest.mark.slow
def test_estimates_rank_and_say_so(unseen, capfd):
    program = mt.lower(W.matmul(m=24, n=20, k=12))
    result = mt.tune(program, EMULATED, trials=10, progress=True)
    assert len(result.tried) == 10
    cost = mt.gpu_cost(result.schedule, "a100").seconds
    assert result.seconds == pytest.approx(cost, rel=0.01)
    assert all(result.seconds <= tried.seconds for tried in result.tried)
    assert "on a100 (nothing was measured)" in str(result)
    text = result.explain()
    assert "an estimated" in text.splitlines()[0] and "the schedule is not looked at" in text
    assert "estimated for a100; nothing is measured" in capfd.readouterr().err


def test_a_named_gpu_is_the_one_that_is_estimated(unseen):
    program = mt.lower(W.row_sum(64, 100))
    result = mt.tune(program, Target("cuda-emulator", device="h100"), trials=8)
    assert result.target.device == "h100" and "on h100" in str(result)


@pytest.mark.slow
def test_the_same_seed_is_the_same_search(unseen):
    program = mt.lower(W.softmax(6, 40))
    one, other = (mt.tune(program, EMULATED, trials=12, seed=3) for _ in range(2))
    assert [t.trace for t in one.tried] == [t.trace for t in other.tried]
    assert [t.seconds for t in one.tried] == [t.seconds for t in other.tried]


def test_a_best_that_is_wrong_in_the_emulator_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "emulated", lambda *given: (False, "a race"))
    with pytest.raises(TuningError, match="wrong in the emulator: a race"):
        mt.tune(mt.lower(W.row_sum(4, 40)), EMULATED, trials=8)


@pytest.mark.parametrize("name", ["settings", "builder", "measurer"])
def test_what_has_no_effect_is_refused(name):
    value = Settings() if name == "settings" else object()
    with pytest.raises(ArgumentError, match=f"{name}= has no effect"):
        mt.tune(mt.lower(W.row_sum(4, 4)), EMULATED, **{name: value})


def test_what_no_gpu_runs_is_a_failure_with_its_reason():
    schedule = mt.Schedule(mt.lower(W.row_sum(4, 4)))
    schedule.parallel("i")
    (result,) = Estimates(EMULATED).measure([schedule])
    assert result.status is Status.BUILD and "parallel" in result.message


def test_a_program_without_elements_takes_some_time():
    a = mt.placeholder((0,), name="A")
    program = mt.lower([a, mt.compute((0,), lambda i: a[i] + 1, name="B")])
    (result,) = Estimates(EMULATED).measure([mt.Schedule(program)])
    assert result.status is Status.OK and 0 < result.times[0] < 1e-6


def test_a_large_program_is_not_emulated():
    program = mt.lower(W.matmul(512, 512, 512))
    right, seen = gpu.emulated(mt.Schedule(program), program, EMULATED, None, 0)
    assert right and seen.startswith("not run in the emulator: 134,217,728 executions")


# ---- with a GPU, or with what is taken for one


class NoDriver:
    """The runtime of CUDA on a machine without a driver."""

    library = "libcudart.so"

    @property
    def count(self):
        raise ExecutionError("there is no driver", "device")


@pytest.mark.parametrize("where", ["nvcc", "driver"])
def test_without_a_gpu_the_way_to_go_is_named(where, monkeypatch):
    def find():
        if where == "nvcc":
            raise CompileError("there is no nvcc")
        return NoDriver()

    monkeypatch.setattr(runtime, "find_nvcc", find)
    monkeypatch.setattr(runtime, "cuda_of", lambda library: NoDriver())
    with pytest.raises(MeasureError, match=r'there is no .*target="cuda-emulator" ranks them'):
        mt.tune(mt.lower(W.row_sum(4, 4)), Target("cuda", device="a100"))


class FakeKernel:
    """A kernel that computes with numpy, and takes a time of its own."""

    def __init__(self, text, wrong):
        self.text, self.wrong = text, wrong

    def __call__(self, a):
        if self.wrong == "fault":
            raise ExecutionError("an illegal access", "device")
        return a.sum(axis=1) + (self.wrong == "sum")

    def time(self, *arrays, repeat, min_repeat_ms):
        return Timing([len(self.text.source) * 1e-9] * repeat, 3)


@pytest.fixture
def device(monkeypatch):
    program = mt.lower(W.row_sum(4, 40))
    a = np.arange(160, dtype=np.float32).reshape(4, 40)
    wrong = {}
    built = []

    def together(texts, time_limit):
        built.append(len(texts))
        if len(texts) > 1 and "together" in wrong:
            raise CompileError("nvcc gave up")
        if "never" in wrong:
            raise CompileError("nvcc gave up")
        return [FakeKernel(text, wrong.get("run", "")) for text in texts]

    monkeypatch.setattr(runtime, "load_cuda_together", together)
    target = Target("cuda", device="a100").resolved(1, 0)
    made = Device(target, [a], [a.sum(axis=1)], Settings(batch=2))
    return program, made, wrong, built


def test_candidates_are_built_in_batches_checked_and_timed(device):
    program, made, _, built = device
    results = list(made.measure([mt.Schedule(program)] * 3))
    assert [result.status for result in results] == [Status.OK] * 3
    assert built == [2, 1]
    assert all(len(result.times) == made.settings.repeats for result in results)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"run": "sum"}, Status.WRONG),
        ({"run": "fault"}, Status.CHECK),
        ({"never": True}, Status.BUILD),
        ({"together": True}, Status.OK),
    ],
)
def test_failures_have_their_kind(device, wrong, status):
    program, made, kinds, _ = device
    kinds.update(wrong)
    results = list(made.measure([mt.Schedule(program)] * 2))
    assert [result.status for result in results] == [status] * 2


def test_what_is_no_kernel_does_not_hold_up_the_others(device):
    program, made, _, built = device
    bad = mt.Schedule(program)
    bad.parallel("i")
    results = list(made.measure([bad, mt.Schedule(program)]))
    assert [result.status for result in results] == [Status.BUILD, Status.OK]
    assert built == [1]
