"""Lifetimes of temporaries: the rule that gives programs between two steps their meaning.

A temporary lives in the innermost loop that encloses all its accesses, and each iteration of that
loop has an instance of its own, uninitialised at first. Loops that carry values of the buffer are
not candidates: a loop that drives a REDUCE or ORDERED iter of a block writing the buffer; nor, for
SHARED buffers, are the loops over the threads of a GPU block.

The interpreter executes this rule and `codegen` implements it, so moving a producer next to its
consumer (compute_at) makes its buffer private to the loop without saying so.
"""

from __future__ import annotations

from collections.abc import Mapping

from minitensor.ir.dataflow import accessed_buffers
from minitensor.ir.facts import fact
from minitensor.ir.program import Program, nests, survey
from minitensor.ir.stmt import Block, For, IterKind, Scope, Stmt
from minitensor.ir.visit import free_vars


@fact
def lifetimes(program: Program) -> Mapping[str, str | None]:
    """For each temporary the name of the loop it lives in, None for the whole program."""
    return {name: (loops[-1].var if loops else None) for name, loops in _paths(program).items()}


def _paths(program: Program) -> dict[str, tuple[For, ...]]:
    """For each temporary the loops around it and the one it lives in, outermost first."""
    common: dict[str, tuple[For, ...]] = {}
    for nest in nests(program):
        for name, path in _common_paths(nest).items():
            common[name] = () if name in common else path
    result = {}
    for buffer in program.temporaries:
        path = common.get(buffer.name, ())
        if buffer.scope is Scope.SHARED:
            path = _up_to(path, {loop.var for loop in path if loop.kind.is_thread})
        result[buffer.name] = path
    return result


@fact
def _common_paths(nest: Stmt) -> Mapping[str, tuple[For, ...]]:
    """For each buffer that a nest accesses, the loops around all of its accesses there, up to the
    first that carries it.
    """
    common: dict[str, tuple[For, ...]] = {}
    found = survey(nest)
    for block in found.blocks.values():
        read, written = accessed_buffers(block)
        carrying = _carrying_loops(block)
        for name in read | written:
            path = found.paths[block.name]
            if name in written:
                path = _up_to(path, carrying)
            known = common.get(name)
            common[name] = path if known is None else _common_prefix(known, path)
    return common


def _carrying_loops(block: Block) -> set[str]:
    """The loops whose iterations combine into the same elements, or depend on each other."""
    return {
        name for i in block.iters if i.kind is not IterKind.SPATIAL for name in free_vars(i.binding)
    }


def _up_to(path: tuple[For, ...], stop: set[str]) -> tuple[For, ...]:
    """The loops before the first of those named in `stop`."""
    for depth, loop in enumerate(path):
        if loop.var in stop:
            return path[:depth]
    return path


def _common_prefix(a: tuple[For, ...], b: tuple[For, ...]) -> tuple[For, ...]:
    length = 0
    while length < min(len(a), len(b)) and a[length] is b[length]:
        length += 1
    return a[:length]
