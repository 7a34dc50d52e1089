"""The schedule of a program that was never tuned: no trial, and never the program as it is written
where a rule has something better.

It is the likeliest sketch with the likeliest decisions (`Choices.by_hand`), those of an author of
rules. What cannot be made gives way to the next sketch.
"""

from __future__ import annotations

import random

from minitensor.codegen import Target
from minitensor.errors import MinitensorError, TuningError
from minitensor.ir import Program
from minitensor.phrasebook import no_program
from minitensor.runtime import shown_target
from minitensor.schedule import ROOT, Schedule
from minitensor.search.space import Space


def schedule_for(program: Program, target: str | Target = "c") -> Schedule:
    """The schedule that rules give a program: no trial, no log.

    target  what is left open is filled in from this machine; without a compiler it is a common one

    Raises ArgumentError for what is no program.
    """
    if not isinstance(program, Program):
        raise no_program("program", program)
    try:
        space = Space.of(program, shown_target(Target.of(target)))
    except TuningError:
        return Schedule(program)
    order = sorted(range(len(space.sketches)), key=lambda n: -space.weights[n])
    for sketch in order:
        try:
            places: tuple[str, ...] = ()
            for _ in space.movable[sketch]:
                places += (_outermost(space.possible_locations(sketch, places)),)
            return space.schedule(space.by_hand(random.Random(0), sketch, places))
        except MinitensorError:
            continue
    return Schedule(program)


def _outermost(places: tuple[str, ...]) -> str:
    """Its own nest, where a block may have one."""
    return ROOT if ROOT in places else places[0]
