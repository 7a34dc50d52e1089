"""From the trace of an alike program to the nearest candidate of a space.

Two programs are alike if a sketch of one has the steps of a schedule of the other, on blocks and
loops of the same names: two convolutions of other extents. A decision then becomes the option that
is nearest to it: factors by their ratios, and those of inner levels first, for registers and
vectors have the same size whatever the extents are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from minitensor.schedule import ROOT, Ref, Step, Trace
from minitensor.search.space.candidate import Candidate, Knob, Value
from minitensor.search.space.open import calls, decoded
from minitensor.search.space.space import Space

_OPEN: Final = ("candidates", "probs", "decision")
"""Arguments of decisions that depend on extents."""


def adapted(space: Space, trace: Trace) -> Candidate | None:
    """The candidate that is nearest to a schedule of another program; None if that is not alike."""
    steps, found = calls(trace), None
    least = math.inf
    for number, sketch in enumerate(space.sketches):
        opened = calls(sketch.trace.opened())
        apart = _numbers_apart(opened, steps[: len(opened)])
        if apart < least:
            candidate = _decoded(space, number, len(opened), trace)
            if candidate is not None:
                least, found = apart, candidate
    return found


def _decoded(space: Space, number: int, length: int, trace: Trace) -> Candidate | None:
    counts = len(space.movable[number]), *map(len, space.stages(number))
    values = [_nearest_value(knob, trace.steps[knob.step]) for knob in space.knobs[number]]
    found = decoded(trace, number, length, values, counts, space.copies)
    if found is None:
        return None
    places: tuple[str, ...] = ()
    for place in found.locations:
        possible = space.possible_locations(number, places)
        places += (place if place in possible else ROOT,)
    return Candidate(number, found.values, places, found.parallel, found.unroll)


def _numbers_apart(
    ours: Sequence[tuple[str, Mapping[str, Any]]], theirs: Sequence[tuple[str, Mapping[str, Any]]]
) -> float:
    """The number of arguments that differ, where all of them are numbers; infinity for others."""
    if [name for name, _ in ours] != [name for name, _ in theirs]:
        return math.inf
    count = 0
    for (_, own), (_, other) in zip(ours, theirs):
        for name in (own.keys() | other.keys()) - set(_OPEN):
            one, two = own.get(name), other.get(name)
            if one != two:
                if not _is_number(one) or not _is_number(two):
                    return math.inf
                count += 1
    return count


def _is_number(value: object) -> bool:
    if isinstance(value, tuple) and not isinstance(value, Ref):
        return all(map(_is_number, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _nearest_value(knob: Knob, step: Step) -> Value | None:
    """The knob's value that is nearest to what a step has decided; None if none is like it."""
    decided = step.arguments.get("decision")
    if knob.is_place:
        return 0 if decided == knob.candidates[0] else None
    if not knob.is_tile and not knob.kind:  # a position among candidates
        given = step.arguments.get("candidates")
        if not isinstance(given, tuple) or not isinstance(decided, int):
            return None
        if not 0 <= decided < len(given):
            return None
        decided = given[decided]
    options = knob.options if knob.is_tile else knob.candidates
    if decided in options:
        place = options.index(decided)
    else:
        far = [_ratio(option, decided) for option in options]
        place = far.index(min(far))
        if far[place] == math.inf:
            return None
    return knob.options[place]


def _ratio(one: Any, other: Any) -> float:
    """The distance of two numbers, or of the factors of two tiles: of the logarithms of all but the
    outermost, the innermost counted twice; infinity for what is neither.
    """
    if not isinstance(one, tuple):
        one, other = (1, one), (1, other)
    if not isinstance(other, tuple) or len(one) != len(other):
        return math.inf
    pairs = [*zip(one, other)][1:] or [*zip(one, other)]
    if not all(_is_number(a) and _is_number(b) for a, b in pairs):
        return math.inf
    far = [abs(math.log(max(a, 0.5)) - math.log(max(b, 0.5))) for a, b in pairs]
    return sum(far) + far[-1]
