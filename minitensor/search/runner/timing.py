"""The time of a call, as exactly as is worth while; and the timing lock.

Timing waits for compilers, and compilers for timing, in all processes that share a cache folder.
Two files are locked, and a lock ends with the process that holds it, however that ends. The timing
lock is shared by compilers and exclusive for timing. The queue is held while waiting for the timing
lock: later ones wait behind, so that timing is not kept waiting for ever.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from minitensor.runtime import cache_folder, largest_cache, waits_of
from minitensor.search.runner.results import Settings
from minitensor.system import fcntl, resource

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
_STEAL: Final = 8
"""The word of the first line of /proc/stat that has the time stolen from this machine."""
_TICKS: Final = 100
"""Of that time in a second."""
_SLICE: Final = 0.004
"""Seconds for which another program runs, if it does."""
NEGLIGIBLE: Final = 0.01
"""The part of a repeat that may be lost: the system itself takes a processor for microseconds."""
MUCH: Final = 0.2
"""The part that may not be lost even if no thread had to stop: one that slept waits as it wakes."""
_MEDIAN: Final = 1.2533
"""The standard error of a median of normal numbers is this many times that of their mean."""
_MEAN_DISTANCE: Final = 1.2533
"""The standard deviation of normal numbers is this many times their mean absolute deviation."""


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
    """Seconds per call of each repeat, the calls in each, whether it was stopped early, the number
    of spoilt repeats, which are not among these, and whether all were: then the fastest is.
    """

    seconds: list[float]
    calls: int
    early: bool
    spoilt: int
    disturbed: bool


class Repeats:
    """Repeats of a call, as seconds per call. One is spoilt, no measurement, if this process was
    switched out since the end of the one before: a thread may come back in the middle of it.

    before  called before each
    """

    def __init__(self, call: Callable[[], object], before: Callable[[], object]) -> None:
        self.call, self.before = call, before
        self.good: list[float] = []
        self.spoilt: list[float] = []
        self.seen = lost_now()

    @property
    def fastest(self) -> float:
        """The least of all; being switched out only adds time."""
        return min(self.good + self.spoilt)

    def calls_of(self, seconds: float) -> int:
        """The calls that last so long."""
        return max(1, math.ceil(seconds / max(self.fastest, 1e-9)))

    def add(self, calls: int) -> bool:
        """Time one more; False if it was spoilt."""
        self.before()
        start = time.perf_counter()
        for _ in range(calls):
            self.call()
        seconds = (time.perf_counter() - start) / calls
        seen, self.seen = self.seen, lost_now()
        good = not self.seen.spoils(seen, seconds * calls)
        (self.good if good else self.spoilt).append(seconds)
        return good

    def clear(self) -> None:
        """Forget them."""
        self.good, self.spoilt = [], []

    def are_enough(self, elapsed: float, settings: Settings, best: float | None) -> bool:
        """Test whether their median is certain, or the time is up.

        elapsed  seconds since the first
        best     see `time_call`
        """
        if len(self.good) < settings.repeats:
            made = len(self.good) + len(self.spoilt)
            return bool(self.spoilt) and made >= settings.repeats and elapsed > settings.patience
        return (
            elapsed > settings.budget
            or uncertainty(self.good) < settings.noise
            or _is_behind(self.good, best)
        )


def time_call(call: Callable[[], object], settings: Settings, best: float | None) -> Times:
    """Time a call: warm up, then repeats until their median is certain or the time is up.

    best  seconds of the best candidate so far; one whose first calls, of which the fastest counts,
          take `settings.slower` times that is not repeated

    Where repeats are spoilt, more are made, and shorter ones, which fit between two switches.
    """
    repeats = Repeats(call, flusher() if settings.flush else lambda: None)
    slow = math.inf if best is None else settings.slower * best
    _warm_up(repeats, max(FAR * slow, LONG), settings.patience)
    if repeats.fastest > slow:
        return Times([repeats.fastest], 1, True, len(repeats.spoilt), not repeats.good)
    calls = 1 if settings.flush else repeats.calls_of(settings.repeat)
    fewest = min(calls, repeats.calls_of(FIRST_SECONDS))
    if calls > 1 or settings.flush:
        repeats.clear()
    del repeats.good[: -settings.most_repeats]
    start = time.perf_counter()
    while len(repeats.good) < settings.most_repeats:
        if not repeats.add(calls):
            calls = max(fewest, calls // 2)
        if repeats.are_enough(time.perf_counter() - start, settings, best):
            break
    seconds = repeats.good or [repeats.fastest]
    return Times(seconds, calls, False, len(repeats.spoilt), not repeats.good)


class Lost(NamedTuple):
    """The losses of this process to others since it began.

    switches  how often a thread had to stop though it could go on, and ticks in which the machine
              had to (a virtual one, whose host runs others: steal time)
    seconds   for which threads waited for a processor, and of these ticks
    """

    switches: int
    seconds: float

    def spoils(self, before: Lost, seconds: float) -> bool:
        """Test whether too much of some seconds was lost since a time before: more than NEGLIGIBLE
        where a thread had to stop, MUCH where threads only waited.
        """
        lost = self.seconds - before.seconds
        allowed = MUCH if self.switches == before.switches else NEGLIGIBLE
        return lost > allowed * seconds


def lost_now() -> Lost:
    """The losses until now; where the system says less, every switch counts for a
    slice of time.
    """
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    stolen, waits = 0, waits_of("self")
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/stat", "rb") as file:
        stolen = int(file.readline().split()[_STEAL])
    waited = sum(waits.values()) if waits else switches * _SLICE
    return Lost(switches + stolen, waited + stolen / _TICKS)


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
    memory = np.zeros(2 * largest_cache() // 8, np.int64)

    def flush() -> None:
        np.add(memory, 1, out=memory)

    return flush


def _warm_up(repeats: Repeats, far: float, budget: float) -> None:
    """The first calls, but for the very first: that brings memory and code near.

    far     seconds; if the second call takes more there is no third
    budget  seconds in which one of them should not be spoilt
    """
    repeats.add(1)
    repeats.clear()
    start, elapsed, count = time.perf_counter(), 0.0, 1
    while count < FIRST_CALLS or elapsed < FIRST_SECONDS or (not repeats.good and elapsed < budget):
        calls = 1 if count < FIRST_CALLS else repeats.calls_of(FIRST_SECONDS)
        good = repeats.add(calls)
        count, elapsed = count + 1, time.perf_counter() - start
        if count == 2 and good and repeats.fastest > far:
            break
