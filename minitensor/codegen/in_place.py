"""Results in the memory of an input: the two arrays become one, which is read and then written.

    before  def f(X, Y, Z): for i: Z[i] = max(X[i] + Y[i], 0)
    after   def f(X, Z):    for i: Z[i] = max(X[i] + Z[i], 0)         Z holds Y when f is called

As one parameter, and not two that happen to be equal: so every pass sees what is read and written,
and in C two `restrict` pointers never meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from minitensor import arith, ir


def overwritten(program: ir.Program) -> Iterator[tuple[str, str]]:
    """The pairs of an input and an output that may be one array: the same block alone reads the one
    and writes the other, each instance at one place, and no instance runs twice.
    """
    for result in program.outputs:
        users = _users(program, result.name)
        block = program.blocks.get(users[0]) if len(users) == 1 else None
        if block is None or not isinstance(block.body, ir.Store) or not _once(program, block):
            continue
        place = block.body.indices
        if Counter(place) != Counter(ir.Var(i.var) for i in block.iters):
            continue
        for given in program.inputs:
            alike = (given.shape, given.dtype) == (result.shape, result.dtype)
            reads = {load.indices for load in ir.loads(block.body) if load.buffer == given.name}
            if alike and _users(program, given.name) == users and reads == {place}:
                yield given.name, result.name


def in_place(program: ir.Program, given: str, result: str) -> ir.Program:
    """The program with one of the pairs of `overwritten` as one array, that of the output."""

    def renamed(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Load) and node.buffer == given:
            return ir.Load(result, node.indices, node.dtype)
        return node

    params = tuple(b for b in program.params if b.name != given)
    return program.replace(params=params, body=ir.rewrite(program.body, renamed))


def _users(program: ir.Program, buffer: str) -> Sequence[str]:
    """The blocks that access a buffer, and "" for an intrinsic or a prefetch that does."""
    found = []
    for name, loops in ir.paths(program).items():
        if buffer in frozenset.union(*ir.accessed_buffers(program.blocks[name])):
            found.append(name)
            found += ["" for loop in loops if loop.kind is ir.LoopKind.TENSORIZE]
        found += ["" for loop in loops if buffer in arith.prefetches(loop)]
    return found


def _once(program: ir.Program, block: ir.Block) -> bool:
    """Tell whether no instance of a block runs twice."""
    loops = ir.paths(program)[block.name]
    ranges = {loop.var: arith.extent_range(loop.extent) for loop in loops}
    simplifier = arith.Simplifier(ranges)
    bindings = [simplifier.linear(i.binding) for i in block.iters]
    free = frozenset(ranges)
    return all(arith.separates(name, bindings, bindings, free, ranges) for name in ranges)
