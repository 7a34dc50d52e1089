"""How long mt.build takes for a kernel that was built before: in this process, and in a new one."""

from __future__ import annotations

import os
import tempfile
from functools import partial

import minitensor as mt
from benchmarks.common import Figure, figure, in_processes, main, mean_seconds
from benchmarks.kernels import matmul_tile

PROCESSES = 7
REPEATS = 25

CHILD = """
import time
import minitensor as mt
from benchmarks.kernels import matmul_tile
schedule = matmul_tile()
start = time.perf_counter()
mt.build(schedule)
print(time.perf_counter() - start)
"""


def same_process() -> list[float]:
    """Seconds for a schedule that was made anew, with a structurally equal program."""
    mt.build(matmul_tile())
    results = []
    for _ in range(REPEATS):
        schedule = matmul_tile()
        results.append(mean_seconds(partial(mt.build, schedule), 1))
    return results


def new_process() -> list[float]:
    """Seconds of the first mt.build in a process, with a cache folder that has the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        environment = {**os.environ, "MINITENSOR_CACHE_DIR": folder}
        return [taken for (taken,) in in_processes(CHILD, PROCESSES, environment)]


def measure() -> list[Figure]:
    same = f"mt.build of an equal program, median of {REPEATS}"
    new = f"mt.build of a tiled matmul, warm disk cache, median of {PROCESSES} processes"
    return [
        figure("cached build, same process", same_process(), "ms", None, same),
        figure("cached build, new process", new_process(), "ms", 5.0, new),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
