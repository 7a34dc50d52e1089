"""However the process that searches ends, nothing that it started is left."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.run.search.bad_kernels import processes_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and prctl"),
]

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "ends"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(folder))
    monkeypatch.delenv("CFLAGS", raising=False)
    return folder


@contextlib.contextmanager
def tuner(what):
    """A process of its own that measures (see tuning.py), at work when this returns."""
    command = [sys.executable, "-m", "tests.run.search.tuning", what]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "at work\n"
            yield process
        finally:
            process.kill()


def family(pid):
    """A process's descendants, as far as their parents are alive."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path("/proc", name, "stat").read_text()
        except OSError:
            continue
        parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [p for p, parent in parents.items() if parent == one]
    return found[1:]


def alive(pids):
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def gone(pids, folder, seconds, but=()):
    """Whether all are gone in time, and all that has loaded anything from the folder."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not alive(pids) and not set(alive(processes_with(str(folder)))) - set(but):
            return True
        time.sleep(0.02)
    return False


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


AT_WORK = {"hangs": 1, "forks_away_and_hangs": 4, "holds_the_pipe": 2}
"""How many processes, the tuner apart, have loaded something that it compiled."""


def descendants_at_work(process, what, folder):
    """Wait until the tuner does what it is to do; its descendants then."""
    found = []

    def is_at_work():
        found[:] = family(process.pid)
        if what == "compiles":
            loaded = len(set(processes_with("cc1", "cmdline")) & set(found))
        else:
            loaded = len(processes_with(str(folder))) - AT_WORK[what]
        return loaded > 0 and len(found) >= 3

    wait_for(is_at_work)
    return found


@pytest.mark.parametrize("what", [*AT_WORK, "compiles"])
def test_sigkill_of_the_tuner(folder, what):
    with tuner(what) as process:
        found = descendants_at_work(process, what, folder)
        held = [p for p in found if is_held(p)]
        descendants = [p for p in found if p not in held]
        assert len(held) == (what == "holds_the_pipe")
        process.kill()
        process.wait()
        try:
            assert gone(descendants, folder, 2.0, but=held)
        finally:
            for left in held:
                os.kill(left, signal.SIGKILL)


def is_held(pid):
    """Whether it is the process that the tuner forked by itself, which has all its pipes."""
    try:
        return "tests.run.search.tuning" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("what", ["hangs", "compiles"])
def test_ctrl_c(folder, what):
    with tuner(what) as process:
        descendants = descendants_at_work(process, what, folder)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 7
        assert alive(descendants) == []
        assert processes_with(str(folder)) == []
    left = [p.name for p in folder.iterdir() if p.name.startswith("build-")]
    assert left == [] or what == "compiles"
