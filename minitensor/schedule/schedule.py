"""Schedule and Trace: what users hold. A thin recorder over the primitives, and its record."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from minitensor import ir, pictures
from minitensor.errors import (
    ArgumentError,
    ScheduleArgumentError,
    ScheduleError,
    shown,
    unexpected,
    whole,
)
from minitensor.looks import Shown, coloured, difference, shortened, shows_colours
from minitensor.phrasebook import no_program, unknown_name
from minitensor.schedule.cache import StoragePrimitives
from minitensor.schedule.candidates import CandidatePrimitives
from minitensor.schedule.compute_at import PlacementPrimitives
from minitensor.schedule.consumed import consumed
from minitensor.schedule.decisions import DecisionPrimitives
from minitensor.schedule.decompose import DecompositionPrimitives
from minitensor.schedule.edit import loops_around
from minitensor.schedule.execution import ExecutionPrimitives
from minitensor.schedule.former import FormerNames, advise
from minitensor.schedule.inline import InlinePrimitives
from minitensor.schedule.invariants import concurrent_loops_stay_independent
from minitensor.schedule.layout import LayoutPrimitives
from minitensor.schedule.loops import LoopPrimitives
from minitensor.schedule.pad import OperandPrimitives
from minitensor.schedule.prefetch import PrefetchPrimitives
from minitensor.schedule.primitive import Primitive, Rewritten, recordable
from minitensor.schedule.refusal import Drawing, RefusedError
from minitensor.schedule.reverse_compute_at import ReversePlacementPrimitives
from minitensor.schedule.rfactor import ReductionPrimitives
from minitensor.schedule.sample_tile import TilePrimitives
from minitensor.schedule.skip_padding import ZeroPrimitives
from minitensor.schedule.split import SplitPrimitives
from minitensor.schedule.step import Ref, Step, argument, begins, decided, sourced
from minitensor.schedule.tensorize import TensorizePrimitives
from minitensor.schedule.trace import VERSION, as_python, from_json, primitive_of, to_json

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, repr=False)
class Trace(Shown):
    """The steps of a schedule, in order. As text they are the calls that make them, with what was
    decided in its place.

    version  of the format that they were recorded in: a name may mean another loop in a later one
    """

    steps: tuple[Step, ...] = ()
    version: int = VERSION

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def decisions(self) -> dict[int, Any]:
        """The decisions, by the number of the step (counted from 0); None where open."""
        return {
            n: step.arguments["decision"] for n, step in enumerate(self.steps) if step.is_decision
        }

    def with_decisions(self, decisions: Mapping[int, Any]) -> Trace:
        """The trace with other decisions at some steps; None opens one."""
        known = self.decisions
        for number in decisions:
            if number not in known:
                raise unexpected("the number of a step that is a decision", "step", number)
        steps = tuple(
            replace(step, arguments={**step.arguments, "decision": decisions[n]})
            if n in decisions
            else step
            for n, step in enumerate(self.steps)
        )
        return replace(self, steps=steps)

    def opened(self) -> Trace:
        """The trace with every decision open: the template it is an instance of."""
        return self.with_decisions(dict.fromkeys(self.decisions))

    def apply(
        self, program: ir.Program, *, seed: int | None = None, check: bool = True
    ) -> Schedule:
        """Replay the steps on a program; open decisions are drawn at random from `seed`.

        check=False skips verification and rule K1, for traces made with checking on this program.

        Raises ScheduleError, naming the step, where a step is refused.
        """
        return Schedule(program, seed=seed, check=check).replay(self)

    def to_json(self) -> str:
        """The trace as JSON text. Raises ArgumentError beyond what `from_json` reads."""
        return to_json(self.steps, self.version)

    @staticmethod
    def from_json(text: str) -> Trace:
        """The trace that `to_json` wrote. Raises ArgumentError for anything else."""
        return Trace(*from_json(text))

    def as_python(self, name: str = "s", *, plain: bool = False) -> str:
        """The calls that make these steps on a Schedule called `name`, one a line.

        plain  what was decided stands where it is used: the steps that decide are left out
        """
        return as_python(self.steps, name, plain)

    def __str__(self) -> str:
        return self.as_python(plain=True) or "# no steps"


class Schedule(
    Shown,
    SplitPrimitives,
    LoopPrimitives,
    ExecutionPrimitives,
    InlinePrimitives,
    PlacementPrimitives,
    ReversePlacementPrimitives,
    StoragePrimitives,
    LayoutPrimitives,
    DecompositionPrimitives,
    ReductionPrimitives,
    TensorizePrimitives,
    ZeroPrimitives,
    OperandPrimitives,
    PrefetchPrimitives,
    DecisionPrimitives,
    TilePrimitives,
    CandidatePrimitives,
):
    """A program, and the steps that have been applied to it.

    program  the program to schedule (as lowered, or another schedule's result)
    seed     of the decisions that are drawn at random; None for a random one
    check    whether each step's result is verified and held against rule K1; turn it off only to
             replay a trace that was made with checking, or before `confirm`
    decisions  are taken one after the other by the steps that decide something, whatever is given
             there or would be drawn

    Loops and blocks are named by strings. Each method is a primitive; it either succeeds, and
    `program` is the rewritten program, or raises a ScheduleError and changes nothing.
    """

    def __init__(
        self,
        program: ir.Program,
        *,
        seed: int | None = None,
        check: bool = True,
        decisions: Sequence[Any] = (),
    ) -> None:
        if not isinstance(program, ir.Program):
            raise no_program("program", program)
        self._history = [program]
        self._steps: list[Step] = []
        self._results: list[Any] = []
        self._origins: dict[str, Ref] = {}
        self._random = random.Random(seed)
        self._check = check
        self._forced = tuple(decisions)
        if check:
            ir.verify(program)

    if not TYPE_CHECKING:  # a checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_name("schedule", name, "a Schedule", dir(type(self)))

    def __getitem__(self, block: object) -> NoReturn:
        text = "s[C] is TVM's; here loops and blocks are named by strings"
        example = 'i, j, k = s.get_loops("C"), then s.split(i, [None, 8])'
        raise ArgumentError(f"a Schedule is not indexed: {text}: {example}")

    # ---- what there is

    @property
    def program(self) -> ir.Program:
        """The program after the last step."""
        return self._history[-1]

    @property
    def trace(self) -> Trace:
        """The steps so far."""
        return Trace(tuple(self._steps))

    @property
    def history(self) -> tuple[ir.Program, ...]:
        """The programs before the first step and after each."""
        return tuple(self._history)

    def copy(self, steps: int | None = None) -> Schedule:
        """An independent schedule in the same state.

        steps  how many of the steps it has, the first ones; None for all. Raises ArgumentError for
               another number
        """
        count = len(self._steps) if steps is None else whole("steps", steps, 0, len(self._steps))
        twin = Schedule.__new__(Schedule)
        twin._history = self._history[: count + 1]
        twin._steps = self._steps[:count]
        twin._results = self._results[:count]
        twin._origins = dict(self._origins)
        if count < len(self._steps):
            twin._origins.clear()
            for number in range(count):
                twin._returned(number, primitive_of(twin._steps, number))
        twin._random = random.Random()
        twin._random.setstate(self._random.getstate())
        twin._check = self._check
        twin._forced = self._forced
        return twin

    def get_block(self, name: str) -> str:
        """The name itself, if there is a block so called; a tensor stands for its name."""
        return self._block(name)

    def get_blocks(self) -> tuple[str, ...]:
        """The names of all blocks, in the order of the text."""
        return tuple(self.program.blocks)

    def get_loops(self, block: str) -> tuple[str, ...]:
        """The names of the loops around a block, outermost first."""
        block = self._block(block)
        return tuple(loop.var for loop in loops_around(self.program, block))

    def get_producers(self, block: str) -> tuple[str, ...]:
        """The blocks that write what a block reads, in the order of the text."""
        block = self._block(block)
        read = ir.accessed_buffers(self.program.blocks[block])[0]
        found = {b.name for buffer in read for b in ir.writers(self.program, buffer)} - {block}
        return tuple(name for name in self.program.blocks if name in found)

    def get_consumers(self, block: str) -> tuple[str, ...]:
        """The blocks that read what a block writes, in the order of the text."""
        block = self._block(block)
        written = ir.accessed_buffers(self.program.blocks[block])[1]
        found = {b.name for buffer in written for b in ir.readers(self.program, buffer)} - {block}
        return tuple(name for name in self.program.blocks if name in found)

    def _block(self, name: str) -> str:
        name = getattr(name, "name", name)
        if not isinstance(name, str) or name not in self.program.blocks:
            raise self._no_such("block", name)
        return name

    def _no_such(self, kind: str, name: object) -> ScheduleArgumentError:
        known = list(self.program.blocks)
        stale = self._consumed(name) if isinstance(name, str) else None
        message = stale or f"there is no {kind} {shown(name)}"
        return ScheduleArgumentError(message, "A1", choices=known[:20])

    # ---- how it looks

    def show(
        self, *, diff: bool = False, html: str | os.PathLike[str] | bool | None = None
    ) -> pictures.Gallery | None:
        """Print the program; with diff=True what the last step changed, as a unified diff; with
        `html`, write a page of pictures to that file instead: the loops as nested boxes, the bytes
        under each, the order of visits (see docs/pictures.md). html=True returns the pictures,
        which a notebook shows. Raises ArgumentError for a path that cannot be written.
        """
        if html is None or html is False:
            text = self.diff() if diff else str(self.program)
            return print(coloured(text) if diff and shows_colours(sys.stdout) else text)
        drawn, notes = pictures.program_pictures(
            self.program, pictures.known_caches(), pictures.lanes_of
        )
        if html is True:
            return pictures.Gallery(drawn)
        steps = shortened(str(self.trace), lines=400)
        title, code = ir.print_name(self.program.name), [("The steps", steps)]
        pictures.write(html, pictures.page_of(title, drawn, notes, code))
        return None

    def diff(self) -> str:
        """The change of the last step, as a unified diff of the printed programs."""
        if len(self._history) < 2:
            return str(self.program)
        return difference(*map(str, self._history[-2:]))

    def __str__(self) -> str:
        return f"{self._head()}\n{self.program}"

    def _beginning(self) -> str:
        """The first lines of the text."""
        return f"{self._head()}\n{self.program._beginning()}"

    def _head(self) -> str:
        count = f"{len(self._steps)} step{'' if len(self._steps) == 1 else 's'}"
        return f"# {ir.print_name(self.program.name)} after {count}"

    # ---- applying steps

    def apply(
        self,
        primitive: Callable[Concatenate[ir.Program, P], Rewritten[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Apply a primitive, one of your own too, and record the step.

        primitive  what `mt.primitive` declared, or a plain function from a program and arguments
                   to (the new program, a result) or to the new program alone; its arguments and
                   its result are what JSON can hold, and it stands at the top level of a module

        Returns the result. Raises ScheduleError where the primitive refuses, VerifyError where the
        program that it returns is malformed; the schedule is then as it was.
        """
        return self._apply(recordable(primitive), args, kwargs)

    def _apply(
        self, primitive: Primitive[..., R], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> R:
        if primitive.decide is not None:
            kwargs = {**kwargs, **self._next_decision()}
        try:
            arguments, given = primitive.bind(self.program, args, kwargs)
            if primitive.decide is not None and arguments["decision"] is None:
                arguments["decision"] = primitive.decide(self.program, arguments, self._random)
            program, result = primitive.apply(self.program, arguments, self._check)
        except ScheduleError as error:
            self._explain(primitive, error, args, kwargs)
            raise
        if self._check and program is not self.program:
            ir.verify(program)
        recorded = {
            name: sourced(given.get(name), value, self._results, self._origins)
            for name, value in arguments.items()
        }
        number = len(self._steps)
        self._steps.append(Step(primitive.key, recorded, result))
        self._results.append(result)
        self._history.append(program)
        return self._returned(number, primitive)  # type: ignore[no-any-return]

    def _returned(self, number: int, primitive: Primitive[..., Any]) -> Any:
        """The result of a step as its user gets it; the names in it are that step's from now on."""
        result = self._results[number]
        if primitive.decide is not None:
            return decided(result, number)
        if isinstance(result, str):
            self._origins[result] = Ref(number)
        elif isinstance(result, tuple):
            self._origins |= {name: Ref(number, n) for n, name in enumerate(result)}
        return result

    def _next_decision(self) -> dict[str, Any]:
        """The decision that the next step that decides has to take; nothing if it is free."""
        if not self._forced:
            return {}
        number = sum(step.is_decision for step in self._steps)
        return {"decision": self._forced[number]} if number < len(self._forced) else {}

    def replay(self, trace: Trace, *, begun: bool = False) -> Schedule:
        """Apply the steps of a trace; returns this schedule.

        begun  the steps that were applied so far are the first of the trace

        Raises ScheduleError where a step is refused; the steps before it stay applied. So is a
        step of an older version that names a loop whose name may have been another loop's then.
        Raises ArgumentError for a trace that has not begun so.
        """
        first = 0 if begun else len(self._steps)
        former = FormerNames(self.program) if trace.version < VERSION else None
        if begun and (former or not begins(trace.steps, self._steps)):
            raise ArgumentError("begun=True: expected a trace that begins with the steps so far")
        results = [
            self._returned(number, primitive_of(trace.steps, number))
            for number in range(len(self._steps) - first)
        ]
        for number, step in enumerate(trace.steps[len(results) :], len(results)):
            primitive = primitive_of(trace.steps, number)
            try:
                arguments = {n: argument(v, results) for n, v in step.arguments.items()}
                positional, named = primitive.spread(arguments)
                if former:
                    former.check(self.program, step)
                results.append(self._apply(primitive, positional, named))
            except ScheduleError as error:
                error.step = first + len(results) + 1
                advise(error, step)
                raise
            if former:
                former.follow(self._history[-2], self.program, step.result, self._results[-1])
        return self

    def confirm(self) -> Schedule:
        """Check the program as it is now, where steps were applied with check=False: one
        verification instead of one for each step. What follows is checked again. Returns self.

        Raises VerifyError, or ScheduleError by rule K1 for a loop whose iterations conflict.
        """
        ir.verify(self.program)
        try:
            concurrent_loops_stay_independent(self._history[0], self.program, True)
        except RefusedError as refused:
            text = f"confirm() breaks K1: {refused.detail}"
            drawing = Drawing(self.program, refused.marks)
            raise ScheduleError(text, "K1", picture=drawing) from None
        self._check = True
        return self

    # ---- explaining refusals

    def _explain(
        self,
        primitive: Primitive[..., Any],
        error: ScheduleError,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        """Add to an error what only the schedule knows: the step, and who consumed a handle."""
        error.step = len(self._steps) + 1
        error.write_page = Drawing(self.program, ir.Marks()).write_page
        if error.rule != "A1":
            return
        for value in (*args, *kwargs.values()):
            stale = self._consumed(value) if isinstance(value, str) else None
            if stale is not None:
                text = f"{primitive.name}(…) breaks A1: {stale}"
                error.message, error.args = text, (text,)
                return

    def _consumed(self, name: str) -> str | None:
        return consumed(name, self._history, self._steps, self._results)


REGISTRY: Final[Mapping[str, Primitive[..., Any]]] = {
    name: found
    for family in Schedule.__mro__
    for name, found in vars(family).items()
    if isinstance(found, Primitive)
}
"""The primitives of a Schedule, by name: those of the classes that it is made of."""
