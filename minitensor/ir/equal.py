"""Equality and hash of programs up to the names of loops, iters, blocks and temporaries.

`==` on nodes compares names as well. Two schedules that differ only in what they called things give
programs that are equal here: the search measures such a program once.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

from minitensor.ir.expr import Lanes, Load, Var
from minitensor.ir.program import Program
from minitensor.ir.stmt import (
    Alloc,
    Block,
    Buffer,
    For,
    Node,
    Prefetch,
    Reduce,
    Reducer,
    Store,
    ThreadReduce,
)


def structural_equal(a: Program, b: Program) -> bool:
    """Tell whether two programs are the same but for names; parameters are compared by position."""
    return _Shape(a).text == _Shape(b).text


def structural_hash(program: Program) -> str:
    """A hexadecimal digest that structurally equal programs share, in every process."""
    return hashlib.sha256(_Shape(program).text.encode()).hexdigest()


class _Shape:
    """A program spelled out with every name replaced by the order in which it was met."""

    def __init__(self, program: Program) -> None:
        self.parts: list[str] = []
        self.buffers: dict[str, int] = {}
        for buffer in program.params + program.temporaries:
            self.declare(buffer)
        self.parts.append(f"|{len(program.params)}|")
        if program.constants:
            known = [n for n, b in enumerate(program.params) if b.name in program.constants]
            self.parts.append(f"constants {known}")
        self.node(program.body, {})
        self.text = " ".join(self.parts)

    def declare(self, buffer: Buffer) -> None:
        self.buffers[buffer.name] = len(self.buffers)
        scope = buffer.scope.value
        self.parts.append(f"[{buffer.shape} {buffer.dtype} {scope} {buffer.alignment}]")

    def node(self, node: Any, names: dict[str, int]) -> None:
        match node:
            case Var(name, dtype):
                self.parts.append(f"v{names[name]}:{dtype}" if name in names else f"?{name!r}")
            case For(var, extent, body, kind, annotations):
                self.parts.append(f"for {extent} {kind.value} {annotations!r}")
                self.node(body, {**names, var: len(names)})
            case Block(_, iters, body, init, predicate, annotations):
                inner: dict[str, int] = {}
                self.parts.append(f"block {annotations!r} {len(iters)}")
                for i in iters:
                    self.parts.append(f"iter {i.extent} {i.kind.value}")
                    self.node(i.binding, names)
                    inner[i.var] = len(inner)
                self.node(predicate, names)
                self.node(init, inner)
                self.node(body, inner)
            case Lanes(var, lanes, a):
                self.parts.append(f"lanes {lanes}")
                self.node(a, {**names, var: len(names)})
            case Load(buffer, indices) | Store(buffer, indices) | Prefetch(buffer, indices):
                self.parts.append(f"{type(node).__name__} b{self.buffers[buffer]}")
                self.node(indices, names)
                if isinstance(node, Store):
                    self.node(node.value, names)
            case Reduce(reducer, buffers, indices, values):
                self.parts.append("reduce " + " ".join(f"b{self.buffers[b]}" for b in buffers))
                self.reducer(reducer)
                self.node(indices, names)
                self.node(values, names)
            case ThreadReduce(reducer, thread, buffers):
                held = " ".join(f"b{self.buffers[b]}" for b in buffers)
                self.parts.append(f"{thread.value} reduce {held}")
                self.reducer(reducer)
            case Alloc(buffer, body):
                self.declare(buffer)
                self.node(body, names)
            case tuple():
                self.parts.append(f"({len(node)}")
                for child in node:
                    self.node(child, names)
            case _:
                self.plain(node, names)

    def reducer(self, reducer: Reducer) -> None:
        own = {v.name: n for n, v in enumerate(reducer.lhs + reducer.rhs)}
        self.node(reducer.results, own)
        self.node(reducer.identity, own)

    def plain(self, node: Node | object, names: dict[str, int]) -> None:
        if not is_dataclass(node):
            self.parts.append(repr(node))
            return
        self.parts.append(type(node).__name__)
        for field in fields(node):
            if field.init:
                self.node(getattr(node, field.name), names)
