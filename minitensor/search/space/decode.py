"""From the trace of a schedule back to the candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitensor.schedule import Trace
from minitensor.search.space.candidate import GRANULARITY, UNROLL, Candidate, Knob, Value
from minitensor.search.space.open import calls, resolved


def decoded(
    trace: Trace,
    number: int,
    opened: Sequence[tuple[str, Mapping[str, Any]]],
    knobs: Sequence[Knob],
    moved: int | None,
) -> Candidate | None:
    """The candidate of sketch `number` that a trace may be; None if it is none.

    opened  the steps of the sketch, its decisions open
    moved   how many blocks it leaves alone that may be moved; None without annotation
    """
    prefix = Trace(trace.steps[: len(opened)])
    if len(prefix) < len(opened) or calls(prefix.opened()) != opened:
        return None
    decided = prefix.decisions
    found = [_value(knob, decided.get(knob.step)) for knob in knobs]
    values = tuple(value for value in found if value is not None)
    if len(values) < len(found):
        return None
    if moved is None:
        return Candidate(number, values) if len(trace) == len(opened) else None
    rest = [step for step in trace.steps[len(prefix) :] if step.is_decision]
    if len(rest) != moved + 2:
        return None
    try:
        chosen = [resolved(trace, step.arguments["decision"]) for step in rest]
    except (LookupError, TypeError):  # it refers to what no step has returned
        return None
    places = tuple(map(str, chosen[:moved]))
    parallel, unroll = chosen[moved:]
    if not (_is_position(parallel, GRANULARITY) and _is_position(unroll, UNROLL)):
        return None
    return Candidate(number, values, places, GRANULARITY[parallel], UNROLL[unroll])


def _value(knob: Knob, decided: Any) -> Value | None:
    """The knob's value for what a trace holds; None if it has none."""
    if knob.is_place:
        return 0 if decided == knob.candidates[0] else None
    return decided if isinstance(decided, (int, tuple)) and knob.fits(decided) else None


def _is_position(value: object, among: Sequence[object]) -> bool:
    return type(value) is int and 0 <= value < len(among)
