"""The limits of this machine, kept between processes: who shows a part of the peak asks at once.

An entry is one file of the cache folder, <key>.limits. The key is a digest of the CPU, the compiler
and the number of threads. Other programs only ever take away, so the first few processes that ask
measure anew, and of all that was measured the best is kept.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from minitensor.errors import CompileError
from minitensor.runtime.folder import cache_folder, keep, scratch_folder, sealed, unsealed
from minitensor.runtime.limits import Limits, measure_limits
from minitensor.runtime.machine import cpu_fingerprint
from minitensor.runtime.toolchain import find_toolchain

TRIES: Final = 3
"""How many processes measure before what is known is believed."""


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
        return _kept(limits, cache_folder())
    return limits


@functools.lru_cache(maxsize=64)
def _known(threads: int | None, folder: Path) -> Limits:
    count = find_toolchain().num_cores if threads is None else threads
    known, tries = _read(_path(count, folder))
    if known is not None and tries >= TRIES:
        return known
    return _kept(measure_limits(count), folder)


def _kept(limits: Limits, folder: Path) -> Limits:
    """The best of what was measured now and before."""
    path = _path(limits.threads, folder)
    known, tries = _read(path)
    best = limits if known is None else _best(known, limits)
    _write(path, best, tries + 1)
    return best


def _path(threads: int, folder: Path) -> Path:
    toolchain = find_toolchain()
    compiler = (toolchain.version, toolchain.triple, toolchain.identity)
    facts = [*compiler, toolchain.flags, cpu_fingerprint(), threads]
    return folder / (hashlib.sha256(json.dumps(facts).encode()).hexdigest() + ".limits")


def _best(a: Limits, b: Limits) -> Limits:
    return replace(
        max(a, b, key=lambda limits: limits.peak),
        **{
            name: max(getattr(a, name), getattr(b, name))
            for name in ("peak_core", "read", "copy", "triad")
        },
    )


def _read(path: Path) -> tuple[Limits | None, int]:
    """What is known, and how often it was measured."""
    try:
        kept = json.loads(unsealed(path))
        return Limits(**kept["limits"]), int(kept["tries"])
    except (OSError, ValueError, TypeError, LookupError):
        return None, 0


def _write(path: Path, limits: Limits, tries: int) -> None:
    content = json.dumps({"limits": asdict(limits), "tries": tries}).encode()
    # where it cannot be kept, the next process measures again
    with contextlib.suppress(CompileError), scratch_folder(path.parent) as scratch:
        (scratch / path.name).write_bytes(sealed(path.name, content))
        keep(scratch / path.name, path)
