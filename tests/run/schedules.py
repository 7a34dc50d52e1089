"""Schedules for any program: each recipe does one thing wherever it can be done.

    s = mt.Schedule(program, seed=0)
    RECIPES["tile"].apply(s)
    assert len(s.trace) >= RECIPES["tile"].least_steps(program)

A recipe takes a freshly lowered program, in which every block stands in a nest of its own. Its
steps are legal by construction, and a refusal is a failure; the places where one is expected say
so (`attempt`). No recipe makes the interpreter repeat a statement more than a few times as often
as the program does, which is why they tile three loops and not all, and by small factors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import minitensor as mt
from minitensor.ir import IterKind, Program, Var, accessed_buffers, free_vars, loops_of, walk
from minitensor.schedule.layout import IndexMap


@dataclass(frozen=True)
class Recipe:
    """A way to schedule any program.

    apply        applies it to a schedule
    least_steps  how many steps it must have taken at the least: at least one for each thing that
                 the program has for it
    """

    apply: Callable[[mt.Schedule], None]
    least_steps: Callable[[Program], int]


RECIPES: Final[dict[str, Recipe]] = {}


def recipe(least_steps: Callable[[Program], int]):
    def register(function):
        RECIPES[function.__name__] = Recipe(function, least_steps)
        return function

    return register


# ---- what a program has


def extent(s: mt.Schedule, loop: str) -> int:
    return next(found.extent for found in loops_of(s.program.body) if found.var == loop)


def carried(program: Program, block: str) -> set[str]:
    """The loops that drive a reduction or an ordered update of a block."""
    return {
        name
        for i in program.blocks[block].iters
        if i.kind is not IterKind.SPATIAL
        for name in free_vars(i.binding)
    }


def loops_by_kind(s: mt.Schedule, block: str) -> tuple[list[str], list[str]]:
    """The loops around a block: those that drive spatial iters alone, and the others."""
    others = carried(s.program, block)
    loops = s.get_loops(block)
    return [n for n in loops if n not in others], [n for n in loops if n in others]


def has_spatial(program: Program) -> list[str]:
    """The blocks that compute more than one number."""
    return [
        name
        for name, block in program.blocks.items()
        if any(i.kind is IterKind.SPATIAL for i in block.iters)
    ]


def reductions(program: Program) -> list[str]:
    """The blocks that combine many values into one."""
    return [
        name
        for name, block in program.blocks.items()
        if any(i.kind is IterKind.REDUCE for i in block.iters)
    ]


def stages(program: Program) -> list[str]:
    """The blocks that write temporaries."""
    temporary = {buffer.name for buffer in program.temporaries}
    return [n for n, block in program.blocks.items() if accessed_buffers(block)[1] <= temporary]


def elementwise_stages(program: Program) -> list[str]:
    """The blocks that write each element of a temporary once: what can be inlined."""
    return [name for name in stages(program) if not carried(program, name)]


def single_results(program: Program) -> list[str]:
    """The blocks that write one buffer (the two values of an argmax go to two)."""
    return [n for n, block in program.blocks.items() if len(accessed_buffers(block)[1]) == 1]


def odd_factor(size: int, number: int) -> int | None:
    """A factor that does not divide an extent; which one depends on a number too."""
    choices = [7, 5, 3, 2]
    choices = choices[number % 4 :] + choices[: number % 4]
    return next((factor for factor in choices if factor < size and size % factor), None)


def split_oddly(s: mt.Schedule, loops: list[str], tail: str = "guard") -> dict[str, list[str]]:
    """Loops split in two by factors that do not divide them, except the shortest ones."""
    result = {}
    for number, loop in enumerate(loops):
        factor = odd_factor(extent(s, loop), number)
        result[loop] = [loop] if factor is None else [*s.split(loop, [None, factor], tail=tail)]
    return result


def attempt(step: Callable[..., object], *arguments: object) -> bool:
    """Take a step unless it is refused for what it would do; whether it was taken."""
    try:
        step(*arguments)
    except mt.ScheduleError as refusal:
        assert refusal.rule not in ("A1", "A2"), refusal
        return False
    return True


# ---- recipes


@recipe(lambda program: 2 * len(has_spatial(program)))
def parallelize_and_vectorize(s: mt.Schedule) -> None:
    """Every block: its outermost spatial loop parallel, its innermost one vectorized.

    The reductions are inside of both.
    """
    for block in s.get_blocks():
        spatial, _ = loops_by_kind(s, block)
        if len(spatial) == 1:
            spatial = list(s.split(spatial[0], [None, 4]))
        if spatial:
            s.parallel(next((n for n in spatial[:-1] if extent(s, n) > 1), spatial[0]))
            s.vectorize(spatial[-1])


@recipe(lambda program: len(has_spatial(program)))
def vectorize_innermost(s: mt.Schedule) -> None:
    """Every block: its innermost spatial loop inside of its reductions, and vectorized."""
    for block in s.get_blocks():
        spatial, others = loops_by_kind(s, block)
        if spatial and others:
            s.reorder(*others, spatial[-1])
        if spatial:
            s.vectorize(spatial[-1])


@recipe(lambda program: len(program.blocks))
def tile(s: mt.Schedule) -> None:
    """Every block: loops split by factors that do not divide them, all tiles before their parts."""
    for block in s.get_blocks():
        spatial, others = loops_by_kind(s, block)
        loops = [*spatial, *others]
        parts = split_oddly(s, [*spatial[-3:], *others[:1]])
        outer = [parts.get(n, [n])[0] for n in loops]
        inner = [part for n in loops for part in parts.get(n, [n])[1:]]
        if len(outer + inner) > 1:
            s.reorder(*outer, *inner)


@recipe(lambda program: len(has_spatial(program)))
def cut_tails(s: mt.Schedule) -> None:
    """Every block: its innermost spatial loop cut into whole tiles and a rest, the tiles
    vectorized.
    """
    for block in s.get_blocks():
        spatial, _ = loops_by_kind(s, block)
        if spatial:
            parts = split_oddly(s, spatial[-1:], tail="cut")
            s.vectorize(parts[spatial[-1]][-1])


@recipe(lambda program: len(elementwise_stages(program)))
def inline_all(s: mt.Schedule) -> None:
    """Every elementwise stage computed where it is read."""
    for block in elementwise_stages(s.program):
        s.compute_inline(block)


@recipe(lambda program: len(has_spatial(program)) - 1)
def compute_deep(s: mt.Schedule) -> None:
    """The last block tiled, then every stage as deep under its readers as it may go.

    Where that is, is tried out, so refusals are expected.
    """
    spatial, _ = loops_by_kind(s, s.get_blocks()[-1])
    parts = split_oddly(s, spatial)
    order = [p[0] for p in parts.values()] + [n for p in parts.values() for n in p[1:]]
    if len(order) > 1:
        s.reorder(*order)
    for block in reversed(stages(s.program)):
        reader = s.get_consumers(block)[0]
        any(attempt(s.compute_at, block, loop) for loop in reversed(s.get_loops(reader)))


@recipe(lambda program: 2 * len(reductions(program)))
def factor_reductions(s: mt.Schedule) -> None:
    """Every reduction: its outermost loop an axis of partial results, computed in parallel."""
    for block in reductions(s.program):
        _, others = loops_by_kind(s, block)
        partial = s.rfactor(others[0])
        first = s.get_loops(partial)[0]
        if first != others[0]:
            s.reorder(others[0], first)
        s.parallel(others[0])


@recipe(lambda program: 2 * len(has_spatial(program)))
def fuse_and_split(s: mt.Schedule) -> None:
    """Every block: its spatial loops fused into one, that split by 7, the outer part parallel.

    It always could be parallel, but that is not always proven, so refusals are expected.
    """
    for block in s.get_blocks():
        spatial, _ = loops_by_kind(s, block)
        if spatial:
            fused = s.fuse(*spatial) if len(spatial) > 1 else spatial[0]
            outer, _ = s.split(fused, [None, 7])
            attempt(s.parallel, outer)


@recipe(lambda program: len(single_results(program)))
def cache_results(s: mt.Schedule) -> None:
    """Every block: a tile of its result kept locally, and copied out when it is complete."""
    for block in single_results(s.program):
        spatial, others = loops_by_kind(s, block)
        if not spatial:
            s.cache_write(block, "local")
            continue
        outer, inner = s.split(spatial[-1], [None, 3])
        s.reverse_compute_at(s.cache_write(block, "local"), outer)
        if others:
            s.reorder(*others, inner)


@recipe(lambda program: 2 * len(reductions(program)))
def pack_operands(s: mt.Schedule) -> None:
    """Every reduction: what it reads copied before, in another order or with padded rows."""
    for block in reductions(s.program):
        read, written = accessed_buffers(s.program.blocks[block])
        for number, buffer in enumerate(sorted(read - written)):
            copy = s.cache_read(block, buffer, "global")
            axes = [f"i{axis}" for axis in range(len(s.program.buffers[copy].shape))]
            if len(axes) == 1:
                s.transform_layout(copy, lambda i: (i % 3, i // 3))
            elif number % 2:
                s.storage_align(copy, -2, 8, 3)
            else:
                s.transform_layout(copy, IndexMap(tuple(axes), tuple(map(Var, reversed(axes)))))
            s.vectorize(s.get_loops(copy)[-1])


@recipe(lambda program: len(reductions(program)))
def initialize_apart(s: mt.Schedule) -> None:
    """Every reduction: initialised in a nest of its own, and its innermost loop written out."""
    for block in reductions(s.program):
        _, others = loops_by_kind(s, block)
        s.decompose_reduction(block, others[0])
        s.unroll(others[-1])


@recipe(lambda program: 3 * len(program.blocks))
def sample_tiles(s: mt.Schedule) -> None:
    """Every block: tiles on four levels, their sizes drawn; the outermost ones run in parallel,
    the innermost ones are vectorized: the structure of Ansor's sketches.
    """
    for block in s.get_blocks():
        spatial, others = loops_by_kind(s, block)
        spatial_tiles = [s.split(n, s.sample_perfect_tile(n, 4)) for n in spatial]
        other_tiles = [s.split(n, s.sample_perfect_tile(n, 2)) for n in others]
        level = [[t[k] for t in spatial_tiles] for k in range(4)]
        rest = [[t[k] for t in other_tiles] for k in range(2)]
        s.reorder(*level[0], *level[1], *rest[0], *level[2], *rest[1], *level[3])
        if spatial:
            s.parallel(s.fuse(*level[0]) if len(spatial) > 1 else level[0][0])
            s.vectorize(level[3][-1])
        if others:
            s.unroll(rest[1][-1])


@recipe(lambda program: 2 if has_spatial(program)[1:] else 0)
def fuse_operators(s: mt.Schedule) -> None:
    """Short stages inlined, the others in the nest of the last block; its outermost loop parallel,
    the innermost loop of every block vectorized.

    That may hold another vectorized loop already, so refusals are expected.
    """
    for block in elementwise_stages(s.program):
        if sum(1 for _ in walk(s.program.blocks[block].body)) < 50:
            s.compute_inline(block)
    compute_deep(s)
    spatial, _ = loops_by_kind(s, s.get_blocks()[-1])
    if spatial:
        s.parallel(next((n for n in spatial if extent(s, n) > 1), spatial[0]))
    for block in s.get_blocks():
        innermost = s.get_loops(block)[-1]
        if innermost not in carried(s.program, block) and innermost != spatial[0]:
            attempt(s.vectorize, innermost)
