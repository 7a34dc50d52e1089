"""Updates in order: tensors whose elements depend on what was stored before.

It does not say how the values of several tensors are kept apart from those of the step before:
that is `lower`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minitensor import arith, ir
from minitensor.errors import ArgumentError, unexpected
from minitensor.lang.checked import checked_shape, checked_titles, parameters_of
from minitensor.lang.promotion import converted
from minitensor.lang.scalar import Label, Scalar
from minitensor.lang.tensor import (
    Axis,
    ReduceAxis,
    Stage,
    Tensor,
    check_axes,
    checked_axes,
    results_of,
    value_of,
)


def update(
    shape: Any,
    fupdate: Callable[..., Any],
    *,
    axis: ReduceAxis | Sequence[ReduceAxis] = (),
    init: Any = None,
    dtype: str | Sequence[str] = "float32",
    name: str | Sequence[str] | None = None,
) -> Any:
    """A tensor updated in order, for what is not a commutative reduction; or several of one shape.

        C = mt.update((N,), lambda C, i: mt.if_then_else(i > 0, C[i - 1], 0.0) + A[i])    # a scan
        B = mt.update((N,), lambda B, i: 2 * B[i] + A[i, k], axis=k, init=0.0)           # Horner
        F, G = mt.update((), lambda F, G: (G[()], F[()] + G[()]), axis=k, init=(0, 1),
                         dtype="int64", name=("F", "G"))                              # Fibonacci

    The elements are visited in row-major order and, for each, the axes in `axis` in theirs; each
    visit stores what `fupdate` returns: of several tensors an element each, all of them computed
    before one is stored. An index of the tensor is free to run in any order only if every
    self-reference has exactly that index in that position; all others, and the axes, keep their
    order, and the primitives that would change it are refused.

    shape    a tuple of ints
    fupdate  called with the tensor itself (all of them) and one symbolic index for each axis;
             returns a value, or a tuple of one for each tensor
    axis     reduction axes to loop over, outermost first
    init     what elements hold before their first visit: a number, or a function of the indices;
             for several tensors also a tuple of numbers, or a function that returns a tuple
    dtype    the type of the elements; what `fupdate` returns is converted to it. Of several tensors
             one for all, or a tuple
    name     the name of the tensor and of its block. A tuple of names, or of dtypes, makes as many
             tensors, in a block named after the first; one name is numbered: "S" gives S_0, S_1

    Returns the Tensor, or a tuple of them. Raises ArgumentError if there is no init and the first
    visit reads what is updated.
    """
    extents = checked_shape(shape)
    tensors = _tensors(extents, dtype, name)
    labels = parameters_of(fupdate, len(extents), skip=len(tensors))
    own = tuple(Axis(Label.fresh(label), n) for label, n in zip(labels, extents))
    indices = [Scalar(ir.Var(a.var)) for a in own]
    given = checked_axes(axis, "axis")
    values = _values(results_of(fupdate(*tensors, *indices)), tensors)
    first: tuple[ir.Expr, ...] = ()
    if init is not None:
        if callable(init):
            parameters_of(init, len(own))
        starts = results_of(init(*indices) if callable(init) else init)
        first = _values(starts * len(tensors) if len(starts) == 1 else starts, tensors)
        _check_init(tensors, first, own)
    for tensor, value in zip(tensors, values):
        check_axes(tensor.name, (value,), own, given)
    steps = [load for value in values for load in ir.loads(value) if _is_of(load, tensors)]
    if init is None and all(extents):
        _check_first_visit(tensors, values, (*own, *given))
    ordered = tuple(Axis(a.var, a.extent, ir.IterKind.ORDERED) for a in given)
    kept = []
    for position, a in enumerate(own):
        own_index = [arith.simplify(load.indices[position]) == ir.Var(a.var) for load in steps]
        free = all(own_index)
        kept.append(a if free else Axis(a.var, a.extent, ir.IterKind.ORDERED))
    stage = Stage(tuple(kept), ordered, values, init=first)
    for tensor in tensors:
        tensor.stage, tensor.siblings = stage, tensors
    return tensors if len(tensors) > 1 else tensors[0]


def _tensors(extents: tuple[int, ...], dtype: object, name: object) -> tuple[Tensor, ...]:
    """The tensors that are updated: as many as there are names, or dtypes."""
    lists = [given for given in (name, dtype) if isinstance(given, (tuple, list))]
    count = max(1, len(lists[0])) if lists else 1
    titles = checked_titles(name, "update", count)
    dtypes = dtype if count > 1 and isinstance(dtype, (tuple, list)) else [dtype] * count
    if len(dtypes) != count:
        raise unexpected(f"one dtype, or {count}: one for each name", "dtype", dtype)
    return tuple(Tensor(title, extents, ir.DType.of(d)) for title, d in zip(titles, dtypes))


def _values(given: tuple[object, ...], tensors: tuple[Tensor, ...]) -> tuple[ir.Expr, ...]:
    """The results of a user's function, as an expression for each tensor."""
    if len(given) != len(tensors):
        names = ", ".join(ir.print_name(t.name) for t in tensors)
        raise ArgumentError(
            f"expected one value for each of {names}, but got {len(given)}; name=(...) with as "
            "many names makes as many tensors"
        )
    return tuple(converted(value_of(one, t.name), t.dtype) for one, t in zip(given, tensors))


def _is_of(load: ir.Load, tensors: tuple[Tensor, ...]) -> bool:
    return any(load.buffer is tensor.reference for tensor in tensors)


def _check_init(
    tensors: tuple[Tensor, ...], first: tuple[ir.Expr, ...], own: tuple[Axis, ...]
) -> None:
    """Refuse an init that uses what there is only later."""
    for tensor, value in zip(tensors, first):
        check_axes(tensor.name, (value,), own, ())
        if any(_is_of(load, tensors) for load in ir.loads(value)):
            title = ir.print_name(tensor.name)
            raise ArgumentError(f"the init of {title} reads what is updated; write it without")


def _check_first_visit(
    tensors: tuple[Tensor, ...], values: tuple[ir.Expr, ...], axes: tuple[Axis, ...]
) -> None:
    """Refuse an update without init that reads what is updated when nothing has been written."""
    title = ", ".join(ir.print_name(tensor.name) for tensor in tensors)
    if any(a.extent == 0 for a in axes):
        raise ArgumentError(
            f"{title} is never written: one of its axes is empty; give what it holds then as init="
        )
    for value in values:
        at_first = ir.substitute(value, {a.var: ir.Const(0) for a in axes})
        for load in _certain_loads(at_first):
            if _is_of(load, tensors):
                read = ir.print_name(load.buffer.label)  # type: ignore[attr-defined]
                raise ArgumentError(
                    f"the first visit of {title} reads {read} before anything was written; give "
                    "what it holds before as init=, or guard the read with mt.if_then_else"
                )


def _certain_loads(expr: ir.Expr) -> Iterator[ir.Load]:
    """The loads of an expression that are made whatever the data are."""
    if isinstance(expr, ir.Load):
        yield expr
    if isinstance(expr, ir.Select) and expr.lazy:
        yield from _certain_loads(expr.condition)
        condition = arith.simplify(expr.condition)
        if condition in (ir.TRUE, ir.FALSE):
            yield from _certain_loads(expr.a if condition == ir.TRUE else expr.b)
        return
    for child in ir.children(expr):
        yield from _certain_loads(child)  # type: ignore[arg-type]
