"""Candidates that crash, hang, stop, fork and overflow: the good ones are measured.

Linux only: elsewhere processes that leave their group are not found.
"""

import os
import random
import sys
import time
from dataclasses import replace

import pytest

from minitensor.runtime.descendants import children
from minitensor.search.runner import Runner, Settings, Status, failures_of
from tests.run.search.bad_kernels import BAD, FAST, GOOD, kernel, processes_with, task

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and prctl"),
]

SETTINGS = Settings(time_limit=3, memory=256 << 20, repeats=3, budget=0.02, repeat=0.001)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITENSOR_CACHE_DIR", str(folder))
        patch.delenv("CFLAGS", raising=False)
        yield folder


@pytest.fixture(scope="module")
def doubling(cache):
    return task()


@pytest.fixture(scope="module")
def runner(doubling):
    with Runner(doubling, SETTINGS) as runner:
        yield runner


def descriptors(pid="self"):
    return len(os.listdir(f"/proc/{pid}/fd"))


def server_of(runner):
    return runner._processes._server.worker.pid


@pytest.mark.parametrize("name", BAD)
def test_each_is_told_apart(runner, doubling, name):
    (result,) = runner.measure([kernel(name, doubling)])
    assert result.status is BAD[name], result
    assert result.message
    assert result.times == ()
    (good,) = runner.measure([kernel("ok_0", doubling)])
    assert good.ok, good
    assert children(server_of(runner)) == []


@pytest.mark.parametrize("copies", [1, pytest.param(4, marks=pytest.mark.whole)])
def test_half_of_many_are_bad(cache, doubling, copies):
    bad = list(BAD) * copies
    names = [*(list(GOOD) * len(bad))[: len(bad)], *bad]
    assert len(names) == 2 * len(bad) >= 50 * copies
    random.Random(0).shuffle(names)
    patient = replace(SETTINGS, hopeless=1e7)  # of a few microseconds
    mine, loaded = children(os.getpid()), processes_with(str(cache))
    with Runner(doubling, patient) as runner:
        alone = list(runner.measure([kernel(name, doubling) for name in GOOD]))
        before = descriptors()
        server_before = descriptors(server_of(runner))
        results = list(runner.measure([kernel(name, doubling) for name in names]))
        assert descriptors() == before
        assert descriptors(server_of(runner)) == server_before
        assert children(server_of(runner)) == []
    told = [(n, r) for n, r in zip(names, results) if r.status is not BAD.get(n, Status.OK)]
    assert told == []
    winner = names[min(range(len(names)), key=lambda n: results[n].median)]
    assert winner == GOOD[min(range(4), key=lambda n: alone[n].median)] == "ok_0"
    assert sum(f.count for f in failures_of(results)) == len(bad)
    assert processes_with(str(cache)) == loaded
    assert children(os.getpid()) == mine


def test_the_five_fastest_are_bad_and_none_wins(runner, doubling):
    assert len(FAST) == 5
    names = [*FAST, "ok_1", "ok_2"]
    results = dict(zip(names, runner.measure([kernel(name, doubling) for name in names])))
    assert [name for name, result in results.items() if result.ok] == ["ok_1", "ok_2"]
    assert min(results, key=lambda name: results[name].median) == "ok_1"


def test_a_server_that_is_stopped_is_replaced(doubling, cache):
    loaded = processes_with(str(cache))
    with Runner(doubling, SETTINGS) as runner:
        names = ["ok_0", "stops_its_parent", "ok_0"]
        results = list(runner.measure([kernel(name, doubling) for name in names]))
        assert [r.status for r in results] == [Status.OK, Status.CRASH, Status.OK]
        assert "took the process along" in results[1].message
    assert processes_with(str(cache)) == loaded


def test_what_ran_wrote_no_files_that_stay(runner, doubling, cache):
    list(runner.measure([kernel("writes_a_file", doubling)]))
    assert list(cache.rglob("much")) == []


def test_a_deadline_is_kept(doubling):
    with Runner(doubling, Settings(time_limit=0.5)) as runner:
        list(runner.measure([kernel("ok_0", doubling)]))
        start = time.monotonic()
        (result,) = runner.measure([kernel("hangs", doubling)])
        assert result.status is Status.TIMEOUT
        assert "0.5 s" in result.message
        assert time.monotonic() - start < 5
