"""The operators of the C family, and their precedence: where parentheses are needed."""

from __future__ import annotations

from typing import Final

COMMA, TERNARY, OR, AND, BITS, EQUAL, LESS, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(12)
PRECEDENCE: Final = {
    "or": OR, "and": AND, "==": EQUAL, "!=": EQUAL, "<": LESS, "<=": LESS,
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT,
}  # fmt: skip
SYMBOL: Final = {"and": "&&", "or": "||"}
MASK_COMPARISON: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">="}
"""Comparisons of truth values held as 0 and -1."""


def wrap(text: str, mine: int, outer: int) -> str:
    """The text of something of precedence `mine` as an operand of something of `outer`."""
    return f"({text})" if mine < outer else text
