"""Bytes that go through a cache: of arrays in device memory, by the boxes that accesses span.

Loops are looked at from outside to inside. What fits the cache while a loop runs is fetched once;
so is what the iterations of a loop share, if one of them fits. Boxes are those of `arith.region`,
so that a footprint is rather too large; a row of a box is rounded up to sectors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minitensor import arith, ir
from minitensor.gpu.kernels import Kernel, Site, size_of
from minitensor.gpu.reuse import lane_of
from minitensor.gpu.warps import SECTOR

Boxes = dict[str, arith.Box]


@dataclass(frozen=True, slots=True)
class Access:
    """An access of an array in device memory.

    forms  its indices
    loops  around it that are not written out, outermost first
    """

    buffer: ir.Buffer
    forms: tuple[arith.Linear, ...]
    loops: tuple[ir.For, ...]


@dataclass(frozen=True, slots=True)
class Footprints:
    """The accesses of a kernel, to be asked for what they touch.

    accesses  of arrays in device memory
    ranges    of all variables
    at_once   the indices of threads, and of loops that are written out
    """

    accesses: tuple[Access, ...]
    ranges: Mapping[str, arith.Interval]
    at_once: frozenset[str]

    @staticmethod
    def of(kernel: Kernel, sites: Sequence[Site]) -> Footprints:
        """The footprints of a kernel."""
        parts = kernel.parts
        loops = [*parts.blocks, *parts.threads, *(loop for site in sites for loop in site.loops)]
        together = [loop for site in sites for loop in site.together]
        loops += together
        ranges = {loop.var: arith.extent_range(loop.extent) for loop in loops}
        simplifier = arith.Simplifier(ranges)
        found = []
        for site in sites:
            buffer = site.buffer
            if buffer is None or buffer.scope is ir.Scope.SHARED or buffer in kernel.private:
                continue
            forms = tuple(simplifier.linear(lane_of(index, 0)) for index in site.indices)
            slow = tuple(loop for loop in site.loops if loop.kind is not ir.LoopKind.UNROLL)
            found.append(Access(buffer, forms, slow))
        kinds = {loop.var: loop.kind for loop in loops}
        at_once = [n for n, kind in kinds.items() if kind.is_thread or kind is ir.LoopKind.UNROLL]
        at_once += [loop.var for loop in together]
        return Footprints(tuple(found), ranges, frozenset(at_once))

    def through(self, capacity: float, blocks: Mapping[str, int]) -> Counter[str]:
        """The bytes of each array that some blocks, which share a cache, fetch into it.

        capacity  bytes of the cache
        blocks    the number of blocks along each block index, for those that are more than one
        """
        ranges = {**self.ranges, **{n: arith.extent_range(x) for n, x in blocks.items()}}
        return self._through(self.accesses, 0, capacity, self.at_once | set(blocks), ranges)

    def _through(
        self,
        accesses: Sequence[Access],
        depth: int,
        capacity: float,
        running: frozenset[str],
        ranges: arith.Ranges,
    ) -> Counter[str]:
        """The bytes, while the first `depth` loops around all of these stand still."""
        inner = {loop.var for access in accesses for loop in access.loops[depth:]}
        whole = _touched(accesses, running | inner, ranges)
        if whole.total() <= capacity:
            return whole
        groups: dict[ir.For | None, list[Access]] = {}
        for access in accesses:
            loops = access.loops
            groups.setdefault(loops[depth] if depth < len(loops) else None, []).append(access)
        total = Counter[str]()
        for loop, group in groups.items():
            inner = {other.var for access in group for other in access.loops[depth:]}
            if loop is None:
                total += _touched(group, running, ranges)
            elif _touched(group, running | inner - {loop.var}, ranges).total() <= capacity:
                total += _touched(group, running | inner, ranges)
            else:
                once = self._through(group, depth + 1, capacity, running, ranges)
                total += Counter({name: count * loop.extent for name, count in once.items()})
        return total


def _touched(
    accesses: Sequence[Access], running: frozenset[str] | set[str], ranges: arith.Ranges
) -> Counter[str]:
    """The bytes of each array that accesses touch while some variables run."""
    boxes = Boxes()
    buffers = dict[str, ir.Buffer]()
    for access in accesses:
        buffer = access.buffer
        buffers[buffer.name] = buffer
        box = arith.box_of(access.forms, buffer.shape, frozenset(running), ranges)
        box = arith.clipped_box(box, buffer.shape)
        known = boxes.get(buffer.name)
        boxes[buffer.name] = arith.union_box(known, box, buffer.shape) if known else box
    return Counter({name: _bytes(buffers[name], box) for name, box in boxes.items()})


def _bytes(buffer: ir.Buffer, box: arith.Box) -> int:
    """The bytes of the sectors of a box."""
    extents = [min(int(span.extent), n) for span, n in zip(box, buffer.shape)]
    row, rows = size_of(buffer), 1
    whole = True
    for extent, full in zip(reversed(extents), reversed(buffer.shape)):
        if whole:
            row *= extent
        else:
            rows *= extent
        whole = whole and extent == full
    return rows * -(-row // SECTOR) * SECTOR


def waves_of(kernel: Kernel, together: int) -> tuple[dict[str, int], int]:
    """The block indices that move among blocks that run together, each with how many of its values;
    and how often so many blocks are begun. Blocks are begun with x fastest.
    """
    left, found = max(1, together), dict[str, int]()
    for loop in sorted(kernel.parts.blocks, key=lambda loop: loop.kind.value):
        some = min(loop.extent, left)
        if some > 1:
            found[loop.var] = some
        left = max(1, left // loop.extent)
    begun = math.prod(found.values())
    return found, max(1, -(-kernel.blocks // max(1, begun)))
