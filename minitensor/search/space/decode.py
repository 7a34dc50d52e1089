"""From the trace of a schedule back to the candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitensor.schedule import Trace
from minitensor.search.space.candidate import GRANULARITY, UNROLL, Candidate, Knob, Value
from minitensor.search.space.open import calls, resolved


def begins_with(trace: Trace, opened: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    """Return whether the first steps of a trace are these, but for decisions."""
    prefix = Trace(trace.steps[: len(opened)])
    return len(prefix) == len(opened) and calls(prefix.opened()) == opened


def decoded(
    trace: Trace,
    number: int,
    length: int,
    knobs: Sequence[Knob],
    counts: tuple[int, int, int],
    copies: Sequence[int] = UNROLL,
) -> Candidate | None:
    """The candidate of sketch `number` that a trace may be, which begins with the steps of that
    sketch; None if it is none.

    length  the number of these steps
    counts  of blocks that may be moved, of nests that may have threads, of blocks that may be
            unrolled: the decisions that follow
    copies  among which the last are chosen
    """
    decided = Trace(trace.steps[:length]).decisions
    found = [_value(knob, decided.get(knob.step)) for knob in knobs]
    values = tuple(value for value in found if value is not None)
    rest = [step for step in trace.steps[length:] if step.is_decision]
    if len(values) < len(found) or len(rest) != sum(counts):
        return None
    try:
        chosen = [resolved(trace, step.arguments["decision"]) for step in rest]
    except (LookupError, ArithmeticError, TypeError):  # it refers to what no step has returned
        return None
    moved, threads, _ = counts
    places, amounts = tuple(map(str, chosen[:moved])), chosen[moved:]
    among = [GRANULARITY] * counts[1] + [copies] * counts[2]
    if not all(map(_is_position, amounts, among)):
        return None
    numbers = [these[position] for these, position in zip(among, amounts)]
    return Candidate(number, values, places, tuple(numbers[:threads]), tuple(numbers[threads:]))


def _value(knob: Knob, decided: Any) -> Value | None:
    """The knob's value for what a trace holds; None if it has none."""
    if knob.is_place:
        return 0 if decided == knob.candidates[0] else None
    if knob.kind:
        return knob.candidates.index(decided) if decided in knob.candidates else None
    return decided if isinstance(decided, (int, tuple)) and knob.fits(decided) else None


def _is_position(value: object, among: Sequence[object]) -> bool:
    return type(value) is int and 0 <= value < len(among)
