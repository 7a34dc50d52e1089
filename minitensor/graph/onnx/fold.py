"""Operators of ONNX on arrays that are known: by numpy, while the file is read.

Exporters write the shapes that they reshape to as computations; with fixed shapes all of them are
known here, and so are masks, position tables and scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from minitensor.graph.onnx.convert import Context

Folder = Callable[..., Any]


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division; of integers towards zero, as in C."""
    if a.dtype.kind == "f":
        return np.asarray(a / b, a.dtype)
    return np.asarray(np.trunc(a / b), a.dtype)


def _reshaped(context: Context, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return x.reshape(context.reshaped(x.shape, shape))


def _sliced(context: Context, x: np.ndarray, *given: Any) -> np.ndarray:
    starts, stops, axes, steps = context.slices(x.ndim, *given)
    index = [slice(None)] * x.ndim
    for start, stop, axis, step in zip(starts, stops, axes, steps):
        back = step < 0 and stop < -x.shape[axis]
        index[axis] = slice(start, None if back else stop, step)
    return x[tuple(index)]


def _gathered(context: Context, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.asarray(np.take(x, indices, axis=context.integer("axis", 0)))


def _along(context: Context, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    axis = context.integer("axis", 0)
    return np.take_along_axis(x, np.where(indices < 0, indices + x.shape[axis], indices), axis)


def _reduced(function: Callable[..., Any]) -> Folder:
    def fold(context: Context, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
        chosen, keep = context.reduced(x.ndim, axes)
        return np.asarray(function(x, axis=tuple(chosen), keepdims=keep), x.dtype)

    return fold


def _of(function: Callable[..., Any]) -> Folder:
    """A function of numpy that needs nothing else of the node; the dtype is the first operand's."""
    return lambda context, *arrays: np.asarray(function(*arrays), arrays[0].dtype)


def _asks(function: Callable[..., Any]) -> Folder:
    """The same, with a condition as its result."""
    return lambda context, *arrays: np.asarray(function(*arrays), np.bool_)


def _filled(context: Context, shape: np.ndarray) -> np.ndarray:
    value = context.array("value", np.zeros(1, np.float32))
    return np.full(tuple(map(int, shape)), value.reshape(-1)[0], value.dtype)


def _ranged(context: Context, start: Any, stop: Any, step: Any) -> np.ndarray:
    return np.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


def _triangle(context: Context, x: np.ndarray, k: np.ndarray | None = None) -> np.ndarray:
    cut = np.triu if context.integer("upper", 1) else np.tril
    return cut(x, 0 if k is None else int(k.item()))


def _scattered(context: Context, x: np.ndarray, indices: np.ndarray, new: np.ndarray) -> np.ndarray:
    context.only("reduction", "none")
    found: np.ndarray = np.array(x)
    found[tuple(np.moveaxis(indices, -1, 0))] = new
    return found


FOLDERS: Final[dict[str, Folder]] = {
    "Abs": _of(np.abs),
    "Add": _of(np.add),
    "And": _asks(np.logical_and),
    "Cast": lambda c, x: x.astype(c.dtype("to")),
    "Ceil": _of(np.ceil),
    "Concat": lambda c, *xs: np.concatenate(xs, axis=c.integer("axis")),
    "ConstantOfShape": _filled,
    "Cos": _of(np.cos),
    "CumSum": lambda c, x, axis: np.cumsum(x, axis=int(axis.item()), dtype=x.dtype),
    "Div": lambda c, a, b: _divided(a, b),
    "Equal": _asks(np.equal),
    "Exp": _of(np.exp),
    "Expand": lambda c, x, shape: np.ascontiguousarray(
        np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(map(int, shape))))
    ),
    "Flatten": lambda c, x: x.reshape(c.flattened(x.shape)),
    "Floor": _of(np.floor),
    "Gather": _gathered,
    "GatherElements": _along,
    "Greater": _asks(np.greater),
    "GreaterOrEqual": _asks(np.greater_equal),
    "Identity": lambda c, x: x,
    "IsNaN": _asks(np.isnan),
    "Less": _asks(np.less),
    "LessOrEqual": _asks(np.less_equal),
    "Log": _of(np.log),
    "MatMul": _of(np.matmul),
    "Max": _of(lambda *xs: np.maximum.reduce(np.broadcast_arrays(*xs))),
    "Min": _of(lambda *xs: np.minimum.reduce(np.broadcast_arrays(*xs))),
    "Mod": lambda c, a, b: np.asarray((np.fmod if c.integer("fmod", 0) else np.mod)(a, b)),
    "Mul": _of(np.multiply),
    "Neg": _of(np.negative),
    "NonZero": lambda c, x: np.asarray(np.nonzero(x), np.int64),
    "Not": _asks(np.logical_not),
    "Or": _asks(np.logical_or),
    "Pow": _of(np.power),
    "Range": _ranged,
    "Reciprocal": _of(np.reciprocal),
    "ReduceMax": _reduced(np.max),
    "ReduceMean": _reduced(np.mean),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Reshape": _reshaped,
    "ScatterND": _scattered,
    "Shape": lambda c, x: c.shape(x.shape),
    "Sin": _of(np.sin),
    "Size": lambda c, x: np.asarray(x.size, np.int64),
    "Slice": _sliced,
    "Split": lambda c, x, parts=None: [
        np.take(x, range(low, high), c.axis) for low, high in c.parts(x.shape, parts)
    ],
    "Sqrt": _of(np.sqrt),
    "Squeeze": lambda c, x, axes=None: x.reshape(c.squeezed(x.shape, axes)),
    "Sub": _of(np.subtract),
    "Tile": lambda c, x, repeats: np.tile(x, tuple(map(int, repeats))),
    "Transpose": lambda c, x: np.ascontiguousarray(x.transpose(c.integers("perm"))),
    "Trilu": _triangle,
    "Unsqueeze": lambda c, x, axes=None: x.reshape(c.unsqueezed(x.shape, axes)),
    "Where": lambda c, condition, a, b: np.asarray(np.where(condition, a, b), a.dtype),
    "Xor": _asks(np.logical_xor),
}
"""For each operator a function of the node and its arrays."""
