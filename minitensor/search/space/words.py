"""Candidates in words: their decisions, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterator

from minitensor.errors import printable
from minitensor.ir import print_name
from minitensor.search.space.candidate import Candidate, Knob, Move, Value
from minitensor.search.space.space import Space


def decisions(space: Space, candidate: Candidate) -> Iterator[str]:
    """The decisions of a candidate, a line for each."""
    rows = _rows(space, candidate)
    width = max((len(subject) for subject, _, _ in rows), default=0)
    for subject, value, among in rows:
        yield f"{subject:{width}}  {value}{among}"


def changes(space: Space, before: Candidate, after: Candidate) -> str:
    """The decisions that differ between two candidates, such as "j of C: 4 x 12 -> 12 x 4"."""
    if before.sketch != after.sketch:
        return f"sketch: {before.sketch + 1} -> {after.sketch + 1}"
    rows = zip(_rows(space, before), _rows(space, after))
    return "; ".join(
        f"{subject}: {old} -> {new}" for (subject, old, _), (_, new, _) in rows if old != new
    )


def move_name(space: Space, sketch: int, move: Move) -> str:
    """A move in words, such as "i of C: from level 1 to 3"; levels are counted from outside."""
    if move.kind == "tile":
        knob = space.knobs[sketch][move.number]
        what = _subject(knob)
        if move.source < 0:
            return f"{what}: another value{_among(knob)}"
        return f"{what}: from level {move.source + 1} to {move.target + 1}"
    threads, copies = space.stages(sketch)
    if move.kind == "parallel":
        return f"threads of {print_name(threads[move.number])}"
    if move.kind == "unroll":
        return f"unrolling of {print_name(copies[move.number])}"
    return f"place of {print_name(space.movable[sketch][move.number])}"


def _rows(space: Space, candidate: Candidate) -> list[tuple[str, str, str]]:
    """Subjects, the value that was chosen for each, and the values it was chosen from."""
    knobs = space.knobs[candidate.sketch]
    rows = [(_subject(knob), *_value(knob, v)) for knob, v in zip(knobs, candidate.values)]
    for block, place in zip(space.movable[candidate.sketch], candidate.locations):
        where = "in a loop nest of its own" if place == "root" else f"inside {print_name(place)}"
        rows.append((print_name(block), f"computed {where}", ""))
    threads, copies = space.stages(candidate.sketch)
    for block, least in zip(threads, candidate.parallel):
        what = f"at least {least} iterations for each core" if least else "none"
        rows.append((f"threads of {print_name(block)}", what, ""))
    for block, most in zip(copies, candidate.unroll):
        what = f"at most {most} copies" if most else "none"
        rows.append((f"unrolling of {print_name(block)}", what, ""))
    return rows


def _subject(knob: Knob) -> str:
    if knob.kind:
        return knob.name
    if knob.loop:
        return f"{print_name(knob.loop)} of {print_name(knob.block)}"
    return print_name(knob.block) if knob.block else knob.name


def _value(knob: Knob, value: Value) -> tuple[str, str]:
    chosen = knob.shown(value)
    if isinstance(value, tuple) or knob.kind:
        return chosen, ""
    if knob.is_place:
        return f"computed at {chosen}", ""
    return chosen, _among(knob)


def _among(knob: Knob) -> str:
    """The values of a choice; nothing for a tile, an order and the like."""
    if knob.is_tile or knob.kind or knob.is_place:
        return ""
    return f" (of {', '.join(printable(str(c)) for c in knob.candidates)})"
