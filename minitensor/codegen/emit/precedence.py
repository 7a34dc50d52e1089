"""The operators of the C family, and their precedence: where parentheses are needed."""

from __future__ import annotations

from typing import Final

from minitensor import ir

COMMA, TERNARY, OR, AND, BITS, EQUAL, LESS, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(12)
PRECEDENCE: Final = {
    "or": OR, "and": AND, "==": EQUAL, "!=": EQUAL, "<": LESS, "<=": LESS,
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT,
    "&": BITS, "|": BITS, "^": BITS, "<<": SHIFT, ">>": SHIFT,
}  # fmt: skip
SYMBOL: Final = {"and": "&&", "or": "||"}
MASK_COMPARISON: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">="}
"""Comparisons of truth values held as 0 and -1."""


def wrap(text: str, mine: int, outer: int) -> str:
    """The text of something of precedence `mine` as an operand of something of `outer`."""
    return f"({text})" if mine < outer else text


def power_of_two(divisor: ir.Expr) -> int | None:
    """The logarithm of a constant, or of a vector of one, that is a power of two: by how much a
    shift divides.
    """
    one = divisor.a if isinstance(divisor, ir.Broadcast) else divisor
    if isinstance(one, ir.Const) and isinstance(one.value, int) and one.value.bit_count() == 1:
        return one.value.bit_length() - 1 if one.value > 0 else None
    return None
