"""Operators that move elements: each of the result is one of an input, or a constant around it."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from minitensor.errors import ArgumentError, is_integer, unexpected, whole
from minitensor.lang import scalar
from minitensor.lang.ops.elementwise import at, broadcast_shape, index_of, stage
from minitensor.lang.ops.operator import operator, tensor
from minitensor.lang.tensor import Tensor


def axis_of(name: str, axis: object, rank: int) -> int:
    """An axis counted from 0; negative ones count from the end. Raises ArgumentError."""
    if not is_integer(axis, -rank, rank - 1):
        wanted = (
            f"an axis from {-rank} to {rank - 1}" if rank else "a tensor with an axis: x has none"
        )
        raise unexpected(wanted, f"ops.{name}: axis", axis)
    return int(axis) % rank  # type: ignore[call-overload, no-any-return]


def axes_of(name: str, axes: object, rank: int) -> tuple[int, ...]:
    """Several axes, sorted; None for all, an integer for one. Raises ArgumentError."""
    if axes is None:
        return tuple(range(rank))
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = tuple(sorted(axis_of(name, axis, rank) for axis in given))
    if len(set(found)) != len(found):
        raise unexpected("each axis once", f"ops.{name}: axes", axes)
    return found


@operator("x")
def reshape(x: Tensor, *, shape: Sequence[int]) -> Tensor:
    """The elements of x in their order under another shape; one extent may be -1.

    Raises ArgumentError where the number of elements differs.
    """
    tensor("ops.reshape: x", x)
    wanted, count = list(shape), math.prod(x.shape)
    if wanted.count(-1) == 1:
        others = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = count // others if others else 0
    if any(not is_integer(extent, 1) for extent in wanted) or math.prod(wanted) != count:
        raise ArgumentError(
            f"ops.reshape: {x.shape} has {count} elements and shape={tuple(shape)} has not; one "
            "extent may be -1"
        )
    groups = _aligned(x.shape, wanted)

    def element(index: Any) -> Any:
        source: list[Any] = []
        for old, new in groups:
            flat: Any = 0
            for axis in new:
                flat = flat * wanted[axis] + index[axis]
            parts: list[Any] = []
            for number, axis in enumerate(reversed(old)):
                last = number == len(old) - 1
                parts.append(flat if last else flat % x.shape[axis])
                flat = flat // x.shape[axis] if not last else flat
            source += reversed(parts)
        return x[tuple(source)]

    return stage(wanted, "reshape", element)


def _aligned(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes with as many elements on both sides, as short as they can be: only axes that
    change need a division.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        mine, theirs, a, b = [], [], 1, 1
        while True:
            if i < len(old) and (a <= b or j == len(new)):
                a *= old[i]
                mine.append(i)
                i += 1
            elif j < len(new):
                b *= new[j]
                theirs.append(j)
                j += 1
            if a == b and (mine or theirs) and (a > 1 or i == len(old) or j == len(new)):
                break
            if a == b == 1 and mine and theirs:
                break
        groups.append((mine, theirs))
    return groups


@operator("x")
def transpose(x: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order: axis n of the result is axes[n] of x; None turns them around."""
    tensor("ops.transpose: x", x)
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple(axes)
    order = tuple(axis_of("transpose", axis, x.ndim) for axis in order)
    if sorted(order) != list(range(x.ndim)):
        raise unexpected(f"each of {x.ndim} axes once", "ops.transpose: axes", axes)
    shape = [x.shape[axis] for axis in order]
    return stage(
        shape, "transpose", lambda i: x[tuple(i[order.index(axis)] for axis in range(x.ndim))]
    )


@operator("x")
def slice(
    x: Tensor,
    *,
    starts: Sequence[int],
    stops: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Tensor:
    """x[start:stop:step] along some axes, the first ones if axes is None. Bounds beyond an axis are
    cut, negative ones count from the end, as in Python; steps may be negative.

    Raises ArgumentError for an empty result.
    """
    tensor("ops.slice: x", x)
    chosen = tuple(range(len(starts))) if axes is None else tuple(axes)
    strides = (1,) * len(starts) if steps is None else tuple(steps)
    taken = [range(extent) for extent in x.shape]
    for axis, start, stop, step in zip(chosen, starts, stops, strides):
        place = axis_of("slice", axis, x.ndim)
        if step == 0:
            raise unexpected("steps other than 0", "ops.slice: steps", steps)
        taken[place] = range(x.shape[place])[_slice(start, stop, step)]
    if not all(taken):
        raise ArgumentError(f"ops.slice: nothing is left of {x.shape} from {starts} to {stops}")
    return stage(
        [len(r) for r in taken],
        "slice",
        lambda i: x[
            tuple(k * r.step + r.start if r.step != 1 or r.start else k for k, r in zip(i, taken))
        ],
    )


_slice = builtins.slice


@operator("tensors", several=("tensors",))
def concat(tensors: Sequence[Tensor], *, axis: int) -> Tensor:
    """Tensors behind each other along an axis; their other extents and dtypes are equal."""
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise unexpected("a list of tensors", "ops.concat: tensors", tensors)
    for one in tensors:
        tensor("ops.concat: tensors", one)
    first = tensors[0]
    place = axis_of("concat", axis, first.ndim)
    for one in tensors:
        rest = one.shape[:place] + one.shape[place + 1 :]
        if rest != first.shape[:place] + first.shape[place + 1 :] or one.dtype != first.dtype:
            raise ArgumentError(
                f"ops.concat: {one.dtype}{list(one.shape)} does not fit behind "
                f"{first.dtype}{list(first.shape)} along axis {place}"
            )
    starts = [sum(t.shape[place] for t in tensors[:n]) for n in range(len(tensors))]

    def element(index: Any) -> Any:
        def read(number: int) -> Any:
            moved = list(index)
            moved[place] = moved[place] - starts[number] if starts[number] else moved[place]
            return tensors[number][tuple(moved)]

        value = read(len(tensors) - 1)
        for number in reversed(range(len(tensors) - 1)):
            value = scalar.if_then_else(index[place] < starts[number + 1], read(number), value)
        return value

    shape = list(first.shape)
    shape[place] = sum(t.shape[place] for t in tensors)
    return stage(shape, "concat", element)


def split(x: Tensor, parts: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Slices along an axis: so many of equal length, or of the lengths given, which add up.

    No operator of its own: each part is a `slice`.
    """
    tensor("ops.split: x", x)
    place = axis_of("split", axis, x.ndim)
    extent = x.shape[place]
    if isinstance(parts, int):
        whole("ops.split: parts", parts, 1)
        lengths = [extent // parts] * parts
    else:
        lengths = list(parts)
    if sum(lengths) != extent:
        raise ArgumentError(
            f"ops.split: parts={parts} do not add up to {extent}, the extent of axis {place}"
        )
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    return [
        slice(x, starts=(end - length,), stops=(end,), axes=(place,))
        for end, length in zip(ends, lengths)
    ]


@operator("x")
def pad(x: Tensor, *, before: Sequence[int], after: Sequence[int], value: float = 0) -> Tensor:
    """x surrounded by a value: so many elements in front of each axis and behind it, all >= 0."""
    tensor("ops.pad: x", x)
    for name, widths in (("before", before), ("after", after)):
        if len(widths) != x.ndim or not all(is_integer(w, 0) for w in widths):
            raise unexpected(f"{x.ndim} integers >= 0", f"ops.pad: {name}", widths)

    def element(index: Any) -> Any:
        inside = []
        for i, extent, low, high in zip(index, x.shape, before, after):
            inside += [i >= low] if low else []
            inside += [i < low + extent] if high else []
        source = x[tuple(i - low if low else i for i, low in zip(index, before))]
        if not inside:
            return source
        condition = inside[0] if len(inside) == 1 else scalar.logical_and(*inside)
        return scalar.if_then_else(condition, source, value)

    shape = [low + extent + high for low, extent, high in zip(before, x.shape, after)]
    return stage(shape, "pad", element)


@operator("x", "indices")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """x[..., indices, ...]: the axis is replaced by those of the indices, integers that may be
    negative, as in numpy.take. An index that is out of bounds raises ExecutionError in the call.
    """
    place = _gathered("gather", x, indices, axis)
    rank, extent = indices.ndim, x.shape[place]

    def element(index: Any) -> Any:
        chosen = _from_the_end(indices[tuple(index[place : place + rank])], extent)
        return x[index_of(*index[:place], chosen, *index[place + rank :])]

    return stage((*x.shape[:place], *indices.shape, *x.shape[place + 1 :]), "gather", element)


@operator("x", "indices")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """x[i, ..., indices[i, ..., k], ..., k]: of each element of the indices the one of x at its
    place, but for the axis, as in numpy.take_along_axis. Along the other axes the indices are no
    longer than x. An index that is out of bounds raises ExecutionError in the call.
    """
    place = _gathered("gather_elements", x, indices, axis)
    if indices.ndim != x.ndim or any(
        n > m for a, (n, m) in enumerate(zip(indices.shape, x.shape)) if a != place
    ):
        raise ArgumentError(
            f"ops.gather_elements: expected indices with {x.ndim} axes, no longer than those of x "
            f"{x.shape} but for axis {place}, but got {indices.shape}"
        )

    def element(index: Any) -> Any:
        chosen = _from_the_end(indices[tuple(index)], x.shape[place])
        return x[index_of(*index[:place], chosen, *index[place + 1 :])]

    return stage(indices.shape, "gather_elements", element)


def _gathered(name: str, x: Tensor, indices: Tensor, axis: int) -> int:
    """The axis that is gathered, from 0. Raises ArgumentError."""
    tensor(f"ops.{name}: x", x)
    tensor(f"ops.{name}: indices", indices)
    if indices.dtype.kind not in ("int", "uint"):
        raise ArgumentError(f"ops.{name}: expected integers as indices, but got {indices.dtype}")
    return axis_of(name, axis, x.ndim)


def _from_the_end(index: Any, extent: int) -> Any:
    """An index that may count from the end."""
    return scalar.select(index < 0, index + extent, index) if index.dtype.kind == "int" else index


@operator("x")
def broadcast_to(x: Tensor, *, shape: Sequence[int]) -> Tensor:
    """x repeated along axes where its extent is 1, and along new ones in front."""
    tensor("ops.broadcast_to: x", x)
    wanted = broadcast_shape("broadcast_to", x.shape, tuple(shape))
    if wanted != tuple(shape):
        raise ArgumentError(f"ops.broadcast_to: {x.shape} does not broadcast to {tuple(shape)}")
    return stage(wanted, "broadcast_to", lambda i: at(x, wanted, i))


@operator("x")
def upsample(x: Tensor, *, scales: Sequence[int]) -> Tensor:
    """Each element repeated: resizing to the nearest, by integer factors of the axes.

    result[i, j] = x[i // scales[0], j // scales[1]]
    """
    tensor("ops.upsample: x", x)
    if len(scales) != x.ndim or not all(is_integer(s, 1) for s in scales):
        raise unexpected(f"{x.ndim} integers >= 1", "ops.upsample: scales", scales)
    return stage(
        [n * s for n, s in zip(x.shape, scales)],
        "upsample",
        lambda i: x[tuple(k // s if s > 1 else k for k, s in zip(i, scales))],
    )
