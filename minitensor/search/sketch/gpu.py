"""Ansor's rules for a GPU (Zheng et al., OSDI 2020, section 4.1), and its multi-level tiling.

SSSRRSRS is the structure of a tiled loop nest; its factors are left open (`gpu_factors`). Nests of
threads are siblings under the serial loop over the sum: all threads copy what the block needs of an
operand for some steps, and then compute with it.

for i.0_j.0:                      S    blocks
    for i.2_j.2: for i.1_j.1:          accumulators, in registers, start at 0
    for k.0:                      R
        for threads: for lanes:        operands into shared memory
        for i.2_j.2:              S    threads
            for k.1:              R
                for i.1_j.1:      S    virtual threads
                    for i.3, j.3:         S
                        for k.2:          R
                            for i.4, j.4: S
    for i.2_j.2: for i.1_j.1:          results are written, or what is computed of each

Virtual threads of a thread compute with what it has loaded of an operand, so they are inside.

A reduction with few results is one of the threads of a block, which combine what each of them has.
What is left gets a thread for each iteration of its loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.ir import accessed_buffers
from minitensor.schedule import Schedule
from minitensor.search.sketch.ansor import CONSTANTS, SKIP, cache_write
from minitensor.search.sketch.blocks import (
    accepts,
    elementwise_store,
    fused,
    fusible_consumer,
    has_data_reuse,
    is_ordered,
    is_output,
    operands,
    readers,
    reduce_iters,
    reduction_of,
    spatial_iters,
    writers,
    written_by,
    written_place,
)
from minitensor.search.sketch.gpu_factors import (
    Cutter,
    block_of,
    by_hand,
    perfect,
    team_of,
    width_of,
)
from minitensor.search.sketch.rule import Rule, State, Team, Verdict, inline, unless_refused, where

MOST_THREADS: Final = 1024
"""Results that are enough to keep threads busy without parts of their sums (Ansor)."""
MOST_READS: Final = 8
"""Reads of a block that is computed again wherever it is read."""


def is_tiled(block: ir.Block) -> bool:
    """Return whether a block is a reduction whose operands serve several results. (Ansor also tiles
    what is elementwise and reads two vectors, as a normalisation does; a thread for each element
    reads these from caches.)
    """
    return bool(reduce_iters(block)) and has_data_reuse(block)


def follower(program: ir.Program, block: ir.Block) -> str | None:
    """The consumer that is computed after each tile of a block: one that stands alone."""
    consumer = fusible_consumer(program, block)
    if consumer is None:
        return None
    loops = ir.paths(program)[consumer]
    alone = all(loop.kind is ir.LoopKind.SERIAL for loop in loops)
    return consumer if alone and not (loops and len(ir.blocks_of(loops[0])) > 1) else None


# ---- always inline


def _is_inlined(state: State) -> bool:
    """Ansor inlines all that is elementwise. Not so here what has as many reads as Winograd's
    transforms, which are reductions with constants there, and are not inlined either.
    """
    store = elementwise_store(state.block)
    if store is None or is_output(state.program, state.block) or is_tiled(state.block):
        return False
    alone = len(writers(state.program, store.buffer)) == 1
    return alone and len(operands(state.block)) <= MOST_READS


# ---- cross-thread reduction


def _has_team(state: State) -> bool:
    if state.name in state.cached or is_ordered(state.block) or reduction_of(state.block) is None:
        return False
    space = math.prod(i.extent for i in spatial_iters(state.block))
    terms = math.prod(i.extent for i in reduce_iters(state.block))
    if is_tiled(state.block):
        return space <= MOST_THREADS and space < terms
    return terms > ir.WARP


@unless_refused
def _team(state: State, cores: int) -> list[State]:
    """The threads of a block have parts of a sum each, where its reader is, if that reads each
    result in one block only.
    """
    name, block = state.name, state.block
    terms = math.prod(i.extent for i in reduce_iters(block))
    schedule, team = _joined(state, terms)
    around = schedule.get_loops(name)[: -len(block.iters)]
    loops = dict(zip((i.var for i in block.iters), schedule.get_loops(name)[len(around) :]))
    space = [loops[i.var] for i in spatial_iters(block)]
    sums = [loops[i.var] for i in reduce_iters(block)]
    if [*loops.values()] != [*space, *sums]:
        schedule.reorder(*space, *sums)
    whole = fused(schedule, sums)
    threads = team_of(schedule, terms) if team is None else team.threads
    outer, inner = schedule.split(whole, [None, threads])
    schedule.reorder(inner, outer)
    partial = schedule.rfactor(inner, axis=-1)
    if team is None:
        left = schedule.get_loops(name)
        at = fused(schedule, left[: len(space)] or [schedule.add_unit_loop(left[0])])
        schedule.bind(at, "blockIdx.x")
        schedule.compute_at(partial, at)
    for buffer in sorted(accessed_buffers(schedule.program.blocks[partial])[1]):
        schedule.set_scope(buffer, "local")
    schedule.bind(_last_axis(schedule, partial), "threadIdx.x")
    schedule.bind(schedule.get_loops(name)[-1], "threadIdx.x")
    what = "parts of the sum on threads" + (f", where {team.reader} is" if team else "")
    teams = state.teams if team is None else {**state.teams, team.loop: team}
    return [replace(state, teams=teams).after("cross-thread reduction", what, schedule)]


def _last_axis(schedule: Schedule, block: str) -> str:
    """The loop of the last axis of what a block writes."""
    found = schedule.program.blocks[block]
    loops = schedule.get_loops(block)[-len(found.iters) :]
    last = max(spatial_iters(found), key=lambda axis: written_place(found, axis))
    return loops[found.iters.index(last)]


def _joined(state: State, terms: int) -> tuple[Schedule, Team | None]:
    """The schedule with the block where it is read, if each result is read in one block of threads:
    by a team that is there already, or an elementwise reader that becomes one. None where it stays.
    """
    alone, buffer = state.schedule.copy(), written_by(state.block)
    reading = [name for name in readers(state.program, buffer) if name != state.name]
    if len(accessed_buffers(state.block)[1]) != 1 or not reading:
        return alone, None
    schedule = state.schedule.copy()
    outermost = {schedule.get_loops(name)[:1] for name in reading}
    team = state.teams.get("".join(outermost.pop())) if len(outermost) == 1 else None
    try:
        if team is None:
            team = _team_of_reader(schedule, state, reading, terms)
        if team is None:
            return alone, None
        schedule.compute_at(state.name, team.loop)
    except ScheduleError:
        return alone, None
    own = ir.paths(schedule.program)[state.name][1:]
    once = math.prod(loop.extent for loop in own) == terms
    return (schedule, team) if once else (alone, None)


def _team_of_reader(
    schedule: Schedule, state: State, reading: Sequence[str], terms: int
) -> Team | None:
    """A block of threads for each result that the only reader reads, an elementwise one."""
    reader = state.program.blocks[reading[0]]
    rank = len(spatial_iters(state.block))
    loops = ir.paths(state.program)[reader.name]
    whole = [i.binding for i in reader.iters] == [ir.Var(loop.var) for loop in loops]
    first = tuple(ir.Var(i.var) for i in reader.iters[:rank])
    reads = [load for load in operands(reader) if load.buffer == written_by(state.block)]
    plain = whole and elementwise_store(reader) is not None and not is_tiled(reader)
    if len(reading) > 1 or not rank or not plain or any(x.indices != first for x in reads):
        return None
    names = [loop.var for loop in loops]
    at, rest = fused(schedule, names[:rank]), names[rank:]
    schedule.bind(at, "blockIdx.x")
    threads = team_of(schedule, terms)
    if rest:
        _, inner = schedule.split(fused(schedule, rest), [None, threads])
        schedule.bind(inner, "threadIdx.x")
    return Team(at, threads, reader.name)


# ---- cache write


def _is_collected(state: State) -> bool:
    """On a GPU, Ansor asks no other rule about a block that it caches."""
    if state.name in state.cached or not is_tiled(state.block):
        return False
    alone = len(accessed_buffers(state.block)[1]) == 1
    return alone and follower(state.program, state.block) is None


# ---- multi-level tiling


def _tiling(cutter: Cutter, structure: str) -> Rule:
    """The rule of a tiling whose factors a cutter leaves open."""

    @unless_refused
    def apply(state: State, cores: int) -> list[State]:
        consumer = follower(state.program, state.block)
        schedule, fetched = _tiled(state, consumer, cutter)
        what = structure + (f", {consumer} after each tile" if consumer else "")
        what += f", {' and '.join(fetched)} in shared memory" if fetched else ""
        return [state.after("multi-level tiling", what, schedule)]

    return Rule("multi-level tiling", where(lambda state: is_tiled(state.block)), apply)


def _tiled(state: State, consumer: str | None, cutter: Cutter) -> tuple[Schedule, list[str]]:
    """The block in tiles; and the operands that are read from shared memory."""
    schedule, name = state.schedule.copy(), state.name
    cuts = cutter(schedule, state)
    space = [cuts[i.var] for i in spatial_iters(state.block)]
    blocks, virtual, threads, *rows = map(list, zip(*[loops for loops, _ in space]))
    sums = [cuts[i.var][0] for i in reduce_iters(state.block)]
    steps, *inside = map(list, zip(*sums)) if sums else [[]]
    inner = [*inside[:1], virtual, *rows[:1], *inside[1:], *rows[1:]]
    schedule.reorder(*blocks, *steps, *threads, *[loop for level in inner for loop in level])
    block = fused(schedule, blocks)
    moved = schedule.reverse_compute_at(consumer, block) if consumer is not None else ()
    count = math.prod(factors[1] for _, factors in space)
    fetched = []
    for buffer in dict.fromkeys(load.buffer for load in operands(state.block)):
        if readers(schedule.program, buffer) == [name]:
            schedule, done = _fetched(schedule, name, buffer, (steps or [block])[-1], count)
            fetched += [buffer] * done
    if steps and state.block.init is not None:
        init = schedule.get_loops(schedule.decompose_reduction(name, steps[0]))[1:]
        _bind(schedule, init[: len(space)], init[len(space) : 2 * len(space)])
    _bind(schedule, threads, virtual)
    if consumer is not None:
        places = [written_place(state.block, axis) for axis in spatial_iters(state.block)]
        parts = [
            schedule.split(moved[place], [own[0], own[1], math.prod(own[2:])])
            for place, (_, own) in zip(places, space)
        ]
        wide, team, few = zip(*parts)
        schedule.reorder(*team, *wide, *few)
        _bind(schedule, team, wide)
        schedule.set_scope(written_by(schedule.program.blocks[name]), "local")
    schedule.bind(block, "blockIdx.x")
    return schedule, fetched


def _bind(schedule: Schedule, threads: Sequence[str], virtual: Sequence[str]) -> None:
    schedule.bind(fused(schedule, virtual), "vthread")
    schedule.bind(fused(schedule, threads), "threadIdx.x")


def _fetched(
    schedule: Schedule, block: str, buffer: str, loop: str, threads: int
) -> tuple[Schedule, bool]:
    """The schedule in which all threads copy what the block reads of a buffer in an iteration, and
    True; as it was where that cannot be.
    """
    if not schedule.program.buffers[buffer].shape:
        return schedule, False
    after = schedule.copy()
    try:
        copy = after.cache_read(block, buffer, "shared")
        loops = after.compute_at(copy, loop)
        width = width_of(after, after.program.buffers[buffer])
        _, thread, lanes = after.split(fused(after, loops), [None, threads, width])
        after.bind(thread, "threadIdx.x")
        after.vectorize(lanes)
    except ScheduleError:
        return schedule, False
    return after, True


# ---- what is left


def bind_the_rest(state: State) -> State:
    """The state in which all nests that no rule has bound have threads."""
    for nest in ir.nests(state.program):
        state = _bound(state, nest)
    return state


def _bound(state: State, nest: ir.Stmt) -> State:
    """The state in which the outermost loops of a nest, those of independent iterations, have a
    thread for each iteration.
    """
    if any(loop.kind.is_bound for loop in ir.loops_of(nest)):
        return state
    schedule, chain = state.schedule.copy(), list[ir.For]()
    while isinstance(nest, ir.For) and accepts(schedule, "bind", nest.var, "blockIdx.x"):
        chain.append(nest)
        nest = nest.body
    if not chain:
        return state
    whole = fused(schedule, [loop.var for loop in chain])
    threads = block_of(schedule, state, math.prod(loop.extent for loop in chain))
    factors = [None, threads]
    if isinstance(nest, ir.Block) and elementwise_store(nest) is not None:
        buffer = schedule.program.buffers[written_by(nest)]
        factors.append(width_of(schedule, buffer))
    blocks, inner, *lanes = schedule.split(whole, factors)
    schedule.bind(blocks, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    for loop in lanes:
        schedule.vectorize(loop)
    names = ", ".join(loop.var for loop in chain)
    own = replace(state, pending=(ir.blocks_of(chain[0])[-1].name,))
    return own.after("threads", f"a thread for each of {names}", schedule)


def _rules(tiling: Rule) -> tuple[Rule, ...]:
    return (
        inline("always inline", where(_is_inlined)),
        CONSTANTS,
        Rule("cross-thread reduction", where(_has_team, Verdict.APPLY), _team),
        cache_write(where(_is_collected), "sums in registers"),
        tiling,
        SKIP,
    )


GPU: Final = _rules(_tiling(perfect, "SSSRRSRS"))
"""Ansor's rules for a GPU, in its order."""
GPU_DEFAULT: Final = _rules(_tiling(by_hand, "SSSRRS"))
"""The same with factors that need not divide an extent, and of which an author's are likely."""
