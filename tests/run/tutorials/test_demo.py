"""The demo from beginning to end."""

import io
import sys
from dataclasses import replace
from functools import partial

import pytest

import minitensor as mt
from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.work import Work
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError
from minitensor.runtime import Pace, interleave, native_target
from minitensor.search import Log, new_record
from minitensor.search.tune import roofline
from tests.unit.search.tune.made import LIMITS
from tutorials.demo import __main__ as command
from tutorials.demo import story, tuned, yardstick

pytestmark = pytest.mark.usefixtures("processes")
KEY = "matmul-16"


@pytest.fixture
def brief(monkeypatch, private_cache, tmp_path):
    """As little as shows all of it; what is recorded is the hand schedule."""
    work, target = Work.of(KEY), mt.Target("c", num_cores=2, vector_bits=256)
    hand = work.schedule(target)
    record = new_record(hand.history[0], target, hand.trace, seconds=[1.0])
    monkeypatch.setattr(tuned, "LOG", tmp_path / "recorded.jsonl")
    Log(tuned.LOG).append(record)
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(private_cache))
    monkeypatch.setattr(command, "QUICK", command.Effort(64, 1, (KEY,), KEY, 2, network=0.5))
    monkeypatch.setattr(command, "Pace", lambda rounds: Pace(rounds, 0.0, 0.0, 1))
    for module in (yardstick, tuned):
        monkeypatch.setattr(module, "interleave", partial(interleave, pause=False))
    monkeypatch.setattr(tuned, "PEERS", ("numpy",))
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)
    monkeypatch.setattr(roofline, "measure_limits", lambda threads: LIMITS)
    monkeypatch.setattr(roofline, "remember_limits", lambda limits: limits)


@pytest.mark.slow
def test_the_story_and_every_kernel_is_right(run, brief):
    done = run("--quick")
    assert (done.status, done.err) == (0, "")
    assert "\x1b[" not in done.out
    for heading in ("1  A dense layer", "2  Schedules that a search finds", "Summary", "Next"):
        assert f"\n{heading}" in done.out
    whole = done.out.partition("\n3  A residual network")[2]
    assert "22 operators are 11 kernels" in whole and "conv2d + add + relu" in whole
    assert "tuned now" in whole.partition("\nThe network")[2]
    story, _, searches = done.out.partition("\n2  Schedules")
    assert ("The machine is quiet: 8 turns" in story) or ("The machine is busy: " in story)
    assert story.count("=> ") == 7
    assert "    result = mt.tune(program, trials=2)\n" in searches
    assert "\nthe best of 2 candidates in " in searches
    assert max(map(len, done.out.splitlines())) <= 110
    lines = searches.partition("\nmatmul 16x1024x1024, float32\n")[2].splitlines()[:4]
    assert [line[2:12].strip() for line in lines] == ["recorded", "found now", "by hand", "numpy"]
    assert [line.endswith(" x numpy") for line in lines] == [True, True, True, False]
    assert "  matmul 16x1024x1024  " in done.out.partition("\nSummary")[2]


@pytest.mark.slow
def test_json(run, brief):
    done = run("--quick", "--json", "--threads", "1")
    assert done.status == 0
    report = done.json()
    assert report["machine"]["threads"] == 1
    story, (found,) = report["story"], report["tuned"]
    assert story["flop"] == 2 * 64**3
    titles = [stage["title"] for stage in story["stages"]]
    assert titles == ["as written", "Tiles", "Vectors", "Fusion", "Packing", "Reuse", "Threads"]
    for stage in story["stages"]:
        assert stage["gflops"] > 0
        assert stage["times_numpy"] == pytest.approx(story["numpy_ms"] / stage["ms"])
    assert story["spread"] >= 1
    assert (found["name"], found["trials"]) == ("matmul 16x1024x1024", 2)
    assert found["flop"] == 2 * 16 * 1024 * 1024
    assert list(found["ms"]) == ["recorded", "found now", "by hand", "numpy"]
    assert min(found["ms"].values()) > 0
    assert found["python"]
    whole = report["network"]
    assert (whole["operators"], whole["kernels"]) == (22, 11)
    assert list(whole["ms"])[:2] == ["without a search", "tuned now"]


def test_without_onnx_the_network_is_left_out(brief, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    console = Console(io.StringIO(), False, 100)
    target = native_target(mt.Target("c", num_cores=1))
    assert command.network.show(0.5, target, Pace(1), console) is None
    said = " ".join(console.stream.getvalue().split())
    assert "pip install 'minitensor[onnx]'" in said


@pytest.mark.slow
def test_ctrl_c_during_a_search_ends_it_all(run, brief, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuned, "tune", interrupted)
    done = run("--quick")
    assert done.status == 130
    assert done.err == "\ninterrupted\n"
    assert "Traceback" not in done.out
    assert "Summary" not in done.out


class Found:
    """A search's result with a kernel that writes zeros."""

    def kernel(self):
        return self

    def prepare(self, *arrays):
        return lambda: arrays[-1].fill(0.0)


def test_a_wrong_kernel_of_a_search_ends_the_demo(brief):
    target = native_target(mt.Target("c", num_cores=1))
    with pytest.raises(CommandError, match=r"the kernel found now fails for matmul 16x1024.*wrong"):
        tuned.compared(KEY, Pace(1), target, Console(io.StringIO(), False, 100), Found())


def test_a_wrong_kernel_of_the_story_ends_the_demo(brief):
    work, target = Work.of("matmul-16"), native_target(mt.Target("c", num_cores=1))
    (numpy,) = BASELINES["numpy"].enter("numpy", work, 1, {})
    wrong = yardstick.Yardstick(replace(work, expected=work.expected + 1), numpy)
    shown = story.Story(wrong, Pace(1), target, Console(io.StringIO(), False, 100))
    with pytest.raises(CommandError, match="the kernel is wrong: it is off by 1"):
        shown.time("as written", work.schedule(target))


def test_a_busy_machine_is_told():
    console = Console(io.StringIO(), False, 100)
    command.show_quiet(yardstick.Yardstick(None, None, [1.0, 1.02]), console)
    command.show_quiet(yardstick.Yardstick(None, None, [1.0, 1.5]), console)
    quiet, busy, *_ = console.stream.getvalue().splitlines()
    assert quiet == "The machine is quiet: 2 turns of numpy differ by 2 %."
    assert busy.startswith("The machine is busy: numpy's slowest turn took 1.50 times as long as")
