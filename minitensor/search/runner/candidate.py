"""Candidates, and their way to machine code: several in a text, alone where that fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

from minitensor.codegen import Emitted, Target, generate_together
from minitensor.errors import MinitensorError, unexpected
from minitensor.ir import Program
from minitensor.schedule import Schedule
from minitensor.search.runner.results import Result, Status
from minitensor.search.runner.settings import Settings

Candidate: TypeAlias = Schedule | Program | Emitted
"""A schedule, the program after it, or C text that is ready to be compiled."""
Compile: TypeAlias = "Callable[[str, float], Future[dict[str, Any]]]"
"""Begins to compile a text (see `compile_text`)."""


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

    def job(self, best: float | None) -> dict[str, Any]:
        """What a server is told."""
        return {
            "library": self.library,
            "entry": self.emitted.entry,
            "workspace": self.emitted.workspace,
            "best": best,
        }


def build_all(
    candidates: Sequence[Candidate], target: Target, settings: Settings, compile_text: Compile
) -> list[Built | Result]:
    """All candidates as machine code; a Result for those that cannot be built.

    A text that does not compile is cut in halves, until only who is to blame is left; one that
    takes too long, into its candidates.
    Raises ArgumentError for what is no candidate.
    """
    found: dict[int, Built | Result] = {}
    waiting: deque[tuple[list[int], list[Emitted], Future[dict[str, Any]]]] = deque()

    def compiled(numbers: list[int], emitted: list[Emitted]) -> None:
        future = compile_text(emitted[0].source, settings.compile_limit)
        waiting.append((numbers, emitted, future))

    def generated(numbers: list[int]) -> None:
        programs = [_program(candidates[n]) for n in numbers]
        try:
            emitted = generate_together([(p, target) for p in programs])
        except Exception as failure:  # a pass may fail in any way, for one of them
            if len(numbers) > 1:
                halves(numbers)
            else:
                found[numbers[0]] = _not_generated(failure)
            return
        compiled(numbers, list(emitted))

    def halves(numbers: list[int]) -> None:
        middle = len(numbers) // 2
        generated(numbers[:middle])
        generated(numbers[middle:])

    texts: dict[str, list[int]] = {}
    programs = []
    for number, candidate in enumerate(candidates):
        if isinstance(candidate, Emitted):
            texts.setdefault(candidate.source, []).append(number)
        else:
            programs.append(number)
    for numbers in texts.values():
        compiled(numbers, [e for n in numbers if isinstance(e := candidates[n], Emitted)])
    for start in range(0, len(programs), settings.batch):
        generated(programs[start : start + settings.batch])
    while waiting:
        numbers, emitted, future = waiting.popleft()
        told = future.result()
        if "library" in told:
            for number, one in zip(numbers, emitted):
                found[number] = Built(one, told["library"], tuple(told["command"]))
        elif len(numbers) > 1 and not isinstance(candidates[numbers[0]], Emitted):
            if told.get("seconds", 0.0) >= settings.compile_limit:  # halves would take as long
                for number in numbers:
                    generated([number])
            else:
                halves(numbers)
        else:
            found.update(dict.fromkeys(numbers, _not_compiled(told)))
    return [found[number] for number in range(len(candidates))]


def _program(candidate: object) -> Program:
    if isinstance(candidate, Schedule):
        return candidate.program
    if not isinstance(candidate, Program):
        raise unexpected("a schedule, a program, or emitted text", "candidate", candidate)
    return candidate


def _not_generated(failure: Exception) -> Result:
    known = isinstance(failure, MinitensorError)
    text = failure.message if isinstance(failure, MinitensorError) else str(failure)
    return Result(Status.BUILD, message=text if known else f"{type(failure).__name__}: {text}")


def _not_compiled(told: dict[str, Any]) -> Result:
    return Result(
        Status.BUILD,
        message=told["error"],
        command=tuple(told["command"]),
        details=told["details"],
    )
