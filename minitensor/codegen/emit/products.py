"""Products that are rounded before something is added to them.

Compilers may make one operation of a product and a sum (FMA), which rounds once where the IR rounds
twice. Which of them they fuse depends on the text around, so that a schedule would change a value.
It is allowed where the order of the operations is the schedule's in any case: where a product is
added to an element of the buffer that is stored to, the step of a sum of products. Any other
product that could be a part of a sum is a call of `product`, whose result nothing is fused with.

float16 needs it too: processors that compute in float16 fuse there, for the rounding in between is
the same as that of a product in float16.
"""

from __future__ import annotations

import math
from typing import Final

from minitensor import ir
from minitensor.codegen.emit.c_types import compute_type, is_narrow_float
from minitensor.codegen.emit.helpers import Definition, Helpers, function


def factors(expr: ir.Expr) -> tuple[ir.Expr, ir.Expr] | None:
    """The factors of what compilers compute as a product of floats; None for anything else.

    A division by a power of two is one: compilers multiply by its inverse.
    """
    if not isinstance(expr, ir.Binary) or not expr.dtype.is_float:
        return None
    if expr.op == "*":
        return expr.a, expr.b
    inverse = _inverse(expr.b) if expr.op == "/" else None
    return None if inverse is None else (expr.a, inverse)


def is_fused(expr: ir.Expr) -> bool:
    """Tell whether an expression is a product that could become a part of an FMA as it is."""
    return factors(expr) is not None and not is_narrow_float(expr.dtype)


def _inverse(divisor: ir.Expr) -> ir.Expr | None:
    """1 / divisor for a power of two, or a vector of one, that has an exact inverse."""
    match divisor:
        case ir.Broadcast(a, lanes):
            one = _inverse(a)
            return None if one is None else ir.Broadcast(one, lanes)
        case ir.Const(float() as value, dtype) if math.isfinite(value):
            fraction, exponent = math.frexp(value)
            if abs(fraction) == 0.5 and abs(exponent) < _EXPONENTS[dtype.bits]:
                return ir.const(1 / value, dtype)
    return None


_EXPONENTS: Final = {64: 1022, 32: 126, 16: 14}
"""Below these, a power of two and its inverse are normal numbers of a type of so many bits."""


def product(helpers: Helpers, dtype: ir.DType) -> Definition:
    """A product that is rounded, on scalars or vectors.

    a*b + -0.0 is a*b, and a sum with an FMA cannot be fused again. On vectors the result is behind
    a barrier, where the compiler has one; on scalars it would be lost in loops that become vectors.
    GCC takes vectors apart for its barrier where registers have masks: there it is empty assembly.
    """
    suffix = "f" if dtype.bits == 32 else ""
    scalar = compute_type(dtype)
    has_fma = f"#ifdef __FP_FAST_FMA{suffix.upper()}"
    fused = f"__builtin_fma{suffix}"
    if dtype.lanes == 1:
        return function(
            scalar,
            f"product_{scalar}",
            f"{scalar} a, {scalar} b",
            has_fma,
            f"return {fused}(a, b, -0.0{suffix});",
            "#else",
            "return a * b;",
            "#endif",
        )
    kind = helpers.vector(dtype)
    return function(
        kind,
        f"product_{kind}",
        f"{kind} a, {kind} b",
        f"#if !defined(__FP_FAST_FMA{suffix.upper()}) || defined(__clang__)",
        "return a * b;",
        *_HIDDEN * (dtype.bits * dtype.lanes in (128, 256, 512)),
        "#elif __GNUC__ >= 12",
        "return __builtin_assoc_barrier(a * b);",
        "#else",
        f"for (int i = 0; i < {dtype.lanes}; ++i) a[i] = {fused}(a[i], b[i], -0.0{suffix});",
        "return a;",
        "#endif",
    )


_HIDDEN: Final = (
    "#elif defined(__AVX512F__)",
    "a *= b;",
    '__asm__("" : "+v"(a));',
    "return a;",
)
"""A product that the compiler does not know as one."""
