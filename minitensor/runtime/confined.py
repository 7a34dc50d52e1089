"""Limits of this process, for code that may do anything: memory, size of files, no core."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from minitensor.system import resource


def confine(memory: int, largest_file: int) -> None:
    """Limit this process, and those that it starts.

    memory        bytes of addresses beyond those that it has; not limited where these are unknown
    largest_file  bytes of a file that is written
    """
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: largest_file}
    size = memory_of_this_process(0)
    if size:
        limits[resource.RLIMIT_AS] = size + memory
    for which, limit in limits.items():
        hard = resource.getrlimit(which)[1]
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (least, least))


def memory_of_this_process(field: int) -> int:
    """Bytes of addresses (field 0) or of memory (1) that this process has; 0 if not known."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[field])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0
