"""Pass: a temporary that becomes an output, element by element, is computed in the output's memory.

    before  E = empty(float32[4096])
            for j: E[j] = exp(X[i, j] - M)
            for j: S = S + E[j]
            for j: Y[i, j] = E[j] / S
    after   for j: Y[i, j] = exp(X[i, j] - M)
            for j: S = S + Y[i, j]
            for j: Y[i, j] = Y[i, j] / S

The lines of the output come into the caches while the temporary is computed, which takes longer
than to load them; and there is one array less in the caches. So it is done where the last statement
that uses the temporary is a nest of loops that reads each of its elements once, for the element of
the output that it stores, and nothing else accesses the output. A temporary as small as registers
is left, and so is one that a reduction accumulates in, which may be kept in them, or that a loop
prefetches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.arith import Linear, linear_of, prefetches
from minitensor.codegen.remarks import stored
from minitensor.codegen.target import Target

SMALLEST: Final = 4096
"""The least bytes of a temporary that is moved; smaller ones may be in registers."""


def write_in_place(program: ir.Program, target: Target) -> ir.Program:
    """The program with the temporaries that become outputs in the memory of those."""
    nodes = list(ir.walk(program.body))
    if any(isinstance(node, ir.Tensorized) for node in nodes):
        return program
    users = Counter(n.buffer for n in nodes if isinstance(n, (ir.Store, ir.Load)))
    free = {b.name: b for b in program.outputs if users[b.name] == 1}
    stores = [n for n in nodes if isinstance(n, ir.Store) and n.buffer in free]
    loops = [node for node in nodes if isinstance(node, ir.For)]
    prefetched = {name for loop in loops for name in prefetches(loop)}
    candidates = {load.buffer for store in stores for load in ir.loads(store)} - prefetched
    if not candidates:
        return program
    return program.replace(body=_statement(program.body, free, candidates))


def _statement(stmt: ir.Stmt, free: dict[str, ir.Buffer], candidates: set[str]) -> ir.Stmt:
    """A statement in which temporaries are moved.

    free        the outputs that a single store accesses
    candidates  the buffers that those stores read
    """
    if isinstance(stmt, ir.Alloc) and stmt.buffer.name in candidates:
        place = _place(stmt, free)
        if place is not None:
            del free[place.output]
            stored(stmt.buffer.name, "output", stmt.buffer.nbytes)
            return _statement(_moved(stmt.body, stmt.buffer.name, place), free, candidates)
    return ir.map_stmts(stmt, lambda child: _statement(child, free, candidates))


@dataclass(frozen=True)
class _Place:
    """The element of an output for each element of a temporary.

    axes  for each axis of the output: that of the temporary, or None, and what is added to the
          index on it
    """

    output: str
    axes: tuple[tuple[int | None, Linear], ...]

    def of(self, indices: Sequence[ir.Expr]) -> tuple[ir.Expr, ...]:
        """The indices in the output for those in the temporary."""
        return tuple(
            (start if axis is None else linear_of(indices[axis]).plus(start)).expr()
            for axis, start in self.axes
        )


def _place(alloc: ir.Alloc, free: Mapping[str, ir.Buffer]) -> _Place | None:
    """The place in an output for the temporary of an allocation, where there is one."""
    buffer = alloc.buffer
    if buffer.scope is not ir.Scope.GLOBAL or buffer.alignment or buffer.nbytes < SMALLEST:
        return None
    users = [s for s in _in_order(alloc.body) if buffer.name in _accessed(s)]
    nest = _nest(users[-1]) if users else None
    if nest is None or len(users) < 2:
        return None
    loops, store = nest
    output = free.get(store.buffer)
    reads = [load for load in ir.loads(store) if load.buffer == buffer.name]
    if output is None or output.dtype != buffer.dtype or len({r.indices for r in reads}) != 1:
        return None
    if any(_accumulates(node, buffer.name) for s in users for node in ir.walk(s)):
        return None
    extents = {loop.var: loop.extent for loop in loops}
    inner = [linear_of(index) for index in reads[0].indices]
    if not _covers(inner, buffer.shape, extents):
        return None
    return _between(inner, [linear_of(index) for index in store.indices], extents, output.name)


def _in_order(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    """The statements that are run one after the other."""
    if isinstance(stmt, ir.Seq):
        for child in stmt.stmts:
            yield from _in_order(child)
    elif isinstance(stmt, ir.Alloc):
        yield from _in_order(stmt.body)
    else:
        yield stmt


def _accessed(stmt: ir.Stmt) -> set[str]:
    """The buffers that a statement accesses."""
    return {node.buffer for node in ir.walk(stmt) if isinstance(node, (ir.Store, ir.Load))}


def _nest(stmt: ir.Stmt) -> tuple[list[ir.For], ir.Store] | None:
    """The loops around a single store."""
    loops = []
    while isinstance(stmt, ir.For):
        loops.append(stmt)
        stmt = stmt.body
    return (loops, stmt) if isinstance(stmt, ir.Store) else None


def _accumulates(node: ir.Node, buffer: str) -> bool:
    """Tell whether a node updates a buffer."""
    return (
        isinstance(node, ir.Store)
        and node.buffer == buffer
        and any(load.buffer == buffer for load in ir.loads(node))
    )


def _covers(indices: Sequence[Linear], shape: Sequence[int], extents: Mapping[str, int]) -> bool:
    """Tell whether loops access each element once: the index of each axis is a number whose digits
    are some of their variables, and no variable is left over.
    """
    used: list[str] = []
    for index, length in zip(indices, shape):
        reached = 1
        digits = sorted(index.terms.items(), key=lambda term: term[1])
        for atom, step in digits:
            if not isinstance(atom, ir.Var) or atom.name not in extents or step != reached:
                return False
            used.append(atom.name)
            reached *= extents[atom.name]
        if reached != length or index.constant != 0:
            return False
    moving = sorted(name for name, extent in extents.items() if extent != 1)
    return sorted(name for name in used if extents[name] != 1) == moving


def _between(
    inner: Sequence[Linear], outer: Sequence[Linear], extents: Mapping[str, int], output: str
) -> _Place | None:
    """The place in an output that is accessed at `outer` while a temporary is at `inner`: each
    index follows one of the temporary's, in their order, or is that of the loops around both.
    """
    axes: list[tuple[int | None, Linear]] = []
    left = list(enumerate(inner))
    for index in outer:
        start = index.minus(left[0][1]) if left else index
        if left and not start.mentions_any(extents):
            axes.append((left.pop(0)[0], start))
        elif not index.mentions_any(extents):
            start = index
            axes.append((None, start))
        else:
            return None
        if any(ir.loads(atom) for atom in start.terms):
            return None
    return None if left else _Place(output, tuple(axes))


def _moved(body: ir.Stmt, buffer: str, place: _Place) -> ir.Stmt:
    """The statements with the temporary in its place."""

    def move(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Load) and node.buffer == buffer:
            return ir.Load(place.output, place.of(node.indices), node.dtype)
        if isinstance(node, ir.Store) and node.buffer == buffer:
            return ir.Store(place.output, place.of(node.indices), node.value)
        return node

    return ir.rewrite(body, move)
