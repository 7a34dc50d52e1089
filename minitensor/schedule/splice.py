"""Putting a rewritten piece back: replacing, inserting and removing statements by identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minitensor.arith import Simplifier, extent_range
from minitensor.ir import (
    Block,
    Expr,
    For,
    Iter,
    Program,
    Seq,
    Stmt,
    conjunction,
    conjuncts,
    fresh_name,
    mentions,
    sequence,
    substitute,
)


def splice(stmt: Stmt, edits: Mapping[int, Stmt | None]) -> Stmt | None:
    """`stmt` with some statements, given by their id(), replaced, or removed if None.

    Loops and sequences that are left with nothing to do are removed too; None if nothing remains.
    What holds no edit is returned as the same object.
    """
    if id(stmt) in edits:
        return edits[id(stmt)]
    if isinstance(stmt, For):
        body = splice(stmt.body, edits)
        if body is stmt.body:
            return stmt
        return None if body is None else with_body(stmt, body)
    if isinstance(stmt, Seq):
        found = [splice(child, edits) for child in stmt.stmts]
        if all(a is b for a, b in zip(found, stmt.stmts)):
            return stmt
        kept = [child for child in found if child is not None]
        return sequence(*kept) if kept else None
    return stmt


def spliced(program: Program, edits: Mapping[int, Stmt | None]) -> Program:
    """The program with its body spliced."""
    body = splice(program.body, edits)
    return program.replace(body=body if body is not None else Seq(()))


def with_body(loop: For, body: Stmt) -> For:
    """The same loop around something else."""
    return For(loop.var, loop.extent, body, loop.kind, loop.annotations)


def nest(loops: Iterable[For], body: Stmt) -> Stmt:
    """The loops, outermost first, around a statement; their own bodies do not matter."""
    for loop in reversed(tuple(loops)):
        body = with_body(loop, body)
    return body


def with_block(block: Block, **changes: object) -> Block:
    """A block with some fields changed."""
    fields = {name: getattr(block, name) for name in Block.__slots__}
    return Block(**{**fields, **changes})


def map_blocks(stmt: Stmt, f: Callable[[Block, tuple[For, ...]], Stmt]) -> Stmt:
    """Each block replaced by f(block, the loops between `stmt` and it, outermost first)."""

    def go(current: Stmt, path: tuple[For, ...]) -> Stmt:
        if isinstance(current, Block):
            return f(current, path)
        if isinstance(current, For):
            body = go(current.body, (*path, current))
            return current if body is current.body else with_body(current, body)
        if isinstance(current, Seq):
            found = [go(child, path) for child in current.stmts]
            unchanged = all(a is b for a, b in zip(found, current.stmts))
            return current if unchanged else sequence(*found)
        return current

    return go(stmt, ())


def rebind(
    stmt: Stmt, outer: tuple[For, ...], values: Mapping[str, Expr], guards: Iterable[Expr] = ()
) -> Stmt:
    """`stmt` with loop variables replaced in the bindings and predicates of its blocks.

    outer   the loops around the statement (their ranges are used to simplify)
    values  what each replaced loop variable is now
    guards  conditions added to every block's predicate
    """

    def one(block: Block, path: tuple[For, ...]) -> Block:
        ranges = {loop.var: extent_range(loop.extent) for loop in (*outer, *path)}
        simplifier = Simplifier(ranges, keep_units=True)

        def moved(expr: Expr) -> Expr:
            if not any(mentions(expr, name) for name in values):
                return expr
            return simplifier.expr(substitute(expr, values))

        iters = tuple(Iter(i.var, i.extent, i.kind, moved(i.binding)) for i in block.iters)
        old = [moved(part) for part in conjuncts(block.predicate)]
        predicate = conjunction([*old, *(simplifier.expr(guard) for guard in guards)])
        return with_block(block, iters=iters, predicate=predicate)

    return map_blocks(stmt, one)


LONGEST_LABEL: Final = 256
"""The most characters of what a new name begins with. Names are made of names (a fused loop bears
those of its parts), so that without a limit a hundred steps could double them a hundred times."""


class Fresh:
    """New names for a program: never one that exists, existed, or was given before."""

    def __init__(self, program: Program) -> None:
        self.loops = {"root"} | set(program.retired) | set(program.blocks)
        self.others = set(program.retired) | set(program.blocks) | set(program.buffers)
        stack: list[Stmt] = [program.body]
        while stack:
            stmt = stack.pop()
            if isinstance(stmt, For):
                self.loops.add(stmt.var)
                self.others.add(stmt.var)
                stack.append(stmt.body)
            elif isinstance(stmt, Seq):
                stack.extend(stmt.stmts)

    def loop(self, label: str) -> str:
        """A name for a new loop."""
        return fresh_name(label[:LONGEST_LABEL], self.loops)

    def block(self, label: str) -> str:
        """A name for a new block, or for a new buffer and the block that writes it."""
        name = fresh_name(label[:LONGEST_LABEL], self.others)
        self.loops.add(name)
        return name
