"""The space that a search explores: sketches, and everything that is open in them.

A candidate's steps are, in this order: those of its sketch; where blocks that the sketch left alone
are computed; numbers that say how much of each nest and block is annotated; the annotation that
follows from them (`annotate`). All that is chosen is a decision of the trace, so `decode` finds the
candidate again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from minitensor.arith import Integers, Num
from minitensor.codegen import Target, device_of
from minitensor.errors import ScheduleError, unexpected
from minitensor.ir import Program, loop_sites, print_name
from minitensor.looks import Shown
from minitensor.runtime import Caches, shown_target
from minitensor.schedule import ROOT, Batch, Schedule, Trace, compute_locations
from minitensor.search.features import BatchError, Job, Marks, Structure
from minitensor.search.sketch import Rules, Sketch, branch_weights, generate_sketches
from minitensor.search.space.annotate import Amounts, Annotatable, cut_long_loops
from minitensor.search.space.candidate import (
    GPU_UNROLL,
    GRANULARITY,
    UNROLL,
    Candidate,
    knob_lines,
)
from minitensor.search.space.choices import Choices
from minitensor.search.space.open import (
    begins_with,
    calls,
    decision,
    decoded,
    knobs_of,
    movable_of,
    typical,
    values_of,
)
from minitensor.search.space.replays import Replays
from minitensor.search.space.resources import Resources
from minitensor.search.space.template import UNSEEN, Template
from minitensor.search.unmade import Unmade

MOST_LOCATIONS: Final = 8
"""Places that are considered for a block that may be moved, "root" included: the outermost ones."""


@dataclass(frozen=True)
class Plan:
    """The common part of candidates that differ in numbers only.

    schedule   one of them, before annotation
    loops      what may be annotated
    structure  gives extents and features of many; None if it cannot
    resources  what a candidate takes of a GPU; None for another target
    """

    schedule: Schedule
    loops: Annotatable
    structure: Structure | None
    resources: Resources | None = None


class Space(Shown, Choices):
    """All candidates of a program on a target.

    program   the definition
    target    "c" or an mt.Target; what it leaves open is filled in from this machine
    sketches  the structures; [] stands for the program as it is
    annotate  whether loops become threads, vectors and straight code by rules; without it sketches
              say all of that themselves (templates do)
    template  the function whose structures the sketches are; None if none is

    What cannot be made of them is counted in `unmade`. Raises what the first sketch raises, if none
    can be applied; ArgumentError for a target that does not exist, and CompileError if it leaves
    something open and there is no compiler.
    """

    def __init__(
        self,
        program: Program,
        target: str | Target,
        sketches: Sequence[Sketch],
        annotate: bool = True,
        template: Template | None = None,
        unmade: Unmade | None = None,
    ) -> None:
        self.program, self.annotate = program, annotate
        self.target = shown_target(Target.of(target))
        self.cores = self.target.num_cores or 1
        self.device = device_of(self.target) if self.target.is_gpu else None
        self.copies = UNROLL if self.device is None else GPU_UNROLL
        self.unmade = Unmade() if unmade is None else unmade
        self._template, self.replays = template, Replays(program)
        made = self._made_of(tuple(sketches) or (Sketch(program, Trace(), ()),))
        self.sketches = tuple(sketch for sketch, _ in made)
        self.weights = branch_weights([sketch.history for sketch in self.sketches])
        self._opened = tuple(calls(sketch.trace.opened()) for sketch in self.sketches)
        self._typical = tuple(schedule for _, schedule in made)
        self.knobs = tuple(map(knobs_of, self._typical))
        self.movable = tuple(movable_of(s) if annotate else () for s in self._typical)
        self._plans: dict[tuple[int, tuple[str, ...]], Plan | None] = {}
        self._locations: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}
        self._stages: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._moved: dict[tuple[int, tuple[str, ...]], Schedule] = {}

    def __str__(self) -> str:
        target, many = self.target, len(self.sketches)
        lines = [
            f"# the space of {print_name(self.program.name)} on {target.kind!r}, {self.cores} "
            f"threads, vectors of {target.vector_bits} bits: {many} sketch{'es' * (many > 1)}"
        ]
        for number, (sketch, weight) in enumerate(zip(self.sketches, self.weights)):
            knobs, moved = self.knobs[number], len(self.movable[number])
            count = math.prod(len(knob.options) for knob in knobs)
            places = f", places of {moved} blocks" * (moved > 0)
            lines.append(
                f"{number:2}  {weight:5.1%}  {len(knobs)} decisions, {count:,} combinations{places}"
                f"  # {sketch.rules}"
            )
            if self._template is not None:
                lines += knob_lines(knobs)
        return "\n".join(lines)

    @staticmethod
    def of(
        program: Program,
        target: str | Target,
        rules: Rules = "default",
        caches: Caches | None = None,
    ) -> Space:
        """The space that rules derive (see `generate_sketches`)."""
        exact, unmade = shown_target(Target.of(target)), Unmade()
        sketches = generate_sketches(program, exact, caches=caches, rules=rules, unmade=unmade)
        return Space(program, exact, sketches, unmade=unmade)

    @staticmethod
    def of_template(
        program: Program,
        target: str | Target,
        template: Callable[[Schedule], object],
        seed: int = 0,
    ) -> Space:
        """The space of a user's function, which is called with decisions drawn at random while that
        shows structures that were not seen yet; each of them is a sketch (see `Template`).

        Raises TuningError if the function raises each time; what it raises, if that is an error of
        minitensor's.
        """
        found = Template(program, template, seed)
        return Space(program, target, found.sketches, False, found, found.unmade)

    def _made_of(self, sketches: Sequence[Sketch]) -> list[tuple[Sketch, Schedule]]:
        """The sketches that can be applied, each with a typical schedule."""
        made = []
        for number, sketch in enumerate(sketches):

            def make(decisions: Mapping[int, Any], which: int = number) -> Schedule | None:
                found, schedule = self._make(sketches[which], which, decisions)
                return schedule.confirm() if found == which else None

            try:
                seen = self._template.seen[number] if self._template else sketch.derived
                drawn = sketch.apply(seed=0) if seen is None else seen
                made.append((sketch, typical(drawn, make)))
            except Exception as failure:
                self.unmade.add("a sketch", failure)
        if not made:
            raise next(iter(self.unmade.first.values()))
        return made

    # ---- what is open

    def possible_locations(self, sketch: int, locations: tuple[str, ...]) -> tuple[str, ...]:
        """The places for the next block, once those before it are at `locations`."""
        key = (sketch, locations)
        if key not in self._locations:
            block = self.movable[sketch][len(locations)]
            try:
                found = compute_locations(self._usual(sketch, locations).program, block)
            except Exception as failure:
                self.unmade.add("a place of a block", failure)
                found = [ROOT]
            self._locations[key] = tuple(found[:MOST_LOCATIONS])
        return self._locations[key]

    def stages(self, sketch: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The blocks of a sketch whose nests may have threads, and those that may be unrolled."""
        if sketch not in self._stages:
            places = (ROOT,) * len(self.movable[sketch])
            plan = self.plan(sketch, places) if self.annotate else None
            self._stages[sketch] = plan.loops.stages if plan is not None else ((), ())
        return self._stages[sketch]

    # ---- what candidates have in common

    def plan(self, sketch: int, locations: tuple[str, ...]) -> Plan | None:
        """The common part of candidates with a sketch and places; None if they are refused.

        Worked out once for each.
        """
        key = (sketch, locations)
        if key not in self._plans:
            self._plans[key] = self._planned(sketch, locations)
        return self._plans[key]

    def _planned(self, sketch: int, locations: tuple[str, ...]) -> Plan | None:
        try:
            schedule = self._usual(sketch, locations).copy()
            loops = self._annotatable_of(schedule)
        except Exception as failure:
            self.unmade.add("a form of a sketch", failure)
            return None
        structure: Structure | None = None
        try:
            with contextlib.suppress(BatchError):
                if all(knob.is_number for knob in self.knobs[sketch]):
                    structure = Structure(schedule)
        except Exception as failure:
            self.unmade.add("the structure of a sketch", failure)
        resources = None if self.device is None else Resources.of(schedule.program)
        return Plan(schedule, loops, structure, resources)

    def _annotatable_of(self, schedule: Schedule) -> Annotatable:
        """The loops of a schedule that may be annotated, once long ones are cut; on a GPU none is
        cut, and they may be unrolled only.
        """
        if not self.annotate:
            return Annotatable((), ())
        if self.device is None:
            cut_long_loops(schedule)
        return Annotatable.of(schedule, self.device is not None)

    def has_room(self, plan: Plan, batch: Sequence[Candidate]) -> Sequence[bool]:
        """For each of some candidates of a plan, whether a block of a GPU's threads can have what
        it takes, as far as that is known.
        """
        if plan.resources is None or plan.structure is None or self.device is None:
            return [True] * len(batch)
        try:
            extents = plan.structure.numbers(self.decisions(batch), len(batch)).extents
            wrong = np.broadcast_to(plan.resources.wrong(extents, self.device), (len(batch),))
        except Exception:  # of one of them: it is seen where its schedule is made
            return [True] * len(batch)
        return [not kind for kind in wrong.tolist()]

    def amounts(self, plan: Plan, batch: Sequence[Candidate]) -> Amounts:
        """The extent of annotation in each of some candidates of a plan that has a structure."""
        assert plan.structure is not None
        extents = plan.structure.numbers(self.decisions(batch)).extents
        return self._amounts(plan.loops, extents, batch)

    def _amounts(
        self, loops: Annotatable, extents: Mapping[str, Num], batch: Sequence[Candidate]
    ) -> Amounts:
        threads, copies = self.stages(batch[0].sketch)
        none = np.zeros(len(batch), np.int64)
        parallel = dict.fromkeys((root.block for root in loops.roots), none)
        parallel |= zip(threads, np.array([c.parallel for c in batch], np.int64).T)
        unroll = dict.fromkeys((leaf.block for leaf in loops.leaves), none)
        unroll |= zip(copies, np.array([c.unroll for c in batch], np.int64).T)
        lanes = max(1, (self.target.vector_bits or 0) // 32)
        return loops.amounts(extents, parallel, unroll, self.cores, lanes)

    def numbered(self, plan: Plan, batch: Sequence[Candidate]) -> Job:
        """The job of `features_of` for some candidates of a plan that has a structure."""
        assert plan.structure is not None
        numbers = plan.structure.numbers(self.decisions(batch), len(batch))
        return plan.structure, numbers, self.marks(plan, numbers, batch)

    def marks(self, plan: Plan, numbers: Batch, batch: Sequence[Candidate]) -> Mapping[str, Marks]:
        """The annotation of the loops around each block, for `Structure.features`.

        numbers  those of the batch (see `Structure.numbers`)
        """
        assert plan.structure is not None
        amounts = self._amounts(plan.loops, numbers.extents, batch)
        around = {name: plan.structure.loops_of(name) for name in plan.structure.blocks}
        return plan.loops.marks(amounts, around, len(batch))

    def decisions(self, batch: Sequence[Candidate]) -> dict[int, Integers]:
        """The decisions of candidates of one sketch, by step: (candidates, parts)."""
        found = {}
        for place, knob in enumerate(self.knobs[batch[0].sketch]):
            chosen = [c.values[place] for c in batch]
            if knob.is_tile:
                found[knob.step] = np.array(chosen, np.int64)
            elif knob.kind == "tile":
                found[knob.step] = np.array([decision(knob, c) for c in chosen], np.int64)
            elif all(isinstance(c, int) for c in knob.candidates):
                numbers = np.array(knob.candidates, np.int64)
                found[knob.step] = numbers[np.array(chosen, np.int64)][:, None]
        return found

    # ---- schedules

    def check(self, candidate: Candidate) -> None:
        """Raise ArgumentError for what is no candidate of this space."""
        numbers = range(len(self.sketches))
        if not isinstance(candidate, Candidate) or candidate.sketch not in numbers:
            expected = f"a candidate of one of {len(self.sketches)} sketches (see Space.draw)"
            raise unexpected(expected, "candidate", candidate)
        knobs, movable = self.knobs[candidate.sketch], self.movable[candidate.sketch]
        fits = len(candidate.values) == len(knobs) and len(candidate.locations) == len(movable)
        if not fits or not all(k.fits(v) for k, v in zip(knobs, candidate.values)):
            expected = f"values of the {len(knobs)} knobs and locations of {list(movable)}"
            raise unexpected(expected, "candidate", candidate)
        threads, copies = self.stages(candidate.sketch)
        for name, among, of in (
            ("parallel", GRANULARITY, threads),
            ("unroll", self.copies, copies),
        ):
            given = getattr(candidate, name)
            fits = isinstance(given, tuple) and len(given) == len(of)
            if not fits or not all(number in among for number in given):
                expected = f"one of {list(among)} for each of {list(of)}"
                raise unexpected(expected, f"candidate.{name}", given)
        origin = candidate.origin
        if not isinstance(origin, tuple) or not all(isinstance(key, str) for key in origin):
            raise unexpected("keys of traces (see trace_key)", "candidate.origin", origin)

    def schedule(self, candidate: Candidate) -> Schedule:
        """The schedule of a candidate. Raises ScheduleError if a step of it is refused.

        Its program is verified once, at the end: steps of this kind have been seen before.
        """
        knobs = self.knobs[candidate.sketch]
        decisions = {k.step: decision(k, v) for k, v in zip(knobs, candidate.values)}
        self._require_room(candidate)
        _, schedule = self._make(self.sketches[candidate.sketch], candidate.sketch, decisions)
        for block, place in zip(self.movable[candidate.sketch], candidate.locations):
            _move(schedule, block, place)
        if self.annotate:
            if self.device is None:
                cut_long_loops(schedule)
            chosen = [(GRANULARITY, n) for n in candidate.parallel]
            for among, number in chosen + [(self.copies, n) for n in candidate.unroll]:
                schedule.sample_categorical(list(among), decision=among.index(number))
            loops = self._annotatable(candidate, schedule)
            sites = loop_sites(schedule.program)
            extents = {var: np.array([site.loop.extent]) for var, site in sites.items()}
            loops.apply(schedule, self._amounts(loops, extents, [candidate]))
        return schedule.confirm()

    def _require_room(self, candidate: Candidate) -> None:
        """Raise ResourceError for a candidate that takes more than a GPU has."""
        plan = self.plan(candidate.sketch, candidate.locations) if self.device else None
        if plan is None or all(self.has_room(plan, [candidate])):
            return
        assert plan.structure is not None and plan.resources is not None and self.device is not None
        extents = plan.structure.extents(self.decisions([candidate]), 1)
        plan.resources.require({name: int(n[0]) for name, n in extents.items()}, self.device)

    def realized(self, candidate: Candidate) -> tuple[Candidate, Schedule]:
        """The schedule of a candidate, and the candidate that it is: the steps of a template may
        depend on its decisions, and be those of another sketch. Raises as `schedule`.
        """
        schedule = self.schedule(candidate)
        opened = self._opened[candidate.sketch]
        if self._template is None or calls(schedule.trace.opened()) == opened:
            return candidate, schedule
        found = self.decode(schedule.trace)
        if found is None:
            raise ScheduleError(UNSEEN, "T1")
        return replace(found, origin=candidate.origin), schedule

    def _annotatable(self, candidate: Candidate, schedule: Schedule) -> Annotatable:
        """The loops of a candidate's schedule that may be annotated: those of its plan, if it has
        the same loops. (What `rfactor` makes of a fused loop has fewer where the loop is cut at the
        border of an axis.)
        """
        plan = self.plan(candidate.sketch, candidate.locations)
        loops = list(loop_sites(schedule.program))
        if plan is not None and list(loop_sites(plan.schedule.program)) == loops:
            return plan.loops
        return Annotatable.of(schedule, self.device is not None)

    def identity(self, candidate: Candidate) -> Hashable:
        """Candidates with the same identity are the same program, though not the other way round.

        Different numbers may annotate the same loops: this needs no schedule.
        """
        plan = self.plan(candidate.sketch, candidate.locations) if self.annotate else None
        if plan is None or plan.structure is None:
            return candidate
        try:
            amounts = self.amounts(plan, [candidate])
        except Exception:  # of this one
            return candidate
        counts = tuple(int(a[0]) for a in (*amounts.parallel, *amounts.unroll))
        return candidate.sketch, candidate.values, candidate.locations, counts

    def decode(self, trace: Trace) -> Candidate | None:
        """The candidate whose schedule has this trace; None if it is none of this space's."""
        found = self.recognized(trace)
        return None if found is None else found[0]

    def recognized(self, trace: Trace) -> tuple[Candidate, Schedule] | None:
        """The candidate whose schedule has this trace, and that schedule; None as `decode`."""
        for number, opened in enumerate(self._opened):
            whole = self.annotate or len(trace) == len(opened)
            if not whole or not begins_with(trace, opened):
                continue
            counts = len(self.movable[number]), *map(len, self.stages(number))
            values = values_of(trace, self.knobs[number])
            candidate = decoded(trace, number, len(opened), values, counts, self.copies)
            if candidate is None:
                continue
            with contextlib.suppress(Exception):
                schedule = self.schedule(candidate)
                if calls(schedule.trace) == calls(trace):
                    return candidate, schedule
        return None

    # ---- steps

    def _make(
        self, sketch: Sketch, number: int, decisions: Mapping[int, Any]
    ) -> tuple[int, Schedule]:
        """A sketch with these decisions, not checked yet, and its number: with other decisions a
        template may make another one.
        """
        if self._template is not None:
            return self._template.make(number, decisions)
        return number, self.replays.apply(sketch.trace, decisions)

    def _usual(self, sketch: int, locations: tuple[str, ...]) -> Schedule:
        """A sketch with typical decisions and its first blocks at some places. Kept, as the step
        to the next block begins there: not to be changed.
        """
        if not locations:
            return self._typical[sketch]
        key = (sketch, locations)
        if key not in self._moved:
            schedule = self._usual(sketch, locations[:-1]).copy()
            _move(schedule, self.movable[sketch][len(locations) - 1], locations[-1])
            self._moved[key] = schedule
        return self._moved[key]


def _move(schedule: Schedule, block: str, place: str) -> None:
    schedule.compute_at(block, schedule.sample_compute_location(block, decision=place))
