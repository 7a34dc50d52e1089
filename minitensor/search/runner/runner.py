"""What a search holds: candidates go in, what became of them comes out."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from minitensor.errors import unexpected
from minitensor.ir import print_name
from minitensor.runtime import cache_folder, usable_cores
from minitensor.search.runner.candidate import Built, Candidate, build_all
from minitensor.search.runner.compiling import compile_text
from minitensor.search.runner.process import BuilderProcess, LostError, ServerProcess
from minitensor.search.runner.results import Result, Status
from minitensor.search.runner.settings import Settings
from minitensor.search.runner.task import Task


class Runner:
    """Builds and measures candidates of one task, in processes that they may take along.

        with Runner(Task.of(program)) as runner:
            results = runner.measure(schedules)

    task      inputs, and what is to be computed
    settings  limits and precision
    builder   runs `compile_text`; None for a process of our own, which ends with this one
    measurer  runs `measure_there`; None for a server of our own, which ends with this one

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
        self.task = task
        self.settings = Settings() if settings is None else settings
        self._builder, self._measurer = builder, measurer
        self._own_builder: BuilderProcess | None = None
        self._session: Session | None = None
        self._queue: ThreadPoolExecutor | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="build-", dir=cache_folder()))
        task.save(self._folder)

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes that were started, and remove what they were told."""
        self._stop()
        if self._queue is not None:
            self._queue.shutdown(cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def build(self, candidates: Sequence[Candidate]) -> list[Built | Result]:
        """Each candidate as machine code, or a Result that says why there is none."""
        return self._build(candidates, self.settings)

    def measure(
        self,
        candidates: Sequence[Candidate],
        best: float | None = None,
        tell: Callable[[int, Result], object] = lambda number, result: None,
    ) -> list[Result]:
        """What became of each candidate, in order. All are built before the first is timed.

        best  seconds of the best candidate so far: who is clearly slower is not timed exactly
        tell  is called with the number of each candidate (from 0) and its result once it is known,
              not always in order

        Where an exception ends it (Ctrl-C), its processes end too; the next call starts new ones.
        Raises ArgumentError for what is no candidate, LostError if no process can measure.
        """
        try:
            built, again, results = self.build(candidates), [], []
            for number, result in enumerate(self._measured(built, best)):
                results.append(result)
                if _is_suspect(result, built[number], built):
                    again.append(number)
                else:
                    tell(number, result)
            if again:
                alone = replace(self.settings, batch=1)
                rebuilt = self._build([candidates[n] for n in again], alone)
                for number, result in zip(again, self._measured(rebuilt, best)):
                    results[number] = result
                    tell(number, result)
        except BaseException:
            self._stop()
            raise
        return results

    def submit(
        self, candidates: Sequence[Candidate], best: float | None = None
    ) -> Future[list[Result]]:
        """`measure`, in a thread that does one after the other; for `asyncio.wrap_future`, say."""
        if self._queue is None:
            self._queue = ThreadPoolExecutor(1, thread_name_prefix="minitensor-runner")
        return self._queue.submit(self.measure, list(candidates), best)

    def _stop(self) -> None:
        for process in (self._own_builder, self._session):
            if process is not None:
                process.close()
        self._own_builder = self._session = None

    def _compiling(self) -> Callable[[str, float], Future[dict[str, Any]]]:
        if self._builder is not None:
            executor = self._builder
            return lambda source, limit: executor.submit(compile_text, source, limit)
        if self._own_builder is None:
            self._own_builder = BuilderProcess(usable_cores())
        return self._own_builder.compile

    def _build(self, candidates: Sequence[Candidate], settings: Settings) -> list[Built | Result]:
        return build_all(candidates, self.task.target, settings, self._compiling())

    def _measured(self, built: Sequence[Built | Result], best: float | None) -> Iterator[Result]:
        """What became of each; those that were not built have a Result already."""
        results = self._run([b for b in built if isinstance(b, Built)], best)
        return (b if isinstance(b, Result) else next(results) for b in built)

    def _run(self, jobs: Sequence[Built], best: float | None) -> Iterator[Result]:
        if not jobs:
            return iter(())
        if self._measurer is not None:
            there = self._measurer.submit(
                measure_there, str(self._folder), jobs, self.settings, best
            )
            return iter(there.result())
        if self._session is None:
            self._session = Session(self._folder, self.settings)
        return self._session.measure(jobs, best)


def _is_suspect(result: Result, built: Built | Result, others: Sequence[Built | Result]) -> bool:
    """Whether a library could not be loaded, and another candidate in it may be to blame."""
    if result.status is not Status.BUILD or not isinstance(built, Built):
        return False
    same = [b for b in others if isinstance(b, Built) and b.library == built.library]
    return len({b.emitted.entry for b in same}) > 1


class Session:
    """A server, and another one if it is lost."""

    def __init__(self, task: Path, settings: Settings) -> None:
        self.task, self.settings = task, settings
        self.server: ServerProcess | None = None

    def measure(self, built: Sequence[Built], best: float | None) -> Iterator[Result]:
        """What became of each, one at a time: the next is measured when it is asked for."""
        for one in built:
            result = self._one(one, best)
            if result.ok and not result.early:
                best = result.median if best is None else min(best, result.median)
            yield result

    def close(self) -> None:
        """End the server, with everything it started."""
        if self.server is not None:
            self.server.close()
        self.server = None

    def _one(self, built: Built, best: float | None) -> Result:
        if self.server is None:
            self.server = ServerProcess(self.task, self.settings)
        try:
            told = self.server.run(built.job(best))
        except LostError as lost:
            with contextlib.suppress(LostError):
                self.server.kill()
            self.close()
            name = print_name(built.emitted.name or built.emitted.entry)
            text = f"{name} took the process along that measured it; {lost.message}"
            return Result(Status.CRASH, message=text, command=built.command)
        result = Result(**{**told, "status": Status(told["status"]), "times": tuple(told["times"])})
        if result.status is Status.CHECK:
            checks = built.emitted.checks
            number = int(result.message)
            known = 1 <= number <= len(checks)
            text = checks[number - 1] if known else f"it returned {number}, which means nothing"
            result = replace(result, message=text)
        return replace(result, command=built.command)


def measure_there(
    task: str, built: Sequence[Built], settings: Settings, best: float | None
) -> list[Result]:
    """`Session.measure` with a server that is started for it; for executors.

    task  the folder that Task.save wrote
    """
    session = Session(Path(task), settings)
    try:
        return list(session.measure(built, best))
    finally:
        session.close()
