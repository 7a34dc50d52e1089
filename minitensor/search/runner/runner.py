"""`Runner`: candidates go in, a Result for each comes out."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import math
import os
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import ContextVar, Token
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from minitensor import runtime
from minitensor.codegen import Emitted
from minitensor.errors import MeasureError, unexpected
from minitensor.ir import Program, print_name, structural_hash
from minitensor.sanitize import guards_library
from minitensor.schedule import Schedule
from minitensor.search.ledger import Ledger
from minitensor.search.runner.attempt import Attempt, Early, Job
from minitensor.search.runner.build import (
    GRACE,
    WORKER,
    Built,
    Candidate,
    Compilers,
    Reply,
    Wait,
    build_all,
    compile_text,
    text_digest,
)
from minitensor.search.runner.results import Result, Settings, Status
from minitensor.search.runner.task import Arena, Task
from minitensor.search.runner.timing import timing_lock

KEPT: Final = 64
"""Programs that worked lately, and need not be built to be measured again."""
_START: Final = 60.0
"""Seconds for a server to start."""
_ALONE: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""A process that forks should have one thread, and these give numpy others."""


class Processes:
    """The processes of a runner, started when they are needed: one compiles, one measures.

    As a context they are those of all runners that are made in it, one after the other: so the
    searches for several programs wait for their start once.

        with mt.search.Processes():
            results = [mt.tune(program) for program in programs]

    Where a variable of the environment has changed, the next runner starts others.
    """

    def __init__(self) -> None:
        self._compilers: Compilers | None = None
        self._server: Server | None = None
        self._environment = self.environment()
        self._entered: list[Token[Processes | None]] = []

    def __enter__(self) -> Processes:
        self._entered.append(_SHARED.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        _SHARED.reset(self._entered.pop())
        self.close()

    def close(self) -> None:
        """End those that were started; they start anew where they are needed again."""
        for process in (self._compilers, self._server):
            if process is not None:
                process.close()
        self._compilers = self._server = None

    @staticmethod
    def environment() -> Mapping[str, str]:
        """The variables that processes inherit."""
        return dict(os.environ)

    def renew(self) -> None:
        """End those that have started with other variables."""
        if self._environment != (now := self.environment()):
            self.close()
            self._environment = now

    @property
    def compilers(self) -> Compilers:
        """The one that compiles."""
        if self._compilers is None:
            self._compilers = Compilers()
        return self._compilers

    def server(self, task: Path, settings: Settings) -> Server:
        """The one that measures, with the arrays of a task."""
        if self._server is None or self._server.settings != settings:
            if self._server is not None:
                self._server.close()
            self._server = Server(task, settings)
        self._server.task = task
        return self._server


_SHARED: Final[ContextVar[Processes | None]] = ContextVar("shared processes", default=None)
"""Those of the runners that are made in this context."""


@contextlib.contextmanager
def shared_processes() -> Iterator[Processes]:
    """Those of this context, or new ones that end with it."""
    shared = _SHARED.get()
    if shared is not None:
        yield shared
    else:
        with Processes() as made:
            yield made


class Runner:
    """Builds and measures candidates of one task, in processes of their own.

        with Runner(Task.of(program)) as runner:
            for result in runner.measure(schedules): …

    task      inputs and expected outputs
    settings  limits and precision
    builder   runs `compile_text`; None for a process of its own (see `Processes`)
    measurer  runs `measure_there`; None for a server of its own

    Any executor of concurrent.futures will do for either. Those that run elsewhere must see the
    cache folder under the same path. A thread or process pool of one worker that is given as
    `measurer` measures one candidate at a time, as it should be.
    Nothing is timed while a runner with the same cache folder compiles.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings | None = None,
        *,
        builder: Executor | None = None,
        measurer: Executor | None = None,
    ) -> None:
        if not isinstance(task, Task):
            raise unexpected("a Task (see Task.of)", "task", task)
        for name, executor in (("builder", builder), ("measurer", measurer)):
            if executor is not None and not callable(getattr(executor, "submit", None)):
                raise unexpected("an executor of concurrent.futures, or None", name, executor)
        self.task, self.settings = task, Settings() if settings is None else settings
        self._builder, self._measurer = builder, measurer
        shared = _SHARED.get()
        if shared is not None:
            shared.renew()
        self._processes, self._shared = shared or Processes(), shared is not None
        self._sent: dict[str, Reply] = {}  # what `accept` took, by the digest of the text
        self._kept: OrderedDict[str, Built] = OrderedDict()
        self._compiling = 0.0  # seconds of waiting for compilers
        self._folder = Path(tempfile.mkdtemp(prefix="build-", dir=runtime.cache_folder()))
        task.save(self._folder)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes that were started for it alone, and remove their files."""
        if not self._shared:
            self._processes.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self) -> None:
        """Begin to start the processes, while candidates are still being chosen: Python takes most
        of a second to start, twice. `measure` waits for them, and starts those that are not there.
        """
        if self._builder is None:
            _ = self._processes.compilers
        if self._measurer is None:
            self._processes.server(self._folder, self.settings).start()

    def accept(self, libraries: Mapping[str, bytes], command: Sequence[str]) -> None:
        """Take libraries that another machine compiled, in the place of those before.

        libraries  by the digest of their text (see `text_digest`); one that does not load is made
                   here
        command    what compiled them
        """
        self._sent = {}
        for digest, code in libraries.items():
            path = self._folder / f"sent-{digest}.so"
            path.unlink(missing_ok=True)  # it may be loaded somewhere
            path.write_bytes(code)
            self._sent[digest] = {"library": str(path), "command": list(command)}

    def build(
        self, candidates: Sequence[Candidate], settings: Settings | None = None
    ) -> list[Built | Result]:
        """Each candidate as machine code, or a Result with the reason why there is none."""
        return build_all(candidates, self.task.target, settings or self.settings, self._compile)

    def measure(
        self, candidates: Sequence[Candidate], best: float | None = None
    ) -> Iterator[Result]:
        """Yield the result of each candidate, in order. All are built before the first is timed.

        best  seconds of the best candidate so far: one that is clearly slower is not timed exactly

        Where an exception ends it (Ctrl-C), its processes end too; the next call starts new ones.
        Raises ArgumentError for what is no candidate, MeasureError if no process can measure.
        """
        with contextlib.suppress(OSError):
            os.utime(self._folder)  # others remove old folders
        try:
            start, self._compiling = time.perf_counter(), 0.0
            built, alone = self._built(candidates), replace(self.settings, batch=1)
            building, compiling = time.perf_counter() - start, self._compiling
            share = max(1, len(candidates))
            emitting = max(0.0, building - compiling)  # sums of seconds are rounded
            own = Ledger(emit=emitting / share, compile=compiling / share)
            results, start = self._run(built, best), time.perf_counter()
            for candidate, one, first in zip(candidates, built, results):
                result = first
                if _is_suspect(result, one, built) or self._came_from_elsewhere(result, one):
                    (result,) = self._run(self.build([candidate], alone), best)
                elif result.ok and isinstance(one, Built):
                    self._keep(candidate, one)
                spent = building / share + time.perf_counter() - start
                ledger = (own + first.ledger).rest_is("wait", spent)
                yield replace(result, spent=round(spent, 4), ledger=ledger)
                start = time.perf_counter()
        except GeneratorExit:  # nothing runs meanwhile
            raise
        except BaseException:
            self._processes.close()
            raise

    def _built(self, candidates: Sequence[Candidate]) -> list[Built | Result]:
        """`build`, but for what is kept."""
        known = [self._kept.get(_key(candidate)) for candidate in candidates]
        known = [k if k is not None and os.path.exists(k.library) else None for k in known]
        news = iter(self.build([c for c, k in zip(candidates, known) if k is None]))
        return [next(news) if k is None else k for k in known]

    def _came_from_elsewhere(self, result: Result, built: Built | Result) -> bool:
        """Test whether a library could not be loaded that another machine made; then one is made
        here.
        """
        if result.status is not Status.BUILD or not isinstance(built, Built):
            return False
        return self._sent.pop(text_digest(built.emitted.source), None) is not None

    def _keep(self, candidate: Candidate, built: Built) -> None:
        key = _key(candidate)
        self._kept[key] = built
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _compile(self, source: str, time_limit: float) -> Callable[[], Reply]:
        wait: Wait
        if (known := self._sent.get(text_digest(source))) is not None:
            return lambda: known
        if self._builder is not None:
            wait = self._builder.submit(compile_text, source, time_limit).result
        else:
            wait = self._processes.compilers.compile(source, time_limit)
        return functools.partial(self._waited, wait)

    def _waited(self, wait: Callable[[], Reply]) -> Reply:
        start = time.perf_counter()
        try:
            return wait()
        finally:
            self._compiling += time.perf_counter() - start

    def _run(self, built: Sequence[Built | Result], best: float | None) -> Iterator[Result]:
        """The result of each; those that were not built have one already."""
        jobs = [b for b in built if isinstance(b, Built)]
        if self._measurer is not None and jobs:
            there = functools.partial(measure_there, str(self._folder), jobs, self.settings, best)
            results = iter(self._measurer.submit(there).result())
        else:
            results = self._processes.server(self._folder, self.settings).measure(jobs, best)
        return (b if isinstance(b, Result) else next(results) for b in built)


def _key(candidate: Candidate) -> str:
    """A text that candidates share if they are the same code."""
    if isinstance(candidate, Emitted):
        return f"{candidate.entry}\n{candidate.source}"
    program = candidate.program if isinstance(candidate, Schedule) else candidate
    return structural_hash(program) if isinstance(program, Program) else ""


def _better(best: float | None, result: Result) -> float | None:
    if not result.ok or result.early:
        return best
    return result.median if best is None else min(best, result.median)


def _is_suspect(result: Result, built: Built | Result, others: Sequence[Built | Result]) -> bool:
    """Test whether a library could not be loaded, perhaps because of another candidate in it."""
    if result.status is not Status.BUILD or not isinstance(built, Built):
        return False
    same = [b for b in others if isinstance(b, Built) and b.library == built.library]
    return len({b.emitted.entry for b in same}) > 1


class Server:
    """The process that measures, started when it is needed, and again where it is lost.

    task  the folder with its arrays; where it is another than before, they are read anew
    """

    def __init__(self, task: Path, settings: Settings) -> None:
        self.task, self.settings = task, settings
        self.worker: runtime.Worker | None = None
        self._loading = task
        self._loaded: Path | None = None  # None until the worker has the first

    def measure(self, built: Sequence[Built], best: float | None) -> Iterator[Result]:
        """The result of each, one at a time: the next is measured when the generator continues."""
        for one in built:
            result = self._one(one, best)
            best = _better(best, result)
            yield result

    def close(self) -> None:
        """End the server, with everything it started."""
        if self.worker is not None:
            self.worker.close(GRACE)
        self.worker = None

    def start(self) -> runtime.Worker:
        """The process; where there is none it begins to start, and reads the arrays of the task."""
        if self.worker is None:
            settings = json.dumps(asdict(self.settings))
            arguments = ("measure", str(self.task), settings, str(guards_library()))
            self.worker = runtime.Worker.start(WORKER, *arguments, variables=_ALONE)
            self._loading, self._loaded = self.task, None
        return self.worker

    def _await(self, worker: runtime.Worker) -> None:
        """Wait until a process has the arrays that it reads."""
        try:
            worker.receive(_START)
        except BaseException as failure:
            worker.close()
            self.worker = None
            if isinstance(failure, runtime.WorkerError):
                raise MeasureError(f"the process that measures {failure.message}") from None
            raise
        self._loaded = self._loading

    def _one(self, built: Built, best: float | None) -> Result:
        worker = self.start()
        if self._loaded is None:
            self._await(worker)
        if self._loaded != self.task:
            self._loading = self.task
            worker.send({"task": str(self.task)})
            self._await(worker)
        emitted, early = built.emitted, built.early
        job = {name: getattr(emitted, name) for name in ("entry", "workspace", "checks")}
        job |= {"params": [b.name for b in emitted.params], "early": None, "cold": built.cold}
        if early is not None:
            job["early"] = Early(
                early.entry,
                early.workspace,
                [b.name for b in early.params],
                [
                    (b.name, list(b.shape), str(b.dtype))
                    for b in (p for p in early.params if p.name in early.outputs)
                ],
            )._asdict()
        worker.send({**job, "library": built.library, "best": best})
        try:
            reply = worker.receive(math.inf)
        except runtime.WorkerError as lost:
            worker.close()
            self.worker = None
            name = print_name(emitted.name or emitted.entry)
            text = f"{name} took the process along that measured it, which {lost.message}"
            return Result(Status.CRASH, message=text, command=built.command)
        reply |= {"status": Status(reply["status"]), "times": tuple(reply["times"])}
        reply["ledger"] = Ledger(**reply["ledger"])
        return Result(**{**reply, "command": built.command})


def measure_there(
    task: str, built: Sequence[Built], settings: Settings, best: float | None
) -> list[Result]:
    """`Server.measure` with a server that is started for it; for executors.

    task  the folder that Task.save wrote
    """
    server = Server(Path(task), settings)
    try:
        return list(server.measure(built, best))
    finally:
        server.close()


def serve_measurements(task: Path, settings: Settings, guards: Path) -> None:
    """The process of `Server`, until its parent closes it: it forks one for each candidate."""
    with (
        runtime.Parent.connected(watched=False) as parent,
        runtime.scratch_folder(runtime.cache_folder()) as scratch,
    ):
        arena = _arena(task)
        parent.send({})
        for request in parent.requests():
            if "task" in request:
                del arena  # before there is another: they may be large
                arena = _arena(Path(request["task"]))
                parent.send({})
                continue
            request["library"] = Path(request["library"])
            request["early"] = request["early"] and Early(**request["early"])
            job = Job(**request, guards=guards, settings=settings)
            start = time.perf_counter()
            with (
                tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder,
                timing_lock(parent.check),
            ):
                waited = Ledger(wait=time.perf_counter() - start)
                result = Attempt(job, arena, Path(folder), parent.check).result()
            parent.send(asdict(replace(result, ledger=waited + result.ledger)))


def _arena(task: Path) -> Arena:
    """The arrays of a task, as what the processes of its candidates share."""
    gc.unfreeze()
    arena = Arena(Task.load(task)[0])
    gc.collect()
    gc.freeze()
    return arena
