"""The process that measures: its environment, its cores, its events.

A process for each number of threads, because the libraries ask once, when they are loaded, how many
threads they may use.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.compare.cores import spread_cores
from minitensor.runtime import Worker, WorkerError

WORKER: Final = "benchmarks.compare.worker"
SILENCE_SECONDS: Final = 300.0
"""A process without an event for so long hangs: compiling or a round takes seconds."""

_THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "TVM_NUM_THREADS",
)
_ALWAYS: Final = {
    "OMP_DYNAMIC": "false",
    # the process is pinned as a whole; a library that pins threads would pin those of others too
    "TVM_BIND_THREADS": "0",
    # memory that is freed stays with the process: results that are allocated at each call do not
    # cost pages that are touched for the first time
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
_NEVER: Final = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


class Died(Exception):  # noqa: N818 - the benchmark continues without a workload
    """The process ended before its job was done; the message says how."""


def environment(threads: int) -> dict[str, str]:
    """The variables that are set, beside the user's own."""
    return {**dict.fromkeys(_THREAD_VARIABLES, str(threads)), **_ALWAYS}


def events(job: Mapping[str, Any]) -> Generator[dict[str, Any], None, None]:
    """Start a process on a job and yield its events, until it is done.

    It is pinned to as many cores as it may have threads, and ended when the generator is closed.
    Raises Died if it does not finish; MeasureError if it cannot be started.
    """
    threads = job["threads"]
    variables = {**dict.fromkeys(_NEVER), **environment(threads)}
    with _pinned(spread_cores(threads)):
        worker = Worker.start(WORKER, variables=variables)
    with worker:
        worker.send(job)
        try:
            while (event := worker.receive(SILENCE_SECONDS))["event"] != "end":
                yield event
        except WorkerError as failure:
            raise Died(f"its process {failure.message}") from None


@contextlib.contextmanager
def _pinned(cores: Sequence[int]) -> Iterator[None]:
    """Run on these cores for a moment: a process that is started then stays on them."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
