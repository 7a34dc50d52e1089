"""Judges of lesson 13, convolutions and fusion."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitensor import ir, lang
from minitensor.course.requirements import accesses, inside, temporaries
from minitensor.course.tasks import (
    Case,
    FunctionTask,
    LackingError,
    Requirement,
    ScheduleTask,
    Task,
    as_python,
    instances,
)

_MOST_STEPS = 50_000
"""Block instances that a definition may take to run."""


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
        if not isinstance(got, ir.Program):
            raise LackingError("a program is wanted, as mt.lower returns it", ("got.inputs",))
        output = (f, *(places(n, kernel, stride, padding) for n in (h, w)))
        named = {"data": (c, h, w), "weight": (f, c, kernel, kernel), "conv": output}
        wanted = [(name, shape, "float32") for name, shape in named.items()]
        found = [(b.name, b.shape, str(b.dtype)) for b in (*got.inputs, *got.outputs)]
        given = ", ".join(map(str, case))
        if found != wanted:
            text = ", ".join(f"{name} {list(shape)} {dtype}" for name, shape, dtype in found)
            lines = [
                "found = [(b.name, b.shape, str(b.dtype)) for b in (*got.inputs, *got.outputs)]",
                f"assert found == {wanted!r}, found",
            ]
            text = f"define({given}) has inputs and outputs {text}; conv has to be {list(output)}"
            raise LackingError(text, lines)
        if instances(got) > _MOST_STEPS:
            text = f"define({given}) runs its blocks more than {_MOST_STEPS:,} times"
            raise LackingError(text, ("assert False, got",))
        ir.verify(got)
        rng = np.random.default_rng(5)
        data = rng.integers(-3, 4, (c, h, w)).astype("float32")
        weight = rng.integers(-3, 4, (f, c, kernel, kernel)).astype("float32")
        want = _convolved(data, weight, stride, padding)
        (result,), _ = ir.interpret(got, [data, weight], ["conv"])
        if not np.array_equal(result, want):
            lines = [
                f"data = {as_python(data)}",
                f"weight = {as_python(weight)}",
                f"want = {as_python(want)}",
                "np.testing.assert_array_equal(mt.interpret(got, data, weight), want)",
            ]
            raise LackingError(f"define({given}): the elements of conv are not right", lines)


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
