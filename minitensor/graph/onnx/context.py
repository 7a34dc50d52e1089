"""One node of an ONNX file while it is read: its attributes, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np

from minitensor.errors import MinitensorError
from minitensor.lang import Tensor, ops, placeholder


class NotSupportedError(Exception):
    """A part of a model that is not supported, in words; the reader collects them."""


class Values(Protocol):
    """The reader, as a node needs it."""

    onnx: Any
    opset: int

    def tensor(self, value: Any, name: str = "constant") -> Tensor:
        """A value as a tensor."""

    def array(self, kept: Any) -> np.ndarray:
        """A constant of the file."""


_REQUIRED: Final = object()


class Context:
    """A node: its operator, its outputs, its attributes. An attribute that nothing asks for is not
    supported (`check`).
    """

    def __init__(self, values: Values, node: Any) -> None:
        self.values, self.opset = values, values.opset
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        self.kind = f"{domain}{node.op_type}"
        self.outputs = list(node.output)
        self._attributes = {attribute.name: attribute for attribute in node.attribute}
        self._asked: set[str] = set()

    # ---- attributes

    def attribute(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute as onnx gives it."""
        self._asked.add(name)
        if name not in self._attributes:
            if default is _REQUIRED:
                raise NotSupportedError(f"{self.kind} without {name}")
            return default
        found = self.values.onnx.helper.get_attribute_value(self._attributes[name])
        return found.decode() if isinstance(found, bytes) else found

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        """An integer."""
        return int(self.attribute(name, default))

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        """A float, with the digits that float32 holds of it."""
        return float(np.format_float_positional(np.float32(self.attribute(name, default))))

    def integers(self, name: str, default: Any = _REQUIRED) -> tuple[int, ...] | Any:
        """A tuple of integers."""
        found = self.attribute(name, default)
        return tuple(map(int, found)) if isinstance(found, (list, tuple)) else found

    def array(self, name: str, default: Any = _REQUIRED) -> np.ndarray:
        """An array."""
        found = self.attribute(name, default)
        return found if isinstance(found, np.ndarray) else self.values.array(found)

    def dtype(self, name: str) -> str:
        """The name of a dtype. Raises NotSupportedError for one that no kernel has."""
        kind = self.integer(name)
        try:
            found = str(self.values.onnx.helper.tensor_dtype_to_np_dtype(kind).name)
            placeholder((), found)
        except (KeyError, TypeError, ValueError, MinitensorError):
            label = self.values.onnx.TensorProto.DataType.Name(kind).lower()
            raise NotSupportedError(f"the type {label}") from None
        return found

    def only(self, name: str, wanted: Any) -> None:
        """Raises NotSupportedError for an attribute with another value."""
        found = self.attribute(name, wanted)
        if found != wanted:
            raise NotSupportedError(f"{self.kind} with {name}={found!r}")

    def check(self) -> None:
        """Raises NotSupportedError for an attribute that nothing asked for."""
        left = sorted(self._attributes.keys() - self._asked)
        if left:
            raise NotSupportedError(f"{self.kind} with {', '.join(left)}")

    # ---- operands

    def tensor(self, value: Any, name: str = "constant") -> Tensor:
        """An operand as a tensor; an array becomes a constant."""
        return self.values.tensor(value, name)

    def known(self, value: Any, what: str) -> np.ndarray:
        """An operand that has to be known. Raises NotSupportedError if it depends on data."""
        if isinstance(value, Tensor):
            raise NotSupportedError(f"{self.kind} whose {what} depends on data")
        return np.asarray(value)

    def ints(self, value: Any, what: str) -> tuple[int, ...]:
        """The same, as integers."""
        return tuple(map(int, self.known(value, what).reshape(-1)))

    def scalar(self, value: Any, beside: Any) -> Any:
        """A known number as one, beside a tensor of its dtype; else a tensor."""
        one = not isinstance(value, Tensor) and value.size == 1 and value.dtype.kind in "fiu"
        if one and isinstance(beside, Tensor) and value.ndim <= beside.ndim:
            number = value.reshape(()).item()
            if value.dtype.name == beside.dtype and math.isfinite(number):
                return number
        return self.tensor(value)

    # ---- shapes

    @property
    def axis(self) -> int:
        """The axis of a concatenation or a split."""
        return self.integer("axis", 0)

    def shape(self, extents: Sequence[int]) -> np.ndarray:
        """The result of Shape."""
        rank = len(extents)
        start, end = self.integer("start", 0), self.attribute("end", rank)
        return np.asarray(extents[slice(start, end)], np.int64)

    def reshaped(self, extents: Sequence[int], shape: Any) -> tuple[int, ...]:
        """The shape of a Reshape: 0 stands for the extent there was, -1 for what is left."""
        keep = not self.integer("allowzero", 0)
        wanted = self.ints(shape, "shape")
        return tuple(extents[n] if e == 0 and keep else e for n, e in enumerate(wanted))

    def flattened(self, extents: Sequence[int]) -> tuple[int, int]:
        """The shape of a Flatten."""
        axis = self.integer("axis", 1)
        axis += len(extents) if axis < 0 else 0
        return math.prod(extents[:axis]), math.prod(extents[axis:])

    def _axes(self, axes: Any, rank: int) -> tuple[int, ...] | None:
        """Axes that are an operand, or in older versions an attribute; None if neither is there."""
        given = self.integers("axes", None) if axes is None else self.ints(axes, "axes")
        return None if given is None else tuple(axis % rank for axis in given)

    def squeezed(self, extents: Sequence[int], axes: Any) -> tuple[int, ...]:
        """The shape of a Squeeze."""
        gone = self._axes(axes, len(extents))
        if gone is None:
            return tuple(extent for extent in extents if extent != 1)
        return tuple(extent for n, extent in enumerate(extents) if n not in gone)

    def unsqueezed(self, extents: Sequence[int], axes: Any) -> tuple[int, ...]:
        """The shape of an Unsqueeze."""
        given = self.integers("axes", ()) if axes is None else self.ints(axes, "axes")
        rank = len(extents) + len(given)
        new, old = {axis % rank for axis in given}, iter(extents)
        return tuple(1 if n in new else next(old) for n in range(rank))

    def reduced(self, rank: int, axes: Any) -> tuple[tuple[int, ...], bool]:
        """The axes of a reduction, and whether they stay with an extent of 1."""
        keep, nothing = bool(self.integer("keepdims", 1)), self.integer("noop_with_empty_axes", 0)
        chosen = self._axes(axes, rank) if rank else ()
        if not chosen and nothing:
            return (), keep
        return chosen or tuple(range(rank)), keep

    def parts(self, extents: Sequence[int], parts: Any) -> Iterator[tuple[int, int]]:
        """The ranges of a Split along its axis."""
        extent = extents[self.axis]
        given = self.integers("split", None) if parts is None else self.ints(parts, "split")
        if given is None:
            count = self.integer("num_outputs", len(self.outputs))
            length = -(-extent // count)
            given = [min(length, extent - n * length) for n in range(count)]
        self.attribute("num_outputs", None)
        start = 0
        for length in given:
            yield start, start + length
            start += length

    def slices(
        self, rank: int, starts: Any = None, stops: Any = None, axes: Any = None, steps: Any = None
    ) -> tuple[tuple[int, ...], ...]:
        """Starts, stops, axes and steps of a Slice, in older versions attributes."""
        if starts is None:
            first, last = self.integers("starts"), self.integers("ends")
            chosen = self.integers("axes", tuple(range(len(first))))
            return first, last, chosen, (1,) * len(first)
        first, last = self.ints(starts, "starts"), self.ints(stops, "ends")
        chosen = tuple(range(len(first))) if axes is None else self.ints(axes, "axes")
        step = (1,) * len(first) if steps is None else self.ints(steps, "steps")
        return first, last, tuple(axis % rank for axis in chosen), step


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """x under another shape; x itself under its own."""
    return x if tuple(shape) == x.shape else ops.reshape(x, shape=tuple(shape))
