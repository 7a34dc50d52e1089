"""Timing waits for compilers, and compilers for timing: in all processes that share a cache folder.

Two files are locked, and a lock ends with the process that has it, however that ends. `room` is
shared by those who compile and exclusive for who times. `door` is held by whoever waits for the
room: those who come later wait behind, so that nobody is kept out for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from minitensor.runtime import cache_folder

_DOOR: Final = "timing-door.lock"
_ROOM: Final = "timing-room.lock"
_PAUSE: Final = 0.002


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """While this is entered nothing is timed."""
    with _opened(_DOOR) as door, _opened(_ROOM) as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def timing(meanwhile: Callable[[], None] = lambda: None) -> Iterator[None]:
    """While this is entered nothing is compiled, and nothing else is timed.

    meanwhile  called again and again while it waits; it may raise
    """
    with _opened(_DOOR) as door, _opened(_ROOM) as room:
        for file in (door, room):
            while not _taken(file):
                meanwhile()
                time.sleep(_PAUSE)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


def _taken(file: int) -> bool:
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
