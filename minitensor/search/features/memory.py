"""Memory traffic of a statement in one of its buffers, for many candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor import arith
from minitensor.arith import Integers, Num, Truth, product
from minitensor.search.features.nest import Floats, Mask, Nest
from minitensor.search.features.statement import Shifted, Touch

LINE: Final = 64
"""The bytes of a cache line."""


class Walk:
    """The traffic of a statement in a buffer.

    moving        the loops that move along the buffer, bool (loops, candidates)
    touched       for each number of loops that stand still, the outermost ones: the bytes that are
                  touched while the others run, float64 (loops + 1, candidates)
    unique_lines  float64 (candidates,)
    """

    def __init__(self, nest: Nest, touch: Touch, shape: Sequence[Num]) -> None:
        self.nest = nest
        self.touch = touch
        self.shape = shape
        self.axes = [[nest.number(one.form) for one in axis] for axis in touch.axes]
        self.moving = nest.swings.moving([n for axis in self.axes for n in axis])
        extents = [self._extents(*axis) for axis in zip(touch.axes, self.axes, shape)]
        volume = np.full((nest.depth + 1, nest.count), touch.item)
        for extent in extents:
            volume *= extent
        self.touched: Floats = volume.astype(np.float64)
        if nest.idle:
            self.touched *= nest.inside > 0
        self.unique_lines = self._unique_lines([extent[0] for extent in extents])

    def _extents(self, axis: Sequence[Shifted], numbers: Sequence[int], size: Num) -> Integers:
        """For each number of loops that stand still: how many indices of an axis lie between the
        least and the greatest that are reached, at most all of them; (loops + 1, candidates).
        """
        swings, forms = self.nest.swings, self.nest.forms
        if len(axis) == 1:
            ((one,), (n,)) = axis, numbers
            reached = swings.above[n] + swings.below[n]
            reached += one.most - one.least + 1
        else:
            starts = [arith.at(forms[n], "", 0) for n in numbers]
            lows = [
                start + one.least - swings.below[n] for one, n, start in zip(axis, numbers, starts)
            ]
            highs = [
                start + one.most + swings.above[n] for one, n, start in zip(axis, numbers, starts)
            ]
            reached = np.maximum.reduce(highs) - np.minimum.reduce(lows) + 1
        found: Integers = np.minimum(reached, size, out=reached)
        return found

    def _unique_lines(self, extents: Sequence[Integers]) -> Floats:
        """The lines that are touched: the innermost axis, and those around it as long as whole
        rows are touched, are one piece of memory.
        """
        run = np.full(self.nest.count, self.touch.item)
        whole: Truth = True
        for extent, size in zip(reversed(extents), reversed(self.shape)):
            np.multiply(run, extent, out=run, where=whole)
            whole = whole & np.equal(extent, size)
        piece = np.minimum(np.maximum(run, 1), LINE)
        lines: Floats = self.touched[0] / piece
        return lines

    def steps(self) -> Integers:
        """The elements that each loop goes on, (loops, candidates): on the route that goes most."""
        strides = _strides(self.touch, self.shape)
        far = np.zeros((self.nest.depth, self.nest.count), np.int64)
        for route in self.touch.routes:
            step: Num = 0
            for axis, number, stride in zip(self.axes, route, strides):
                step = step + product(self.nest.swings.step[axis[number]], stride)
            np.maximum(far, np.abs(step), out=far)
        return far


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


def lines_of(nest: Nest, walks: Sequence[Walk]) -> tuple[Floats, Floats]:
    """For each buffer the lines that are touched if none stays in a cache, and the stride;
    (buffers, candidates).

    The stride is how many elements the innermost loop that moves goes on; loops inside of that
    stay at their line.
    """
    moving = np.zeros((len(walks), nest.depth + 1, nest.count), np.bool_)
    steps = np.zeros(moving.shape)
    for n, walk in enumerate(walks):
        moving[n, 1:], steps[n, 1:] = walk.moving, walk.steps()
    depth = nest.innermost(moving) * moving.any(1)  # inside of the loop that moves; 0 if none does
    stays = nest.inside[depth, nest.lanes]
    stride = np.take_along_axis(steps, depth[:, None], 1)[:, 0]
    items = np.array([[walk.touch.item] for walk in walks])
    apart = np.maximum(stride, 1) * (items / LINE)
    runs = nest.inside[0]
    lines = runs / np.maximum(stays, 1) * np.minimum(apart, 1)
    return np.where(runs > 0, np.maximum(lines, 1), 0), stride


@dataclass(frozen=True)
class Reuse:
    """Reuse of the elements that a statement touches, all (buffers, candidates).

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


def reuse_of(nest: Nest, walks: Sequence[Walk], traffic: Floats) -> Reuse:
    """The reuse of each buffer: in the innermost loop that has any.

    traffic  for each depth the bytes of all buffers that are touched there, (loops + 1, candidates)
    """
    others = np.array([walk.touch.others for walk in walks])
    looping = np.zeros((len(walks), nest.depth + 1, nest.count), np.bool_)
    for walk, own in zip(walks, looping):  # in the loop around each depth
        np.greater(nest.several, walk.moving, out=own[1:])
    depth = nest.innermost(looping | (others > 0)[:, :, None])
    looped = np.take_along_axis(looping, depth[:, None], 1)[:, 0]
    others_there = np.take_along_axis(others, depth, 1)
    some = looped | (others_there > 0)
    count = np.where(looped, nest.around[depth, nest.lanes], others_there)
    apart, between = nest.inside[depth, nest.lanes], traffic[depth, nest.lanes]
    return Reuse(looped, some & ~looped, count, apart * some, between * some)
