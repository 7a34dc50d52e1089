"""Judges of lesson 29, quantisation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from minitensor.errors import shown

from ..course.requirements import near, numbers_of
from ..course.tasks import Case, FunctionTask, LackingError, Task, as_python
from .defined import require_parameters, require_results

BYTES: Final = {"uint8": (0, 255), "int8": (-128, 127)}


def parameters(low: float, high: float) -> tuple[float, int]:
    """The scale and the zero point of a uint8 code."""
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return 1.0, 0
    scale = (high - low) / 255
    return scale, min(255, max(0, round(-low / scale)))


class Parameters(Task):
    """A scale and a zero point."""

    name, text = "parameters", "choose a scale and a zero point"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [(-draw.uniform(1, 9), draw.uniform(1, 9)) for _ in range(3)]
        found += [(draw.uniform(1, 5), draw.uniform(6, 9)), (-draw.uniform(6, 9), -1.0)]
        return [*found, (0.0, draw.uniform(1, 9)), (-draw.uniform(1e-3, 2e-3), 0.0), (0.0, 0.0)]

    def judge(self, case: Case, got: Any) -> None:
        scale, zero = parameters(*case)
        numbers = numbers_of(got, 2)
        within = numbers is not None and near(numbers[0] / scale, 1.0) and numbers[1] == zero
        if within:
            return
        low, high = case
        text = f"parameters({low:.6g}, {high:.6g}) gives {shown(got)}"
        lines = (
            f"scale, zero = {scale!r}, {zero}",
            "assert len(got) == 2 and abs(got[0] / scale - 1) <= 1e-6 and got[1] == zero, got",
        )
        raise LackingError(f"{text}; right is ({scale:.6g}, {zero})", lines)


def drawn(draw: random.Random, dtype: str, *shape: int) -> np.ndarray:
    """Bytes, the extreme ones often."""
    low, high = BYTES[dtype]
    values = [draw.choice((low, high, draw.randint(low, high))) for _ in range(math.prod(shape))]
    return np.array(values, dtype).reshape(shape)


def summed(a: np.ndarray, b: np.ndarray, zero_a: int, zero_b: int) -> np.ndarray:
    """The sums of products, in int32."""
    wide: np.ndarray = (a.astype(np.int64) - zero_a) @ (b.astype(np.int64) - zero_b)
    return wide.astype(np.int32)


class Product(FunctionTask):
    """A product of bytes."""

    name, text = "product", "multiply matrices of bytes, exactly"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found = []
        for zeros in ((0, 0), (draw.randint(1, 255), 0), (0, draw.randint(-128, -1)), (255, -128)):
            m, n, k = draw.randint(1, 4), draw.randint(1, 4), draw.randint(5, 30)
            found.append((drawn(draw, "uint8", m, k), drawn(draw, "int8", k, n), *zeros))
        return [*found, (np.full((1, 3), 255, "uint8"), np.full((3, 1), 127, "int8"), 0, -128)]

    def expected(self, *case: Any) -> Any:
        return summed(*case)


class Error(Task):
    """An error that is predicted."""

    name, text = "error", "predict the error of a sum of products"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for n in (1, draw.randint(10, 99), draw.randint(1000, 9999)):
            rms = [draw.uniform(0.2, 3) for _ in "ab"]
            found.append((n, *rms, rms[0] * draw.uniform(2, 5), rms[1] * draw.uniform(2, 5)))
        return [*found, (draw.randint(10, 99), 0.0, 1.0, 1.0, 3.0)]

    def judge(self, case: Case, got: Any) -> None:
        n, rms_a, rms_b, largest_a, largest_b = case
        squares = (rms_a * largest_b / 127) ** 2 + (rms_b * largest_a / 127) ** 2
        want = math.sqrt(n * squares / 12)
        if near(got, want) and near(float(got) / want, 1.0):
            return
        call = ", ".join(f"{x:.6g}" for x in case)
        lines = (f"want = {want!r}", "assert abs(got / want - 1) <= 1e-6, got")
        raise LackingError(f"error({call}) gives {shown(got)}; right is {want:.6g}", lines)


class Define(Task):
    """A program of a product of bytes."""

    name, text, points = "define", "define a product of bytes with a zero point", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        zeros = (0, draw.randint(1, 254), 255)
        return [(*(draw.randint(2, 5) for _ in "mn"), draw.randint(4, 12), z) for z in zeros]

    def judge(self, case: Case, got: Any) -> None:
        m, n, k, zero = case
        wanted = [("A", (m, k), "uint8"), ("B", (k, n), "int8"), ("C", (m, n), "int32")]
        require_parameters(got, wanted)
        draw = random.Random(as_python(case))
        for _ in range(2):
            a, b = drawn(draw, "uint8", m, k), drawn(draw, "int8", k, n)
            require_results(got, [a, b], [summed(a, b, zero, 0)])


TASKS: Sequence[Task] = (Parameters(), Product(), Error(), Define())
