"""From candidates to machine code: several in a text, alone where that fails.

`Compilers` is a process that runs the compilers, for what it starts ends with this process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from minitensor import runtime
from minitensor.codegen import Emitted, Split, Target, generate_together, split_constants
from minitensor.errors import CompileError, MeasureError, reason_of, unexpected
from minitensor.ir import Buffer, Program
from minitensor.schedule import Schedule
from minitensor.search.logfile import FULL
from minitensor.search.runner.results import Result, Settings, Status
from minitensor.search.runner.timing import compile_lock

WORKER: Final = "minitensor.search.runner"
"""The module that workers run."""
GRACE: Final = 3.0
"""Seconds for a worker to end by itself."""

TEXTS: Final = 3
"""Texts for each processor, if there are as many programs: so none waits long for the others."""

Candidate: TypeAlias = Schedule | Program | Emitted
"""A schedule, the program after it, or C text that is ready to be compiled."""
Reply: TypeAlias = "dict[str, Any]"
Wait: TypeAlias = "Callable[[], Reply]"
"""Waits for the reply of `compile_text`."""
Compile: TypeAlias = "Callable[[str, float], Wait]"
"""Begins to compile a text."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate as machine code.

    emitted  its text, and what is known of it
    library  the path of the library that holds it
    command  what compiled it
    early    in the same text, what is computed of constants alone, before it is timed: it writes
             the last parameters of `emitted`; None if there is nothing
    cold     the parameters of `emitted` that come from memory, not from a cache: constants, and
             what is computed of them
    """

    emitted: Emitted
    library: str
    command: tuple[str, ...]
    early: Emitted | None = None
    cold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """A candidate in a text; see `Built`."""

    emitted: Emitted
    early: Emitted | None = None
    cold: tuple[str, ...] = ()


def text_digest(source: str) -> str:
    """The digest by which other machines know a text."""
    return hashlib.sha256(source.encode()).hexdigest()


def compile_text(source: str, time_limit: float) -> Reply:
    """Compile C text, or take it from the cache: {"library", "command"}, paths and words.

    Where that fails {"error", "command", "details", "seconds"}: the message, what the compiler
    printed, and how long it took, and whether there was no room on the disk ("full").
    Nothing is timed meanwhile. Any executor may run this: it takes and gives plain data.
    """
    return compiled_by(runtime.find_toolchain, source, time_limit, compile_lock)


def compiled_by(
    compiler: Callable[[], runtime.Toolchain],
    source: str,
    time_limit: float,
    lock: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Reply:
    """The reply of `compile_text`, by another compiler or lock."""
    start = time.monotonic()
    try:
        with lock():
            compiled = runtime.compile_library(source, compiler(), time_limit)
    except Exception as failure:  # a request without a reply would be waited for
        reply = {"error": reason_of(failure), "command": [], "details": "", "seconds": 0.0}
        reply["full"] = False
        if isinstance(failure, CompileError):
            reply |= {"command": list(failure.command), "details": failure.stderr}
            reply["seconds"] = time.monotonic() - start
            reply["full"] = any(os.strerror(n) in f"{failure} {failure.stderr}" for n in FULL)
        return reply
    return {"library": str(compiled.path), "command": list(compiled.command)}


class Compilers:
    """A process that compiles several texts at a time; it ends with this one, or with `close`."""

    def __init__(self) -> None:
        self.worker = runtime.Worker.start(WORKER, "compile", str(runtime.usable_cores()))
        self._count = 0
        self._replies: dict[int, Reply] = {}

    def compile(self, source: str, time_limit: float) -> Wait:
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
    texts: dict[str, dict[int, Text]] = {}
    programs: dict[int, Program] = {}
    for number, candidate in enumerate(candidates):
        if isinstance(candidate, Emitted):
            texts.setdefault(candidate.source, {})[number] = Text(candidate)
        elif isinstance(candidate, Schedule | Program):
            own = candidate.program if isinstance(candidate, Schedule) else candidate
            programs[number] = own
        else:
            raise unexpected("a schedule, a program, or emitted text", "candidate", candidate)
    build = _Build(target, settings, compile_text)
    for text in texts.values():
        build.compile(text, {})
    for_each = -(-len(programs) // (TEXTS * runtime.usable_cores()))
    build.cut(programs, max(1, min(settings.batch, for_each)))
    found = build.run()
    return [found[number] for number in range(len(candidates))]


@dataclass
class _Build:
    """One call of `build_all`. Programs and texts are known by the numbers of their candidates."""

    target: Target
    settings: Settings
    compile_text: Compile
    found: dict[int, Built | Result] = field(default_factory=dict)
    waiting: deque[tuple[dict[int, Text], dict[int, Program], Wait]] = field(default_factory=deque)

    def run(self) -> dict[int, Built | Result]:
        """Wait for all texts that are being compiled."""
        while self.waiting:
            self.take(*self.waiting.popleft())
        return self.found

    def cut(self, programs: dict[int, Program], size: int) -> None:
        """Generate texts of at most so many programs, and begin to compile each."""
        items, target = list(programs.items()), self.target
        groups = [dict(items[start : start + size]) for start in range(0, len(items), size)]

        def text(number: int) -> Reply:
            return _generated([*groups[number].values()], target)

        cores = runtime.usable_cores()
        with contextlib.closing(runtime.share_out(text, len(groups), cores)) as texts:
            for number, reply in texts:
                self.generated(groups[number], reply)

    def generated(self, programs: dict[int, Program], text: Reply) -> None:
        """Begin to compile the text of some programs, or cut it."""
        size, most = len(text["source"]), self.settings.longest
        if (problem := text["problem"]) is None and size > most:
            problem = f"its text has {size:,} characters; the limit is {most:,}"
        if problem is None:
            emitted = _restored([*programs.values()], text, self.target)
            self.compile(dict(zip(programs, emitted)), programs)
        elif len(programs) > 1:
            self.cut(programs, -(-len(programs) // 2))
        else:
            self.found |= dict.fromkeys(programs, Result(Status.BUILD, message=problem))

    def compile(self, emitted: dict[int, Text], programs: dict[int, Program]) -> None:
        """Begin to compile one text; of programs, if it may be cut."""
        source = next(iter(emitted.values())).emitted.source
        reply = self.compile_text(source, self.settings.compile_limit)
        self.waiting.append((emitted, programs, reply))

    def take(self, emitted: dict[int, Text], programs: dict[int, Program], wait: Wait) -> None:
        """Wait for a text, and cut it where it does not compile."""
        reply = wait()
        if "library" in reply:
            for number, one in emitted.items():
                command = tuple(reply["command"])
                self.found[number] = Built(
                    one.emitted, reply["library"], command, one.early, one.cold
                )
        elif reply["full"]:
            raise MeasureError(
                f"nothing can be built: {reply['error']}; the disk of {runtime.cache_folder()} is "
                "full: free some space, or name another folder in MINITENSOR_CACHE_DIR"
            )
        elif len(programs) < 2:
            command, details = tuple(reply["command"]), reply["details"]
            failed = Result(Status.BUILD, message=reply["error"], command=command, details=details)
            self.found |= dict.fromkeys(emitted, failed)
        elif reply["seconds"] >= self.settings.compile_limit:  # halves would take as long
            self.cut(programs, 1)
        else:
            self.cut(programs, -(-len(programs) // 2))


def _generated(programs: Sequence[Program], target: Target) -> Reply:
    """One text of several programs: {"source", "facts", "problem"}; see `_parts`."""
    try:
        emitted = generate_together([(part, target) for part in _parts(programs)[1]])
    except Exception as failure:  # a pass may fail in any way, for one of them
        return {"source": "", "facts": [], "problem": reason_of(failure)}
    facts = [one.facts() for one in emitted]
    return {"source": emitted[0].source, "facts": facts, "problem": None}


def _restored(programs: Sequence[Program], text: Reply, target: Target) -> list[Text]:
    """The candidates of such a text."""
    splits, parts = _parts(programs)
    emitted = [
        Emitted.restored(
            facts, text["source"], part.params, frozenset(b.name for b in part.outputs), target
        )
        for facts, part in zip(text["facts"], parts)
    ]
    rest = iter(emitted[len(programs) :])
    return [
        Text(one, next(rest) if split.early is not None else None, _cold(one, program, split.kept))
        for one, program, split in zip(emitted, programs, splits)
    ]


def _parts(programs: Sequence[Program]) -> tuple[list[Split], list[Program]]:
    """Each program in two parts, a second one only if what it computes is kept; and the programs
    of all parts, those of a call first.
    """
    splits = [split_constants(program, program.constants) for program in programs]
    splits = [
        split if split.early is not None and split.kept else Split(None, program, split.kept)
        for split, program in zip(splits, programs)
    ]
    early = [split.early for split in splits if split.early is not None]
    return splits, [split.late for split in splits] + early


def _cold(emitted: Emitted, program: Program, kept: Sequence[Buffer]) -> tuple[str, ...]:
    """The parameters that are constants, or computed of some."""
    known = program.constants | {buffer.name for buffer in kept}
    return tuple(b.name for b in emitted.params if b.name in known)
