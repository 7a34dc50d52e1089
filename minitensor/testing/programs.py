"""Programs drawn at random: stages of every kind over small, odd shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minitensor import ir, lang
from minitensor.testing.draws import Draws

EXTENTS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 23, 31, 32, 37, 40)
DTYPES: Final = ("int32", "float32", "int8", "float64", "int64", "uint8", "uint32", "bool")
MAX_STEPS: Final = 1024
"""The most steps of one stage, so that the interpreter runs it in some milliseconds."""
CLAMP: Final = 8
"""Floats read from another stage are brought back to [-CLAMP, CLAMP], so that sums stay exact."""
TITLES: Final = "PQRSTUVW"
STAGES: Final = (
    *("elementwise", "reduction", "elementwise", "reduction", "update", "chain", "chain"),
    "spread",
)
"""The kinds of stages, as often as they are drawn."""

Axes = list[tuple[lang.Scalar, int]]


@st.composite
def programs(
    draw: DrawFn,
    max_stages: int = 4,
    dtypes: Sequence[str] = DTYPES,
    extents: Sequence[int] = EXTENTS,
    max_rank: int = 4,
    max_steps: int = MAX_STEPS,
) -> ir.Program:
    """A program of 1 to `max_stages` stages over 1 to 3 inputs, as `mt.lower` makes it.

    Stages are elementwise, reductions (sum, prod, max, min, any, all, argmax, argmin, ones of the
    user's; over one axis or two) or updates in order; some compute two tensors. They read inputs
    and earlier stages, several of them the same, at affine indices with offsets (padded), halos,
    strides, //, %, reversed, repeated (diagonals), clamped, or taken from data. Some extents are 0.

    dtypes     the types to draw from
    extents    the extents to draw from; 0 is drawn besides, rarely
    max_rank   the most axes of a tensor, and the most of a stage without its reduction axes
    max_steps  the most steps of one stage, all its axes together: what the interpreter has to do
    """
    writer = _Writer(draw, max_stages, dtypes, extents, max_rank, max_steps)
    return writer.program()


class _Writer(Draws):
    """Draws a program one stage at a time; `tensors` are those a stage may read."""

    def __init__(
        self,
        draw: DrawFn,
        stages: int,
        dtypes: Sequence[str],
        extents: Sequence[int],
        rank: int,
        steps: int,
    ) -> None:
        super().__init__(draw)
        self.stages, self.dtypes, self.extents = stages, dtypes, extents
        self.rank, self.steps = rank, steps
        self.dtype = self.pick(dtypes)
        """Of the inputs, and of most stages."""
        self.kind = self.dtype
        """Of the stage that is being drawn."""
        self.inputs: list[lang.Tensor] = []
        self.tensors: list[lang.Tensor] = []
        self.places: lang.Tensor | None = None
        """An input of indices, for reads that depend on data."""
        self.divisors: lang.Tensor | None = None
        """A stage of floats by which whole numbers can be divided, and stay whole."""

    def program(self) -> ir.Program:
        self.repeat(1, 2, 50, self.input)
        self.tensors += self.inputs
        if self.chance(12):
            self.places = lang.placeholder((self.extent(),), "int32", name="places")
            self.inputs.append(self.places)
        if "float" in self.dtype and self.chance(60):
            half, one = lang.const(0.5, self.dtype), lang.const(1, self.dtype)
            length = max(1, self.extent())
            self.divisors = lang.compute(
                (length,), lambda i: lang.if_then_else(i % 2 == 0, half, one), name="by"
            )
        outputs: list[lang.Tensor] = []

        def stage(n: int) -> None:
            made = self.stage(TITLES[n])
            self.tensors += made
            outputs.extend(tensor for tensor in made if self.chance(25))

        self.repeat(1, self.stages, 67, stage)
        if self.tensors[-1] not in outputs:
            outputs.append(self.tensors[-1])
        return lang.lower([*self.inputs, *outputs], name="generated")

    def input(self, n: int) -> None:
        shape = self.shape(1, self.rank)
        self.inputs.append(lang.placeholder(shape, self.dtype, name="AB"[n]))

    # ---- shapes

    def extent(self, largest: int = MAX_STEPS) -> int:
        if self.chance(2):
            return 0
        return int(self.pick([n for n in self.extents if n <= largest] or [1]))

    def shape(self, low: int, high: int) -> tuple[int, ...]:
        found: list[int] = []
        self.repeat(low, high, 60, lambda n: found.append(self.extent(self.room(found))))
        return tuple(found)

    def room(self, extents: Sequence[int]) -> int:
        """The largest that one more extent may be."""
        return self.steps // max(1, math.prod(extents))

    # ---- stages

    def stage(self, name: str) -> list[lang.Tensor]:
        shape = self.pick(self.tensors).shape if self.chance(50) else self.shape(0, self.rank)
        drawn = self.pick(STAGES)
        self.kind = self.pick(self.dtypes) if self.chance(15) else self.dtype
        made: list[lang.Tensor] = getattr(self, drawn)(name, shape)
        return [
            tensor if tensor.dtype == self.kind else self.converted(tensor, f"{tensor.name}_as")
            for tensor in made
        ]

    def converted(self, tensor: lang.Tensor, name: str) -> lang.Tensor:
        made: lang.Tensor = lang.compute(
            tensor.shape, lambda *axes: self.cast(tensor[axes], tensor.dtype), name=name
        )
        return made

    def cast(self, value: lang.Scalar, dtype: str) -> lang.Scalar:
        """A value in the type of the stage; what becomes a float is small first."""
        if dtype == self.kind:
            return value
        if "float" in self.kind and dtype != "bool":
            value = _clamped(value)
        return value.astype(self.kind)

    def elementwise(self, name: str, shape: tuple[int, ...]) -> list[lang.Tensor]:
        kinds = self.kinds()

        def expression(*axes: lang.Scalar) -> Any:
            return self.values(kinds, lambda: self.value(list(zip(axes, shape))))

        return _listed(lang.compute(shape, expression, name=name))

    def kinds(self) -> list[str]:
        """The type of a stage; a second one if it computes two tensors."""
        return [self.kind, self.pick(self.dtypes)] if self.chance(15) else [self.kind]

    def values(self, kinds: Sequence[str], draw: Callable[[], lang.Scalar]) -> Any:
        """A value of each of these types, in the form that a function returns them."""
        own, found = self.kind, []
        for kind in kinds:
            self.kind = kind
            found.append(draw())
        self.kind = own
        return found[0] if len(found) == 1 else tuple(found)

    def chain(self, name: str, shape: tuple[int, ...]) -> list[lang.Tensor]:
        """Elementwise of the last stage, as an activation or a conversion is."""
        last = self.tensors[-1]

        def expression(*axes: lang.Scalar) -> lang.Scalar:
            value = self.padded(last, axes, ())
            domain = list(zip(axes, last.shape))
            return self.combined(value, self.read(domain)) if self.chance(50) else value

        return [lang.compute(last.shape, expression, name=name)]

    def reduction(self, name: str, shape: tuple[int, ...]) -> list[lang.Tensor]:
        over: list[lang.ReduceAxis] = []

        def axis(n: int) -> None:
            room = self.room([*shape, *(axis.stop for axis in over)])
            over.append(lang.reduce_axis(self.extent(room), name=f"k{n}"))

        self.repeat(1, 2, 40, axis)
        reduce = self.pick(self.reductions())

        def expression(*axes: lang.Scalar) -> Any:
            domain = list(zip(axes, shape)) + _ranges(over)
            if reduce is _both:
                return _both((self.value(domain), self.value(domain)), over)
            return reduce(self.value(domain), over)

        return _listed(lang.compute(shape, expression, name=name))

    def spread(self, name: str, shape: tuple[int, ...]) -> list[lang.Tensor]:
        """Sums over windows of a tensor with zeros around it, and in between if spread out."""
        sources = [t for t in self.tensors if t.shape and 0 not in t.shape]
        if not sources:
            return self.elementwise(name, shape)
        source = self.pick(sources)
        *outer, last = source.shape
        period, window, border = self.pick((2, 1, 3, 2)), self.number(1, 5), self.number(0, 2)
        extent = max(1, min(last * period, self.room([*outer, window])))
        k = lang.reduce_axis(window, name="k")

        def spread_out(*axes: Any) -> lang.Scalar:
            at = axes[-1] - border
            inside = [at >= 0, at % period == 0, at // period < last]
            value = self.padded(source, (*axes[:-1], at // period), ())
            return lang.if_then_else(lang.logical_and(*inside), value, lang.const(0, self.kind))

        made: list[lang.Tensor] = []
        if self.chance(60):
            wide = (*outer, extent + window)
            made.append(lang.compute(wide, spread_out, name=f"{name}_wide"))

        def term(*axes: Any) -> lang.Scalar:
            where = (*axes[:-1], axes[-1] + k)
            value = made[0][where] if made else spread_out(*where)
            if self.kind == "bool" or self.chance(30):
                return value
            others = (
                list(zip(axes, outer)) if self.chance(80) else list(zip(axes, (*outer, extent)))
            )
            return value * self.narrowed(self.read([(k, window), *others]))

        summed = lang.any_ if self.kind == "bool" else lang.sum_
        made.append(lang.compute((*outer, extent), lambda *i: summed(term(*i), k), name=name))
        return made

    def reductions(self) -> list[Callable[[Any, Any], Any]]:
        """Reducers of values of the stage's type that are exact in any order."""
        found: list[Callable[[Any, Any], Any]] = [lang.any_, lang.all_, lang.sum_, lang.argmax]
        if self.kind != "bool":
            found = [
                lang.sum_,
                lang.max_,
                lang.sum_,
                lang.min_,
                lang.argmax,
                lang.argmin,
                _both,
                _own_sum,
            ]
        if self.kind != "bool" and "float" not in self.kind:
            found.append(lang.prod)
        return found

    def update(self, name: str, shape: tuple[int, ...]) -> list[lang.Tensor]:
        over = (
            [lang.reduce_axis(self.extent(self.room(shape)), name="k")] if self.chance(50) else []
        )
        init = 0 if over or not shape or self.chance(30) else None
        kinds = self.kinds()

        def expression(*given: Any) -> Any:
            own, axes = given[: len(kinds)], given[len(kinds) :]
            return self.values(kinds, lambda: step(own, axes))

        def step(own: Sequence[lang.Tensor], axes: Sequence[lang.Scalar]) -> lang.Scalar:
            value = self.value(list(zip(axes, shape)) + _ranges(over))
            if over or not axes:
                before = self.padded(self.pick(own), axes, ())
                return (
                    lang.select(value, lang.logical_not(before), before)
                    if self.kind == "bool"
                    else (before * 2 + value)
                )
            axis = self.number(0, len(axes) - 1)
            earlier = [a - 1 if n == axis else a for n, a in enumerate(axes)]
            started = lang.if_then_else(
                axes[axis] > 0, self.padded(self.pick(own), earlier, ()), self.one()
            )
            return lang.logical_or(started, value) if self.kind == "bool" else started + value

        dtype = kinds if len(kinds) > 1 else kinds[0]
        made = lang.update(shape, expression, axis=over, init=init, dtype=dtype, name=name)
        return _listed(made)

    # ---- expressions

    def one(self) -> lang.Scalar:
        return lang.const(1, self.kind)

    def value(self, axes: Axes) -> lang.Scalar:
        """An expression of reads of earlier tensors."""
        results = [self.read(axes)]
        self.repeat(0, 2, 40, lambda n: results.append(self.combined(results[-1], self.read(axes))))
        result = results[-1]
        if self.kind == "bool":
            return lang.logical_not(result) if self.chance(15) else result
        if self.chance(20):
            result = result + self.number(0, 3)
        if self.chance(15) and axes:
            result = result + self.pick(axes)[0].astype(self.kind)
        if self.divisors is not None and self.kind == self.dtype and axes and self.chance(40):
            (length,), (axis, extent) = self.divisors.shape, self.pick(axes)
            result = result / self.divisors[axis if extent <= length else axis % length]
        if self.chance(10) and "float" not in self.kind:
            by = self.number(1, 5)
            result = result // by if self.chance(50) else result % by
        return result

    def combined(self, a: lang.Scalar, b: lang.Scalar) -> lang.Scalar:
        options: list[Callable[[lang.Scalar, lang.Scalar], lang.Scalar]]
        if self.kind == "bool":
            options = [
                lang.logical_or,
                lang.logical_and,
                lambda a, b: lang.select(a, lang.logical_not(b), b),
            ]
        else:
            options = [
                lambda a, b: a + b,
                lambda a, b: a - b,
                lang.maximum,
                lang.minimum,
                lambda a, b: lang.select(a < b, a, b),
                lambda a, b: lang.select(a == b, lang.abs_(a), b),
            ]
            exact = "float" not in self.kind
            options.append(lambda a, b: a * b if exact else _clamped(a) * _clamped(b))
            if exact:
                options += [
                    lambda a, b: (a & b) | (a ^ 3),
                    lambda a, b: a << b,
                    lambda a, b: a >> (b ^ a),
                ]
        return self.pick(options)(a, b)

    def read(self, axes: Axes) -> lang.Scalar:
        """One read at a random place, padded where it may be outside; or three neighbours."""
        tensor = self.pick(self.tensors[::-1] if self.chance(50) else self.tensors)
        if 0 in tensor.shape:
            return lang.const(1, self.kind)
        guards: list[lang.Scalar] = []
        indices = [self.index(extent, axes, guards) for extent in tensor.shape]
        value = self.padded(tensor, indices, guards)
        symbolic = [n for n, index in enumerate(indices) if isinstance(index, lang.Scalar)]
        if symbolic and self.chance(10):
            along = self.pick(symbolic)
            mask = self.mask(axes) if self.chance(50) else []
            if mask:
                value = lang.if_then_else(mask[0], value, self.one())
            for step in (1, 2):
                moved = [i + step if n == along else i for n, i in enumerate(indices)]
                inside = [*mask, *guards, moved[along] < tensor.shape[along]]
                value = self.combined(value, self.padded(tensor, moved, inside))
        return value

    def mask(self, axes: Axes) -> list[lang.Scalar]:
        """A guard that several values share, which no vector of indices has."""
        a, b = self.pick(axes)[0], self.pick(axes)[0]
        return [(a + b) % self.number(2, 5) != 0]

    def padded(
        self, tensor: lang.Tensor, indices: Sequence[Any], guards: Sequence[lang.Scalar]
    ) -> lang.Scalar:
        value: lang.Scalar = tensor[tuple(indices)]
        if tensor not in self.inputs:
            value = self.narrowed(value) if tensor.dtype == self.kind else value
        value = self.cast(value, tensor.dtype)
        if not guards:
            return value
        inside = guards[0] if len(guards) == 1 else lang.logical_and(*guards)
        return lang.if_then_else(inside, value, lang.const(self.number(0, 1), self.kind))

    def narrowed(self, value: lang.Scalar) -> lang.Scalar:
        return _clamped(value) if "float" in self.kind else value

    def index(self, extent: int, axes: Axes, guards: list[lang.Scalar]) -> Any:
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
        return self.pick([axis % extent, lang.minimum(axis, extent - 1)])


def _listed(made: Any) -> list[lang.Tensor]:
    return list(made) if isinstance(made, tuple) else [made]


INDICES: Final = (
    *["plain"] * 6,
    *("offset", "half", "stride", "reversed", "sum", "blocked", "data", "data", "constant"),
)
"""The shapes of an index, as often as they are drawn."""


def _clamped(value: lang.Scalar) -> lang.Scalar:
    return lang.minimum(lang.maximum(value, -CLAMP if "u" not in str(value.dtype) else 0), CLAMP)


def _both(values: tuple[lang.Scalar, lang.Scalar], axis: Any) -> Any:
    """A sum and a maximum at once: a reduction of two values."""
    reduce = lang.comm_reducer(
        lambda x, y: (x[0] + y[0], lang.maximum(x[1], y[1])),
        lambda a, b: (0, -math.inf if b.is_float else b.min_value),
        "sum_and_max",
    )
    return reduce(values, axis=axis)


def _own_sum(value: lang.Scalar, axis: Any) -> Any:
    """A reduction of the user's own, a sum that nothing recognises as one."""
    return lang.comm_reducer(lambda x, y: x - (0 - y), 0, "own_sum")(value, axis=axis)


def _ranges(axes: Sequence[lang.ReduceAxis]) -> Axes:
    return [(axis, axis.stop) for axis in axes]


def _inside(
    index: lang.Scalar, length: int, extent: int, guards: list[lang.Scalar], reach: int
) -> lang.Scalar:
    """The index, with the conditions under which it is inside if it may not be."""
    guards.append(index >= 0)
    if length + reach > extent:
        guards.append(index < extent)
    return index
