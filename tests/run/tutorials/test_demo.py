"""The demo from beginning to end."""

import io
from dataclasses import replace
from functools import partial

import pytest

import minitensor as mt
from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.work import Work
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError
from minitensor.runtime import Pace, interleave, native_target
from minitensor.search.tune import roofline
from tests.unit.search.tune.made import LIMITS
from tutorials.demo import __main__ as command
from tutorials.demo import story, tuned

KEY = "matmul-16"


@pytest.fixture
def brief(monkeypatch, private_cache):
    """As little as shows all of it."""
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(private_cache))
    monkeypatch.setattr(command, "QUICK", command.Effort(64, 1, (KEY,), trials=2))
    monkeypatch.setattr(command, "Pace", lambda rounds: Pace(rounds, 0.0, 0.0, 1))
    for module in (story, tuned):
        monkeypatch.setattr(module, "interleave", partial(interleave, pause=False))
    monkeypatch.setattr(tuned, "PEERS", ("numpy",))
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)
    monkeypatch.setattr(roofline, "measure_limits", lambda threads: LIMITS)
    monkeypatch.setattr(roofline, "remember_limits", lambda limits: limits)


@pytest.mark.slow
def test_the_story_is_told_and_every_kernel_is_right(run, brief):
    done = run("--quick")
    assert (done.status, done.err) == (0, "")
    assert "\x1b[" not in done.out
    for heading in ("1  A dense layer", "2  Schedules that a search finds", "Summary"):
        assert f"\n{heading}" in done.out
    assert "    result = mt.tune(program, trials=2)\n" in done.out
    assert done.out.count("=> ") == 7
    assert "matmul 16x1024x1024, float32\nthe best of 2 candidates in " in done.out
    assert max(map(len, done.out.splitlines())) <= 110
    lines = done.out.partition("matmul 16x1024x1024")[2].splitlines()
    figures = [line.split() for line in lines if "GFLOP/s" in line]
    assert [words[:2] for words in figures[:2]] == [["by", "search"], ["by", "hand"]]
    assert figures[2][0] == "numpy"
    assert figures[-1][:3] == ["matmul", "16x1024x1024", figures[0][2]]


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
        assert stage["ms"] > 0
        assert stage["gflops"] > 0
        assert stage["times_numpy"] > 0
    assert (found["name"], found["trials"]) == ("matmul 16x1024x1024", 2)
    assert found["flop"] == 2 * 16 * 1024 * 1024
    assert list(found["ms"]) == ["by search", "by hand", "numpy"]
    assert min(found["ms"].values()) > 0
    assert found["missing"] == {}
    assert found["python"]


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


def work_and_target():
    return Work.of(KEY), native_target(mt.Target("c", num_cores=1))


class Found:
    """A search's result with a kernel that writes zeros."""

    def kernel(self):
        return self

    def prepare(self, *arrays):
        return lambda: arrays[-1].fill(0.0)


def test_a_wrong_kernel_of_a_search_ends_the_demo(brief):
    work, target = work_and_target()
    with pytest.raises(CommandError, match=r"the kernel by search fails for matmul 16x1024.*wrong"):
        tuned.compared(work, Found(), Pace(1), target)


def test_a_wrong_kernel_of_the_story_ends_the_demo(brief):
    work, target = work_and_target()
    (numpy,) = BASELINES["numpy"].enter("numpy", work, 1, {})
    quiet = Console(io.StringIO(), colour=False, width=100)
    shown = story.Story(replace(work, expected=work.expected + 1), numpy, Pace(1), target, quiet)
    with pytest.raises(CommandError, match="the kernel is wrong: it is off by 1"):
        shown.time("as written", work.schedule(target))
