"""The limits of this machine, kept between processes.

They depend on the CPU, the compiler and the number of threads. Other programs can only lower what
is measured, so the first few processes that need the limits measure again, and the best is kept.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from minitensor.errors import CompileError
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember
from minitensor.runtime.limits import Limits, measure_limits
from minitensor.runtime.toolchain import find_toolchain

TRIES: Final = 3
"""The number of processes that measure before the limits count as known."""


def known_limits(threads: int | None = None) -> Limits:
    """The limits of this machine with that many threads (None: with one for each usable core).

    A process measures at most once, for a second or two; `measure_limits` measures always.
    Raises as that.
    """
    return _known(threads, cache_folder())


def remember_limits(limits: Limits) -> Limits:
    """Keep what was measured where it is better than what is known; the best of both.

    Without a compiler nothing is known or kept.
    """
    _known.cache_clear()
    with contextlib.suppress(CompileError):
        return _kept(limits)
    return limits


@functools.lru_cache(maxsize=64)
def _known(threads: int | None, folder: Path) -> Limits:
    count = find_toolchain().num_cores if threads is None else threads
    known, tries = _recall(count)
    if known is not None and tries >= TRIES:
        return known
    return _kept(measure_limits(count))


def _kept(limits: Limits) -> Limits:
    """The best of what was measured now and before."""
    known, tries = _recall(limits.threads)
    best = limits if known is None else _best(known, limits)
    remember(_name(limits.threads), {"limits": asdict(best), "tries": tries + 1})
    return best


def _name(threads: int) -> str:
    toolchain = find_toolchain()
    compiler = (toolchain.version, toolchain.triple, toolchain.identity)
    return entry_name("limits", compiler, toolchain.flags, threads)


def _best(a: Limits, b: Limits) -> Limits:
    return replace(
        max(a, b, key=lambda limits: limits.peak),
        **{
            name: max(getattr(a, name), getattr(b, name))
            for name in ("peak_core", "read", "copy", "triad")
        },
    )


def _recall(threads: int) -> tuple[Limits | None, int]:
    """The limits that are known, and how often they were measured."""
    try:
        kept = recall(_name(threads)) or {}
        return Limits(**kept["limits"]), int(kept["tries"])
    except (TypeError, ValueError, LookupError):
        return None, 0
