"""One candidate in a process of its own, which a server has forked for it.

    detach   a session of its own, limits, no descriptors but its channel
    check    the kernel runs once, between guard pages; the server looks at the result
    time     if the server says so, it runs many times, on other memory

Whatever happens, the process ends here and does not return to the code of the server.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from minitensor.errors import MinitensorError
from minitensor.ir import numpy_dtype
from minitensor.runtime import aligned_empty, load_function, pointer_to
from minitensor.sanitize import GuardedMemory, bits_of, bits_of_nothing, watched
from minitensor.search.runner.channel import LONGEST, send
from minitensor.search.runner.check import Arena
from minitensor.search.runner.family import (
    count_of_threads,
    die_with_parent,
    size_of_memory,
)
from minitensor.search.runner.settings import Settings
from minitensor.search.runner.timing import time_call

_STACK: Final = 8 << 20
_THREAD: Final = 1 << 20
"""Bytes of addresses that a thread takes beside its stack."""
_SPARE_THREADS: Final = 512
"""Others may start meanwhile: the limit is of all processes of the user."""
_NANS: Final = 0xFF
"""A byte of scratch memory; four are a NaN."""
_EMPTY: Final = aligned_empty((64,), np.dtype(np.uint8))
"""What a kernel is given for an array without elements."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a child is to do.

    library    of the kernel
    entry      the name of its function
    workspace  bytes of scratch memory that it needs
    guards     the library that watches guard pages
    best       seconds of the best candidate so far, None if there is none
    """

    library: Path
    entry: str
    workspace: int
    guards: Path
    settings: Settings
    best: float | None


def run_child(
    channel: socket.socket, secret: bytes, job: Job, arena: Arena, parent: int
) -> NoReturn:
    """Do a job, in a process that has just been forked, and end."""
    status = 1
    try:
        _run(channel, secret, job, arena, parent)
        status = 0
    except MemoryError:
        _tell(channel, secret, {"memory": "there is no memory to run it"})
    except MinitensorError as failure:
        _tell(channel, secret, {"failed": failure.message})
    except BaseException as failure:  # nothing may return to the code of the server
        _tell(channel, secret, {"failed": f"{type(failure).__name__}: {failure}"})
    finally:
        os._exit(status)


def _tell(channel: socket.socket, secret: bytes, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        send(channel, secret, what)


def _run(channel: socket.socket, secret: bytes, job: Job, arena: Arena, parent: int) -> None:
    gc.disable()
    _detach(channel.fileno(), parent)
    task = arena.task
    scratch = GuardedMemory((-(-job.workspace // 64) * 64,), np.uint8)
    scratch.array[...] = _NANS
    private = [aligned_empty(b.shape, numpy_dtype(b.dtype)) for b in task.params]
    workspace = aligned_empty((job.workspace,), np.dtype(np.uint8))
    _limit(job.settings, task.target.num_cores or 1)
    function = load_function(job.library, job.entry, len(task.params) + 1)

    guarded = [m.array for m in arena.memories]
    with watched(job.guards, [*arena.memories, scratch]) as hits:
        start = time.perf_counter()
        status = _call(function, guarded, scratch.array)()
        took = time.perf_counter() - start
    ran = {"status": status, "hits": hits, "took": took}
    send(channel, secret, {**ran, "steady": _arithmetic_is_sane(), "alone": _is_alone()})
    answer = channel.recv(LONGEST)
    if not answer:
        return
    secret = answer.strip()

    for array, buffer in zip(private, task.params):
        if buffer.name not in task.outputs:
            array[...] = task.arrays[buffer.name]
    _forget(private, arena)
    call = _call(function, private, workspace)
    times = time_call(call, job.settings, job.best)
    if not times.early:  # who is not in the running is not asked whether it does it again
        _forget(private, arena)
        call()
        for array, shared in zip(private, guarded):
            shared[...] = array
    send(channel, secret, {"times": times.seconds, "calls": times.calls, "early": times.early})


def _call(
    function: Callable[..., int], arrays: Sequence[np.ndarray], workspace: np.ndarray
) -> Callable[[], int]:
    given = [pointer_to(a if a.size else _EMPTY) for a in (*arrays, workspace)]
    return partial(function, *given)


def _forget(arrays: Sequence[np.ndarray], arena: Arena) -> None:
    """Fill outputs with what nothing computes."""
    for array, buffer in zip(arrays, arena.task.params):
        if buffer.name in arena.task.outputs:
            bits_of(array)[...] = bits_of_nothing(buffer, 0)


def _detach(channel: int, parent: int) -> None:
    """A session of its own, no descriptors but the channel, an end with the server."""
    os.setsid()
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.closerange(3, channel)
    os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))


def _limit(settings: Settings, threads: int) -> None:
    """Limits on what the kernel may take, beyond what the process has now."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, settings.file_size)
    _lower(resource.RLIMIT_CPU, math.ceil(settings.time_limit * threads) + 1)
    size = size_of_memory()
    if size:
        soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
        stack = _STACK if soft == resource.RLIM_INFINITY else max(soft, _STACK)
        _lower(resource.RLIMIT_AS, size + settings.memory + threads * (stack + _THREAD))
    if os.getuid() != 0:  # the kernel does not hold root to it
        running = count_of_threads()
        if running:
            _lower(resource.RLIMIT_NPROC, running + threads + _SPARE_THREADS)


def _lower(which: int, limit: int) -> None:
    """Set a limit, unless the one that is there is lower."""
    hard = resource.getrlimit(which)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    more = limit + (which == resource.RLIMIT_CPU)  # the signal that can be told comes first
    hard = more if hard == resource.RLIM_INFINITY else min(more, hard)
    resource.setrlimit(which, (limit, hard))


def _is_alone() -> bool:
    """Whether this process has no children, not even ones that have ended."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def _arithmetic_is_sane() -> bool:
    """Whether the processor rounds to nearest and keeps tiny numbers, as it did before."""
    one, small, tiny = float("1"), float("1e-20"), float("5e-324")
    nearest = one + small == one and one - small == one and small - one == -one
    return nearest and tiny * one != 0.0
