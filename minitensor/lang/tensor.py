"""Tensors: what a program reads and what it computes, one element at a time.

A `Tensor` is either a placeholder or a *stage*: an expression for each of its elements, a
reduction, or an ordered update. Building tensors checks what can be checked locally (types, number
of indices, constant indices, misplaced axes); `lower` checks the rest.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from minitensor import ir
from minitensor.answers import answered
from minitensor.errors import ArgumentError, is_integer, unexpected
from minitensor.lang.checked import (
    LARGEST,
    checked_name,
    checked_shape,
    checked_titles,
    parameters_of,
    refuse_symbolic,
)
from minitensor.lang.numpy_names import NoArray
from minitensor.lang.promotion import converted, is_number
from minitensor.lang.scalar import Label, Scalar, describe, operand
from minitensor.phrasebook import unknown_name

LONGEST: Final = 100
"""The most characters of an expression that a tensor shows."""


class Reference(str):
    """A buffer's name inside an expression, which remembers the tensor."""

    tensor: Tensor
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One dimension of a stage's domain: its variable, its extent, and what it may do."""

    var: Label
    extent: int
    kind: ir.IterKind = ir.IterKind.SPATIAL


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The computation of one or several tensors of one shape.

    values   one expression for each tensor
    reducer  what combines `values` over the axes in `reduced`; None if there is no reduction
    init     for an ordered update, what each element holds before the first step: one expression
             for each tensor, or none at all
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    values: tuple[ir.Expr, ...]
    reducer: ir.Reducer | None = None
    init: tuple[ir.Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """A call of an operator.

    operator    its name, such as "conv2d"
    operands    the names of the parameters that got tensors, in the order of `inputs`; one that
                takes several tensors appears once for each
    inputs      those tensors
    attributes  every other argument that was given, by parameter: integers, floats, strings, bools,
                None and tuples of these
    """

    operator: str
    operands: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any]


class Tensor(NoArray):
    """A dense array of symbolic values; `A[i, j]` is one of them.

    name, shape, dtype are what the user gave; `stage` is None for a placeholder, `origin` for what
    no operator of `mt.ops` made.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: ir.DType) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.stage: Stage | None = None
        self.origin: Origin | None = None
        self.siblings: tuple[Tensor, ...] = (self,)
        """The tensors that the same stage computes, this one included."""
        self.reference = Reference(Label.fresh(name))
        self.reference.label = name
        self.reference.tensor = self

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        """The tensor with the beginning of its expression."""
        stage, name = self.stage, self._titled()
        if stage is None:
            return f"Tensor({name})"
        text = ", ".join(describe(value) for value in stage.values)
        if stage.reducer is not None:
            text = f"{stage.reducer.name}({text})"
        index = ", ".join(str(getattr(axis.var, "label", axis.var)) for axis in stage.axes)
        shown = f"{ir.print_name(self.name)}[{index}] = {text}"
        return f"Tensor({name}; {shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + '…'})"

    def _titled(self) -> str:
        return f"{ir.print_name(self.name)}: {self.dtype}{list(self.shape)}"

    if not TYPE_CHECKING:  # a checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_name("tensor", name, "a Tensor", dir(type(self)))

    def __getitem__(self, indices: Any) -> Scalar:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise ArgumentError(
                f"{ir.print_name(self.name)} has {len(self.shape)} axes {self.shape}, "
                f"but is indexed with {len(given)}: {ir.print_name(self.name)}"
                f"[{', '.join(map(repr, given))}]"
            )
        nodes = tuple(self._index(axis, value) for axis, value in enumerate(given))
        return Scalar(ir.Load(self.reference, nodes, self.dtype))

    def _index(self, axis: int, value: object) -> ir.Expr:
        what = f"index {axis} of {ir.print_name(self.name)}"
        if isinstance(value, Reduction):
            raise value.misplaced()
        if isinstance(value, Tensor):
            raise ArgumentError(
                f"expected a number or a symbolic value as {what}, but got the tensor "
                f"{ir.print_name(value.name)}; index it: {ir.print_name(value.name)}[...]"
            )
        if not isinstance(value, Scalar) and not isinstance(value, numbers.Integral):
            hint = " (a slice is an mt.compute of its own)" if isinstance(value, slice) else ""
            raise unexpected(
                f"an integer or a symbolic integer{hint}", what.replace(" ", "_"), value
            )
        node = operand(value)
        if node.dtype.is_float or node.dtype.kind == "bool":
            raise ArgumentError(
                f"expected an integer as {what}, but got {describe(node)} of type {node.dtype}"
            )
        if isinstance(node, ir.Const) and not 0 <= node.value < self.shape[axis]:
            raise ArgumentError(
                f"{what} is {node.value}, but the axis has extent {self.shape[axis]}"
                " (indices count from 0 and do not wrap around)"
            )
        return node if node.dtype == ir.INDEX else ir.Cast(ir.INDEX, node)

    def misplaced(self) -> ArgumentError:
        """The error for a tensor where one of its elements is meant."""
        name = ir.print_name(self.name)
        return ArgumentError(
            f"expected a symbolic value, but got the tensor {name}; index it: {name}[...]"
        )

    def _refuse(self, *_: object) -> NoReturn:
        raise self.misplaced()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __pow__ = __rpow__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = _refuse
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tensor):
            return self is other
        raise self.misplaced()

    def __iter__(self) -> NoReturn:
        raise ArgumentError(
            f"Tensor({self._titled()}) cannot be iterated over; index it inside mt.compute"
        )


class ReduceAxis(Scalar):
    """The variable of a reduction; may be shared by any number of tensors."""

    __slots__ = ("axis", "start", "stop")

    def __init__(self, start: int, stop: int, name: str) -> None:
        self.start, self.stop = start, stop
        self.axis = Axis(Label.fresh(name), stop - start, ir.IterKind.REDUCE)
        super().__init__(ir.Var(self.axis.var) + start if start else ir.Var(self.axis.var))


class Reduction:
    """The result of `mt.sum` and the like: it can only be the whole of a tensor's expression."""

    def __init__(
        self,
        reducer: ir.Reducer,
        values: tuple[ir.Expr, ...],
        axes: tuple[Axis, ...],
        only: int | None = None,
    ) -> None:
        self.reducer, self.values, self.axes = reducer, values, axes
        self.only = only
        """The result that the user asked for, of several; None for all."""

    def _misplaced(self, *_: object) -> NoReturn:
        raise self.misplaced()

    def misplaced(self) -> ArgumentError:
        """The error for a reduction inside an expression."""
        return ArgumentError(
            f"a reduction ({self.reducer.name}) must be the whole expression of its tensor: give "
            "it an mt.compute of its own and use that tensor here"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _misplaced
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _misplaced
    __pow__ = __rpow__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = _misplaced
    __and__ = __or__ = __invert__ = __bool__ = astype = __eq__ = __ne__ = _misplaced
    __hash__ = object.__hash__


# ---- constructors


@answered
def placeholder(shape: Any, dtype: str = "float32", name: str | None = None) -> Tensor:
    """An input of the given shape (a tuple of ints; `()` for a scalar) and dtype."""
    return Tensor(checked_name(name, "placeholder"), checked_shape(shape), ir.DType.of(dtype))


@answered
def reduce_axis(dom: Any, name: str | None = None) -> ReduceAxis:
    """The variable of a reduction from dom[0] to dom[1] - 1; an int n stands for (0, n)."""
    pair = (0, dom) if isinstance(dom, numbers.Integral) else dom
    for extent in pair if isinstance(pair, Sequence) else (pair,):
        refuse_symbolic(extent)
    if (
        not isinstance(pair, Sequence)
        or len(pair) != 2
        or not all(is_integer(n, -LARGEST, LARGEST) for n in pair)
        or pair[0] > pair[1]
    ):
        raise unexpected("an extent or a pair (start, stop) with start <= stop", "dom", dom)
    return ReduceAxis(int(pair[0]), int(pair[1]), checked_name(name, "k"))


@answered
def compute(
    shape: Any, fcompute: Callable[..., Any], name: str | Sequence[str] | None = None
) -> Any:
    """A tensor given by an expression for each of its elements; or several of one shape.

        S, D = mt.compute((N,), lambda i: (A[i] + B[i], A[i] - B[i]), name=("S", "D"))

    shape     a tuple of ints, `()` for a scalar
    fcompute  called once with one symbolic index for each axis; returns a symbolic value, a number,
              or a reduction; or a tuple of symbolic values and numbers, one for each tensor. Its
              parameter names become the names of the loops.
    name      the name of the tensor and of its block; of several tensors a tuple of names, or one
              name that is numbered: "S" gives S_0, S_1

    Returns the Tensor, or a tuple of them for a tuple of values, each with a block of its own, and
    for a reduction of several values (see comm_reducer).
    Raises ArgumentError for a wrong number of indices, axes used out of place, wrong types.
    """
    extents = checked_shape(shape)
    labels = parameters_of(fcompute, len(extents))
    own = tuple(Axis(Label.fresh(label), n) for label, n in zip(labels, extents))
    result = fcompute(*[Scalar(ir.Var(axis.var)) for axis in own])
    if isinstance(result, Reduction):
        return _reduction(name, extents, own, result)
    results = results_of(result)
    titles = checked_titles(name, "compute", len(results))
    tensors = tuple(_elementwise(one, title, extents, own) for one, title in zip(results, titles))
    return tensors if len(tensors) > 1 else tensors[0]


def results_of(result: object) -> tuple[object, ...]:
    """The return value of a user's function, as a tuple of one result for each tensor."""
    if not isinstance(result, (tuple, list)):
        return (result,)
    if len(result) < 2:
        raise ArgumentError(
            "expected a symbolic value, or a tuple of at least 2 for as many tensors, but got one "
            f"of {len(result)}; return the value itself for one tensor"
        )
    return tuple(result)


def _elementwise(
    result: object, title: str, extents: tuple[int, ...], own: tuple[Axis, ...]
) -> Tensor:
    value = value_of(result, title)
    check_axes(title, (value,), own, ())
    tensor = Tensor(title, extents, ir.INT64 if value.dtype == ir.INDEX else value.dtype)
    tensor.stage = Stage(own, (), (converted(value, tensor.dtype),))
    return tensor


def value_of(result: object, title: str) -> ir.Expr:
    """The result of a user's function, as an expression."""
    if isinstance(result, Reduction):
        raise result.misplaced()
    if not isinstance(result, Scalar) and not is_number(result):
        hint = ""
        if isinstance(result, Tensor):
            hint = f"; index it: {ir.print_name(result.name)}[...]"
        raise ArgumentError(
            f"the function of {ir.print_name(title)} returned {type(result).__name__}, "
            f"which is not a symbolic value or a number{hint}"
        )
    return operand(result)


def _reduction(
    name: object, extents: tuple[int, ...], own: tuple[Axis, ...], result: Reduction
) -> Any:
    count = len(result.values)
    names = checked_titles(name, "compute", count if result.only is None else 1)
    if result.only is not None:
        names = [names[0] if n == result.only else f"{names[0]}_value" for n in range(count)]
    check_axes(names[result.only or 0], result.values, own, result.axes)
    tensors = tuple(Tensor(name, extents, value.dtype) for name, value in zip(names, result.values))
    stage = Stage(own, result.axes, result.values, result.reducer)
    for tensor in tensors:
        tensor.stage = stage
        tensor.siblings = tensors
    if result.only is not None:
        return tensors[result.only]
    return tensors[0] if len(tensors) == 1 else tensors


def check_axes(
    title: str, values: tuple[ir.Expr, ...], own: tuple[Axis, ...], reduced: tuple[Axis, ...]
) -> None:
    """Every variable of the expressions is an index of this tensor or one of the reduced axes."""
    known = {axis.var for axis in own + reduced}
    for value in values:
        ir.make_room(value)
        for name in ir.free_vars(value):
            if name not in known:
                raise ArgumentError(
                    f"{getattr(name, 'label', name)} is neither an index of {ir.print_name(title)} "
                    "nor a reduction axis given to its reduction: "
                    f"{ir.print_name(title)} = {describe(value)}; pass a reduction axis as axis="
                )


# ---- reducers


def checked_axes(axis: object, name: str, more: str = "") -> tuple[Axis, ...]:
    """One reduction axis or several as a tuple.

    more  the end of the message for what is none
    """
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    for one in given:
        if not isinstance(one, ReduceAxis):
            hint = " (an index of the tensor is not one)" if isinstance(one, Scalar) else ""
            failure = unexpected(f"mt.reduce_axis objects{hint}", name, axis)
            raise ArgumentError(f"{failure.message}; write k = mt.reduce_axis(n), axis=k{more}")
    axes = tuple(one.axis for one in given)
    if len({a.var for a in axes}) != len(axes):
        raise unexpected("each reduction axis once", name, axis)
    return axes


_OF_TWO: Final = {
    "max": "the larger of two values is mt.maximum(a, b)",
    "min": "the smaller of two values is mt.minimum(a, b)",
    "any": "two conditions are joined by mt.logical_or(a, b)",
    "all": "two conditions are joined by mt.logical_and(a, b)",
}
"""Calls that may have been meant by a reduction without an axis."""


def make_reduction(
    reducer: ir.Reducer, values: Sequence[ir.Expr], axis: object, only: int | None = None
) -> Reduction:
    """The reduction of the values over one axis or several."""
    more = _OF_TWO.get(reducer.name, "")
    axes = checked_axes(axis, "axis", f"; {more}" if more else "")
    if not axes:
        raise unexpected("at least one reduction axis", "axis", axis)
    return Reduction(reducer, tuple(values), axes, only)


def source(expr: object, name: str = "expr") -> ir.Expr:
    """The operand of a reduction, as a node; an index becomes int64."""
    if isinstance(expr, (Reduction, Tensor)):
        raise expr.misplaced()
    if not (isinstance(expr, Scalar) or is_number(expr)):
        raise unexpected("a symbolic value", name, expr)
    node = operand(expr)
    return converted(node, ir.INT64) if node.dtype == ir.INDEX else node


def as_bool(node: ir.Expr) -> ir.Expr:
    """A node as a condition."""
    return converted(node, ir.BOOL)
