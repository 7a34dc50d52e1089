"""Schedules for any program: each recipe does one thing wherever it can be done.

    s = mt.Schedule(program)
    RECIPES["tile"](s)

A recipe takes a freshly lowered program, in which every block stands in a nest of its own. Most of
them take only steps that are legal by construction, and a refusal is a failure; those that try
steps and skip what is refused say so. `assert_busy` is for all: a recipe must not do nothing.
"""

from collections.abc import Callable
from typing import Final

import minitensor as mt
from minitensor.ir import IterKind, accessed_buffers, free_vars, loops_of
from minitensor.schedule.decide import compute_locations

TILES: Final = (3, 5, 7)
"""Factors that divide few extents."""


# ---- what a program has


def extent(s: mt.Schedule, loop: str) -> int:
    return next(found.extent for found in loops_of(s.program.body) if found.var == loop)


def loops_by_kind(s: mt.Schedule, block: str) -> tuple[list[str], list[str]]:
    """The loops around a block: those that drive spatial iters alone, and the others."""
    carried = {
        name
        for i in s.program.blocks[block].iters
        if i.kind is not IterKind.SPATIAL
        for name in free_vars(i.binding)
    }
    loops = s.get_loops(block)
    return [n for n in loops if n not in carried], [n for n in loops if n in carried]


def reductions(s: mt.Schedule) -> list[str]:
    """The blocks that combine many values into one."""
    return [
        name
        for name, block in s.program.blocks.items()
        if any(i.kind is IterKind.REDUCE for i in block.iters)
    ]


def stages(s: mt.Schedule) -> list[str]:
    """The blocks that write a temporary."""
    temporary = {buffer.name for buffer in s.program.temporaries}
    return [n for n, block in s.program.blocks.items() if accessed_buffers(block)[1] <= temporary]


def elementwise_stages(s: mt.Schedule) -> list[str]:
    """The blocks that write each element of a temporary once: what can be inlined."""
    carried = {
        n
        for n, block in s.program.blocks.items()
        if any(i.kind is not IterKind.SPATIAL for i in block.iters)
    }
    return [n for n in stages(s) if n not in carried]


def attempt(call: Callable[..., object], *args: object, **options: object) -> bool:
    """Take a step if it is legal; whether it was."""
    try:
        call(*args, **options)
    except mt.ScheduleError as refusal:
        assert refusal.rule not in ("A1", "A2"), refusal
        return False
    return True


# ---- recipes


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


def vectorize_innermost(s: mt.Schedule) -> None:
    """Every block: its innermost spatial loop inside of its reductions, and vectorized."""
    for block in s.get_blocks():
        spatial, carried = loops_by_kind(s, block)
        if spatial:
            if carried:
                s.reorder(*carried, spatial[-1])
            s.vectorize(spatial[-1])


def tile(s: mt.Schedule) -> None:
    """Every block: all loops split by factors that do not divide them, tiles inside of tiles."""
    for block in s.get_blocks():
        spatial, carried = loops_by_kind(s, block)
        tiles = {}
        for number, loop in enumerate([*spatial, *carried]):
            tiles[loop] = s.split(loop, [None, TILES[number % len(TILES)]])
        order = [tiles[n][level] for level in (0, 1) for n in (*spatial, *carried)]
        if len(order) > 1:
            s.reorder(*order)


def inline_all(s: mt.Schedule) -> None:
    """Every elementwise stage computed where it is read."""
    for block in elementwise_stages(s):
        s.compute_inline(block)


def compute_deep(s: mt.Schedule) -> None:
    """The outputs tiled, then every stage as deep under its readers as it may go."""
    for block in set(s.get_blocks()) - set(stages(s)):
        spatial, _ = loops_by_kind(s, block)
        tiles = [s.split(n, [None, TILES[k % len(TILES)]]) for k, n in enumerate(spatial)]
        if len(tiles) > 1:
            s.reorder(*[t[0] for t in tiles], *[t[1] for t in tiles])
    for block in reversed(stages(s)):
        deepest = compute_locations(s.program, block)[-1]
        s.compute_at(block, s.sample_compute_location(block, decision=deepest))


def factor_reductions(s: mt.Schedule) -> None:
    """Every reduction: its outermost loop an axis of partial results, computed in parallel."""
    for block in reductions(s):
        _, carried = loops_by_kind(s, block)
        partial = s.rfactor(carried[0])
        spatial, _ = loops_by_kind(s, partial)
        if spatial[0] != carried[0]:
            s.reorder(carried[0], spatial[0])
        s.parallel(carried[0])


def fuse_and_split(s: mt.Schedule) -> None:
    """Every block: its spatial loops fused into one, that split by 7, the outer part parallel."""
    for block in s.get_blocks():
        spatial, _ = loops_by_kind(s, block)
        if spatial:
            fused = s.fuse(*spatial) if len(spatial) > 1 else spatial[0]
            outer, _ = s.split(fused, [None, 7])
            s.parallel(outer)


def cache_results(s: mt.Schedule) -> None:
    """Every block: tiled, its result kept in a local tile and copied out when that is complete."""
    for block in s.get_blocks():
        spatial, carried = loops_by_kind(s, block)
        if not spatial:
            s.cache_write(block, "local")
            continue
        outer, inner = s.split(spatial[-1], [None, 3])
        copy = s.cache_write(block, "local")
        s.reverse_compute_at(copy, outer)
        if carried:
            s.reorder(*carried, inner)


def cut_tails(s: mt.Schedule) -> None:
    """Every block: its spatial loops of 3 iterations or more cut into whole tiles and a rest."""
    for block in s.get_blocks():
        spatial, _ = loops_by_kind(s, block)
        for loop in spatial:
            ...


RECIPES = {
    f.__name__: f
    for f in (
        parallelize_and_vectorize,
        vectorize_innermost,
        tile,
        inline_all,
        compute_deep,
        factor_reductions,
        fuse_and_split,
        cache_results,
    )
}
