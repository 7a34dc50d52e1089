"""One candidate in a process of its own: forked, run, checked, timed and ended.

The server that forks it loads no kernel; it keeps the deadlines and looks at the outputs itself.

    Attempt.result   in the server: what became of the candidate
    Job.run          in the candidate's process: limits, a run between guard pages, then the timing
"""

from __future__ import annotations

import gc
import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from minitensor import runtime, sanitize
from minitensor.errors import reason_of
from minitensor.ir import DType, numpy_dtype
from minitensor.runtime import confine, memory_of_this_process
from minitensor.search.ledger import Ledger
from minitensor.search.runner.results import Result, Settings, Status
from minitensor.search.runner.task import Arena, Task
from minitensor.search.runner.timing import Times, lost_now, time_call
from minitensor.system import resource

PATIENCE: Final = 0.1
"""Seconds that the first call of any candidate may take."""
COLD, COLDER = 0.1, 3.0
"""A first call may take so many seconds more, and so many times as long, as later ones."""
MOST_CALLS: Final = 8
"""The calls that must be possible in the time of a candidate; else the first is its time."""
MOST_COPIES: Final = 32
"""Of a weight, beside itself."""
_NEARLY: Final = 0.75
"""Of the memory that it may have: a candidate that dies with so much had no more."""
_REASONS: Final = {
    runtime.Reason.CRASH: Status.CRASH,
    runtime.Reason.EXIT: Status.EXIT,
    runtime.Reason.TIMEOUT: Status.TIMEOUT,
    runtime.Reason.STOPPED: Status.STOPPED,
    runtime.Reason.GARBLED: Status.INVALID,
}
_STACK, _THREAD = 8 << 20, 1 << 20
"""Bytes of addresses that a thread takes for its stack, at least, and beside it."""
_FILE: Final = 1 << 20
"""Bytes of a file that a candidate may write."""
_NANS: Final = 0xFF
"""A byte of scratch memory; four are a NaN."""
_EMPTY: Final = runtime.aligned_empty((64,), np.dtype(np.uint8))
"""Passed for an array without elements."""


class Early(NamedTuple):
    """The function that computes what depends on constants alone; it runs once, before all calls.

    params  the names of its arrays: constants, and what it computes
    kept    what it computes: names, shapes and dtypes
    """

    entry: str
    workspace: int
    params: Sequence[str]
    kept: Sequence[tuple[str, Sequence[int], str]]


@dataclass(frozen=True, slots=True)
class Job:
    """A candidate to run.

    library    of the kernel
    entry      the name of its function
    params     the names of its arrays, those of `early` among them
    early      what runs before it, once; None if nothing does
    cold       the names of arrays that each timed call reads from memory, not from a cache
    workspace  bytes of scratch memory that it needs
    checks     the messages of its own checks (see `Emitted.checks`)
    guards     the library that watches guard pages
    best       seconds of the best candidate so far, None if there is none
    """

    library: Path
    entry: str
    params: Sequence[str]
    early: Early | None
    cold: Sequence[str]
    workspace: int
    checks: Sequence[str]
    guards: Path
    settings: Settings
    best: float | None

    @property
    def first_limit(self) -> float:
        """Seconds for the first call."""
        if self.best is None:
            return self.settings.time_limit
        return min(self.settings.time_limit, max(PATIENCE, self.settings.hopeless * self.best))

    def run(self, arena: Arena, parent: runtime.Parent) -> None:
        """Run it in this process, which was forked for it."""
        gc.disable()
        try:
            self._run(arena, parent)
        except MemoryError:
            parent.send({"failed": Status.MEMORY, "message": "there is no memory to run it"})
        except Exception as failure:  # of loading it
            parent.send({"failed": Status.BUILD, "message": reason_of(failure)})

    def _run(self, arena: Arena, parent: runtime.Parent) -> None:
        task = arena.task
        scratch = sanitize.GuardedMemory((-(-self.workspace // 64) * 64,), np.uint8)
        scratch.array[...] = _NANS
        private = [runtime.aligned_empty(b.shape, numpy_dtype(b.dtype)) for b in task.params]
        workspace = runtime.aligned_empty((self.workspace,), np.dtype(np.uint8))
        kept = self._kept()
        _limit(self.settings.memory, task.target.num_cores or 1)
        function = runtime.load_function(self.library, self.entry, len(self.params) + 1)
        guarded = [m.array for m in arena.memories]
        first = self._arrays(task, guarded, kept)
        with sanitize.watched(self.guards, [*arena.memories, scratch]) as hits:
            parent.send({})  # what runs from now on is the candidate
            status = self._before(task, guarded, kept)
            ran = _timed(_call(function, first, scratch.array))
            ran["status"] = ran["status"] or status
        ran |= {"hits": hits, "alone": _is_alone(), "steady": _rounds_to_nearest()}
        parent.send(ran)
        request = next(parent.requests())  # its outputs are right
        for array, buffer in zip(private, task.params):
            if buffer.name not in task.outputs:
                array[...] = task.arrays[buffer.name]
        _forget(private, arena)
        call = _call(function, self._arrays(task, private, kept), workspace)
        turns = self._in_turns(function, task, private, kept, workspace)
        times = time_call(turns, self.settings, self.best) if request["repeated"] else None
        _forget(private, arena)
        again = _timed(call)
        for array, shared in zip(private, guarded):
            shared[...] = array
        spoilt = again["spoilt"]
        once = Times([again["took"]], 1, request["early"], int(spoilt), spoilt)
        parent.send((times or once)._asdict())

    def _kept(self) -> dict[str, np.ndarray]:
        """Memory for what is computed before."""
        early = self.early.kept if self.early is not None else ()
        return {
            name: runtime.aligned_empty(tuple(shape), numpy_dtype(DType.of(dtype)))
            for name, shape, dtype in early
        }

    def _arrays(
        self, task: Task, arrays: Sequence[np.ndarray], kept: Mapping[str, np.ndarray]
    ) -> list[np.ndarray]:
        """The arrays of a call, of those of the task and of what is computed before."""
        known = {b.name: array for b, array in zip(task.params, arrays)} | dict(kept)
        return [known[name] for name in self.params]

    def _in_turns(
        self,
        function: Callable[..., int],
        task: Task,
        arrays: Sequence[np.ndarray],
        kept: Mapping[str, np.ndarray],
        workspace: np.ndarray,
    ) -> Callable[[], object]:
        """Calls that take turns with copies of what is cold, which no cache holds together: in a
        network other kernels have run since a weight was read.
        """
        given = self._arrays(task, arrays, kept)
        cold = [n for n, name in enumerate(self.params) if name in self.cold]
        size = sum(given[n].nbytes for n in cold)
        calls = [_call(function, given, workspace)]
        for _ in range(min(MOST_COPIES, runtime.largest_cache() // size) if size else 0):
            own = list(given)
            for n in cold:
                own[n] = runtime.aligned_empty(own[n].shape, own[n].dtype)
                own[n][...] = given[n]
            calls.append(_call(function, own, workspace))
        turns = itertools.cycle(calls)

        def call() -> object:
            return next(turns)()

        return call

    def _before(
        self, task: Task, arrays: Sequence[np.ndarray], kept: Mapping[str, np.ndarray]
    ) -> int:
        """Run what comes before all calls; returns its status."""
        if self.early is None:
            return 0
        known = {b.name: array for b, array in zip(task.params, arrays)} | dict(kept)
        given = [known[name] for name in self.early.params]
        function = runtime.load_function(self.library, self.early.entry, len(given) + 1)
        scratch = runtime.aligned_empty((self.early.workspace,), np.dtype(np.uint8))
        return _call(function, given, scratch)()


class Attempt:
    """A job in a process of its own, from the fork to its end.

    job, arena  what is run, on which arrays
    folder      an empty folder to run in
    meanwhile   called some twenty times a second; where it raises, the process is ended
    """

    def __init__(
        self, job: Job, arena: Arena, folder: Path, meanwhile: Callable[[], object]
    ) -> None:
        self.job, self.arena, self.folder, self.meanwhile = job, arena, folder, meanwhile
        self._running = 0.0  # seconds of timing

    def result(self) -> Result:
        """Run it. No process is left when this returns, or raises."""
        start = time.perf_counter()
        result = self._result()
        checking = time.perf_counter() - start - self._running
        return replace(result, ledger=Ledger(check=max(0.0, checking), run=self._running))

    def _result(self) -> Result:
        self.arena.reset()
        own = memory_of_this_process(1)
        try:
            with runtime.Worker.fork(partial(self.job.run, self.arena), self.folder) as worker:
                result = self._judged(worker)
        except runtime.WorkerError as failure:
            result = self._explained(failure, own)
        finally:
            left = runtime.end_children()
        if result.ok and left:
            return self._failed(
                Status.PROCESSES, f"left {left} process{'es' if left > 1 else ''} running"
            )
        return result

    def _judged(self, worker: runtime.Worker) -> Result:
        job, settings = self.job, self.job.settings
        ran = worker.receive(settings.time_limit, self.meanwhile)
        if "failed" not in ran:
            ran = worker.receive(job.first_limit, self.meanwhile)
        fault = self._fault_of(ran)
        if fault is not None:
            return fault
        took = ran["took"]
        early = job.best is not None and took > COLD + settings.slower * COLDER * job.best
        early = early and not ran["spoilt"]
        repeated = not early and took <= settings.time_limit / MOST_CALLS
        self.arena.reset()
        start = time.perf_counter()
        worker.send({"repeated": repeated, "early": early})
        try:
            timed = worker.receive(settings.time_limit, self.meanwhile)
        finally:
            self._running = time.perf_counter() - start
        wrong = self.arena.fault()
        if wrong is not None:
            return Result(wrong[0], message=f"{wrong[1]}, when it is called again")
        return Result(Status.OK, tuple(timed.pop("seconds")), **timed)

    def _fault_of(self, ran: dict[str, Any]) -> Result | None:
        """The fault of the first run; None if there is none."""
        if "failed" in ran:
            return Result(Status(ran["failed"]), message=ran["message"])
        wrong, checks, status = self.arena.fault(ran["hits"]), self.job.checks, ran["status"]
        if status and (wrong is None or wrong[0] is not Status.BOUNDS):
            known = 1 <= status <= len(checks)
            text = checks[status - 1] if known else f"it returned {status}, which means nothing"
            wrong = Status.CHECK, text
        if wrong is not None:
            return Result(wrong[0], message=wrong[1])
        if not ran["alone"]:
            return self._failed(Status.PROCESSES, "leaves processes behind")
        if not ran["steady"]:
            return self._failed(Status.WRONG, "changes how the processor rounds")
        return None

    def _explained(self, failure: runtime.WorkerError, own: int) -> Result:
        """The reason why a process gave no reply.

        own  bytes of memory that the server has, which the process had from its start
        """
        settings = self.job.settings
        more = failure.memory - own - 2 * (self.arena.size + self.job.workspace)
        died = failure.reason in (runtime.Reason.CRASH, runtime.Reason.EXIT)
        if died and more > _NEARLY * settings.memory:
            text = f"{failure.message} when it had {failure.memory >> 20} MiB of memory"
            return self._failed(Status.MEMORY, text)
        killed = failure.code == -signal.SIGKILL and failure.reason is runtime.Reason.CRASH
        hint = "; the system does that when memory runs out" if killed else ""
        return self._failed(_REASONS[failure.reason], failure.message + hint)

    def _failed(self, status: Status, text: str) -> Result:
        return Result(status, message=f"{self.arena.name} {text}")


def _call(
    function: Callable[..., int], arrays: Sequence[np.ndarray], workspace: np.ndarray
) -> Callable[[], int]:
    given = [runtime.pointer_to(a if a.size else _EMPTY) for a in (*arrays, workspace)]
    return partial(function, *given)


def _forget(arrays: Sequence[np.ndarray], arena: Arena) -> None:
    """Fill outputs with what nothing computes."""
    for array, buffer in zip(arrays, arena.task.params):
        if buffer.name in arena.task.outputs:
            sanitize.bits_of(array)[...] = sanitize.bits_of_nothing(buffer, 0)


def _limit(memory: int, threads: int) -> None:
    """Limit this process: bytes of memory beyond those that it has and its threads need."""
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stack = max(_STACK, 0 if soft == resource.RLIM_INFINITY else soft)
    confine(memory + threads * (stack + _THREAD), _FILE)


def _timed(call: Callable[[], int]) -> dict[str, Any]:
    """The status of a call, the seconds that it took, and whether others ran meanwhile."""
    before, start = lost_now(), time.perf_counter()
    status = call()
    took = time.perf_counter() - start
    return {"status": status, "took": took, "spoilt": lost_now().spoils(before, took)}


def _is_alone() -> bool:
    """Test whether this process has no children, not even ones that have ended."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def _rounds_to_nearest() -> bool:
    """Test whether the processor rounds to nearest and keeps tiny numbers, as it did before."""
    one, small, tiny = float("1"), float("1e-20"), float("5e-324")
    nearest = one + small == one and one - small == one and small - one == -one
    return nearest and tiny * one != 0.0
