"""The open parts of a sketch, its knobs and the blocks that may be moved; and from the trace of a
schedule back to the candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitensor import ir
from minitensor.schedule import REGISTRY, Ref, Schedule, Trace, divisors, resolved_by
from minitensor.search.space.candidate import GRANULARITY, UNROLL, Candidate, Knob, Value


def typical(drawn: Schedule, made: Callable[[Mapping[int, Any]], Schedule | None]) -> Schedule:
    """A schedule of a sketch with decisions in the middle: tiles with several iterations at each
    level, as far as the extents have divisors.

    drawn  one with other decisions, which it is if those in the middle do not go together
    made   makes one of decisions; None if that is another sketch
    """
    decisions = {knob.step: decision(knob, _middle(knob)) for knob in knobs_of(drawn)}
    try:
        found = made(decisions)
    except Exception:  # tiles may depend on each other, and a template may refuse anything
        return drawn
    return drawn if found is None else found


def knobs_of(schedule: Schedule) -> tuple[Knob, ...]:
    """The decisions of a schedule, as knobs."""
    found = []
    trace, history = schedule.trace, schedule.history
    splits, calls = _splits_by_decision(trace), 0
    for number, step in enumerate(trace.steps):
        options = REGISTRY[step.primitive].options if step.primitive in REGISTRY else None
        if options is not None:
            given = {name: resolved(trace, value) for name, value in step.arguments.items()}
            loops = given.get("loops", ())
            loop = given.get("loop", "")
            block = _block_at(history[number], loop or loops[0]) if loop or loops else ""
            candidates = tuple(options(history[number], given))
            kind, weights = step.primitive.removeprefix("sample_"), tuple(given.get("probs") or ())
            found.append(
                Knob(
                    number,
                    block,
                    loop,
                    candidates=candidates,
                    weights=weights,
                    kind=kind,
                    loops=loops,
                )
            )
        elif step.primitive == "sample_categorical":
            block, loop, calls = "", "", calls + 1
            if number in splits:
                loop = resolved(trace, trace.steps[splits[number]].arguments["loop"])
                block = _block_at(history[splits[number]], loop)
            candidates, weights = tuple(step.arguments["candidates"]), step.arguments["probs"]
            weights = tuple(weights or ())
            made = Knob(number, block, loop, candidates=candidates, weights=weights, call=calls)
            found.append(made)
        elif step.primitive == "sample_perfect_tile":
            loop = resolved(trace, step.arguments["loop"])
            extent = ir.loop_sites(history[number])[loop].loop.extent
            parts, limit = step.arguments["n"], step.arguments["max_innermost_factor"]
            block = _block_at(history[number], loop)
            found.append(Knob(number, block, loop, extent, parts, limit))
        elif step.is_decision:  # a place; templates may choose some
            chosen = step.arguments["decision"]
            block = str(step.arguments["block"])
            found.append(Knob(number, block, candidates=(chosen,), is_place=True))
    return tuple(found)


def _block_at(program: ir.Program, loop: str) -> str:
    """The first block in a loop."""
    return ir.blocks_of(ir.loop_sites(program)[loop].loop)[0].name


def _splits_by_decision(trace: Trace) -> Mapping[int, int]:
    """For each decision that a split uses, the number of the first such step."""
    found: dict[int, int] = {}
    for number, step in enumerate(trace.steps):
        used = step.arguments.get("factors")
        for factor in used if isinstance(used, tuple) else ():
            if isinstance(factor, Ref) and factor.item is None:
                found.setdefault(factor.step, number)
    return found


def movable_of(schedule: Schedule) -> tuple[str, ...]:
    """The blocks that a sketch left alone and that others read; readers come first.

    Such a block stands in a nest of its own in which each loop is one of its axes. What inits read,
    and what that alone reads, stays where it is: it is little, and an init that waits for it inside
    of its reduction keeps the sum out of registers.
    """
    program, stays = schedule.program, _for_inits(schedule.program)
    found = []
    for nest in ir.nests(program):
        blocks = ir.blocks_of(nest)
        if len(blocks) != 1 or not schedule.get_consumers(blocks[0].name):
            continue
        block, loops = blocks[0], _loops(nest)
        whole = [i.binding for i in block.iters] == [ir.Var(loop.var) for loop in loops]
        serial = not any(i.kind is ir.IterKind.ORDERED for i in block.iters)
        untouched = all(loop.kind.value == "serial" for loop in loops)
        if whole and serial and untouched and block.name not in stays:
            found.append(block.name)
    return tuple(reversed(found))


def _for_inits(program: ir.Program) -> set[str]:
    """The blocks that compute what inits read, and what only these read."""
    inits = [b.init for b in program.blocks.values() if b.init is not None]
    found, pending = set[str](), {load.buffer for init in inits for load in ir.loads(init)}
    while pending:
        name = pending.pop()
        for writer in ir.writers(program, name):
            if writer.name not in found:
                found.add(writer.name)
                pending |= {
                    load.buffer
                    for load in ir.loads(writer.body)
                    if {b.name for b in ir.readers(program, load.buffer)} <= found
                }
    return found


def _loops(nest: object) -> list[ir.For]:
    found = []
    while isinstance(nest, ir.For):
        found.append(nest)
        nest = nest.body
    return found


def resolved(trace: Trace, value: Any) -> Any:
    """An argument of a step, with what an earlier step returned in the place of a reference."""
    return resolved_by(value, [step.result for step in trace.steps])


def decision(knob: Knob, value: Value) -> Any:
    """The decision of a trace for a value: the name, where the knob chooses a place; the tuple,
    where it chooses one.
    """
    if isinstance(value, int) and (knob.is_place or knob.kind):
        return knob.candidates[value]
    return value


def _middle(knob: Knob) -> Value:
    """A value in the middle of the knob's range."""
    if not knob.is_tile:
        return len(knob.candidates) // 2
    factors, rest = [1] * knob.parts, knob.extent
    while rest > 1:
        divisor = divisors(rest)[1]  # the smallest prime
        rest //= divisor
        fits = [
            level
            for level in range(knob.parts)
            if level < knob.parts - 1 or factors[-1] * divisor <= knob.limit
        ]
        factors[min(fits or [0], key=lambda level: (factors[level], -level))] *= divisor
    if knob.extent == 0:
        factors[0] = 0
    return tuple(factors)


def calls(trace: Trace) -> list[tuple[str, Mapping[str, Any]]]:
    """The steps without what they returned, which a replay may name otherwise."""
    return [(step.primitive, step.arguments) for step in trace.steps]


# ---- from a trace back to the candidate


def begins_with(trace: Trace, opened: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    """Return whether the first steps of a trace are these, but for decisions."""
    prefix = Trace(trace.steps[: len(opened)])
    return len(prefix) == len(opened) and calls(prefix.opened()) == opened


def values_of(trace: Trace, knobs: Sequence[Knob]) -> list[Value | None]:
    """The values that a trace holds for some knobs; None for each that has none."""
    decided = trace.decisions
    return [_value(knob, decided.get(knob.step)) for knob in knobs]


def decoded(
    trace: Trace,
    number: int,
    length: int,
    values: Sequence[Value | None],
    counts: Sequence[int],
    copies: Sequence[int] = UNROLL,
) -> Candidate | None:
    """The candidate of sketch `number` that a trace may be, which begins with the steps of that
    sketch; None if it is none.

    length  the number of these steps
    values  of the sketch's knobs (see `values_of`)
    counts  of blocks that may be moved, of nests that may have threads, of blocks that may be
            unrolled: the decisions that follow
    copies  among which the last are chosen
    """
    known = tuple(value for value in values if value is not None)
    rest = [step for step in trace.steps[length:] if step.is_decision]
    if len(known) < len(values) or len(rest) != sum(counts):
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
    return Candidate(number, known, places, tuple(numbers[:threads]), tuple(numbers[threads:]))


def _value(knob: Knob, decided: Any) -> Value | None:
    """The knob's value for what a trace holds; None if it has none."""
    if knob.is_place:
        return 0 if decided == knob.candidates[0] else None
    if knob.kind:
        return knob.candidates.index(decided) if decided in knob.candidates else None
    return decided if isinstance(decided, (int, tuple)) and knob.fits(decided) else None


def _is_position(value: object, among: Sequence[object]) -> bool:
    return type(value) is int and 0 <= value < len(among)
