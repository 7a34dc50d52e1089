"""The time of a call, as exactly as is worth while; and the timing lock.

Timing waits for compilers, and compilers for timing, in all processes that share a cache folder.
Two files are locked, and a lock ends with the process that holds it, however that ends. The timing
lock is shared by compilers and exclusive for timing. The queue is held while waiting for the timing
lock: later ones wait behind, so that timing is not kept waiting for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from minitensor.runtime import cache_folder
from minitensor.search.runner.results import Settings

_LOCK: Final = "timing.lock"
_QUEUE: Final = "timing-queue.lock"
_PAUSE: Final = 0.002

FIRST_CALLS: Final = 3
FIRST_SECONDS: Final = 0.0005
"""The first calls: as many as make both."""
FAR: Final = 2.0
"""A candidate that takes this many times the limit of "slower" needs no third call,"""
LONG: Final = 0.005
"""if a call takes so many seconds."""
NEAR: Final = 1.1
"""A candidate that takes this many times the best is not timed more exactly."""
_MEDIAN: Final = 1.2533
"""The standard error of a median of normal numbers is this many times that of their mean."""
_MEAN_DISTANCE: Final = 1.2533
"""The standard deviation of normal numbers is this many times their mean absolute deviation."""
_LARGEST_CACHE: Final = 64 << 20
"""Bytes, where the system does not say."""


@contextlib.contextmanager
def compile_lock() -> Iterator[None]:
    """While this is entered nothing is timed."""
    with _opened(_QUEUE) as queue, _opened(_LOCK) as lock:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def timing_lock(meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
    """While this is entered nothing is compiled, and nothing else is timed.

    meanwhile  called every few milliseconds while it waits; what it raises is raised
    """
    with _opened(_QUEUE) as queue, _opened(_LOCK) as lock:
        for file in (queue, lock):
            while not _is_taken(file):
                meanwhile()
                time.sleep(_PAUSE)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


def _is_taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _opened(name: str) -> Iterator[int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(cache_folder() / name, flags, 0o600)
    try:
        yield file
    finally:
        os.close(file)


class Times(NamedTuple):
    """Seconds per call of each repeat, the calls in each, and whether it was stopped early."""

    seconds: list[float]
    calls: int
    early: bool


def time_call(call: Callable[[], object], settings: Settings, best: float | None) -> Times:
    """Time a call: warm up, then repeats until their median is certain or the time is up.

    best  seconds of the best candidate so far; one whose first calls, of which the fastest counts,
          take `settings.slower` times that is not repeated
    """
    before = flusher() if settings.flush else lambda: None
    slow = math.inf if best is None else settings.slower * best
    warm = _first(call, before, max(FAR * slow, LONG))
    fastest = min(warm)
    if fastest > slow:
        return Times([fastest], 1, True)
    calls = 1 if settings.flush else max(1, math.ceil(settings.repeat / max(fastest, 1e-9)))
    seconds = warm[-settings.most_repeats :] if calls == 1 and not settings.flush else []
    end = time.perf_counter() + settings.budget
    while len(seconds) < settings.most_repeats:
        before()
        seconds.append(_timed(call, calls) / calls)
        if len(seconds) >= settings.repeats and (
            time.perf_counter() > end
            or uncertainty(seconds) < settings.noise
            or _is_behind(seconds, best)
        ):
            break
    return Times(seconds, calls, False)


def uncertainty(seconds: list[float]) -> float:
    """The standard error of the median, as a fraction of it.

    From the mean distance to the median, which no repeat is without influence on: among three or
    four, the median distance is 0 as soon as two agree.
    """
    middle = statistics.median(seconds)
    spread = _MEAN_DISTANCE * statistics.fmean(abs(t - middle) for t in seconds)
    return _MEDIAN * spread / (middle * math.sqrt(len(seconds)))


def _is_behind(seconds: list[float], best: float | None) -> bool:
    """Test whether a candidate is certainly slower than the best: three standard errors behind NEAR
    times that.
    """
    if best is None:
        return False
    return statistics.median(seconds) * (1 - 3 * uncertainty(seconds)) > NEAR * best


def flusher() -> Callable[[], None]:
    """A function that fills the caches that all cores share with something else."""
    memory = np.zeros(2 * _cache_size() // 8, np.int64)

    def flush() -> None:
        np.add(memory, 1, out=memory)

    return flush


def _first(call: Callable[[], object], before: Callable[[], None], far: float) -> list[float]:
    """Seconds of the first calls, but for the very first: that brings memory and code near.

    far  seconds; if the second call takes more there is no third
    """
    seconds: list[float] = []
    while len(seconds) < FIRST_CALLS or sum(seconds) < FIRST_SECONDS:
        before()
        seconds.append(_timed(call, 1))
        if len(seconds) == 2 and seconds[1] > far:
            break
    return seconds[1:]


def _timed(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def _cache_size() -> int:
    """Bytes of the largest cache."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            text = path.read_text(encoding="ascii").strip()
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes, default=_LARGEST_CACHE)
