"""Finding statements by name, and replacing, inserting and removing them by identity."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from minitensor import ir
from minitensor.arith import Ranges, Simplifier, extent_range


def splice(stmt: ir.Stmt, edits: Mapping[int, ir.Stmt | None]) -> ir.Stmt | None:
    """`stmt` with some statements, given by their id(), replaced, or removed if None.

    Loops and sequences that are left with nothing to do are removed too; None if nothing remains.
    What holds no edit is returned as the same object.
    """
    if id(stmt) in edits:
        return edits[id(stmt)]
    if isinstance(stmt, ir.For):
        body = splice(stmt.body, edits)
        if body is stmt.body:
            return stmt
        return None if body is None else ir.with_body(stmt, body)
    if isinstance(stmt, ir.Seq):
        found = [splice(child, edits) for child in stmt.stmts]
        if all(a is b for a, b in zip(found, stmt.stmts)):
            return stmt
        kept = [child for child in found if child is not None]
        return ir.sequence(*kept) if kept else None
    return stmt


def spliced(program: ir.Program, edits: Mapping[int, ir.Stmt | None]) -> ir.Program:
    """The program with its body spliced; nests that hold no edit are not looked at."""
    nests = ir.nests(program)
    found = [n if edits.keys().isdisjoint(_ids(n)) else splice(n, edits) for n in nests]
    if id(program.body) in edits or list(map(id, found)) == list(map(id, nests)):
        body = edits.get(id(program.body), program.body)
    else:
        body = ir.sequence(*[nest for nest in found if nest is not None])
    return program.replace(body=body if body is not None else ir.Seq(()))


@ir.fact
def _ids(nest: ir.Stmt) -> frozenset[int]:
    """The id() of each statement of a nest, which lives as long as they do."""
    return frozenset(map(id, ir.stmts_of(nest)))


def with_block(block: ir.Block, **changes: object) -> ir.Block:
    """A block with some fields changed."""
    fields = {name: getattr(block, name) for name in ir.Block.__slots__}
    return ir.Block(**{**fields, **changes})


def map_blocks(stmt: ir.Stmt, f: Callable[[ir.Block, tuple[ir.For, ...]], ir.Stmt]) -> ir.Stmt:
    """Each block replaced by f(block, the loops between `stmt` and it, outermost first)."""

    def go(current: ir.Stmt, path: tuple[ir.For, ...]) -> ir.Stmt:
        if isinstance(current, ir.Block):
            return f(current, path)
        if isinstance(current, ir.For):
            body = go(current.body, (*path, current))
            return current if body is current.body else ir.with_body(current, body)
        if isinstance(current, ir.Seq):
            found = [go(child, path) for child in current.stmts]
            unchanged = all(a is b for a, b in zip(found, current.stmts))
            return current if unchanged else ir.sequence(*found)
        return current

    return go(stmt, ())


def rebind(
    stmt: ir.Stmt,
    outer: tuple[ir.For, ...],
    values: Mapping[str, ir.Expr],
    guards: Iterable[ir.Expr] = (),
) -> ir.Stmt:
    """`stmt` with loop variables replaced in the bindings and predicates of its blocks.

    outer   the loops around the statement (their ranges are used to simplify)
    values  what each replaced loop variable is now
    guards  conditions added to every block's predicate
    """

    def one(block: ir.Block, path: tuple[ir.For, ...]) -> ir.Block:
        ranges = {loop.var: extent_range(loop.extent) for loop in (*outer, *path)}
        simplifier = Simplifier(ranges, keep_units=True)

        def moved(expr: ir.Expr) -> ir.Expr:
            if not any(ir.mentions(expr, name) for name in values):
                return expr
            return simplifier.expr(ir.substitute(expr, values))

        iters = tuple(ir.Iter(i.var, i.extent, i.kind, moved(i.binding)) for i in block.iters)
        old = [moved(part) for part in ir.conjuncts(block.predicate)]
        predicate = ir.conjunction([*old, *(simplifier.expr(guard) for guard in guards)])
        return with_block(block, iters=iters, predicate=predicate)

    return map_blocks(stmt, one)


LONGEST_LABEL: Final = 256
"""The most characters of what a new name begins with. Names are made of names (a fused loop bears
those of its parts), so that without a limit a hundred steps could double them a hundred times."""


class Fresh:
    """New names for a program: never one that exists, existed, or was given before."""

    def __init__(self, program: ir.Program) -> None:
        loops, blocks = ir.loop_sites(program).keys(), program.blocks.keys()
        self.loops = {"root", *program.retired, *blocks, *loops}
        self.others = {*program.retired, *blocks, *loops, *program.buffers}

    def loop(self, label: str, block: str = "") -> str:
        """A name for a new loop; of a loop of one block, that begins with the block if need be."""
        owner = block[:LONGEST_LABEL]
        return ir.fresh_name(label[:LONGEST_LABEL], self.loops, owner=owner)

    def block(self, label: str) -> str:
        """A name for a new block, or for a new buffer and the block that writes it."""
        name = ir.fresh_name(label[:LONGEST_LABEL], self.others)
        self.loops.add(name)
        return name


def loops_around(program: ir.Program, block: str) -> tuple[ir.For, ...]:
    """The loops around a block, outermost first."""
    return ir.paths(program)[block]


def parts(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statements of a sequence; anything else alone."""
    return stmt.stmts if isinstance(stmt, ir.Seq) else (stmt,)


def holds_block(stmt: ir.Stmt, names: set[str]) -> bool:
    """Return whether one of the blocks is at or below the statement."""
    return any(block.name in names for block in ir.blocks_of(stmt))


def ranges_of(loops: tuple[ir.For, ...]) -> Ranges:
    """The values of the variables of some loops."""
    return {loop.var: extent_range(loop.extent) for loop in loops}


def chain(outermost: ir.For, innermost: str) -> tuple[ir.For, ...] | None:
    """The loops from one to another if each is all there is in the one before; else None."""
    loops = [outermost]
    while loops[-1].var != innermost:
        body = loops[-1].body
        if not isinstance(body, ir.For):
            return None
        loops.append(body)
    return tuple(loops)


def plain_store(block: ir.Block) -> tuple[str, ...] | None:
    """The iters that index the block's store, a different one for each axis; else None."""
    for node in ir.walk(block.body):
        if isinstance(node, (ir.Store, ir.Reduce)):
            names = [i.name for i in node.indices if isinstance(i, ir.Var)]
            if len(names) == len(node.indices) and len(set(names)) == len(names):
                return tuple(names)
            return None
    return None


def written_extents(block: ir.Block) -> tuple[int, ...] | None:
    """The extents that a block writes along the axes of its buffer, by the iters of its store;
    None if that is no plain store. The buffer may be larger: a layout was padded.
    """
    store = plain_store(block)
    sizes = {i.var: i.extent for i in block.iters}
    return None if store is None else tuple(sizes[name] for name in store)


def loads_of(block: ir.Block, buffers: Collection[str]) -> list[ir.Load]:
    """The loads of some buffers in a block, those of its init too."""
    every = ir.loads(block.body) + (ir.loads(block.init) if block.init is not None else [])
    return [load for load in every if load.buffer in buffers]


def spatial_iters(block: ir.Block) -> list[str]:
    """The names of a block's spatial iters."""
    return [i.var for i in block.iters if i.kind is ir.IterKind.SPATIAL]
