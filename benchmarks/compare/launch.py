"""Starting the process that measures: its environment, its cores, and listening to it.

A process for each number of threads, because the libraries ask once, when they are loaded, how many
threads they may use.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import minitensor
from benchmarks.compare.cores import spread_cores
from minitensor.cli.errors import CommandError

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
    # memory that is freed stays with the process: who allocates results at each call does not pay
    # for pages that are touched for the first time
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
_NEVER: Final = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


class Died(Exception):  # noqa: N818 - it is news, not an error of ours
    """The process ended before its job was done; the message says how."""


def environment(threads: int) -> dict[str, str]:
    """What is set, beside the user's own variables."""
    return {**dict.fromkeys(_THREAD_VARIABLES, str(threads)), **_ALWAYS}


def events(job: Mapping[str, Any]) -> Generator[dict[str, Any], None, None]:
    """Start a process on a job and yield its events, until it is done.

    It is pinned to as many cores as it may have threads, and stopped when the generator is closed.
    Raises Died if it does not finish; CommandError if it cannot be started.
    """
    with tempfile.TemporaryFile() as errors:
        process = _start(job["threads"], errors)
        try:
            yield from _told(process, job)
            status = process.wait()
        finally:
            _stop(process)
        if status != 0:
            errors.seek(0)
            raise Died(_last_words(status, errors.read().decode("utf-8", "replace")))


def _told(process: subprocess.Popen[bytes], job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if process.stdin is None or process.stdout is None:
        return
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(job).encode())
    for line in _lines(process.stdout.fileno()):
        yield json.loads(line)


def _lines(pipe: int) -> Iterator[bytes]:
    """What comes out of a pipe. Raises Died if it stays silent for too long."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(SILENCE_SECONDS):
                raise Died(f"its process did not say a word for {SILENCE_SECONDS:g} s")
            read = os.read(pipe, 1 << 16)
            if not read:
                return
            *whole, rest = (rest + read).split(b"\n")
            yield from whole


def _start(threads: int, errors: Any) -> subprocess.Popen[bytes]:
    kept = {name: value for name, value in os.environ.items() if name not in _NEVER}
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(minitensor.__file__).parents[1])]
    found = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with _pinned(spread_cores(threads)):
        try:
            return subprocess.Popen(
                [sys.executable, "-m", WORKER],
                env={**kept, **found, **environment(threads)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the one who started it
            )
        except OSError as failure:
            raise CommandError(f"cannot start {sys.executable}: {failure.strerror}") from failure


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


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started, if it has not ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _last_words(status: int, errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return f"its process ended with {how}" + (f": {lines[-1]}" if lines else "")
