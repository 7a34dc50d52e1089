"""Splitting a program in two: what depends on constants alone, and the rest.

    before  def f(A, B, C):                     with B constant
                P = empty(…)
                for …: P[…] = B[…]              (packing)
                for …: C[…] += A[…] * P[…]
    after   def f_constants(B, P): for …: P[…] = B[…]
            def f(A, P, C): for …: C[…] += A[…] * P[…]

The statements that move are whole nests at the top of the program, so a copy of a constant that a
schedule makes there (cache_read, transform_layout) is made once. This is Ansor's rewriting of
constant layouts (Zheng et al., OSDI 2020, section 4.2) for whatever a program computes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from minitensor import ir

SUFFIX = "_constants"


class Split(NamedTuple):
    """A program in two parts.

    early  computes the temporaries of `kept`, its outputs, from constants; None if there are none
    late   the rest; what is kept comes as parameters after those of the program
    kept   the temporaries that pass from one to the other
    """

    early: ir.Program | None
    late: ir.Program
    kept: tuple[ir.Buffer, ...]


def split_constants(program: ir.Program, constants: Collection[str]) -> Split:
    """The part of a program that depends on the parameters `constants` alone, and the rest."""
    parts = program.body.stmts if isinstance(program.body, ir.Seq) else (program.body,)
    reads = [_touched(part) for part in parts]
    writes = [ir.stored_buffers(part) for part in parts]
    fixed = _constant_buffers(program, set(constants), reads, writes)
    early = [part for part, w in zip(parts, writes) if w and w <= fixed]
    late = [part for part, w in zip(parts, writes) if not (w and w <= fixed)]
    needed = set().union(*(_touched(part) for part in late)) if late else set()
    kept = tuple(b for b in program.temporaries if b.name in fixed and b.name in needed)
    return Split(
        _program(program, early, kept, SUFFIX) if early else None,
        _program(program, late, kept, ""),
        kept,
    )


def _constant_buffers(
    program: ir.Program, constants: set[str], reads: list[set[str]], writes: list[set[str]]
) -> set[str]:
    """The temporaries that can be computed before, all the statements that write them included."""
    fixed = {
        b.name
        for b in program.temporaries
        if b.scope is ir.Scope.GLOBAL and not b.alignment and any(b.name in w for w in writes)
    }
    while True:
        bad = {
            name
            for read, written in zip(reads, writes)
            if not (read <= fixed | constants and written <= fixed)
            for name in written & fixed
        }
        if not bad:
            return fixed
        fixed -= bad


def _touched(stmt: ir.Stmt) -> set[str]:
    """The buffers that a statement reads or writes."""
    return {load.buffer for load in ir.loads(stmt)} | ir.stored_buffers(stmt)


def _program(
    program: ir.Program, parts: list[ir.Stmt], kept: tuple[ir.Buffer, ...], suffix: str
) -> ir.Program:
    """A program of some of the parts, with what is kept among its parameters."""
    body = ir.sequence(*parts) if parts else ir.NOTHING
    touched = _touched(body)
    outputs = {b.name for b in program.outputs}
    params = [b for b in program.params if b.name in touched or (b.name in outputs and not suffix)]
    names = {b.name for b in kept}
    temporaries = [b for b in program.temporaries if b.name in touched and b.name not in names]
    return program.replace(
        name=program.name + suffix,
        params=(*params, *kept),
        constants=frozenset(),
        temporaries=tuple(temporaries),
        body=body,
    )
