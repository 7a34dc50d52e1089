"""Work shared among copies of the process: all of it is done, whatever becomes of a copy."""

import os
import signal
import sys
import threading
import time

import pytest

import minitensor as mt
from minitensor import runtime
from minitensor.runtime import copies, share_out
from minitensor.runtime.descendants import children
from minitensor.search.runner import Settings, build
from minitensor.search.runner.build import build_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")
HERE = os.getpid()
TARGET = mt.Target("c", num_cores=2)


def candidates():
    """Six products of constant weights, packed for each tile."""
    X, W = mt.placeholder((8, 8), name="X"), mt.placeholder((8, 8), name="W")
    k = mt.reduce_axis((0, 8), "k")
    Y = mt.compute((8, 8), lambda i, j: mt.sum(X[i, k] * W[k, j], axis=k), name="Y")
    for tile in (1, 2, 4, 1, 2, 4):
        s = mt.Schedule(mt.lower([X, W, Y]).replace(constants=frozenset({"W"})))
        s.cache_read("Y", "W", "global")
        s.split(s.get_loops("Y")[0], [None, tile])
        yield s


def compiled(source, time_limit):
    return lambda: {"library": str(len(source)), "command": ["cc"]}


def square(number):
    return {"square": number * number, "process": os.getpid()}


def in_copies(act):
    """Work that does something first, in copies only, for number 2."""

    def work(number):
        if number == 2 and os.getpid() != HERE:
            act()
        return square(number)

    return work


def assert_all_is_done(work, count=7):
    found = dict(share_out(work, count, 3))
    assert {n: one["square"] for n, one in found.items()} == {n: n * n for n in range(count)}
    assert not children(HERE)
    return [found[n]["process"] for n in range(count)]


def test_copies_share_the_work():
    processes = assert_all_is_done(lambda number: time.sleep(0.05) or square(number))
    assert len(set(processes)) == 3 and HERE not in processes


@pytest.mark.parametrize(("count", "most"), [(0, 3), (1, 3), (5, 1)])
def test_one_process_is_enough_for_little(count, most):
    found = dict(share_out(square, count, most))
    assert found == {n: {"square": n * n, "process": HERE} for n in range(count)}


def test_large_results_arrive_whole():
    found = dict(share_out(lambda number: {"text": "ä" * (number * 300_000)}, 4, 2))
    assert {n: len(one["text"]) for n, one in found.items()} == {n: n * 300_000 for n in range(4)}


@pytest.mark.parametrize(
    "act",
    [
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: os.kill(os.getpid(), signal.SIGSTOP),
        lambda: os._exit(0),
        lambda: 1 / 0,
        lambda: os.close(3),
    ],
    ids=["killed", "stopped", "exits", "raises", "its channel is closed"],
)
def test_what_a_lost_copy_leaves_is_done_here(act, monkeypatch):
    monkeypatch.setattr(copies, "_STUCK", 0.5)
    assert assert_all_is_done(in_copies(act))[2] == HERE


def test_a_copy_that_waits_for_a_lock_of_another_thread_is_given_up(monkeypatch):
    monkeypatch.setattr(copies, "_STUCK", 0.3)
    lock, taken, end = threading.Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            end.wait()

    other = threading.Thread(target=hold)
    other.start()
    taken.wait()
    assert assert_all_is_done(in_copies(lock.acquire))[2] == HERE
    end.set()
    other.join()


def test_where_all_copies_are_lost_everything_is_done_here():
    def work(number):
        if os.getpid() != HERE:
            os._exit(1)
        return square(number)

    assert set(assert_all_is_done(work)) == {HERE}


def test_without_a_further_process_the_work_is_done_here(monkeypatch):
    def fork():
        raise BlockingIOError("too many processes")

    monkeypatch.setattr(os, "fork", fork)
    assert set(assert_all_is_done(square)) == {HERE}


def test_an_exception_is_that_of_the_work():
    def work(number):
        return {"inverse": 1 / (number - 1)}

    with pytest.raises(ZeroDivisionError):
        list(share_out(work, 3, 2))
    assert not children(HERE)


def test_copies_end_with_the_loop_that_takes_their_results():
    shared = share_out(square, 100, 2)
    next(shared)
    assert len(children(HERE)) == 2
    shared.close()
    assert not children(HERE)


def test_texts_do_not_depend_on_the_process_that_generates_them(monkeypatch):
    texts = []
    for cores in (1, 3):
        monkeypatch.setattr(runtime, "usable_cores", lambda cores=cores: cores)
        monkeypatch.setattr(build, "TEXTS", 6 // cores)
        texts.append(build_all(list(candidates()), TARGET, Settings(), compiled))
    assert texts[0] == texts[1]
    assert [one.early is not None for one in texts[0]] == [True] * 6
    assert [one.cold for one in texts[0]] == [("W_global",)] * 6
    assert texts[0][5].emitted.source != texts[0][0].emitted.source
