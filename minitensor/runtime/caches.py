"""The private caches of a core: L1 for data, and L2; and the size of the largest of all.

What is measured counts; where that gives nothing, what the system says; else what is usual. What
was measured is an entry of the cache folder. Nothing here fails: without a compiler, on a system
without the calls that the program makes, or if it crashes, nothing was measured.

Not here: the program and how its figures are read (`chase`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minitensor.errors import CompileError, MinitensorError, whole
from minitensor.runtime.chase import cache_sizes, program, read_latencies
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember, scratch_folder
from minitensor.runtime.process import run_compiler
from minitensor.runtime.toolchain import find_toolchain

_SECONDS: Final = 20.0
"""More than the compiler and the program ever need."""
_SYSTEM: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LARGEST: Final = 64 << 20
"""Bytes of the largest cache where the system does not say."""


@dataclass(frozen=True, slots=True)
class Caches:
    """The sizes in bytes of a core's caches: L1 for data, and L2."""

    l1: int
    l2: int

    def __post_init__(self) -> None:
        whole("l1", self.l1, 1)
        whole("l2", self.l2, 1)

    def __str__(self) -> str:
        return f"{_size(self.l1)} L1, {_size(self.l2)} L2"


USUAL_CACHES: Final = Caches(32 << 10, 512 << 10)
"""The sizes where nothing is known: no more than most processors have."""


@dataclass(frozen=True, slots=True)
class Known:
    """The same as far as one source knows them; None where it does not."""

    l1: int | None = None
    l2: int | None = None

    def __str__(self) -> str:
        named = (("L1", self.l1), ("L2", self.l2))
        return ", ".join(f"{_size(size)} {name}" for name, size in named if size) or "nothing"


def known_caches() -> Caches:
    """The caches of this machine. The first call of all processes measures, for 0.2 seconds."""
    try:
        measured = _measured_once(cache_folder())
    except MinitensorError:
        measured = Known()
    return chosen(measured, said_caches())


def chosen(measured: Known, said: Known) -> Caches:
    """The sizes to use, by what was measured and what the system says."""
    usual = USUAL_CACHES
    return Caches(measured.l1 or said.l1 or usual.l1, measured.l2 or said.l2 or usual.l2)


@functools.lru_cache(maxsize=64)
def _measured_once(folder: Path) -> Known:
    found = _sizes(_recall())
    return measure_caches() if found == Known() else found


def measure_caches() -> Known:
    """Measure anew, and remember what was found. Raises MinitensorError without a compiler."""
    latencies: Mapping[int, float] = {}
    toolchain = find_toolchain()
    with contextlib.suppress(CompileError), scratch_folder(cache_folder()) as folder:
        (folder / "caches.c").write_text(program(), encoding="utf-8")
        words = [*toolchain.words, *toolchain.flags, "-o", "caches", "caches.c"]
        if run_compiler(words, folder, _SECONDS).status == 0:
            done = run_compiler([str(folder / "caches")], folder, _SECONDS)
            latencies = read_latencies(done.stdout) if done.status == 0 else {}
    found = _sizes(latencies)
    if found != Known():
        _measured_once.cache_clear()
        remember(_name(), {"latencies": list(latencies.items())})
    return found


def said_caches() -> Known:
    """The private caches of the first core, as Linux describes them."""
    said = _said()
    return Known(said.get(("1", "Data")), said.get(("2", "Unified")))


def largest_cache() -> int:
    """Bytes of the largest cache that Linux describes, which cores usually share."""
    return max(_said().values(), default=_LARGEST)


def _said() -> dict[tuple[str, str], int]:
    """The sizes of the first core's caches by level and type."""
    found: dict[tuple[str, str], int] = {}
    for index in sorted(_SYSTEM.glob("index*")):
        with contextlib.suppress(OSError, ValueError, LookupError):
            about = (index / name for name in ("level", "type", "size"))
            level, kind, size = (file.read_text(encoding="ascii").strip() for file in about)
            found[level, kind] = int(size[:-1]) * _UNITS[size[-1]]
    return found


def _sizes(latencies: Mapping[int, float]) -> Known:
    return Known(*cache_sizes(latencies))


def _name() -> str:
    return entry_name("caches", program())


def _recall() -> Mapping[int, float]:
    """The figures of a former measurement; none if there was none."""
    try:
        return {int(size): float(time) for size, time in (recall(_name()) or {})["latencies"]}
    except (TypeError, ValueError, LookupError):
        return {}


def _size(count: int) -> str:
    """A number of bytes as people write it: 48 KiB, 1.25 MiB."""
    return f"{count / (1 << 20):g} MiB" if count >= 1 << 20 else f"{count / (1 << 10):g} KiB"
