"""Memory traffic of a statement in one of its buffers, for many candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor import arith
from minitensor.arith import Num, Truth, greater, is_zero, magnitude, product
from minitensor.search.features.nest import Floats, Mask, Nest, Swing
from minitensor.search.features.statement import Touch

LINE: Final = 64
"""The bytes of a cache line."""


class Walk:
    """The traffic of a statement in a buffer.

    moves   for each loop that moves along the buffer, whether it does (see Swing)
    touched for each number of loops that stand still, the outermost ones: the bytes that are
            touched while the others run, float64 (candidates,)
    unique_lines  float64 (candidates,)
    """

    def __init__(self, nest: Nest, touch: Touch, shape: Sequence[Num]) -> None:
        self.nest = nest
        self.touch = touch
        self.shape = shape
        self.axes = [[nest.swings(one.form) for one in axis] for axis in touch.axes]
        self.moves = self._moves()
        self.touched, extents = self._touched()
        self.unique_lines = self._unique_lines(extents)

    def _moves(self) -> dict[int, Truth]:
        found: dict[int, Truth] = {}
        for axis in self.axes:
            for swings in axis:
                for loop, one in swings.items():
                    known = found.get(loop, False)
                    if known is not True:
                        found[loop] = one.moves if one.moves is True else known | one.moves
        return found

    def _touched(self) -> tuple[list[Floats], list[Num]]:
        """The bytes for each depth, and the extent of each axis while all loops run."""
        origins = [
            [(arith.at(arith.replaced(one.form, self.nest.forms), "", 0), one) for one in axis]
            for axis in self.touch.axes
        ]
        low: list[list[Num]] = [[at + one.least for at, one in axis] for axis in origins]
        high: list[list[Num]] = [[at + one.most for at, one in axis] for axis in origins]
        extents = [_extent(*ends) for ends in zip(low, high, self.shape)]
        rows = [self._bytes(extents, self.nest.depth)]
        for loop in reversed(range(self.nest.depth)):
            moved = False
            for n, axis in enumerate(self.axes):
                changed = False
                for k, swings in enumerate(axis):
                    one = swings.get(loop)
                    if one is not None:
                        changed = True
                        _move(one, low[n], high[n], k)
                if changed:
                    moved = True
                    extents[n] = _extent(low[n], high[n], self.shape[n])
            rows.append(self._bytes(extents, loop) if moved or self.nest.idle else rows[-1])
        return rows[::-1], extents

    def _bytes(self, extents: Sequence[Num], depth: int) -> Floats:
        volume: Num = self.touch.item
        for extent in extents:
            volume = product(volume, extent)
        found = np.empty(self.nest.count)
        found[:] = volume
        if self.nest.idle:
            found *= self.nest.inside[depth] > 0
        return found

    def _unique_lines(self, extents: Sequence[Num]) -> Floats:
        """The lines that are touched: the innermost axis, and those around it as long as whole
        rows are touched, are one piece of memory.
        """
        run: Num = self.touch.item
        whole: Truth = True
        for extent, size in zip(reversed(extents), reversed(self.shape)):
            if whole is False:
                break
            run = run * extent if whole is True else np.where(whole, run * extent, run)
            whole = whole & _equal(extent, size)
        piece = np.clip(np.asarray(run, np.float64), 1, LINE)
        return self.touched[0] / piece

    def lines(self) -> tuple[Floats, Floats]:
        """The lines that are touched if none stays in a cache, and the stride.

        The stride is how many elements the innermost loop that moves goes on; loops inside of that
        stay at their line.
        """
        nest = self.nest
        undecided = np.ones(nest.count, np.bool_)
        stays = np.ones(nest.count)
        stride = np.zeros(nest.count)
        steps = self._steps()
        for loop in reversed(range(nest.depth)):
            if loop in self.moves:
                here = undecided & nest.moving(loop, self.moves[loop])
                np.copyto(stride, steps[loop], where=here)
                undecided &= ~here
                if not undecided.any():
                    break
            np.multiply(stays, nest.length[loop], out=stays, where=undecided)
        apart = np.clip(stride, 1, None) * (self.touch.item / LINE)
        runs = nest.inside[0]
        lines = runs / np.maximum(stays, 1) * np.minimum(apart, 1)
        return np.where(runs > 0, np.maximum(lines, 1), 0), stride

    def _steps(self) -> dict[int, Num]:
        """For each loop that moves along the buffer, how many elements it goes on."""
        strides = _strides(self.touch, self.shape)
        found: dict[int, Num] = {}
        for loop in self.moves:
            for route in self.touch.routes:
                step: Num = 0
                for axis, number, stride in zip(self.axes, route, strides):
                    one = axis[number].get(loop)
                    if one is not None:
                        step = step + product(one.step, stride)
                known = found.get(loop)
                far = magnitude(step)
                found[loop] = far if known is None else greater(known, far)
        return found


def _move(one: Swing, low: list[Num], high: list[Num], k: int) -> None:
    if not is_zero(one.up):
        high[k] = high[k] + one.up
    if not is_zero(one.down):
        low[k] = low[k] - one.down


def _extent(low: Sequence[Num], high: Sequence[Num], size: Num) -> Num:
    """The number of indices of an axis between the ends, at most all of them."""
    least, most = low[0], high[0]
    for other in low[1:]:
        least = -greater(-least, -other)
    for other in high[1:]:
        most = greater(most, other)
    return -greater(least - most - 1, -size)


def _equal(a: Num, b: Num) -> Truth:
    return a == b if isinstance(a, int) and isinstance(b, int) else np.equal(a, b)


def _strides(touch: Touch, shape: Sequence[Num]) -> list[Num]:
    """The stride of each axis in elements; as `strides_of`, but for shapes of many candidates."""
    wanted = {axis: (factor, offset) for axis, factor, offset in touch.buffer.alignment}
    strides: list[Num] = []
    stride: Num = 1
    for axis in reversed(range(len(shape))):
        factor, offset = wanted.get(axis, (1, 0))
        if factor > 1:
            stride = stride + (offset - stride) % factor
        strides.append(stride)
        stride = product(stride, shape[axis])
    return strides[::-1]


@dataclass(frozen=True)
class Reuse:
    """Reuse of the elements that a statement touches, all (candidates,).

    looped   by the same statement, in a loop that does not move along the buffer
    shared   by another statement
    count    how often: iterations of the loop, or other statements
    apart    executions of the statement between two such accesses
    between  bytes that it touches meanwhile
    """

    looped: Mask
    shared: Mask
    count: Floats
    apart: Floats
    between: Floats


def reuse_of(walk: Walk, traffic: Sequence[Floats]) -> Reuse:
    """The reuse of a buffer: in the innermost loop that has any.

    traffic  for each depth the bytes of all buffers that are touched there
    """
    nest, others = walk.nest, walk.touch.others
    undecided = np.ones(nest.count, np.bool_)
    looped = np.zeros(nest.count, np.bool_)
    count, apart, between = (np.zeros(nest.count) for _ in range(3))

    def take(where: Mask, times: Num, depth: int) -> None:
        np.copyto(count, times, where=where)
        np.copyto(apart, nest.inside[depth], where=where)
        np.copyto(between, traffic[depth], where=where)

    for loop in reversed(range(nest.depth)):
        moves = walk.moves.get(loop, False)
        if moves is not True:
            here = undecided & nest.several[loop] & ~np.asarray(moves)
            if here.any():
                looped |= here
                take(here, nest.length[loop], loop + 1)
                undecided &= ~here
        if others[loop + 1]:
            take(undecided, others[loop + 1], loop + 1)
            return Reuse(looped, undecided, count, apart, between)
    shared = undecided if others[0] else np.zeros(nest.count, np.bool_)
    take(shared, others[0], 0)
    return Reuse(looped, shared, count, apart, between)
