"""Campaigns: processes, what is kept, and what becomes of a crash."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minitensor.errors import ArgumentError
from minitensor.testing import (
    Campaign,
    FailedError,
    campaign,
    pair_of,
    reduce,
    reduced,
)

pytestmark = pytest.mark.slow

SOON = """
import sys
from minitensor.cli import main
from minitensor.testing import campaign
campaign.BATCH = 4
sys.exit(main(sys.argv[1:]))
"""
"""A command whose first batch of pairs is soon done."""


def test_a_campaign_goes_on_where_it_was_stopped(run, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "BATCH", 8)
    out = tmp_path / "out"
    words = ("fuzz", "--seconds", 1, "--seed", 11, "--jobs", 1, "--out", out, "--json")
    first = run(*words)
    assert first.status == 0, first.out
    one = first.json()
    assert one["counts"]["pairs"] >= 8
    assert one["counts"]["pairs"] % 8 == 0
    assert one["counts"]["kernels"] > 0
    assert one["counts"]["accepted"] >= 0.3 * one["counts"]["attempts"]
    assert one["found"] == []
    second = run(*words[:-1])
    assert second.status == 0
    assert f"going on after {one['counts']['pairs']:,} pairs" in second.err
    two = json.loads((out / "state.json").read_text())
    assert two["counts"]["pairs"] > one["counts"]["pairs"]
    assert two["missing"] == []
    assert two["counts"]["pairs"] == two["next"] * 8
    other = run("fuzz", "--seconds", 1, "--seed", 12, "--out", out)
    assert other.status == 1
    assert "is of another campaign" in other.err and "seed 11" in other.err


def test_a_state_that_is_none_is_refused(tmp_path):
    with contextlib.closing(Campaign(tmp_path, 0, 1, "guards")) as fresh:
        fresh._save()
    state = json.loads((tmp_path / "state.json").read_text())
    unnamed = {name: value for name, value in state.items() if name != "minitensor"}
    endless = {**state, "next": float("inf")}
    texts = ("", "[]", "{}", '{"version": 1}', "\0", "[" * 100_000)
    for text in (*texts, json.dumps(unnamed), json.dumps(endless)):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(ArgumentError, match="is not the state of a campaign"):
            Campaign(tmp_path, 0, 1, "guards")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seconds", "0"), "--seconds must be above 0"),
        (("--seconds", "nan"), "--seconds must be above 0"),
        (("--seconds", "soon"), "invalid float value: 'soon'"),
        (("--jobs", "0"), "--jobs must be from 1 to 256, but is 0"),
        (("--sanitize", "hands"), "invalid choice: 'hands'"),
    ],
)
def test_wrong_words(run, words, said):
    done = run("fuzz", *words)
    assert done.status == 2
    assert said in done.err


def test_a_folder_that_is_a_file(run, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("fuzz", "--seconds", "1", "--out", tmp_path / "file")
    assert done.status == 1
    assert "cannot use the folder" in done.err


def test_a_folder_that_is_taken_away(tmp_path, monkeypatch, run):
    out = tmp_path / "out"
    monkeypatch.setattr(Campaign, "_employ", lambda self: shutil.rmtree(out))
    done = run("fuzz", "--seconds", "1", "--jobs", "1", "--out", out)
    assert done.status == 1
    assert f"cannot write to the folder {out}: No such file" in done.err


def test_a_pair_is_named_by_seed_and_number():
    one = pair_of(5, 7)
    again, next_one, other = pair_of(5, 7), pair_of(5, 8), pair_of(6, 7)
    assert (again.program, again.schedule.trace) == (one.program, one.schedule.trace)
    assert one.program not in (next_one.program, other.program)


def test_crashes_and_hangs_are_blamed_on_a_pair_and_the_rest_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "WORKER", "tests.run.testing.faulty_worker")
    monkeypatch.setattr(campaign, "SILENCE", 3.0)
    done = Campaign(tmp_path, 0, 1, "guards")
    done.state.next = 1  # where the faults are: what has begun in time is done to its end
    try:
        state = done.run(0.1, lambda state: None)
        found = {f.number: f.failure for f in state.found}
        assert set(found) == {37, 40, 50}
        assert found[37].kind == found[40].kind == "crash"
        assert "was killed by SIGSEGV; it was to run" in found[37].message
        assert "status 1, without a reply: cannot go on; it was to run" in found[40].message
        assert (found[50].kind, state.missing) == ("hang", [])
        assert (state.counts.pairs, state.next) == (campaign.BATCH, 2)
        monkeypatch.setattr(campaign, "MOST_REDUCED", 0)
        done.reduce(lambda found: None)
        names = {path.name for path in tmp_path.glob("failure-*.py")}
        assert names == {"failure-37-crash.py", "failure-40-crash.py", "failure-50-hang.py"}
    finally:
        done.close()


def test_ctrl_c_leaves_no_process_and_keeps_what_was_done(tmp_path):
    words = ["fuzz", "--seconds", "60", "--jobs", "2", "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        [sys.executable, "-c", SOON, *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=interruptible,  # noqa: PLW1509 - no threads here
        start_new_session=True,
    ) as running:
        deadline = time.monotonic() + 60
        state = tmp_path / "out" / "state.json"
        while time.monotonic() < deadline:
            if state.exists() and json.loads(state.read_text())["counts"]["pairs"]:
                break
            time.sleep(0.2)
        children = children_of(running.pid)
        assert children
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=10)
    assert running.returncode == 130
    assert "the same command goes on from" in err
    assert "Traceback" not in err
    assert not any(alive(child) for child in children)
    kept = json.loads(state.read_text())
    assert kept["counts"]["pairs"] == 4 * (kept["next"] - len(kept["missing"]))
    assert not list(tmp_path.glob("minitensor-fuzz-*"))


def interruptible():
    """What was started in the background ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def children_of(pid):
    """The processes whose parent it is."""
    stats = {path.parent.name: path.read_text() for path in Path("/proc").glob("[0-9]*/stat")}
    return [int(n) for n, stat in stats.items() if stat.rpartition(")")[2].split()[1] == str(pid)]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_without_hypothesis_it_says_what_to_install(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "minitensor.testing")
    done = run("fuzz", "--seconds", "1", "--out", tmp_path / "out")
    assert done.status == 1
    assert "needs Hypothesis: python -m pip install 'minitensor[test]'" in done.err


def crash(pair):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(pair):
    time.sleep(60)


def fail(pair):
    raise FailedError("native", AssertionError("3 is not 4"), pair)


@pytest.mark.parametrize("check", [crash, hang, fail])
def test_an_isolated_check_reports_how_it_ended(check, monkeypatch):
    monkeypatch.setattr(reduce, "PATIENCE", 1.0)
    with pytest.raises(FailedError) as caught:
        reduce.isolated(check)(pair_of(0, 0))
    kind = {crash: "crash", hang: "hang", fail: "native"}[check]
    assert caught.value.failure.kind == kind
    reduce.isolated(lambda pair: None)(pair_of(0, 0))


def test_a_crash_is_made_small(monkeypatch):
    """One that needs a schedule with a step."""

    def check(pair):
        if any(step.primitive == "split" for step in pair.schedule.trace.steps):
            crash(pair)

    number = next(n for n in range(100) if "s.split(" in pair_of(0, n).schedule.trace.as_python())
    least = reduced(0, number, "crash", reduce.isolated(check))
    assert [step.primitive for step in least.schedule.trace.steps] == ["split"]
    assert len(least.program.blocks) == 1
