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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from minitensor import runtime
from minitensor.codegen import Emitted
from minitensor.errors import MeasureError, unexpected
from minitensor.ir import Program, print_name, structural_hash
from minitensor.sanitize import guards_library
from minitensor.schedule import Schedule
from minitensor.search.runner.attempt import Attempt, Early, Job
from minitensor.search.runner.build import (
    GRACE,
    WORKER,
    Built,
    Candidate,
    Compilers,
    Reply,
    build_all,
    compile_text,
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


class Runner:
    """Builds and measures candidates of one task, in processes of their own.

        with Runner(Task.of(program)) as runner:
            for result in runner.measure(schedules): …

    task      inputs and expected outputs
    settings  limits and precision
    builder   runs `compile_text`; None for a process of its own
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
        self._compilers: Compilers | None = None
        self._server: Server | None = None
        self._kept: OrderedDict[str, Built] = OrderedDict()
        self._folder = Path(tempfile.mkdtemp(prefix="build-", dir=runtime.cache_folder()))
        task.save(self._folder)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes that were started, and remove their files."""
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

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
            start = time.perf_counter()
            built, alone = self._built(candidates), replace(self.settings, batch=1)
            building = (time.perf_counter() - start) / max(1, len(candidates))
            results, start = self._run(built, best), time.perf_counter()
            for candidate, one, first in zip(candidates, built, results):
                result = first
                if _is_suspect(result, one, built):
                    (result,) = self._run(self.build([candidate], alone), best)
                elif result.ok and isinstance(one, Built):
                    self._keep(candidate, one)
                running = time.perf_counter() - start
                yield replace(result, spent=round(building + running, 4))
                start = time.perf_counter()
        except GeneratorExit:  # nothing runs meanwhile
            raise
        except BaseException:
            self._stop()
            raise

    def _built(self, candidates: Sequence[Candidate]) -> list[Built | Result]:
        """`build`, but for what is kept."""
        known = [self._kept.get(_key(candidate)) for candidate in candidates]
        known = [k if k is not None and os.path.exists(k.library) else None for k in known]
        news = iter(self.build([c for c, k in zip(candidates, known) if k is None]))
        return [next(news) if k is None else k for k in known]

    def _keep(self, candidate: Candidate, built: Built) -> None:
        key = _key(candidate)
        self._kept[key] = built
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _stop(self) -> None:
        for process in (self._compilers, self._server):
            if process is not None:
                process.close()
        self._compilers = self._server = None

    def _compile(self, source: str, time_limit: float) -> Callable[[], Reply]:
        if self._builder is not None:
            return self._builder.submit(compile_text, source, time_limit).result
        if self._compilers is None:
            self._compilers = Compilers()
        return self._compilers.compile(source, time_limit)

    def _run(self, built: Sequence[Built | Result], best: float | None) -> Iterator[Result]:
        """The result of each; those that were not built have one already."""
        jobs = [b for b in built if isinstance(b, Built)]
        if self._measurer is not None and jobs:
            there = functools.partial(measure_there, str(self._folder), jobs, self.settings, best)
            results = iter(self._measurer.submit(there).result())
        else:
            if self._server is None:
                self._server = Server(self._folder, self.settings)
            results = self._server.measure(jobs, best)
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
    """The process that measures, started when it is needed, and again where it is lost."""

    def __init__(self, task: Path, settings: Settings) -> None:
        self.task, self.settings = task, settings
        self.worker: runtime.Worker | None = None

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

    def _started(self) -> runtime.Worker:
        settings = json.dumps(asdict(self.settings))
        arguments = ("measure", str(self.task), settings, str(guards_library()))
        worker = runtime.Worker.start(WORKER, *arguments, variables=_ALONE)
        try:
            worker.receive(_START)
        except BaseException as failure:
            worker.close()
            if isinstance(failure, runtime.WorkerError):
                raise MeasureError(f"the process that measures {failure.message}") from None
            raise
        return worker

    def _one(self, built: Built, best: float | None) -> Result:
        if self.worker is None:
            self.worker = self._started()
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
        self.worker.send({**job, "library": built.library, "best": best})
        try:
            reply = self.worker.receive(math.inf)
        except runtime.WorkerError as lost:
            self.worker.close()
            self.worker = None
            name = print_name(emitted.name or emitted.entry)
            text = f"{name} took the process along that measured it, which {lost.message}"
            return Result(Status.CRASH, message=text, command=built.command)
        reply |= {"status": Status(reply["status"]), "times": tuple(reply["times"])}
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
        arena = Arena(Task.load(task)[0])
        gc.collect()
        gc.freeze()
        parent.send({})
        for request in parent.requests():
            request["library"] = Path(request["library"])
            request["early"] = request["early"] and Early(**request["early"])
            job = Job(**request, guards=guards, settings=settings)
            with (
                tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder,
                timing_lock(parent.check),
            ):
                result = Attempt(job, arena, Path(folder), parent.check).result()
            parent.send(asdict(result))
