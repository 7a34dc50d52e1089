"""The arguments of a call, checked before native code runs.

An argument is a numpy array, or lends its memory through `__array_interface__` or `__dlpack__`.
Nothing is ever copied: an array that does not fit is refused, with the expression that would make
one that does. All that can be known when the kernel is built is worked out there, so that a call
with plain arrays costs less than a microsecond an argument.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, ExecutionError, kind_of, printable, shown
from minitensor.runtime.memory import OUTPUTS

_C_CONTIGUOUS: Final = 0x1
_ALIGNED: Final = 0x100
_WRITEABLE: Final = 0x400
"""Bits of `ndarray.flags.num`, as in numpy's C interface."""

_LENDERS: Final = "a numpy array, or an object with __array_interface__ or __dlpack__ in CPU memory"


@dataclass(frozen=True, slots=True)
class Slot:
    """The arrays that one parameter of a kernel takes.

    flags  the bits of `ndarray.flags.num` that an array must have
    """

    kernel: str
    buffer: ir.Buffer
    dtype: np.dtype[Any]
    is_output: bool
    flags: int

    @property
    def name(self) -> str:
        """The parameter's name as messages show it."""
        return ir.print_name(self.buffer.name)

    def accept(self, value: object) -> np.ndarray:
        """The memory of `value` as a plain array of the right dtype and shape.

        Raises ArgumentError if it does not fit; the message says what would.
        """
        array = self._borrow(value)
        name, shape = self.name, self.buffer.shape
        if is_packed_as(array.dtype, self.buffer.dtype):
            array = array.view(self.dtype)
        if array.dtype != self.dtype:
            raise self._dtype_refused(array)
        if array.shape != shape:
            raise self.shape_refused(array.shape, f"np.ascontiguousarray({name}.T)")
        if not array.flags.c_contiguous:
            raise self.refused(
                "that is C-contiguous",
                f"{name}.strides={array.strides}",
                self._remade(f"np.ascontiguousarray({name})"),
            )
        if not array.flags.aligned:
            raise self.refused(
                f"aligned to {self.dtype.alignment} bytes",
                f"an address of {array.__array_interface__['data'][0]:#x}",
                self._remade(f"{name}.copy()"),
            )
        if self.is_output and not array.flags.writeable:
            raise self.refused(
                "that can be written to", "a read-only one", self._remade(f"{name}.copy()")
            )
        return array

    def _borrow(self, value: Any) -> np.ndarray:
        """The value's memory as a plain array, whatever its dtype and shape.

        `__class__`, `view` and `shape` of the value's class are not used: they may be wrong.
        """
        name, kind = self.name, type(value)
        if issubclass(kind, np.ma.MaskedArray):
            raise self.refused(
                "without a mask", self._given(value), self._remade(f"{name}.filled(0)")
            )
        if issubclass(kind, np.ndarray):
            plain: np.ndarray = np.ndarray.view(value, np.ndarray)
            return plain
        if issubclass(kind, np.generic):
            raise self.refused("as an array", self._given(value), self._remade(f"np.array({name})"))
        try:
            interface = getattr(value, "__array_interface__", None)
            if interface is not None:
                return _by_interface(interface, value)
            if hasattr(value, "__dlpack__"):
                return _somewhere(np.from_dlpack(value))
        except Exception as failure:  # the object's own code runs here
            reason = printable(str(failure))
            raise self.refused(
                "that lends its memory", f"{self._given(value)}: {reason}", f"pass {_LENDERS}"
            ) from failure
        raise self.refused("as an array", self._given(value), f"pass {_LENDERS}")

    def _given(self, value: object) -> str:
        return f"{self.name}={shown(value)} ({kind_of(value)})"

    def _dtype_refused(self, array: np.ndarray) -> ArgumentError:
        name, dtype = self.name, self.buffer.dtype
        same_size = array.dtype.kind == self.dtype.kind and array.itemsize == self.dtype.itemsize
        if same_size and not array.dtype.isnative:
            expected, remade = f"of dtype {dtype} in the machine's byte order", f'"{self.dtype}"'
        elif dtype.is_packed:
            expected = f"of dtype {dtype} (ml_dtypes), or of dtype {self.dtype} with its bits"
            remade = f"ml_dtypes.{dtype}"
        else:
            expected, remade = f"of dtype {dtype}", f'"{self.dtype}"'
        return self.refused(
            expected, f"{name}.dtype={array.dtype}", self._remade(f"{name}.astype({remade})")
        )

    def shape_refused(self, shape: tuple[int, ...], transposed: str) -> ArgumentError:
        """The error for another shape.

        transposed  the expression that copies its transpose
        """
        advice = "a kernel is built for one shape; build another for this one"
        if len(shape) > 1 and shape == self.buffer.shape[::-1]:
            advice = f"pass {transposed} if its transpose is meant"
        expected = f"of shape {self.buffer.shape}"
        return self.refused(expected, f"{self.name}.shape={shape}", advice)

    def _remade(self, expression: str) -> str:
        """The way to do it: a copy serves for an input; an output must be the array itself."""
        if not self.is_output:
            return f"pass {expression}"
        return f'pass np.empty({self.buffer.shape}, "{self.dtype}")'

    def refused(self, expected: str, given: str, advice: str) -> ArgumentError:
        """The error for an argument; the caller raises it."""
        return ArgumentError(
            f"{self.kernel}: expected {self.name} {expected}, but got {given}; {advice}"
        )


class _Lent:
    """An `__array_interface__` as it was when it was read, and the object that it belongs to."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def _by_interface(interface: object, value: Any) -> np.ndarray:
    """The memory that an object's `__array_interface__` names, which is read only once.

    The address is trusted; the byte length is checked.
    Raises anything if the interface is none.
    """
    if not isinstance(interface, dict):
        raise TypeError("its __array_interface__ is no dictionary")
    interface = dict(interface)
    if interface.get("mask") is not None:
        raise TypeError("it has a mask")
    data = interface.get("data")
    if data is None:  # the object's own bytes
        data = interface["data"] = value
    lent = np.asarray(_Lent(interface, value))
    if not isinstance(data, tuple):
        offset, held = interface.get("offset", 0), memoryview(data).nbytes
        if offset < 0 or offset + lent.nbytes > held:
            raise ValueError(f"it has {held} bytes for {lent.nbytes} at {offset}")
    return _somewhere(lent)


def _somewhere(array: np.ndarray) -> np.ndarray:
    """The array, if it has an address; numpy makes memory of its own where that is 0."""
    if array.flags.owndata or (array.size and not array.__array_interface__["data"][0]):
        raise ValueError("its address is 0")
    return array


def is_packed_as(given: np.dtype[Any], dtype: ir.DType) -> bool:
    """Test for the packed type that ml_dtypes adds to numpy under the same name."""
    size = dtype.bits // 8
    return dtype.is_packed and given.name == dtype and given.itemsize == size and given.isnative


class Signature:
    """The parameters of a kernel, and the check of a call's arguments against them."""

    def __init__(self, kernel: str, params: Sequence[ir.Buffer], outputs: Collection[str]) -> None:
        self.kernel = ir.print_name(kernel)
        self.slots = tuple(_slot(self.kernel, buffer, buffer.name in outputs) for buffer in params)
        self.outputs = tuple(n for n, slot in enumerate(self.slots) if slot.is_output)
        self.empty = tuple(n for n, slot in enumerate(self.slots) if 0 in slot.buffer.shape)
        checks = [(slot, slot.dtype, slot.buffer.shape, slot.flags) for slot in self.slots]
        self._checks = tuple(checks)
        self._input_checks = tuple(check for check in checks if not check[0].is_output)
        self._makers = tuple(
            (n, OUTPUTS.maker(self.slots[n].buffer.shape, self.slots[n].dtype))
            for n in self.outputs
        )
        self._apart = tuple(
            (output, other)
            for output in self.outputs
            for other, slot in enumerate(self.slots)
            if not (other in self.outputs and other <= output)
        )

    def of(self, kernel: str, params: Sequence[ir.Buffer], outputs: Collection[str]) -> Signature:
        """A signature of other parameters that takes arrays of the same kind."""
        return Signature(kernel, params, outputs)

    def accept(
        self, given: tuple[object, ...], named: Mapping[str, object] | None = None
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """The arrays of all parameters, and the outputs as the caller is to have them back.

        Without outputs among the arguments, they are allocated (64-byte aligned).
        Raises ArgumentError if the number of arguments is wrong or one does not fit, or is `named`.
        """
        if named:
            raise self._keywords(named)
        arrays: list[Any] = list(given)
        whole = len(arrays) == len(self.slots)
        if not whole and len(arrays) != len(self._input_checks):
            raise self._count(len(arrays))
        checks = self._checks if whole else self._input_checks
        results = tuple([arrays[n] for n in self.outputs]) if whole else ()
        for n, (slot, dtype, shape, flags) in enumerate(checks):
            array = given[n]
            if not (
                type(array) is np.ndarray
                and array.dtype is dtype
                and array.shape == shape
                and array.flags.num & flags == flags
            ):
                arrays[n] = slot.accept(array)
        if not whole:
            for n, make in self._makers:
                try:
                    arrays.insert(n, make())
                except (MemoryError, ValueError):
                    arrays.insert(n, self._allocated(self.slots[n]))
            return arrays, tuple([arrays[n] for n in self.outputs])
        for output, other in self._apart:
            if np.may_share_memory(arrays[output], arrays[other]):
                raise self._overlap(output, other)
        return arrays, results

    def _count(self, count: int) -> ArgumentError:
        names = [slot.name for slot in self.slots]
        inputs = [slot.name for slot in self.slots if not slot.is_output]
        every = f", or with the outputs {len(names)} ({', '.join(names)})" if self.outputs else ""
        return ArgumentError(
            f"{self.kernel}: expected {len(inputs)} array{'' if len(inputs) == 1 else 's'} "
            f"({', '.join(inputs)}){every}, "
            f"but got {count}"
        )

    def _keywords(self, named: Mapping[str, object]) -> ArgumentError:
        names = ", ".join(slot.name for slot in self.slots)
        name, value = next(iter(named.items()))
        return ArgumentError(
            f"{self.kernel}: expected its arrays by position ({names}), but got "
            f"{ir.print_name(name)}={shown(value)} by keyword"
        )

    def _allocated(self, slot: Slot) -> np.ndarray:
        """An output where memory is scarce."""
        try:
            return OUTPUTS.empty(slot.buffer.shape, slot.dtype)
        except (MemoryError, ValueError):
            size = math.prod(slot.buffer.shape) * slot.dtype.itemsize
            raise ExecutionError(
                f"{self.kernel}: no memory for {slot.name}, which needs {size:,} bytes", "memory"
            ) from None

    def _overlap(self, output: int, other: int) -> ArgumentError:
        written, name = self.slots[output].name, self.slots[other].name
        return ArgumentError(
            f"{self.kernel}: expected {written} in memory of its own, but got one that overlaps "
            f"{name}; pass np.empty_like({written}), or leave the outputs out"
        )


def _slot(kernel: str, buffer: ir.Buffer, is_output: bool) -> Slot:
    flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if is_output else 0)
    return Slot(kernel, buffer, ir.numpy_dtype(buffer.dtype), is_output, flags)
