"""Values that may be computed although a condition says that they are not needed.

`if_then_else` computes one of its sides; `select` computes both. Where that does no harm, lanes
that choose differently are one choice among vectors, and no loop over lanes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from minitensor import ir
from minitensor.arith import Ranges, Simplifier, facts_of, is_nonnegative, linear_of


def is_safe(
    expr: ir.Expr,
    ranges: Ranges,
    shapes: Mapping[str, Sequence[int]],
    whole: Collection[str],
    conditions: Sequence[ir.Expr] = (),
) -> bool:
    """Return whether an expression may be computed for all values of its variables: it reads inside
    of buffers that hold something everywhere, and divides no integers of data.

    shapes      of the buffers
    whole       those of which all elements were written
    conditions  what holds where the expression stands; those on data do not count
    """
    lasting = [one for one in conditions if not any(True for _ in ir.loads(one))]
    simplifier, facts = Simplifier(ranges), facts_of(lasting, ranges)
    for node in ir.walk(expr):
        match node:
            case ir.Load(buffer, indices):
                shape = shapes.get(buffer)
                if buffer not in whole or shape is None or len(shape) != len(indices):
                    return False
                for index, size in zip(indices, shape):
                    form = simplifier.linear(index)
                    below = form.times(-1).shifted(size - 1)
                    if not all(is_nonnegative(f, ranges, facts) for f in (form, below)):
                        return False
            case ir.Binary("//" | "%", _, b):
                if node.dtype.scalar != ir.INDEX or not isinstance(b, ir.Const):
                    return False
            case ir.Lanes():
                return False
    return True


def written_whole(stmt: ir.Stmt, shapes: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """The buffers of which a statement writes all elements, whatever happens."""
    yield from _written(stmt, {}, shapes)


def _written(
    stmt: ir.Stmt, extents: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> Iterator[str]:
    match stmt:
        case ir.For(var, extent, body):
            yield from _written(body, {**extents, var: extent}, shapes)
        case ir.Seq(stmts):
            for child in stmts:
                yield from _written(child, extents, shapes)
        case ir.Alloc(buffer, body):
            yield from (name for name in _written(body, extents, shapes) if name != buffer.name)
        case ir.Store(buffer, indices):
            if buffer in shapes and _covers(indices, shapes[buffer], extents):
                yield buffer


def _covers(indices: Sequence[ir.Expr], shape: Sequence[int], extents: Mapping[str, int]) -> bool:
    """Return whether loops that are not empty reach all elements: each index counts from 0 to the
    last of its axis, by loops of its own.
    """
    used = set[str]()
    for index, size in zip(indices, shape):
        form, reached = linear_of(index), 1
        steps = {atom.name: step for atom, step in form.terms.items() if isinstance(atom, ir.Var)}
        own = steps.keys() <= extents.keys() - used
        if form.constant != 0 or len(steps) != len(form.terms) or not own:
            return False
        for name in sorted(steps, key=lambda name: int(steps[name])):
            if not 0 < steps[name] <= reached:
                return False
            reached += int(steps[name]) * (extents[name] - 1)
        if reached != size:
            return False
        used |= steps.keys()
    return all(extents.values())
