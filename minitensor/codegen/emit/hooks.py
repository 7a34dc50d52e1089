"""Calls that a text makes where it is to be observed as it runs: `generate(…, hooks=True)`.

The text is that of any kernel, with calls of these functions in between. What it is linked with
defines them (see the package `sanitize`):

    checked_loop(n)                  parallel loop number n begins
    checked_iteration(i)             iteration i of it begins, and the one before has ended
    checked_end()                    it has ended
    checked_memory(n, start, bytes)  memory number n begins to be used, its content undefined: a
                                     temporary; in an iteration, that iteration's own
    checked_gone(n, start, bytes)    it is no longer used (only for memory of the workspace)

Loops are numbered in the order of the text; memory likewise, after the parameters, which have the
numbers from 0. Temporaries in the workspace have a gap of `GAP` bytes behind them.
"""

from __future__ import annotations

from typing import Final

from minitensor import ir
from minitensor.codegen.emit.helpers import Definition, Helpers

GAP: Final = 64
"""Unused bytes behind each temporary in the workspace."""
_DECLARATIONS: Final = """\
void checked_loop(int number);
void checked_iteration(int64_t iteration);
void checked_end(void);
void checked_memory(int number, void *start, size_t bytes);
void checked_gone(int number, void *start, size_t bytes);"""


def declarations(helpers: Helpers) -> Definition:
    """The declarations of these functions."""
    return "hooks", _DECLARATIONS


class Hooks:
    """The calls of one function, and what their numbers stand for.

    loops   the variables of the parallel loops, by number
    memory  what is allocated, by number less that of the parameters
    """

    def __init__(self, parameters: int) -> None:
        self.loops: list[str] = []
        self.memory: list[ir.Buffer] = []
        self._parameters = parameters

    def loop(self, loop: ir.For) -> str:
        """The call in front of a parallel loop."""
        self.loops.append(loop.var)
        return f"checked_loop({len(self.loops) - 1});"

    def iteration(self, name: str) -> str:
        """The call at the start of its body; `name` is its variable in the text."""
        return f"checked_iteration({name});"

    def end(self) -> str:
        """The call behind it."""
        return "checked_end();"

    def number(self, buffer: ir.Buffer) -> int:
        """A number for memory that is allocated."""
        self.memory.append(buffer)
        return self._parameters + len(self.memory) - 1

    def begins(self, number: int, address: str, size: int) -> str:
        """The call where memory begins to be used."""
        return f"checked_memory({number}, {address}, {size});"

    def ends(self, number: int, address: str, size: int) -> str:
        """The call where it is no longer used."""
        return f"checked_gone({number}, {address}, {size});"


def is_observed(stmt: ir.Alloc) -> bool:
    """Tell whether a variable needs a call: iterations share it, or its address is taken.

    Any other stays in a register.
    """
    name = stmt.buffer.name
    for node in ir.walk(stmt.body):
        if isinstance(node, ir.For) and node.kind is ir.LoopKind.PARALLEL:
            return True
        if isinstance(node, ir.Tensorized) and any(o.buffer == name for o in node.operands):
            return True
    return False
