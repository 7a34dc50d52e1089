"""The cores that a process of some threads is pinned to."""

from __future__ import annotations

import os


def spread_cores(count: int) -> list[int]:
    """The numbers of `count` usable cores, threads of one physical core last; [] if none can be
    told apart.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    usable = sorted(os.sched_getaffinity(0))
    return sorted(usable, key=lambda core: (_place_among_siblings(core), core))[:count]


def _place_among_siblings(core: int) -> int:
    """0 for the first hardware thread of a physical core, 1 for the next; 0 if it is not known."""
    path = f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
    try:
        with open(path, encoding="ascii") as file:
            ranges = [part.split("-") for part in file.read().strip().split(",")]
        siblings = [n for r in ranges for n in range(int(r[0]), int(r[-1]) + 1)]
        return siblings.index(core)
    except (OSError, ValueError):
        return 0
