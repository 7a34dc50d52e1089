"""Strategies for programs: stages of every kind over small, odd shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minitensor.ir import Program
from minitensor.lang import (
    ReduceAxis,
    Scalar,
    Tensor,
    argmax,
    argmin,
    compute,
    const,
    if_then_else,
    logical_and,
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
    var,
)

EXTENTS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16)
DTYPES: Final = ("int32", "float32", "int8", "float64", "int64", "uint8")
CLAMP: Final = 8
"""Floats read from another stage are brought back to [-CLAMP, CLAMP], so that sums stay exact."""


def index_expressions(
    names: Sequence[str] = ("i", "j", "k"), max_depth: int = 4
) -> SearchStrategy[Scalar]:
    """Index expressions over variables: + - * // % min max select, numbers of either sign."""
    leaves = st.one_of(
        st.sampled_from([var(name) for name in names]),
        st.integers(-40, 40).map(lambda n: var(names[0]) * 0 + n),
    )

    def grown(children: SearchStrategy[Scalar]) -> SearchStrategy[Scalar]:
        divisors = st.sampled_from([1, 2, 3, 4, 5, 8, 16, 64, -2, -3])
        return st.one_of(
            st.builds(lambda a, b: a + b, children, children),
            st.builds(lambda a, b: a - b, children, children),
            st.builds(lambda a, n: a * n, children, st.integers(-8, 8)),
            st.builds(lambda a, n: a // n, children, divisors),
            st.builds(lambda a, n: a % n, children, divisors),
            st.builds(minimum, children, children),
            st.builds(maximum, children, children),
            st.builds(lambda a, b, c: select(a < b, b, c), children, children, children),
        )

    return st.recursive(leaves, grown, max_leaves=2**max_depth)


@st.composite
def programs(
    draw: DrawFn,
    max_stages: int = 4,
    dtypes: Sequence[str] = DTYPES,
    extents: Sequence[int] = EXTENTS,
) -> Program:
    """A program of 1 to `max_stages` stages over 1 to 3 inputs, of rank 0 to 3.

    Stages are elementwise, reductions (sum, prod, max, min, argmax, argmin; over one axis or two)
    or ordered updates. They read inputs and earlier stages at affine indices with offsets (padded),
    strides, //, %, reversed, repeated (diagonals), clamped, or taken from data. Some extents are 0.
    """
    return _Writer(draw, draw(st.sampled_from(dtypes)), tuple(extents)).program(max_stages)


Axes = list[tuple[Scalar, int]]


class _Writer:
    """Draws a program one stage at a time; `tensors` are those a stage may read."""

    def __init__(self, draw: DrawFn, dtype: str, extents: tuple[int, ...]) -> None:
        self.draw = draw
        self.dtype = dtype
        self.extents = extents
        self.inputs: list[Tensor] = []
        self.tensors: list[Tensor] = []
        self.places: Tensor | None = None
        """An input of indices, for reads that depend on data."""

    def program(self, max_stages: int) -> Program:
        for n in range(self.number(1, 2)):
            self.inputs.append(placeholder(self.shape(1, 3), self.dtype, name="AB"[n]))
        self.tensors += self.inputs
        if self.chance(10):
            self.places = placeholder((self.extent(),), "int32", name="places")
            self.inputs.append(self.places)
        outputs = []
        for n in range(self.number(1, max_stages)):
            tensor = self.stage("PQRSTUVW"[n])
            self.tensors.append(tensor)
            if self.chance(25):
                outputs.append(tensor)
        if self.tensors[-1] not in outputs:
            outputs.append(self.tensors[-1])
        return lower([*self.inputs, *outputs], name="generated")

    # ---- draws

    def number(self, lo: int, hi: int) -> int:
        return self.draw(st.integers(lo, hi))

    def chance(self, percent: int) -> bool:
        """True in about `percent` of draws; shrinks to False."""
        return self.number(0, 99) >= 100 - percent

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def extent(self) -> int:
        return 0 if self.chance(2) else int(self.pick(self.extents))

    def shape(self, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.extent() for _ in range(self.number(low, high)))

    # ---- stages

    def stage(self, name: str) -> Tensor:
        shape = self.pick(self.tensors).shape if self.chance(50) else self.shape(0, 3)
        kind = self.pick(["elementwise", "reduction", "elementwise", "reduction", "update"])
        made: Tensor = getattr(self, kind)(name, shape)
        if made.dtype == self.dtype:
            return made
        return self.converted(made, f"{name}_as")

    def converted(self, tensor: Tensor, name: str) -> Tensor:
        made: Tensor = compute(
            tensor.shape, lambda *axes: tensor[axes].astype(self.dtype), name=name
        )
        return made

    def elementwise(self, name: str, shape: tuple[int, ...]) -> Tensor:
        made: Tensor = compute(shape, lambda *axes: self.value(list(zip(axes, shape))), name=name)
        return made

    def reduction(self, name: str, shape: tuple[int, ...]) -> Tensor:
        over = [reduce_axis(self.extent(), name=f"k{n}") for n in range(self.number(1, 2))]
        combine = [sum_, max_, min_, argmax, argmin]
        if not self.dtype.startswith("float"):
            combine.append(prod)
        reduce = self.pick(combine)

        def expression(*axes: Scalar) -> Any:
            return reduce(self.value(list(zip(axes, shape)) + _ranges(over)), axis=over)

        made: Tensor = compute(shape, expression, name=name)
        return made

    def update(self, name: str, shape: tuple[int, ...]) -> Tensor:
        over = [reduce_axis(self.extent(), name="k")] if self.chance(50) else []
        init = 0 if over or not shape or self.chance(30) else None

        def expression(own: Tensor, *axes: Scalar) -> Any:
            value = self.value(list(zip(axes, shape)) + _ranges(over))
            if over or not axes:
                return self.clamped(own[axes]) * 2 + value
            axis = self.number(0, len(axes) - 1)
            before = [a - 1 if n == axis else a for n, a in enumerate(axes)]
            first = axes[axis] > 0
            return if_then_else(first, self.clamped(own[tuple(before)]), 1) + value

        return update(shape, expression, axis=over, init=init, dtype=self.dtype, name=name)

    # ---- expressions

    def value(self, axes: Axes) -> Scalar:
        """An expression of reads of earlier tensors."""
        result: Scalar = self.read(axes)
        if self.chance(50):
            other = self.read(axes)
            combine = self.pick(
                [lambda a, b: a + b, lambda a, b: a - b, maximum, lambda a, b: select(a < b, a, b)]
            )
            result = combine(result, other)
        if self.chance(25):
            result = result + self.number(0, 3)
        if self.chance(15) and axes:
            result = result + self.pick(axes)[0].astype(self.dtype)
        return result

    def read(self, axes: Axes) -> Scalar:
        """One read at a random place, padded where it may be outside."""
        tensor = self.pick(self.tensors)
        if 0 in tensor.shape:
            return const(3, self.dtype)
        guards: list[Scalar] = []
        indices = tuple(self.index(extent, axes, guards) for extent in tensor.shape)
        value: Scalar = tensor[indices]
        if tensor not in self.inputs:
            value = self.clamped(value)
        if not guards:
            return value
        inside = guards[0] if len(guards) == 1 else logical_and(*guards)
        return if_then_else(inside, value, self.number(0, 1))

    def clamped(self, value: Scalar) -> Scalar:
        if not self.dtype.startswith("float"):
            return value
        return minimum(maximum(value, -CLAMP), CLAMP)

    def index(self, extent: int, axes: Axes, guards: list[Scalar]) -> Any:
        """An index into an axis: any of the shapes that real programs have."""
        if not axes:
            return self.number(0, extent - 1)
        same = [axis for axis in axes if axis[1] == extent]
        axis, length = self.pick(same if same and self.chance(80) else axes)
        shape = self.pick(
            ["plain", "plain", "plain", "offset", "half", "reversed", "sum", "data", "constant"]
        )
        match shape:
            case "offset":
                return _inside(axis + self.number(-2, 2), length, extent, guards, 2)
            case "half" if (length + 1) // 2 <= extent:
                return axis // 2
            case "reversed" if length <= extent:
                return extent - 1 - axis
            case "sum" if len(axes) > 1:
                other, more = self.pick(axes)
                return _inside(axis + other, length + more, extent, guards, 0)
            case "data" if self.places is not None and 0 < self.places.shape[0] >= length:
                return self.places[axis] % extent
            case "constant":
                return self.number(0, extent - 1)
        if length <= extent:
            return axis
        return self.pick([axis % extent, minimum(axis, extent - 1)])


def _ranges(axes: Sequence[ReduceAxis]) -> Axes:
    return [(axis, axis.stop) for axis in axes]


def _inside(index: Scalar, length: int, extent: int, guards: list[Scalar], reach: int) -> Scalar:
    """The index, with the conditions under which it is inside if it may not be."""
    guards.append(index >= 0)
    if length + reach > extent:
        guards.append(index < extent)
    return index
