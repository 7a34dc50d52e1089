"""Parallel kernels in a process that was forked from one that had run some.

A fork copies only the thread that calls it. The OpenMP runtime of the child still counts on the
threads of its parent, and waits for them for ever. It keeps them for each thread that starts a
parallel region, so a thread that is new in the child gets new ones: calls go through that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_started = False
_lost = False
_worker: ThreadPoolExecutor | None = None


def threads_start() -> None:
    """To be called before a kernel starts threads."""
    global _started  # noqa: PLW0603 - a fact about the process
    _started = True


def threads_are_lost() -> bool:
    """Whether this process was forked after threads had started."""
    return _lost


def call(function: Callable[..., int], *arguments: object) -> int:
    """Call a function in a thread that the parent did not have; one call at a time."""
    global _worker  # noqa: PLW0603 - made at the first call
    if _worker is None:
        _worker = ThreadPoolExecutor(1, thread_name_prefix="minitensor")
    return _worker.submit(function, *arguments).result()


def _after_fork() -> None:
    global _lost, _worker  # noqa: PLW0603 - a fact about the process
    _lost = _lost or _started
    _worker = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
