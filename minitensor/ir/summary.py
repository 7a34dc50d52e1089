"""Summaries of nodes: size, depth, loads and variables, without a walk over what is known."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from minitensor.errors import ArgumentError
from minitensor.ir.expr import Const, Expr, Load, Var
from minitensor.ir.facts import Note
from minitensor.ir.stmt import Node
from minitensor.ir.visit import children


class Summary(NamedTuple):
    """The sums over the parts of a node. What is shared counts each time it is used, so that it is
    found in the time of what is in memory, not of what `walk` passes.

    size       the number of nodes
    depth      the length of the longest path down
    longest    the most nodes of the indices of a load
    reads      how often each buffer is loaded
    variables  how often each variable occurs, under binders too

    What is nested deeper than DEEPEST is refused: of that, reads and variables are left out, which
    would take the square of its depth to add up.
    """

    size: int
    depth: int
    longest: int
    reads: Mapping[str, int]
    variables: Mapping[str, int]


DEEPEST: Final = 2000
"""The deepest nesting of an expression or a program that is accepted."""
LARGEST: Final = 100_000
"""The most nodes an expression or a program may have, what is shared counted each time."""
_FRAMES_PER_LEVEL: Final = 12
"""Of Python's stack: 6 for an expression, and 6 for another put in place of its leaves."""
_summaries: Final = Note[Summary]()
_CONSTANT: Final = Summary(1, 1, 0, {}, {})


def summary(node: Node) -> Summary:
    """The summary of a node, from the leaves up and without recursion."""
    known = _known(node)
    if known is not None:
        return known
    stack = [node]
    while True:
        missing = [part for part in children(stack[-1]) if _known(part) is None]
        if missing:
            stack += missing
            continue
        found = _summary(stack[-1])
        _summaries.keep(stack.pop(), found)
        if not stack:
            return found


def _known(node: Node) -> Summary | None:
    """The summary of a constant, or one that was asked for; else None."""
    return _CONSTANT if type(node) is Const else _summaries.of(node)


def _summary(node: Node) -> Summary:
    """The summary of a node, those of its children being known."""
    if isinstance(node, Var):
        return Summary(1, 1, 0, {}, {node.name: 1})
    size, depth, longest = 1, 0, 0
    reads: Mapping[str, int] = {}
    variables: Mapping[str, int] = {}
    for part in map(summary, children(node)):
        size += part.size
        depth = max(depth, part.depth)
        longest = max(longest, part.longest)
        reads, variables = _sum(reads, part.reads), _sum(variables, part.variables)
    if isinstance(node, Load):
        longest = max(longest, size - 1)
        reads = _sum(reads, {node.buffer: 1})
    if depth >= DEEPEST:
        reads, variables = {}, {}
    return Summary(size, depth + 1, longest, reads, variables)


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> Mapping[str, int]:
    if not (a and b):
        return a or b
    return {**a, **{name: a.get(name, 0) + count for name, count in b.items()}}


def make_room(node: Node, around: int = 0) -> None:
    """Let Python's recursion reach the leaves of a deep expression; refuse one that is too deep.

    Trees are walked recursively, and an expression that a loop built up can be nested deeper than
    Python's default limit allows. The limit is only ever raised. One that uses a part again and
    again is small in memory but not when walked; it is refused if that is too much.

    around  how many levels will be put around it
    """
    size, depth, *_ = summary(node)
    if isinstance(node, Expr):
        what, deep, large = (
            "an expression",
            "give intermediate results a compute of their own",
            "give what is used more than once a compute of its own",
        )
    else:
        what, deep, large = (
            "a program",
            "each temporary is a level: inline some, or build it in parts",
            "build it in parts",
        )
    if depth + around > DEEPEST:
        raise ArgumentError(
            f"expected {what} nested at most {DEEPEST} deep, but got one of depth "
            f"{depth + around}; {deep}"
        )
    if size > LARGEST:
        raise ArgumentError(
            f"expected {what} of at most {LARGEST} operations, but got one of {size}; {large}"
        )
    needed = (depth + around) * _FRAMES_PER_LEVEL + 1000
    if depth + around > 50 and sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)
