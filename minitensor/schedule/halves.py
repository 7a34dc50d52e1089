"""The two halves of a reduction that decompose_reduction has cut: a block that initialises
elements, and one that updates them.

Together they compute what the whole reduction did where each element is initialised once and then
updated by all of its terms. So they can be moved, stored elsewhere and factored as one. A block
that does a part of the updates only (its loop was cut in two) is no half.
"""

from __future__ import annotations

from minitensor import arith, ir
from minitensor.schedule import insertion
from minitensor.schedule.elements import elements_of


def half_that_starts(program: ir.Program, block: ir.Block) -> ir.Block | None:
    """The block that does nothing but initialise what a block updates; None if there is none, or if
    it is not known that the two compute the whole reduction of the same elements.
    """
    buffers = ir.stored_buffers(block.body)
    if block.init is not None or buffers & ir.accessed_buffers(block)[0]:
        return None
    others = {
        other.name: other
        for buffer in buffers
        for other in ir.writers(program, buffer)
        if other.name != block.name
    }
    if len(others) != 1:
        return None
    (init,) = others.values()
    order = list(program.blocks)
    if not _only_stores(init, buffers) or order.index(init.name) > order.index(block.name):
        return None
    return init if _same_elements(program, init, block) else None


def other_writers(program: ir.Program, block: ir.Block) -> list[str]:
    """The blocks that write the buffers of a block, but for the half that starts it."""
    init = half_that_starts(program, block)
    mine = {block.name} | ({init.name} if init is not None else set())
    found = [
        other.name
        for buffer in sorted(ir.stored_buffers(block.body))
        for other in ir.writers(program, buffer)
        if other.name not in mine
    ]
    return list(dict.fromkeys(found))


def in_terms_of(init: ir.Block, block: ir.Block) -> ir.Stmt:
    """The body of the first half, its iters named as those of the second."""
    theirs, mine = elements_of(init), elements_of(block)
    assert theirs is not None and mine is not None
    names: dict[str, ir.Expr] = {a: ir.Var(b) for a, b in zip(theirs.iters, mine.iters)}
    return ir.substitute(init.body, names)


def _only_stores(init: ir.Block, buffers: set[str]) -> bool:
    """Return whether a block stores to all of the buffers, and does not read them."""
    read, written = ir.accessed_buffers(init)
    spatial = all(i.kind is ir.IterKind.SPATIAL for i in init.iters)
    return spatial and init.init is None and written == buffers and not read & buffers


def _same_elements(program: ir.Program, init: ir.Block, block: ir.Block) -> bool:
    """Return whether, in one iteration of the loops around both, both go over the same elements,
    each once, the block by all of its terms.
    """
    theirs, mine = elements_of(init), elements_of(block)
    if theirs is None or mine is None:
        return False
    if theirs.extents != mine.extents or theirs.undone != mine.undone:
        return False
    where = ir.paths(program)
    shared = {loop.var for loop in insertion.common_loops(where[init.name], where[block.name])}
    first = insertion.exact_domain(init, where[init.name], shared)
    second = insertion.exact_domain(block, where[block.name], shared)
    if first is None or second is None:
        return False
    started, updated = _inside(init, first), _inside(block, second)
    if any(started[a] != updated[b] for a, b in zip(theirs.iters, mine.iters)):
        return False
    whole = {i.var: arith.whole_axis(i.extent) for i in block.iters}
    return all(span == whole[name] for name, span in updated.items() if name not in mine.iters)


def _inside(block: ir.Block, box: arith.Box) -> dict[str, arith.Span]:
    """The spans of a block's iters, without what lies outside of its domain."""
    clipped = arith.clipped_box(box, [i.extent for i in block.iters])
    return {i.var: span for i, span in zip(block.iters, clipped)}
