"""The emitter for languages of the C family: statements as text.

It walks a program that the passes have brought to loops, conditions, allocations and stores. What
expressions need of a language is in its `dialect`; `c_emitter` has the statements that only C has.
What a text needs besides its own lines (types, helper functions) is collected by `helpers`. Names
in the text are those of the program, made safe by `names`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from minitensor import ir
from minitensor.codegen.emit import products
from minitensor.codegen.emit.c_types import is_narrow_float
from minitensor.codegen.emit.expressions import Expressions
from minitensor.codegen.emit.helpers import Helpers
from minitensor.codegen.emit.lines import broken, indented
from minitensor.codegen.target import Target
from minitensor.errors import LoweringError


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel of a text.

    lowered   what the passes made of the program
    original  the program before: its parameters are those of the function
    target    with nothing left open
    """

    lowered: ir.Program
    original: ir.Program
    target: Target


class Emitter(Expressions):
    """Emits statements, keeping what is in scope while it walks."""

    def __init__(
        self, helpers: Helpers, params: Sequence[ir.Buffer], unread: frozenset[str]
    ) -> None:
        super().__init__(helpers, params)
        self.unread = unread
        self.lines: list[str] = []
        self.depth = 1
        self.scopes: list[list[Callable[[], None]]] = [[]]
        """For each of the braces around the walk, what takes the names declared there back."""
        self.undeclared: dict[str, bool] = {}
        """Variables that are declared where they get their first value; whether it is the last."""

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self.lines.extend(broken(indented(text, self.depth)))

    def statement(self, stmt: ir.Stmt, alone: bool = False) -> None:
        """Emit a statement; `alone`: nothing else stands in the braces around it."""
        match stmt:
            case ir.Seq(stmts):
                for child in stmts:
                    self.statement(child)
            case ir.For():
                self._loop(stmt)
            case ir.If(condition, then, otherwise):
                self.line(f"if ({self.expr(condition)}) {{")
                self._block(then)
                if otherwise is not None:
                    self.line("} else {")
                    self._block(otherwise)
                self.line("}")
            case ir.Store():
                self.updated = stmt.buffer
                self._store(stmt)
                self.updated = ""
            case ir.Alloc():
                self._allocation(stmt, alone)
            case _:
                raise LoweringError(f"{type(stmt).__name__} cannot be emitted for this target")

    def _block(self, stmt: ir.Stmt) -> None:
        """Emit a statement one level deeper, in braces of its own."""
        self.depth += 1
        self.scopes.append([])
        self.statement(stmt, alone=True)
        for leave in self.scopes.pop():
            leave()
        self.depth -= 1

    @abstractmethod
    def _loop(self, loop: ir.For) -> None:
        """Emit a loop."""

    def _allocation(self, stmt: ir.Alloc, alone: bool) -> None:
        """Emit a buffer and the statements that see it, in braces where others follow."""
        buffer = stmt.buffer
        if not alone and (buffer.shape or self.names.has(buffer.name)):
            self.line("{")
            self._block(stmt)
            self.line("}")
            return
        self.buffers[buffer.name] = buffer
        name = self.names.push(buffer.name, buffer=True)
        self.scopes[-1].append(partial(self.names.pop, buffer.name, buffer=True))
        self._declared(stmt, name, alone)

    @abstractmethod
    def _declared(self, stmt: ir.Alloc, name: str, alone: bool) -> None:
        """Emit the declaration of a buffer under its name in the text, and what stands in it."""

    def _store(self, stmt: ir.Store) -> None:
        buffer, value = self.buffers[stmt.buffer], stmt.value
        target = self.element(stmt.buffer, stmt.indices)
        if stmt.buffer in self.undeclared:
            const = "const " if self.undeclared.pop(stmt.buffer) else ""
            text = self.named(value) if const else self.stored(value)
            self.line(f"{const}{self.storage_type(buffer.dtype)} {target} = {text};")
            if const:
                self.constant[target] = ("", 1)
                match value:
                    case ir.Broadcast(ir.Load(_, ()) as number, lanes):
                        self.constant[target] = (self.expr(number), lanes)
                self.scopes[-1].append(partial(self.constant.__delitem__, target))
            return
        if isinstance(value, ir.Binary) and value.op in "+-*" and not is_narrow_float(value.dtype):
            same = ir.Load(stmt.buffer, stmt.indices, value.a.dtype)
            if value.a == same and value.dtype.kind != "bool" and not products.is_fused(value):
                self.line(f"{target} {value.op}= {self.unrounded(value.b)};")
                return
        self.line(f"{target} = {self.stored(value)};")
