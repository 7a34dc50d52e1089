"""Judges of lesson 13, convolutions and fusion."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitensor import ir, lang

from ..course.requirements import accesses, inside, temporaries
from ..course.tasks import (
    Case,
    FunctionTask,
    Requirement,
    ScheduleTask,
    Task,
)
from .defined import require_parameters, require_results


def places(n: int, kernel: int, stride: int, padding: int) -> int:
    """The number of places of a window along one axis."""
    return (n + 2 * padding - kernel) // stride + 1


class TouchingPadding(FunctionTask):
    """A count of useless products."""

    name, text = "touching_padding", "count the products with the padding"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [(draw.randint(4, 9), draw.randint(4, 9), 3, 1, 1)]
        found.append((draw.randint(4, 9), draw.randint(4, 9), draw.randint(2, 4), 1, 0))
        for stride, padding in ((2, 1), (2, 3), (3, 2)):
            found.append(
                (draw.randint(4, 9), draw.randint(4, 9), draw.randint(2, 4), stride, padding)
            )
        return found

    def expected(self, h: int, w: int, kernel: int, stride: int, padding: int) -> int:
        image = np.pad(np.zeros((h, w), int), padding, constant_values=1)
        windows = np.lib.stride_tricks.sliding_window_view(image, (kernel, kernel))
        return int(windows[::stride, ::stride].sum())


class Define(Task):
    """The definition of a convolution."""

    name, text = "define", "define a convolution with padding and a stride"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for stride, padding in ((1, 0), (1, 1), (2, 0), (2, 2)):
            h, w = draw.sample(range(4, 9), 2)
            c, f, kernel = draw.randint(1, 3), draw.randint(1, 3), draw.randint(2, 4)
            found.append((c, h, w, f, kernel, stride, padding))
        return found

    def judge(self, case: Case, got: Any) -> None:
        c, h, w, f, kernel, stride, padding = case
        output = (f, *(places(n, kernel, stride, padding) for n in (h, w)))
        named = {"data": (c, h, w), "weight": (f, c, kernel, kernel), "conv": output}
        require_parameters(got, [(name, shape, "float32") for name, shape in named.items()])
        rng = np.random.default_rng(5)
        data = rng.integers(-3, 4, (c, h, w)).astype("float32")
        weight = rng.integers(-3, 4, (f, c, kernel, kernel)).astype("float32")
        want = _convolved(data, weight, stride, padding)
        require_results(got, [data, weight], [want])


def _convolved(data: np.ndarray, weight: np.ndarray, stride: int, padding: int) -> np.ndarray:
    image = np.pad(data, ((0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(image, weight.shape[2:], (1, 2))
    found: np.ndarray = np.einsum("cyxij,fcij->fyx", windows[:, ::stride, ::stride], weight)
    return found.astype("float32")


class Fuse(ScheduleTask):
    """Bias and relu, as soon as a part of the convolution is there."""

    name, text = "fuse", "fuse bias and relu into a convolution"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for stride, padding in ((1, 0), (1, 1), (2, 1)):
            c, h, w = draw.randint(1, 2), draw.randint(7, 9), draw.randint(5, 7)
            rows, columns = (places(n, 3, stride, padding) for n in (h, w))
            most = columns + c * 3 * (w + 2 * padding)  # a row, and what it needs of pad
            f = most // (rows * columns) + 1
            sizes = (1, c, h, w, f, 3, stride, padding)
            tensors = lang.workloads.conv2d_bias_relu(*sizes)
            found.append((lang.lower(list(tensors), name="layer"), most))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (most,) = arguments
        return [temporaries(most), accesses("loads", "weight", _products(program))]


class Strips(ScheduleTask):
    """Padding in strips, with their halo."""

    name, text = "strips", "make the padding in strips"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for stride, f in ((1, 1), (1, draw.randint(2, 3)), (2, draw.randint(2, 3))):
            rows, kernel = draw.randint(2, 3), draw.randint(3, 4)
            h = (2 * rows - 1) * stride + kernel - 2  # with padding 1: two strips
            sizes = (1, draw.randint(1, 2), h, draw.randint(5, 7), f, kernel, stride, 1)
            found.append((lang.lower(list(lang.workloads.conv2d(*sizes)), name="conv"), rows))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (rows,) = arguments
        (_, c, h, _), (_, _, kernel, _) = (b.shape for b in program.inputs)
        out, padded = program.outputs[0].shape[2], program.temporaries[0].shape
        stride = (h + 2 - kernel) // (out - 1)
        strip = c * ((rows - 1) * stride + kernel) * padded[3]
        most = out // rows * strip
        return [inside("pad", "conv"), accesses("stores", "pad", most), temporaries(strip)]


def _products(program: ir.Program) -> int:
    """The multiplications of a convolution."""
    shape = next(b.shape for b in program.temporaries if b.name == "conv")
    weight = next(b.shape for b in program.inputs if b.name == "weight")
    return int(np.prod(shape) * np.prod(weight[1:]))


TASKS: Sequence[Task] = (TouchingPadding(), Define(), Fuse(), Strips())
