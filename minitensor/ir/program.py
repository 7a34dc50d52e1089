"""A program: parameters, temporaries, and a statement."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from minitensor.ir.facts import Subject, fact
from minitensor.ir.printer import NO_MARKS, Marks, print_function
from minitensor.ir.stmt import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    LoopKind,
    Reduce,
    Seq,
    Stmt,
    Store,
    Tensorized,
    ThreadReduce,
)
from minitensor.ir.visit import children, stmts_of
from minitensor.looks import LINES, Shown


@dataclass(frozen=True, slots=True, repr=False)
class Program(Shown, Subject):
    """A function over buffers: immutable, so that every step of a schedule can be kept.

    params       the buffers of a call, in call order; those that are stored to are the outputs
    constants    the names of inputs that are known before the first call, such as weights: what
                 depends on them alone may be computed once (see `codegen.split_constants`)
    temporaries  the other buffers; where each is allocated follows from its uses (see `lifetime`)
    retired      names of loops and blocks that existed earlier: never given again, so that an old
                 handle cannot come to mean something else
    """

    name: str
    params: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    body: Stmt
    retired: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    constants: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return print_program(self)

    def _beginning(self) -> str:
        """The first lines of the text, as many as are shown; "…" in place of the others."""
        return print_program(self, most=LINES)

    def spelled(self) -> str:
        """All of it as text, for keys: unlike what is shown, the same for equal programs only."""
        parts = (self.name, self.params, self.temporaries, self.body)
        return repr((*parts, sorted(self.constants)) if self.constants else parts)

    def replace(self, **changes: Any) -> Program:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    @fact
    def buffers(self) -> Mapping[str, Buffer]:
        """Parameters and temporaries by name."""
        return {b.name: b for b in self.params + self.temporaries}

    @property
    def blocks(self) -> Mapping[str, Block]:
        """The blocks by name, in the order of the text."""
        return survey_all(self).blocks

    @property
    @fact
    def outputs(self) -> tuple[Buffer, ...]:
        """The parameters that are stored to, in call order."""
        stored = stored_buffers(self.body)
        return tuple(b for b in self.params if b.name in stored)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The parameters that are only read, in call order."""
        names = {b.name for b in self.outputs}
        return tuple(b for b in self.params if b.name not in names)


def print_program(program: Program, marks: Marks = NO_MARKS, most: int = sys.maxsize) -> str:
    """A program as Python-like text; of more than `most` lines the first, and a line "…"."""
    given = (program.name, program.params, program.temporaries, program.body, marks, most)
    return print_function(*given)


def stored_buffers(stmt: Stmt) -> set[str]:
    """The names of the buffers that a statement stores to."""
    found: set[str] = set()
    for node in stmts_of(stmt):
        if isinstance(node, Store):
            found.add(node.buffer)
        elif isinstance(node, (Reduce, ThreadReduce)):
            found.update(node.buffers)
        elif isinstance(node, Block):
            for part in (node.init, node.body):
                found |= stored_buffers(part) if part is not None else set()
    return found


def names_in(program: Program) -> set[str]:
    """The names of the buffers and loops of a program, and of what it allocates."""
    found = set(program.buffers)
    for stmt in stmts_of(program.body):
        if isinstance(stmt, For):
            found.add(stmt.var)
        elif isinstance(stmt, Alloc):
            found.add(stmt.buffer.name)
    return found


class LoopSite(NamedTuple):
    """A loop and the loops around it, outermost first."""

    loop: For
    outer: tuple[For, ...]


class Survey(NamedTuple):
    """The findings of a walk over statements, by name and in the order of the text.

    blocks  the blocks
    paths   for each block, the loops around it, outermost first
    sites   the loops
    marked  those of them that are not serial, or have annotations
    unique  whether no name was met twice
    """

    blocks: dict[str, Block]
    paths: dict[str, tuple[For, ...]]
    sites: dict[str, LoopSite]
    marked: dict[str, LoopSite]
    unique: bool = True


def nests(program: Program) -> tuple[Stmt, ...]:
    """The statements at the top of a program. A step of a schedule replaces those that it touches;
    what is known of the others, their facts, holds on.
    """
    return program.body.stmts if isinstance(program.body, Seq) else (program.body,)


def paths(program: Program) -> Mapping[str, tuple[For, ...]]:
    """For each block, the loops around it, outermost first."""
    return survey_all(program).paths


def loop_sites(program: Program) -> Mapping[str, LoopSite]:
    """Every loop of a program by name, in the order of the text."""
    return survey_all(program).sites


def marked_loops(program: Program) -> Mapping[str, LoopSite]:
    """The loops of a program that are not serial, or have annotations."""
    return survey_all(program).marked


@fact
def survey_all(program: Program) -> Survey:
    """The survey of a program: those of its nests, joined."""
    parts = [survey(nest) for nest in nests(program)]
    if len(parts) == 1:
        return parts[0]
    found = Survey({}, {}, {}, {})
    for part in parts:
        found.blocks.update(part.blocks)
        found.paths.update(part.paths)
        found.sites.update(part.sites)
        found.marked.update(part.marked)
    met = sum([len(part.blocks) + len(part.sites) for part in parts])
    each = False not in [part.unique for part in parts]
    unique = each and met == len(found.blocks) + len(found.sites)
    return found._replace(unique=unique)


@fact
def survey(nest: Stmt) -> Survey:
    """The survey of a nest."""
    found = Survey({}, {}, {}, {})
    met = _collect(nest, (), found)
    return found._replace(unique=met == len(found.blocks) + len(found.sites))


def _collect(stmt: Stmt, path: tuple[For, ...], found: Survey) -> int:
    """Add what is at and below a statement; returns how many loops and blocks there are."""
    if isinstance(stmt, For):
        site = found.sites[stmt.var] = LoopSite(stmt, path)
        if stmt.kind is not LoopKind.SERIAL or stmt.annotations:
            found.marked[stmt.var] = site
        return 1 + _collect(stmt.body, (*path, stmt), found)
    if isinstance(stmt, Block):
        found.blocks[stmt.name] = stmt
        found.paths[stmt.name] = path
        return 1
    if isinstance(stmt, Seq):
        return sum([_collect(child, path, found) for child in stmt.stmts])
    inside = [part for part in children(stmt) if isinstance(part, _NESTED)]
    return sum([_collect(part, path, found) for part in inside])


_NESTED: Final = (For, Seq, Block, If, Alloc, Tensorized)
