"""Updates in order: tensors whose elements depend on what was stored before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minitensor import arith, ir
from minitensor.errors import ArgumentError
from minitensor.lang.promotion import converted
from minitensor.lang.scalar import Label, Scalar
from minitensor.lang.tensor import (
    Axis,
    ReduceAxis,
    Stage,
    Tensor,
    check_axes,
    checked_axes,
    checked_name,
    checked_shape,
    parameters_of,
    value_of,
)


def update(
    shape: Any,
    fupdate: Callable[..., Any],
    *,
    axis: ReduceAxis | Sequence[ReduceAxis] = (),
    init: Any = None,
    dtype: str = "float32",
    name: str | None = None,
) -> Tensor:
    """A tensor updated in order, for what is not a commutative reduction.

        C = mt.update((N,), lambda C, i: mt.if_then_else(i > 0, C[i - 1], 0.0) + A[i])    # a scan
        B = mt.update((N,), lambda B, i: 2 * B[i] + A[i, k], axis=k, init=0.0)           # Horner

    The elements are visited in row-major order and, for each, the axes in `axis` in theirs; each
    visit stores what `fupdate` returns. An index of the tensor is free to run in any order only if
    every self-reference has exactly that index in that position; all others, and the axes, keep
    their order, and the primitives that would change it are refused.

    shape    a tuple of ints
    fupdate  called with the tensor itself and one symbolic index for each axis
    axis     reduction axes to loop over, outermost first
    init     what elements hold before their first visit: a number, or a function of the indices
    dtype    the type of the elements; what `fupdate` returns is converted to it

    Raises ArgumentError if there is no init and the first visit reads the tensor itself.
    """
    extents = checked_shape(shape)
    labels = parameters_of(fupdate, len(extents), skip=1)
    title = checked_name(name, "update")
    tensor = Tensor(title, extents, ir.DType.of(dtype))
    own = tuple(Axis(Label.fresh(label), n) for label, n in zip(labels, extents))
    given = checked_axes(axis, "axis")
    value = value_of(fupdate(tensor, *[Scalar(ir.Var(a.var)) for a in own]), title)
    first = None
    if init is not None:
        if callable(init):
            parameters_of(init, len(own))
        start = init(*[Scalar(ir.Var(a.var)) for a in own]) if callable(init) else init
        first = converted(value_of(start, title), tensor.dtype)
        check_axes(title, (first,), own, ())
        if any(load.buffer is tensor.reference for load in ir.loads(first)):
            raise ArgumentError(
                f"the init of {ir.print_name(title)} reads the tensor itself; write it without"
            )
    check_axes(title, (value,), own, given)
    steps = [load for load in ir.loads(value) if load.buffer is tensor.reference]
    if first is None and all(extents):
        _check_first_visit(tensor, value, (*own, *given))
    ordered = tuple(Axis(a.var, a.extent, ir.IterKind.ORDERED) for a in given)
    kept = []
    for position, a in enumerate(own):
        free = all(load.indices[position] == ir.Var(a.var) for load in steps)
        kept.append(a if free else Axis(a.var, a.extent, ir.IterKind.ORDERED))
    tensor.stage = Stage(tuple(kept), ordered, (converted(value, tensor.dtype),), init=first)
    return tensor


def _check_first_visit(tensor: Tensor, value: ir.Expr, axes: tuple[Axis, ...]) -> None:
    """Refuse an update without init that reads itself when nothing has been written yet."""
    title = ir.print_name(tensor.name)
    empty = [a for a in axes if a.extent == 0]
    if empty:
        raise ArgumentError(
            f"{title} is never written: one of its axes is empty; give what it holds then as init="
        )
    at_first = ir.substitute(value, {a.var: ir.Const(0) for a in axes})
    for load in _certain_loads(at_first):
        if load.buffer is tensor.reference:
            raise ArgumentError(
                f"the first visit of {title} reads {title} before anything was written; give what "
                "it holds before as init=, or guard the read with mt.if_then_else"
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
