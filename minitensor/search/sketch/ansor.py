"""Ansor's rules for a CPU (Zheng et al., OSDI 2020, section 4.1), and its multi-level tiling.

SSRSRS is the structure of a tiled loop nest; its factors are left open.

for i.0, j.0:                 S    parallel
    for i.1, j.1:             S    tiles in the second cache
        for k.0:              R
            for i.2, j.2:     S    tiles in the first cache
                for k.1:      R
                    for i.3, j.3:   S    tiles in registers
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.ir import accessed_buffers
from minitensor.schedule import Schedule
from minitensor.search.sketch.blocks import (
    fused,
    fusible_consumer,
    has_data_reuse,
    is_strictly_inlinable,
    loops_by_axis,
    needs_more_reduction_parallelism,
    operands,
    reduce_iters,
    spatial_iters,
    writers,
)
from minitensor.search.sketch.rule import (
    Judge,
    Rule,
    State,
    Verdict,
    always,
    inline,
    unless_refused,
    where,
)

STRUCTURE: Final = "SSRSRS"
INNERMOST: Final = 64
"""The largest innermost factor (Ansor's max_innermost_split_factor)."""


def tile(schedule: Schedule, block: str, structure: str = STRUCTURE) -> list[list[str]]:
    """Tile the loops of a block that stands alone in its nest.

    Returns the loops of each level, outermost first.
    """
    found, loops = schedule.program.blocks[block], loops_by_axis(schedule, block)
    parts: dict[str, list[deque[str]]] = {"S": [], "R": []}
    for kind, iters in (("S", spatial_iters(found)), ("R", reduce_iters(found))):
        for one in iters:
            loop = loops[one.var]
            count = structure.count(kind)
            factors = schedule.sample_perfect_tile(loop, count, max_innermost_factor=INNERMOST)
            parts[kind].append(deque(schedule.split(loop, factors)))
    levels = [[part.popleft() for part in parts[kind]] for kind in structure]
    order = [loop for level in levels for loop in level]
    if len(order) > 1:
        schedule.reorder(*order)
    return levels


def _is_free(state: State) -> bool:
    """Return whether Ansor inlines it: all functions but exp cost little there."""
    return is_strictly_inlinable(state.program, state.block, lambda f: not f.startswith("exp"))


# ---- constant operands


def _constant_axes(state: State) -> set[str]:
    """The axes by which a reduction reads buffers of constants, which nothing is read for."""
    program, found = state.program, set[str]()
    if not reduce_iters(state.block):
        return found
    for load in operands(state.block):
        sources = [program.blocks[name] for name in writers(program, load.buffer)]
        if sources and not any(operands(source) for source in sources):
            found.update(*(ir.free_vars(index) for index in load.indices))
    return found


@unless_refused
def _constants(state: State, cores: int) -> list[State]:
    """Products with a constant matrix, such as Winograd's transforms: its indices are written out,
    from the inside as far as that may be, so that its zeros cost nothing; the others are tiled.
    """
    schedule, fixed = state.schedule.copy(), _constant_axes(state)
    loops = loops_by_axis(schedule, state.name)
    outer, inner = [], []
    for axis in (*spatial_iters(state.block), *reduce_iters(state.block)):
        if axis.var not in fixed:
            loop = loops.pop(axis.var)
            factors = schedule.sample_perfect_tile(loop, 2, max_innermost_factor=INNERMOST)
            first, second = schedule.split(loop, factors)
            outer.append(first)
            inner.append(second)
    schedule.reorder(*outer, *loops.values(), *inner)
    written: list[str] = []
    for name, loop in reversed(loops.items()):
        try:
            schedule.unroll(loop)
        except ScheduleError:  # too many copies
            break
        written.insert(0, name)
    what = f"{', '.join(written)} written out"
    return [state.after("constant operands", what, schedule)]


# ---- rfactor


def _judge_rfactor(state: State, cores: int) -> Verdict:
    wanted = needs_more_reduction_parallelism(state.block, cores)
    return Verdict.APPLY if wanted and state.name not in state.cached else Verdict.SKIP


@unless_refused
def _rfactor(state: State, cores: int) -> list[State]:
    """The fused reduction is split in two, and each of the two is factored out once."""
    found = []
    for outer in (True, False):
        schedule = state.schedule.copy()
        block = state.block
        loops = loops_by_axis(schedule, state.name)
        space = [loops[i.var] for i in spatial_iters(block)]
        reduced = [loops[i.var] for i in reduce_iters(block)]
        if space and list(loops.values()) != [*space, *reduced]:
            schedule.reorder(*space, *reduced)
        whole = fused(schedule, reduced)
        factors = schedule.sample_perfect_tile(whole, 2, max_innermost_factor=INNERMOST)
        parts = schedule.split(whole, factors)
        partial = schedule.rfactor(parts[0 if outer else 1], axis=len(space))
        what = f"partial results {partial} along the {'outer' if outer else 'inner'} part"
        found.append(state.after("rfactor", what, schedule))
    return found


# ---- cache write


def _is_collected(state: State) -> bool:
    if state.name in state.cached or not has_data_reuse(state.block):
        return False
    alone = len(accessed_buffers(state.block)[1]) == 1
    return alone and fusible_consumer(state.program, state.block) is None


def cache_write(judge: Judge, collected: str) -> Rule:
    """The rule that computes a block in a buffer of its own, which another block copies.

    collected  what that is for, in an explanation
    """

    @unless_refused
    def apply(state: State, cores: int) -> list[State]:
        schedule = state.schedule.copy()
        copy = schedule.cache_write(state.name, "local")
        cached = replace(state, cached=state.cached | {state.name})
        return [cached.after("cache write", f"{collected}, and {copy} copies", schedule, True)]

    return Rule("cache write", judge, apply)


# ---- multi-level tiling


def _judge_fusion(state: State, cores: int) -> Verdict:
    if not has_data_reuse(state.block) or fusible_consumer(state.program, state.block) is None:
        return Verdict.SKIP
    return Verdict.APPLY_AND_STOP if state.name in state.cached else Verdict.APPLY


@unless_refused
def _fusion(state: State, cores: int) -> list[State]:
    """The consumer is computed after the first, or the second, space tile."""
    consumer = fusible_consumer(state.program, state.block)
    assert consumer is not None
    found = []
    for level in (0, 1):
        schedule = state.schedule.copy()
        levels = tile(schedule, state.name)
        schedule.reverse_compute_at(consumer, levels[level][-1])
        what = f"SSRSRS, {consumer} after space tile {level + 1}"
        found.append(state.after("multi-level tiling with fusion", what, schedule))
    return found


@unless_refused
def _tiling(state: State, cores: int) -> list[State]:
    schedule = state.schedule.copy()
    tile(schedule, state.name)
    return [state.after("multi-level tiling", "SSRSRS", schedule)]


# ---- skip


def _skip(state: State, cores: int) -> list[State]:
    return [state.after("skip", "left as it is")]


CONSTANTS: Final = Rule(
    "constant operands", where(lambda state: bool(_constant_axes(state))), _constants
)
SKIP: Final = Rule("skip", always, _skip)
CPU: Final = (
    inline("always inline", where(_is_free)),
    CONSTANTS,
    Rule("rfactor", _judge_rfactor, _rfactor),
    cache_write(where(_is_collected, Verdict.APPLY), "tiles are collected"),
    Rule("multi-level tiling with fusion", _judge_fusion, _fusion),
    Rule("multi-level tiling", where(lambda state: has_data_reuse(state.block)), _tiling),
    SKIP,
)
"""Ansor's rules for a CPU, in its order."""
