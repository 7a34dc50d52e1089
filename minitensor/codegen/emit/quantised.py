"""Floats that become bytes, as networks are quantised: saturate(round(x / scale) + zero point).

A division takes as long as several products. Where the scale is a constant c, the quotient is
x * h + x * l by a fused multiply-add, h the float nearest to 1 / c and l what is left of 1 / c
(Brisebarre, Muller, Raina, "Accelerating Correctly Rounded Floating-Point Division when the Divisor
Is Known in Advance", IEEE Transactions on Computers 53 (8), 2004). Only the rounded quotient is
asked for, between two bounds: it is a staircase, and so is what is computed, for both grow with x.
`Quotient.of` compares where each step is; equal steps are equal results, for any x.

The bounds are applied to x, before the quotient: saturating that is one and the same. A lower bound
of 0 is left to the instruction that makes bytes: it takes all int32 below 0 as 0, and -2^31 is what
a NaN becomes, or a quotient of -infinity.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.codegen.emit import products, vectors
from minitensor.codegen.emit.c_types import of_lanes
from minitensor.codegen.emit.helpers import Definition, Helpers, function
from minitensor.codegen.emit.instructions import with_instruction

_FAR: Final = 3  # floats on either side of where a step should be
_SIZES: Final = 2.0**-60, 2.0**60  # of divisors: far from where floats lose bits
_MOST_STEPS: Final = 1 << 16
_LARGEST: Final = 1 << 20  # number: float32 has it, and sums of such


@dataclass(frozen=True, slots=True)
class Quotient:
    """round(x / divisor) of an x between two bounds: round(x * high_part + x * low_part)."""

    divisor: float
    least: float
    most: float
    high_part: float
    low_part: float

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def of(divisor: float, low: float, high: float) -> Quotient | None:
        """The quotient by a float32, rounded and then between whole numbers; None if it is not
        the same for each x.
        """
        if not _SIZES[0] < divisor < _SIZES[1] or high - low > _MOST_STEPS:
            return None
        c = np.float32(divisor)
        divisor = float(c)
        part = np.float32(1 / divisor)
        rest = np.float32((1 - float(part) * divisor) / divisor)
        least, most = np.float32(low * divisor), np.float32(high * divisor)
        steps = np.arange(low, high) + 0.5
        x = _around((steps * divisor).astype(np.float32))
        wanted, found = np.rint(x / c), np.rint(_fused(x, part, x * rest))
        ends = np.array([least, most], np.float32)
        same = (
            (wanted == found).all()
            and (wanted[0] < steps).all()
            and (wanted[-1] > steps).all()
            and (np.rint(ends / c) == (low, high)).all()
            and (np.rint(_fused(ends, part, ends * rest)) == (low, high)).all()
        )
        if not same:
            return None
        return Quotient(divisor, float(least), float(most), float(part), float(rest))


@dataclass(frozen=True, slots=True)
class Quantised:
    """A vector of float32 that is rounded and saturated: round(value) + zero, or of a quotient.

    low, high  whole numbers, the bounds of the rounded number
    """

    value: ir.Expr
    zero: float
    low: float
    high: float
    quotient: Quotient | None = None

    @staticmethod
    def of(expr: ir.Expr) -> Quantised | None:
        """The parts of an expression; None if it is anything else."""
        inner, high = _with_number("min", expr)
        inner, low = _with_number("max", inner)
        zero = 0.0
        if isinstance(inner, ir.Binary) and inner.op == "+":
            inner, zero = _with_number("+", inner)
        whole = all(n.is_integer() and abs(n) < _LARGEST for n in (zero, low, high))
        rounds = isinstance(inner, ir.Call) and inner.function == "round"
        if not (whole and rounds and low < high and expr.dtype.scalar == "float32"):
            return None
        value, low, high = inner.args[0], low - zero, high - zero
        dividend, divisor = _with_number("/", value)
        if products.factors(value) is None and (q := Quotient.of(divisor, low, high)) is not None:
            return Quantised(dividend, zero, low, high, q)
        return Quantised(value, zero, low, high)

    def clamped(self, below: bool) -> ir.Expr:
        """The value at most what becomes the upper bound; `below`: and at least the lower one."""
        least, most = self.low, self.high
        if self.quotient is not None:
            least, most = self.quotient.least, self.quotient.most
        value = ir.Binary("max", self.value, self.same(least)) if below else self.value
        return ir.Binary("min", value, self.same(most))

    def same(self, number: float) -> ir.Expr:
        """The vector with a number in all lanes."""
        dtype = self.value.dtype
        return ir.Broadcast(ir.const(number, dtype.scalar), dtype.lanes)


def _with_number(op: str, expr: ir.Expr) -> tuple[Any, float]:
    """The operand of an operation with a number in all lanes, and that; NaN for another one."""
    match expr:
        case ir.Binary(found, a, ir.Broadcast(ir.Const(value))) if found == op:
            return a, float(value)
    return expr, math.nan


def _around(x: np.ndarray) -> np.ndarray:
    """Each of some float32 with its neighbours, in ascending order along the first axis."""
    found = [x]
    for _ in range(_FAR):
        found.insert(0, np.nextafter(found[0], np.float32(-math.inf)))
        found.append(np.nextafter(found[-1], np.float32(math.inf)))
    return np.stack(found)


def _fused(x: np.ndarray, factor: np.float32, more: np.ndarray) -> np.ndarray:
    """x * factor + more, of float32, rounded once.

    The sum in float64 is rounded to odd where it is not exact: rounded again, it is as if it had
    been rounded once (Boldo, Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved
    Algorithms Using Rounding to Odd", IEEE Transactions on Computers 57 (4), 2008).
    """
    a, b = x.astype(np.float64) * np.float64(factor), more.astype(np.float64)
    total = a + b
    of_b = total - a
    error = (a - (total - of_b)) + (b - of_b)  # Knuth's TwoSum
    toward = np.where(np.sign(error) * np.sign(total) < 0, np.nextafter(total, 0.0), total)
    odd = np.ascontiguousarray(toward).view(np.int64) | (error != 0)
    rounded: np.ndarray = odd.view(np.float64).astype(np.float32)
    return rounded


# ---- helper functions


def quotient(helpers: Helpers, dtype: ir.DType) -> Definition:
    """x / c, or what is as good where it is rounded: x * h + x * l."""
    kind, rounded = helpers.vector(dtype), helpers.need(products.product, dtype)
    params = ", ".join(f"{kind} {name}" for name in "xchl")
    name, text = function(kind, f"quotient_{kind}", params, "return x / c;")
    return name, with_instruction(text, "quotient", dtype, ("x", "h", f"{rounded}(x, l)"))


def nearest(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The int32 nearest to each float32, the even one of two; -2^31 for NaN."""
    whole = of_lanes("int32", dtype)
    kind, wanted = helpers.vector(dtype), helpers.vector(whole)
    rounded = helpers.need(vectors.library, "round", dtype)
    body = f"return __builtin_convertvector({rounded}(x), {wanted});"
    name, text = function(wanted, f"round_to_{wanted}", f"{kind} x", body)
    return name, with_instruction(text, "nearest", whole, ("x", wanted))


def saturated(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The bytes of int32 up to 255; 0 for those below it."""
    wide = of_lanes("int32", dtype)
    kind, source = helpers.vector(dtype), helpers.vector(wide)
    half = wide.with_lanes(dtype.lanes // 2)
    parts = [helpers.need(vectors.lanes_of, half, wide.lanes, n * half.lanes) for n in (0, 1)]
    body = f"return {helpers.need(vectors.converted, wide, dtype)}(x & (x >= 0));"
    name, text = function(kind, f"narrow_{kind}_of_{source}", f"{source} x", body)
    low, high = (f"{part}(x)" for part in parts)
    return name, with_instruction(text, "saturated", dtype, (low, high, kind))
