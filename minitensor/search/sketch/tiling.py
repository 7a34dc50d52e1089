"""Multi-level tiling: the structure SSRSRS of a loop nest, its factors left open.

for i.0, j.0:                 S    parallel
    for i.1, j.1:             S    tiles in the second cache
        for k.0:              R
            for i.2, j.2:     S    tiles in the first cache
                for k.1:      R
                    for i.3, j.3:   S    tiles in registers
"""

from __future__ import annotations

from collections import deque
from typing import Final

from minitensor.schedule import Schedule
from minitensor.search.sketch.predicates import reduce_iters, spatial_iters

STRUCTURE: Final = "SSRSRS"
INNERMOST: Final = 64
"""The largest innermost factor (Ansor's max_innermost_split_factor)."""


def tile(schedule: Schedule, block: str, structure: str = STRUCTURE) -> list[list[str]]:
    """Tile the loops of a block that stands alone in its nest.

    Returns the loops of each level, outermost first.
    """
    found = schedule.program.blocks[block]
    loops = dict(zip([i.var for i in found.iters], schedule.get_loops(block)))
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
