"""Counts of what the warps of a kernel access, from the emulator (counters.h)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

ROWS: Final = 1 << 16
FIELDS: Final = 8
_KINDS: Final = ("read", "write", "atomic", "atomic")


@dataclass(frozen=True, slots=True)
class AccessCount:
    """The accesses of the warps of a call at one place of the text.

    line      of the text, 0 if it is not known
    buffer    the name of what is accessed
    kind      "read", "write" or "atomic"
    shared    true for shared memory, false for device memory
    bytes     of each lane, in one access
    requests  accesses of warps: those of its lanes that are together
    lanes     accesses of single threads
    sectors   pieces of 32 bytes that the requests touch, of device memory
    passes    turns of the 32 banks of 4 bytes, of shared memory: without conflicts one a request
              (two of 8 bytes, four of 16 bytes)
    """

    line: int
    buffer: str
    kind: str
    shared: bool
    bytes: int
    requests: int
    lanes: int
    sectors: int
    passes: int


def counts_of(
    rows: np.ndarray,
    names: Sequence[tuple[str, bool]],
    lines: Callable[[Iterable[int]], dict[int, int]],
) -> tuple[AccessCount, ...]:
    """The counts by places of the text, in its order.

    rows   as the emulator gives them, one for each place in the library
    names  of the ranges of memory, and whether each is shared
    """
    line_of = lines(rows[:, 0].tolist())
    sums: dict[tuple[int, str, str, bool, int], np.ndarray] = {}
    for address, number, kind, size, *counts in rows.tolist():
        name, shared = names[number]
        key = line_of[address], name, _KINDS[kind], shared, size
        sums[key] = sums.get(key, np.zeros(4, np.int64)) + np.array(counts)
    return tuple(AccessCount(*key, *counts.tolist()) for key, counts in sorted(sums.items()))
