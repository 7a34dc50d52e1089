"""Memory of outputs, used again when the arrays that held it are gone."""

import gc
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import memory
from minitensor.runtime.memory import LARGE, MOST, OUTPUTS, Kept
from minitensor.runtime.module import aligned_empty

FLOAT = np.dtype(np.float32)
SHAPE = (4, LARGE // 16)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_when_the_array_is_gone():
    kept = Kept()
    array = kept.empty(SHAPE, FLOAT)
    where = address(array)
    assert array.shape == SHAPE and array.dtype == FLOAT and where % 64 == 0
    assert array.flags.c_contiguous and array.flags.writeable
    assert kept.held() == 0
    del array
    assert kept.held() == LARGE
    assert address(kept.empty((LARGE // 8,), np.dtype(np.float64))) == where


@pytest.mark.slow
@pytest.mark.parametrize(
    "view",
    [lambda a: a[1:], lambda a: a.T, lambda a: memoryview(a), lambda a: a[0, 0:1].view("u4")],
)
def test_memory_that_a_view_uses_is_not_used_again(view):
    kept = Kept()
    array = kept.empty(SHAPE, FLOAT)
    where = address(array)
    held = view(array)
    del array
    assert kept.held() == 0 and address(kept.empty(SHAPE, FLOAT)) != where
    del held
    gc.collect()
    assert kept.held() >= LARGE


def test_an_array_in_a_cycle_gives_its_memory_back():
    kept = Kept()
    cycle = [kept.empty(SHAPE, FLOAT)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert kept.held() == LARGE


def test_the_blocks_freed_first_are_let_go():
    kept = Kept(most=2 * LARGE)
    arrays = [kept.empty(SHAPE, FLOAT) for _ in range(3)]
    first, *others = map(address, arrays)
    while arrays:
        del arrays[0]
    assert kept.held() == 2 * LARGE
    again = [kept.empty(SHAPE, FLOAT) for _ in range(2)]
    assert {address(a) for a in again} == set(others)
    assert first not in others


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, 3 * LARGE + 1])
def test_small_and_very_large_ones_are_not_kept(size):
    kept = Kept(most=3 * LARGE)
    array = kept.empty((size,), np.dtype(np.uint8))
    assert array.shape == (size,)
    del array
    assert kept.held() == 0


def test_two_threads_never_have_the_same_memory():
    kept = Kept()
    wrong = []

    def work(number):
        for _ in range(300):
            array = kept.empty((LARGE,), np.dtype(np.uint8))
            array[::4096] = number
            if (array[::4096] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    # a thread has two at a time: the last array lives until the next one takes its name
    assert LARGE <= kept.held() <= 4 * 2 * LARGE


def test_what_is_kept_is_let_go_where_there_is_no_memory(monkeypatch):
    kept = Kept()
    del [kept.empty(SHAPE, FLOAT)][0]
    assert kept.held() == LARGE

    def scarce(shape, dtype):
        if kept.held():
            raise MemoryError
        return aligned_empty(shape, dtype)

    monkeypatch.setattr(memory, "aligned_empty", scarce)
    array = kept.empty((2 * LARGE,), np.dtype(np.uint8))
    assert array.nbytes == 2 * LARGE and kept.held() == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_while_memory_is_taken_does_not_wait():
    before, kept, done = sys.getswitchinterval(), Kept(), threading.Event()

    def work():
        while not done.is_set():
            kept.empty(SHAPE, FLOAT)

    thread = threading.Thread(target=work)
    thread.start()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(40):
            if (child := os.fork()) == 0:
                kept.empty(SHAPE, FLOAT)
                os._exit(0)
            assert ended(child)
    finally:
        sys.setswitchinterval(before)
        done.set()
        thread.join()


def ended(child):
    """Tell whether a process ends by itself in some seconds."""
    for _ in range(1000):
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_results_of_calls_stay_what_they_are():
    n = LARGE // 4 + 16
    x = mt.placeholder((n,), name="x")
    kernel = mt.build(mt.lower([x, mt.compute((n,), lambda i: x[i] + 1.0, name="y")]))
    results = [kernel(np.full(n, float(value), "f")) for value in range(4)]
    assert [r[0] for r in results] == [1, 2, 3, 4]
    assert [r[-1] for r in results] == [1, 2, 3, 4]
    where = {address(r) for r in results}
    assert len(where) == 4
    results.clear()
    assert address(kernel(np.zeros(n, "f"))) in where
    assert OUTPUTS.held() <= MOST
