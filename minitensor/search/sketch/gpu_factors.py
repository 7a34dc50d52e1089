"""Factors of tiles for a GPU: Ansor's, which divide the extent, and ours, which need not.

Along each axis of a result a block computes virtual threads x threads x elements, and takes a few
steps of the sum at a time. An author begins with 16 x 16 threads of 4 x 4 elements twice along the
two axes that share operands, and makes tiles smaller while there are fewer than multiprocessors.

Source of the first: Zheng et al., Ansor, OSDI 2020, section 4.1 (SSSRRSRS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from minitensor import ir
from minitensor.codegen import device_of
from minitensor.schedule import Schedule
from minitensor.search.sketch import factors
from minitensor.search.sketch.ansor import INNERMOST
from minitensor.search.sketch.blocks import loops_by_axis, pairs, reduce_iters, spatial_iters
from minitensor.search.sketch.rule import State

VIRTUAL: Final = (1, 2, 4)
"""Virtual threads of a thread along an axis of operands that are shared."""
THREADS: Final = (4, 8, 16, 32)
"""Threads of a block along such an axis. Whatever is chosen, there are no more than 1,024: up to 32
x 32, or 16 x 16 and SIDE along another axis, or BLOCK along a single one."""
SIDE: Final = (1, 2, 4)
ELEMENTS: Final = (1, 2, 4, 8)
"""Elements side by side that a thread computes."""
STEPS: Final = (1, 2, 3, 4, 8, 16, 32)
"""Iterations of a sum for which a block has its operands in shared memory."""
USUAL_STEPS: Final = 8
WIDTHS: Final = (1, 2, 4)
"""Elements that a thread copies at once."""
BLOCK: Final = (32, 64, 128, 256, 512, 1024)
"""Threads of a block that has no tiles."""
USUAL_BLOCK: Final = 256

Cut: TypeAlias = tuple[list[str], list[int]]
"""The loops of an axis, outermost first, and the factors of all but the first."""
Cutter: TypeAlias = Callable[[Schedule, State], "dict[str, Cut]"]
"""Cuts the loops of a block: five of each axis of its result, or four; three of a sum, or two."""


def perfect(schedule: Schedule, state: State) -> dict[str, Cut]:
    """Ansor's factors: five for an axis of the result, three for a sum."""
    found = {}
    loops = loops_by_axis(schedule, state.name)
    for axis in state.block.iters:
        count, loop = 5 if axis.kind is ir.IterKind.SPATIAL else 3, loops[axis.var]
        drawn = (axis.extent, *[1] * (count - 1))  # is legal, whatever there is along other axes
        chosen = schedule.sample_perfect_tile(
            loop, count, max_innermost_factor=INNERMOST, decision=drawn
        )
        found[axis.var] = list(schedule.split(loop, chosen)), list(chosen[1:])
    return found


def by_hand(schedule: Schedule, state: State) -> dict[str, Cut]:
    """Factors among candidates: those that an author would take are the likeliest."""
    found = {}
    sizes, loops = _sizes(state), loops_by_axis(schedule, state.name)
    for axis in spatial_iters(state.block):
        chosen = [
            factors.part(schedule, _up_to(axis.extent, among), usual)
            for among, usual in zip(sizes[axis.var].among, sizes[axis.var].parts)
        ]
        found[axis.var] = list(schedule.split(loops[axis.var], [None, *chosen])), chosen
    left = USUAL_STEPS
    for axis in reversed(reduce_iters(state.block)):
        candidates = _up_to(axis.extent, (*STEPS, *([axis.extent] if axis.extent < 8 else [])))
        usual = axis.extent if axis.extent <= left else max(1, min(left, candidates[-1]))
        left = max(1, left // axis.extent)
        steps = factors.part(schedule, candidates, usual)
        found[axis.var] = list(schedule.split(loops[axis.var], [None, steps])), [steps]
    return found


def _up_to(extent: int, candidates: tuple[int, ...]) -> list[int]:
    return factors.up_to(max(1, extent), candidates)


@dataclass(slots=True)
class Size:
    """The size of a tile along an axis: virtual threads, threads, elements.

    among  the candidates for each of these
    """

    extent: int
    among: tuple[tuple[int, ...], ...] = ((1,), (1,), (1, 2))
    parts: list[int] = field(default_factory=lambda: [1, 1, 1])

    @property
    def blocks(self) -> int:
        """The number of tiles."""
        return -(-max(1, self.extent) // math.prod(self.parts))


def _sizes(state: State) -> Mapping[str, Size]:
    """The tile that an author would begin with."""
    space, processors = spatial_iters(state.block), device_of(state.target).processors
    sizes = {i.var: Size(i.extent) for i in space}
    main = _main_axes(state.block)
    side = max((i for i in space if i not in main), key=lambda i: i.extent, default=None)
    if side is not None and side.extent > 1:
        sizes[side.var].among = ((1,), SIDE, (1, 2))
    for axis in main:
        among = BLOCK[:-2] if len(main) == 1 else THREADS if side is None else THREADS[:-1]
        threads = _at_most(axis.extent, 16 if len(main) > 1 else 128)
        elements = _at_most(-(-axis.extent // threads), 4)
        virtual = _at_most(-(-axis.extent // (threads * elements)), 2)
        parts = [virtual, threads, elements]
        sizes[axis.var] = Size(axis.extent, (VIRTUAL, among, ELEMENTS), parts)
    for level in (0, 2):
        for axis in main:
            parts = sizes[axis.var].parts
            while parts[level] > 1 and math.prod(s.blocks for s in sizes.values()) < processors:
                parts[level] //= 2
    return sizes


def _main_axes(block: ir.Block) -> list[ir.Iter]:
    """The axes of the result that threads of a block are along: rows and lanes, outermost first."""
    space = spatial_iters(block)
    found = pairs(block)
    names = {found[0].rows.var, found[0].lanes.var} if found else set()
    if not names:
        names = {i.var for i in sorted(space, key=lambda i: -i.extent)[:2]}
    return [i for i in space if i.var in names and i.extent > 1]


def _at_most(extent: int, limit: int) -> int:
    """The least power of two that reaches an extent; not more than a limit, which is one too."""
    return min(limit, 1 << (max(1, extent) - 1).bit_length())


def block_of(schedule: Schedule, state: State, extent: int) -> int:
    """Threads of a block without tiles: few, where there are few iterations for many processors."""
    share = _at_most(extent // device_of(state.target).processors, USUAL_BLOCK)
    return factors.part(schedule, _up_to(extent, BLOCK), max(BLOCK[0], share))


def team_of(schedule: Schedule, extent: int) -> int:
    """Threads that combine a sum of so many terms."""
    candidates = _up_to(extent, BLOCK)
    return factors.part(schedule, candidates, max(BLOCK[0], _at_most(extent // 4, USUAL_BLOCK)))


def width_of(schedule: Schedule, buffer: ir.Buffer) -> int:
    """Elements that a thread copies at once: 16 bytes, where rows are multiples of that."""
    most = max(1, min(WIDTHS[-1], 128 // buffer.dtype.bits))
    usual = most if buffer.shape and buffer.shape[-1] % most == 0 else 1
    return factors.part(schedule, WIDTHS, usual)
