"""A program: parameters, temporaries, and a statement."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from minitensor.ir.printer import NO_MARKS, Marks, print_function
from minitensor.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Seq, Stmt, Store, Tensorized
from minitensor.ir.visit import children, stmts_of, walk

T = TypeVar("T")


def fact(derive: Callable[[Program], T]) -> Callable[[Program], T]:
    """A function of a program that is computed once: a program cannot change, so its value is kept
    with it.
    """

    @functools.wraps(derive)
    def derived(program: Program) -> T:
        known = program.facts
        if derive not in known:
            known[derive] = derive(program)
        found: T = known[derive]
        return found

    return derived


@dataclass(frozen=True, slots=True)
class Program:
    """A function over buffers: immutable, so that every step of a schedule can be kept.

    params       the buffers of a call, in call order; those that are stored to are the outputs
    temporaries  the other buffers; where each is allocated follows from its uses (see `lifetime`)
    retired      names of loops and blocks that existed earlier: never given again, so that an old
                 handle cannot come to mean something else
    facts        the values of functions of this program; `fact` alone reads and writes them
    """

    name: str
    params: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    body: Stmt
    retired: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    facts: dict[Callable[[Program], Any], Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __str__(self) -> str:
        return print_program(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process has no facts yet."""
        return Program, (self.name, self.params, self.temporaries, self.body, self.retired)

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
        return _survey(self).blocks

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


def print_program(program: Program, marks: Marks = NO_MARKS) -> str:
    """A program as Python-like text."""
    return print_function(program.name, program.params, program.temporaries, program.body, marks)


def stored_buffers(stmt: Stmt) -> set[str]:
    """The names of the buffers that a statement stores to."""
    found: set[str] = set()
    for node in walk(stmt):
        if isinstance(node, Store):
            found.add(node.buffer)
        elif isinstance(node, Reduce):
            found.update(node.buffers)
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


class _Survey(NamedTuple):
    """The findings of one walk over a program, by name and in the order of the text."""

    blocks: dict[str, Block]
    paths: dict[str, tuple[For, ...]]
    sites: dict[str, LoopSite]


def paths(program: Program) -> Mapping[str, tuple[For, ...]]:
    """For each block, the loops around it, outermost first."""
    return _survey(program).paths


def loop_sites(program: Program) -> Mapping[str, LoopSite]:
    """Every loop of a program by name, in the order of the text."""
    return _survey(program).sites


@fact
def _survey(program: Program) -> _Survey:
    found = _Survey({}, {}, {})
    _collect(program.body, (), found)
    return found


def _collect(stmt: Stmt, path: tuple[For, ...], found: _Survey) -> None:
    if isinstance(stmt, For):
        found.sites[stmt.var] = LoopSite(stmt, path)
        _collect(stmt.body, (*path, stmt), found)
    elif isinstance(stmt, Block):
        found.blocks[stmt.name] = stmt
        found.paths[stmt.name] = path
    elif isinstance(stmt, Seq):
        for child in stmt.stmts:
            _collect(child, path, found)
    else:
        for part in children(stmt):
            if isinstance(part, (For, Seq, Block, If, Alloc, Tensorized)):
                _collect(part, path, found)
