"""Programs drawn at random: stages of every kind over small, odd shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minitensor.fuzz.choices import Choices
from minitensor.ir import Program
from minitensor.lang import (
    ReduceAxis,
    Scalar,
    Tensor,
    abs_,
    all_,
    any_,
    argmax,
    argmin,
    comm_reducer,
    compute,
    const,
    if_then_else,
    logical_and,
    logical_not,
    logical_or,
    lower,
    max_,
    maximum,
    min_,
    minimum,
    placeholder,
    prod,
    reduce_axis,
    select,
    sum_,
    update,
)

EXTENTS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 23, 31, 32, 37, 40)
DTYPES: Final = ("int32", "float32", "int8", "float64", "int64", "uint8", "uint32", "bool")
LARGEST: Final = 2048
"""The most steps of one stage, so that the interpreter runs it in some milliseconds."""
CLAMP: Final = 8
"""Floats read from another stage are brought back to [-CLAMP, CLAMP], so that sums stay exact."""
TITLES: Final = "PQRSTUVW"
STAGES: Final = ("elementwise", "reduction", "elementwise", "reduction", "update", "chain", "chain")
"""The kinds of stages, as often as they are drawn."""

Axes = list[tuple[Scalar, int]]


@dataclass(frozen=True)
class Limits:
    """How large programs may be.

    stages   the most stages
    rank     the most axes of a tensor, and the most of a stage with its reduction axes
    dtypes   the types to draw from
    extents  the extents to draw from; 0 is drawn besides, rarely
    steps    the most steps of one stage, all its axes together
    """

    stages: int = 4
    rank: int = 4
    dtypes: tuple[str, ...] = DTYPES
    extents: tuple[int, ...] = EXTENTS
    steps: int = LARGEST


def draw_program(choices: Choices, limits: Limits | None = None) -> Program:
    """A program of 1 to `limits.stages` stages over 1 to 3 inputs.

    Stages are elementwise, reductions (sum, prod, max, min, any, all, argmax, argmin, ones of the
    user's; over one axis or two) or updates in order. They read inputs and earlier stages, several
    of them the same, at affine indices with offsets (padded), halos, strides, //, %, reversed,
    repeated (diagonals), clamped, or taken from data. Some extents are 0.
    """
    return _Writer(choices, limits or Limits()).program()


class _Writer:
    """Draws a program one stage at a time; `tensors` are those a stage may read."""

    def __init__(self, choices: Choices, limits: Limits) -> None:
        self.limits = limits
        self.number, self.chance, self.pick = choices.number, choices.chance, choices.pick
        self.repeat = choices.repeat
        self.dtype = self.pick(limits.dtypes)
        """Of the inputs, and of most stages."""
        self.kind = self.dtype
        """Of the stage that is being drawn."""
        self.inputs: list[Tensor] = []
        self.tensors: list[Tensor] = []
        self.places: Tensor | None = None
        """An input of indices, for reads that depend on data."""

    def program(self) -> Program:
        self.repeat(1, 2, 50, self.input)
        self.tensors += self.inputs
        if self.chance(12):
            self.places = placeholder((self.extent(),), "int32", name="places")
            self.inputs.append(self.places)
        outputs: list[Tensor] = []

        def stage(n: int) -> None:
            made = self.stage(TITLES[n])
            self.tensors += made
            outputs.extend(tensor for tensor in made if self.chance(25))

        self.repeat(1, self.limits.stages, 67, stage)
        if self.tensors[-1] not in outputs:
            outputs.append(self.tensors[-1])
        return lower([*self.inputs, *outputs], name="generated")

    def input(self, n: int) -> None:
        shape = self.shape(1, self.limits.rank)
        self.inputs.append(placeholder(shape, self.dtype, name="AB"[n]))

    # ---- shapes

    def extent(self, largest: int = LARGEST) -> int:
        if self.chance(2):
            return 0
        return int(self.pick([n for n in self.limits.extents if n <= largest] or [1]))

    def shape(self, low: int, high: int) -> tuple[int, ...]:
        found: list[int] = []
        self.repeat(low, high, 60, lambda n: found.append(self.extent(self.room(found))))
        return tuple(found)

    def room(self, extents: Sequence[int]) -> int:
        """How large one more extent may be."""
        return self.limits.steps // max(1, math.prod(extents))

    # ---- stages

    def stage(self, name: str) -> list[Tensor]:
        shape = (
            self.pick(self.tensors).shape if self.chance(50) else self.shape(0, self.limits.rank)
        )
        drawn = self.pick(STAGES)
        self.kind = self.pick(self.limits.dtypes) if self.chance(15) else self.dtype
        made: list[Tensor] = getattr(self, drawn)(name, shape)
        return [
            tensor if tensor.dtype == self.kind else self.converted(tensor, f"{tensor.name}_as")
            for tensor in made
        ]

    def converted(self, tensor: Tensor, name: str) -> Tensor:
        made: Tensor = compute(
            tensor.shape, lambda *axes: self.cast(tensor[axes], tensor.dtype), name=name
        )
        return made

    def cast(self, value: Scalar, dtype: str) -> Scalar:
        """A value in the type of the stage; what becomes a float is small first."""
        if dtype == self.kind:
            return value
        if self.kind.startswith("float") and dtype != "bool":
            value = _clamped(value)
        return value.astype(self.kind)

    def elementwise(self, name: str, shape: tuple[int, ...]) -> list[Tensor]:
        return [compute(shape, lambda *axes: self.value(list(zip(axes, shape))), name=name)]

    def chain(self, name: str, shape: tuple[int, ...]) -> list[Tensor]:
        """Elementwise of the last stage, as an activation or a conversion is."""
        last = self.tensors[-1]

        def expression(*axes: Scalar) -> Scalar:
            value = self.padded(last, axes, ())
            domain = list(zip(axes, last.shape))
            return self.combined(value, self.read(domain)) if self.chance(50) else value

        return [compute(last.shape, expression, name=name)]

    def reduction(self, name: str, shape: tuple[int, ...]) -> list[Tensor]:
        over: list[ReduceAxis] = []

        def axis(n: int) -> None:
            room = self.room([*shape, *(axis.stop for axis in over)])
            over.append(reduce_axis(self.extent(room), name=f"k{n}"))

        self.repeat(1, 2, 40, axis)
        reduce = self.pick(self.reductions())

        def expression(*axes: Scalar) -> Any:
            domain = list(zip(axes, shape)) + _ranges(over)
            if reduce is _both:
                return _both((self.value(domain), self.value(domain)), over)
            return reduce(self.value(domain), over)

        made = compute(shape, expression, name=name)
        return list(made) if isinstance(made, tuple) else [made]

    def reductions(self) -> list[Callable[[Any, Any], Any]]:
        """What reduces values of the stage's type, exactly in any order."""
        found: list[Callable[[Any, Any], Any]] = [any_, all_, sum_, argmax]
        if self.kind != "bool":
            found = [sum_, max_, sum_, min_, argmax, argmin, _both, _own_sum]
        if self.kind not in ("bool", "float32", "float64"):
            found.append(prod)
        return found

    def update(self, name: str, shape: tuple[int, ...]) -> list[Tensor]:
        over = [reduce_axis(self.extent(self.room(shape)), name="k")] if self.chance(50) else []
        init = 0 if over or not shape or self.chance(30) else None
        kind = self.kind

        def expression(own: Tensor, *axes: Scalar) -> Any:
            value = self.value(list(zip(axes, shape)) + _ranges(over))
            if over or not axes:
                before = self.narrowed(own[axes])
                return (
                    select(value, logical_not(before), before)
                    if kind == "bool"
                    else (before * 2 + value)
                )
            axis = self.number(0, len(axes) - 1)
            earlier = [a - 1 if n == axis else a for n, a in enumerate(axes)]
            started = if_then_else(axes[axis] > 0, self.narrowed(own[tuple(earlier)]), self.one())
            return logical_or(started, value) if kind == "bool" else started + value

        return [update(shape, expression, axis=over, init=init, dtype=kind, name=name)]

    # ---- expressions

    def one(self) -> Scalar:
        return const(1, self.kind)

    def value(self, axes: Axes) -> Scalar:
        """An expression of reads of earlier tensors."""
        results = [self.read(axes)]
        self.repeat(0, 2, 40, lambda n: results.append(self.combined(results[-1], self.read(axes))))
        result = results[-1]
        if self.kind == "bool":
            return logical_not(result) if self.chance(15) else result
        if self.chance(20):
            result = result + self.number(0, 3)
        if self.chance(15) and axes:
            result = result + self.pick(axes)[0].astype(self.kind)
        if self.chance(10) and not self.kind.startswith("float"):
            by = self.number(1, 5)
            result = result // by if self.chance(50) else result % by
        return result

    def combined(self, a: Scalar, b: Scalar) -> Scalar:
        options: list[Callable[[Scalar, Scalar], Scalar]]
        if self.kind == "bool":
            options = [logical_or, logical_and, lambda a, b: select(a, logical_not(b), b)]
        else:
            options = [
                lambda a, b: a + b,
                lambda a, b: a - b,
                maximum,
                minimum,
                lambda a, b: select(a < b, a, b),
                lambda a, b: select(a == b, abs_(a), b),
            ]
            exact = not self.kind.startswith("float")
            options.append(lambda a, b: a * b if exact else _clamped(a) * _clamped(b))
        return self.pick(options)(a, b)

    def read(self, axes: Axes) -> Scalar:
        """One read at a random place, padded where it may be outside; or three neighbours."""
        tensor = self.pick(self.tensors[::-1] if self.chance(50) else self.tensors)
        if 0 in tensor.shape:
            return const(1, self.kind)
        guards: list[Scalar] = []
        indices = [self.index(extent, axes, guards) for extent in tensor.shape]
        value = self.padded(tensor, indices, guards)
        symbolic = [n for n, index in enumerate(indices) if isinstance(index, Scalar)]
        if symbolic and self.chance(10):
            along = self.pick(symbolic)
            for step in (1, 2):
                moved = [i + step if n == along else i for n, i in enumerate(indices)]
                inside = [*guards, moved[along] < tensor.shape[along]]
                value = self.combined(value, self.padded(tensor, moved, inside))
        return value

    def padded(self, tensor: Tensor, indices: Sequence[Any], guards: Sequence[Scalar]) -> Scalar:
        value: Scalar = tensor[tuple(indices)]
        if tensor not in self.inputs:
            value = self.narrowed(value) if tensor.dtype == self.kind else value
        value = self.cast(value, tensor.dtype)
        if not guards:
            return value
        inside = guards[0] if len(guards) == 1 else logical_and(*guards)
        return if_then_else(inside, value, const(self.number(0, 1), self.kind))

    def narrowed(self, value: Scalar) -> Scalar:
        return _clamped(value) if self.kind.startswith("float") else value

    def index(self, extent: int, axes: Axes, guards: list[Scalar]) -> Any:
        """An index into an axis: any of the shapes that real programs have."""
        if not axes:
            return self.number(0, extent - 1)
        same = [axis for axis in axes if axis[1] == extent]
        axis, length = self.pick(same if same and self.chance(80) else axes)
        match self.pick(INDICES):
            case "offset":
                return _inside(axis + self.number(-2, 2), length, extent, guards, 2)
            case "half" if (length + 1) // 2 <= extent:
                return axis // 2
            case "stride":
                return _inside(axis * 2 + self.number(-1, 1), 2 * length, extent, guards, 1)
            case "reversed" if length <= extent:
                return extent - 1 - axis
            case "sum" if len(axes) > 1:
                other, more = self.pick(axes)
                return _inside(axis + other, length + more, extent, guards, 0)
            case "blocked" if len(axes) > 1:
                other, more = self.pick(axes)
                return (axis * more + other) % extent
            case "data" if self.places is not None and 0 < self.places.shape[0] >= length:
                return self.places[axis] % extent
            case "constant":
                return self.number(0, extent - 1)
        if length <= extent:
            return axis
        return self.pick([axis % extent, minimum(axis, extent - 1)])


INDICES: Final = (
    *["plain"] * 6,
    *("offset", "half", "stride", "reversed", "sum", "blocked", "data", "data", "constant"),
)
"""The shapes of an index, as often as they are drawn."""


def _clamped(value: Scalar) -> Scalar:
    return minimum(maximum(value, -CLAMP if "u" not in str(value.dtype) else 0), CLAMP)


def _both(values: tuple[Scalar, Scalar], axis: Any) -> Any:
    """A sum and a maximum at once: a reduction of two values."""
    reduce = comm_reducer(
        lambda x, y: (x[0] + y[0], maximum(x[1], y[1])),
        lambda a, b: (0, -math.inf if b.is_float else b.min_value),
        "sum_and_max",
    )
    return reduce(values, axis=axis)


def _own_sum(value: Scalar, axis: Any) -> Any:
    """A reduction of the user's own, a sum that nothing recognises as one."""
    return comm_reducer(lambda x, y: x - (0 - y), 0, "own_sum")(value, axis=axis)


def _ranges(axes: Sequence[ReduceAxis]) -> Axes:
    return [(axis, axis.stop) for axis in axes]


def _inside(index: Scalar, length: int, extent: int, guards: list[Scalar], reach: int) -> Scalar:
    """The index, with the conditions under which it is inside if it may not be."""
    guards.append(index >= 0)
    if length + reach > extent:
        guards.append(index < extent)
    return index
