"""Schedules that differ in numbers, and what structures say of them held against replays."""

import random

import numpy as np

from minitensor.errors import ScheduleError
from minitensor.ir import For, LoopKind, Seq, loop_sites, paths
from minitensor.schedule import Ref, Schedule, Step, Trace
from minitensor.search.features import FEATURE_NAMES, Marks, Structure, extract_features

NUMBERS = ("sample_perfect_tile", "sample_tile", "sample_categorical")


def drawn(sketch, count, seed):
    """Schedules of one sketch with decisions drawn at random."""
    return [sketch.trace.apply(sketch.program, seed=seed + n, check=False) for n in range(count)]


def decisions_of(schedules):
    """What schedules of one structure decide, as arrays."""
    steps = schedules[0].trace.steps
    return {
        number: np.array([s.trace.steps[number].result for s in schedules]).reshape(
            len(schedules), -1
        )
        for number, step in enumerate(steps)
        if step.primitive in NUMBERS and np.issubdtype(np.array(step.result).dtype, np.integer)
    }


def annotated(program, kinds):
    """The program with some loops executed in other ways."""

    def go(stmt):
        if isinstance(stmt, For):
            kind = LoopKind(kinds.get(stmt.var, stmt.kind.value))
            return For(stmt.var, stmt.extent, go(stmt.body), kind, stmt.annotations)
        if isinstance(stmt, Seq):
            return Seq(tuple(map(go, stmt.stmts)))
        return stmt

    return program.replace(body=go(program.body))


def marks_for(structure, count, rng):
    """For each candidate random kinds of loops; the same as marks."""
    free = [
        name
        for name, site in loop_sites(structure.program).items()
        if site.loop.kind is LoopKind.SERIAL
    ]
    kinds = [
        {
            loop: rng.choice(("parallel", "vectorize", "unroll"))
            for loop in free
            if rng.random() < 0.3
        }
        for _ in range(count)
    ]
    marks = {}
    for block in structure.blocks:
        loops = structure.loops_of(block)
        marks[block] = Marks(
            *(
                np.array([[k.get(loop) == kind for loop in loops] for k in kinds], bool).reshape(
                    count, len(loops)
                )
                for kind in ("parallel", "vectorize", "unroll")
            )
        )
    return kinds, marks


def check(schedules, seed=0, structure=None):
    """What the structure of the first schedule says of all of them is so."""
    found = structure or Structure(schedules[0])
    decisions, count = decisions_of(schedules), len(schedules)
    kinds, marks = marks_for(found, count, random.Random(seed))
    extents = found.extents(decisions, count=count)
    features = found.features(decisions, marks, count=count)
    assert features.shape == (count, len(found.blocks), len(FEATURE_NAMES))
    assert features.dtype == np.float32
    for n, schedule in enumerate(schedules):
        program = schedule.program
        sites = loop_sites(program)
        assert found.blocks == tuple(program.blocks)
        assert {b: found.loops_of(b) for b in found.blocks} == {
            b: tuple(loop.var for loop in path) for b, path in paths(program).items()
        }
        assert {loop: int(extents[loop][n]) for loop in extents} == {
            loop: site.loop.extent for loop, site in sites.items()
        }
        real = extract_features(annotated(program, kinds[n]))
        assert named(found, features[n]) == named(found, real)
        assert features[n].tobytes() == real.tobytes()


def named(structure, features):
    """Features by block and name, so that a difference can be read."""
    return {
        (block, name): value
        for block, row in zip(structure.blocks, features.tolist())
        for name, value in zip(FEATURE_NAMES, row)
        if value
    }


def opened(schedule, rng):
    """The trace of a schedule with factors of splits made decisions."""
    steps, where = [], {}

    def moved(value):
        if isinstance(value, Ref):
            return Ref(where[value.step], value.item)
        return tuple(map(moved, value)) if isinstance(value, tuple) else value

    def decided(factor):
        if not isinstance(factor, int) or factor < 1 or rng.random() < 0.2:
            return factor
        candidates = (factor, *(rng.choice((1, 2, 3, 4, 5, 6, 8, 16)) for _ in range(2)))
        given = {"candidates": candidates, "probs": None, "decision": 0}
        steps.append(Step("sample_categorical", given, factor))
        return Ref(len(steps) - 1)

    for number, step in enumerate(schedule.trace.steps):
        arguments = {name: moved(value) for name, value in step.arguments.items()}
        if step.primitive == "split" and isinstance(arguments["factors"], tuple):
            arguments["factors"] = tuple(map(decided, arguments["factors"]))
        where[number] = len(steps)
        steps.append(Step(step.primitive, arguments, step.result))
    return Trace(tuple(steps))


def renumbered(schedule, count, rng):
    """The schedule, and others of its structure with other numbers, as many as are legal."""
    found = [schedule]
    steps = schedule.trace.steps
    for _ in range(count):
        decisions = {
            n: rng.randrange(len(step.arguments["candidates"]))
            if step.primitive == "sample_categorical"
            else None
            for n, step in enumerate(steps)
            if step.primitive in NUMBERS
        }
        other = Schedule(schedule.history[0], seed=rng.randrange(100), check=False)
        try:
            found.append(other.replay(schedule.trace.with_decisions(decisions)))
        except ScheduleError:
            continue
    return found
