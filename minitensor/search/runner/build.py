"""From candidates to machine code: several in a text, alone where that fails.

`Compilers` is a process that runs the compilers, for what it starts ends with this process.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from minitensor import runtime
from minitensor.codegen import Emitted, Target, generate_together
from minitensor.errors import CompileError, MeasureError, unexpected
from minitensor.ir import Program
from minitensor.schedule import Schedule
from minitensor.search.runner.results import Result, Settings, Status, reason_of
from minitensor.search.runner.timing import compile_lock

WORKER: Final = "minitensor.search.runner"
"""The module that workers run."""
GRACE: Final = 3.0
"""Seconds for a worker to end by itself."""

Candidate: TypeAlias = Schedule | Program | Emitted
"""A schedule, the program after it, or C text that is ready to be compiled."""
Reply: TypeAlias = "dict[str, Any]"
Compile: TypeAlias = "Callable[[str, float], Callable[[], Reply]]"
"""Begins to compile a text; a call of what it returns waits for the reply of `compile_text`."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate as machine code.

    emitted  its text, and what is known of it
    library  the path of the library that holds it
    command  what compiled it
    """

    emitted: Emitted
    library: str
    command: tuple[str, ...]


def compile_text(source: str, time_limit: float) -> Reply:
    """Compile C text, or take it from the cache: {"library", "command"}, paths and words.

    Where that fails {"error", "command", "details", "seconds"}: the message, what the compiler
    printed, and how long it took.
    Nothing is timed meanwhile. Any executor may run this: it takes and gives plain data.
    """
    start = time.monotonic()
    try:
        with compile_lock():
            compiled = runtime.compile_library(source, runtime.find_toolchain(), time_limit)
    except Exception as failure:  # a request without a reply would be waited for
        reply = {"error": reason_of(failure), "command": [], "details": "", "seconds": 0.0}
        if isinstance(failure, CompileError):
            reply |= {"command": list(failure.command), "details": failure.stderr}
            reply["seconds"] = time.monotonic() - start
        return reply
    return {"library": str(compiled.path), "command": list(compiled.command)}


class Compilers:
    """A process that compiles several texts at a time; it ends with this one, or with `close`."""

    def __init__(self) -> None:
        self.worker = runtime.Worker.start(WORKER, "compile", str(runtime.usable_cores()))
        self._count = 0
        self._replies: dict[int, Reply] = {}

    def compile(self, source: str, time_limit: float) -> Callable[[], Reply]:
        """Begin to compile a text; see `Compile`."""
        self._count += 1
        self.worker.send({"id": self._count, "source": source, "time_limit": time_limit})
        return functools.partial(self._reply, self._count)

    def close(self) -> None:
        """End it, in the middle of its work."""
        self.worker.close(GRACE)

    def _reply(self, number: int) -> Reply:
        try:
            while number not in self._replies:
                reply = self.worker.receive(math.inf)
                self._replies[reply["id"]] = reply
        except runtime.WorkerError as failure:
            raise MeasureError(f"the process that compiles {failure.message}") from None
        return self._replies.pop(number)


def serve_compilers(threads: int) -> None:
    """The process of `Compilers`, until its parent closes it."""
    pool = ThreadPoolExecutor(threads)
    with runtime.Parent.connected() as parent:
        try:
            for request in parent.requests():
                pool.submit(_serve, parent, request)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _serve(parent: runtime.Parent, request: Reply) -> None:
    reply = compile_text(request["source"], request["time_limit"])
    with contextlib.suppress(runtime.ParentGoneError):
        parent.send({"id": request["id"], **reply})


def build_all(
    candidates: Sequence[Candidate], target: Target, settings: Settings, compile_text: Compile
) -> list[Built | Result]:
    """All candidates as machine code; a Result for those that cannot be built.

    A text that does not compile is cut in halves, until only the guilty candidate is left; one that
    takes too long, into its candidates.
    Raises ArgumentError for what is no candidate.
    """
    return _Build(candidates, target, settings, compile_text).run()


@dataclass
class _Build:
    """One call of `build_all`."""

    candidates: Sequence[Candidate]
    target: Target
    settings: Settings
    compile_text: Compile

    def run(self) -> list[Built | Result]:
        self.found: dict[int, Built | Result] = {}
        self.waiting: deque[tuple[list[int], list[Emitted], Callable[[], Reply]]] = deque()
        texts: dict[str, list[int]] = {}
        programs = []
        for number, candidate in enumerate(self.candidates):
            if isinstance(candidate, Emitted):
                texts.setdefault(candidate.source, []).append(number)
            elif isinstance(candidate, Schedule | Program):
                programs.append(number)
            else:
                raise unexpected("a schedule, a program, or emitted text", "candidate", candidate)
        for numbers in texts.values():
            self.compile(
                numbers, [e for n in numbers if isinstance(e := self.candidates[n], Emitted)]
            )
        for start in range(0, len(programs), self.settings.batch):
            self.generate(programs[start : start + self.settings.batch])
        while self.waiting:
            self.take(*self.waiting.popleft())
        return [self.found[number] for number in range(len(self.candidates))]

    def generate(self, numbers: list[int]) -> None:
        """Generate one text, and begin to compile it."""
        programs = [
            c.program if isinstance(c, Schedule) else c
            for n in numbers
            if not isinstance(c := self.candidates[n], Emitted)
        ]
        try:
            emitted = generate_together([(p, self.target) for p in programs])
        except Exception as failure:  # a pass may fail in any way, for one of them
            if len(numbers) > 1:
                self.halve(numbers)
            else:
                self.found[numbers[0]] = Result(Status.BUILD, message=reason_of(failure))
            return
        self.compile(numbers, list(emitted))

    def compile(self, numbers: list[int], emitted: list[Emitted]) -> None:
        reply = self.compile_text(emitted[0].source, self.settings.compile_limit)
        self.waiting.append((numbers, emitted, reply))

    def halve(self, numbers: list[int]) -> None:
        middle = len(numbers) // 2
        self.generate(numbers[:middle])
        self.generate(numbers[middle:])

    def take(self, numbers: list[int], emitted: list[Emitted], wait: Callable[[], Reply]) -> None:
        """Wait for a text, and cut it where it does not compile."""
        reply = wait()
        if "library" in reply:
            for number, one in zip(numbers, emitted):
                self.found[number] = Built(one, reply["library"], tuple(reply["command"]))
        elif len(numbers) == 1 or isinstance(self.candidates[numbers[0]], Emitted):
            command, details = tuple(reply["command"]), reply["details"]
            failed = Result(Status.BUILD, message=reply["error"], command=command, details=details)
            self.found.update(dict.fromkeys(numbers, failed))
        elif reply["seconds"] >= self.settings.compile_limit:  # halves would take as long
            for number in numbers:
                self.generate([number])
        else:
            self.halve(numbers)
