"""The bodies of blocks, where tile sizes are part of them.

`rfactor` writes the axes of a reduction in terms of loops: A[k] becomes A[k_0*8 + k_1], and the 8
is a number of one candidate. Such a body is kept here as it was before, in terms of k; what k is in
terms of the new iters is among the numbers (`Numbers.hidden`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minitensor import ir
from minitensor.search.features.forms import StructureError


class Bodies:
    """For the blocks whose bodies hold numbers of a candidate: the bodies without them."""

    def __init__(self) -> None:
        self.known: dict[str, ir.Stmt] = {}

    def of(self, block: ir.Block) -> ir.Stmt:
        """The body of a block, without numbers of a candidate."""
        return self.known.get(block.name, block.body)

    def checked(self, block: ir.Block) -> ir.Stmt:
        """The same, if it touches what the body of the block does: inlining may have simplified."""
        body = self.of(block)
        if body is not block.body and _touched(body) != _touched(block.body):
            raise StructureError("what a block reads that rfactor made depends on the numbers")
        return body

    def follow(
        self, before: ir.Program, after: ir.Program, change: Callable[[ir.Stmt], ir.Stmt]
    ) -> None:
        """Change these bodies as a step changed them; drop those of blocks that are gone."""
        for name, body in list(self.known.items()):
            now = after.blocks.get(name)
            if now is None:
                del self.known[name]
            elif now.body is not before.blocks[name].body:
                self.known[name] = change(body)


def _touched(body: ir.Stmt) -> list[tuple[type, str]]:
    found: list[tuple[type, str]] = []
    for node in ir.walk(body):
        if isinstance(node, (ir.Load, ir.Store)):
            found.append((type(node), node.buffer))
        elif isinstance(node, ir.Reduce):
            found += [(ir.Reduce, buffer) for buffer in node.buffers]
    return found


def unknown(body: ir.Stmt) -> ir.Stmt:
    """For a step of which it is not known how it changes such a body."""
    raise StructureError(
        "what a step does to the body of a block that rfactor made is not known without replaying"
    )


def rerouted(old: str, new: str, written: bool) -> Callable[[ir.Stmt], ir.Stmt]:
    """What cache_read and cache_write do: accesses to one buffer go to another."""

    def one(node: object) -> object:
        match node:
            case ir.Load(buffer, indices, dtype) if buffer == old:
                return ir.Load(new, indices, dtype)
            case ir.Store(buffer, indices, value) if buffer == old and written:
                return ir.Store(new, indices, value)
            case ir.Reduce(reducer, buffers, indices, values) if old in buffers and written:
                names = tuple(new if b == old else b for b in buffers)
                return ir.Reduce(reducer, names, indices, values)
        return node

    return lambda body: ir.rewrite(body, one)  # type: ignore[arg-type]


def inlined(producer: ir.Block) -> Callable[[ir.Stmt], ir.Stmt]:
    """What compute_inline does: what a block stores is computed where it is read."""
    store = producer.body
    if not isinstance(store, ir.Store):
        raise StructureError("a block of several statements is inlined into one that rfactor made")

    def one(node: object) -> object:
        if isinstance(node, ir.Load) and node.buffer == store.buffer:
            values = {
                i.name: e for i, e in zip(store.indices, node.indices) if isinstance(i, ir.Var)
            }
            return ir.substitute(store.value, values)
        return node

    return lambda body: ir.rewrite(body, one)  # type: ignore[arg-type]


def partial_body(
    body: ir.Stmt, like: ir.Stmt, buffers: Mapping[str, str], position: int, axis: str
) -> ir.Stmt:
    """The body of partial results, the axes of the reduction as they were.

    body      of the reduction
    like      the body that rfactor made
    buffers   the new name of each buffer
    position  where the new axis stands, and `axis` the iter that indexes it
    """
    found = next(node for node in ir.walk(body) if isinstance(node, ir.Reduce))
    where = (*found.indices[:position], ir.Var(axis), *found.indices[position:])
    names = tuple(buffers[b] for b in found.buffers)
    inside = like.then if isinstance(like, ir.If) else like
    if isinstance(inside, ir.Reduce):
        return ir.Reduce(found.reducer, names, where, found.values)
    return ir.sequence(*[ir.Store(b, where, value) for b, value in zip(names, found.values)])
