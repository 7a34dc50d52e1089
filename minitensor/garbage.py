"""Python's collector of garbage, at work less often while a search or a network is made.

Both make millions of small objects, most of which stay: nodes of programs, and what is known of
them. Looking through all of them again and again took a seventh of the time of some searches.
"""

import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Final

_SELDOM: Final = (20_000, 10, 20)
"""Thresholds of the three generations (`gc.set_threshold`); CPython's own are 700, 10, 10."""
_LOCK: Final = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds of the user, one entry for each context that is open."""


@contextlib.contextmanager
def collected_seldom() -> Iterator[None]:
    """Let the collector wait for more new objects meanwhile; also a decorator of functions.

    A user's own thresholds stay where they are higher, and a collector that is off stays off. They
    are as before after the last of those that run at once, in any thread.
    """
    with _LOCK:
        now = gc.get_threshold()
        _before.append(_before[0] if _before else now)
        if now[0]:
            gc.set_threshold(*map(max, now, _SELDOM))
    try:
        yield
    finally:
        with _LOCK:
            before = _before.pop()
            if not _before:
                gc.set_threshold(*before)
