"""Arrays in the memory of the GPU, and the checks of a call with them.

An argument on the GPU lends its memory through `__cuda_array_interface__` (torch, cupy, numba) or
`__dlpack__`. It is never copied: one that does not fit is refused. Numpy arrays are checked as
those of a kernel for the CPU are (`arguments`), and copied by the kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, kind_of, printable, shown
from minitensor.looks import Shown
from minitensor.runtime.arguments import Signature, Slot
from minitensor.runtime.cuda.device import ORDINAL, Cuda, Memory, cuda_of
from minitensor.runtime.cuda.nvcc import find_nvcc
from minitensor.runtime.module import aligned_empty
from minitensor.system import ctypes

ALIGNMENT: Final = 16
"""Bytes of the widest load; parameters that are read so begin at a multiple of it."""

_LENDERS: Final = "an array with __cuda_array_interface__ or __dlpack__ in the memory of a GPU"
_PACKED: Final = np.dtype("V2")
"""The type by which bfloat16 passes for numpy."""
_LEGACY: Final = 1
"""The default stream, in the interface and in DLPack: 0 and None have other meanings there."""
_DLPACK_DEVICES: Final = (2, 13)
"""Kinds of devices in DLPack: kDLCUDA and kDLCUDAManaged."""
_DLPACK_KINDS: Final = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
"""The type codes of DLPack in numpy's letters."""
_DLPACK_BFLOAT: Final = 4


class DeviceArray(Shown):
    """An array in the memory of the GPU. torch and cupy take it by `__cuda_array_interface__`.

    address   of its first element; it is C-contiguous
    shape     its extents
    dtype     numpy's; bfloat16 is uint16, with its bits
    device    the number of the GPU
    stream    the CUDA stream that fills it; 0 for the default stream
    readonly  whether kernels must not write to it
    """

    def __init__(
        self,
        cuda: Cuda,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        owner: object,
        *,
        device: int = ORDINAL,
        stream: int = 0,
        readonly: bool = False,
    ) -> None:
        self.address, self.shape, self.dtype = address, shape, dtype
        self.device, self.stream, self.readonly = device, stream, readonly
        self._cuda, self._owner = cuda, owner

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        size = self.dtype.itemsize
        for extent in self.shape:
            size *= extent
        return size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.readonly),
            "strides": None,
            "stream": self.stream or _LEGACY,
        }

    def numpy(self) -> np.ndarray:
        """A copy in the memory of the CPU, made when the stream has come there."""
        copy = aligned_empty(self.shape, self.dtype)
        with self._cuda.current():
            self._cuda.synchronize(self.stream)
            self._cuda.copy(copy.ctypes.data, self.address, self.nbytes)
        return copy

    def __str__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on GPU {self.device}>"


def empty_on(
    cuda: Cuda, shape: tuple[int, ...], dtype: np.dtype[Any], stream: int = 0, who: str = "CUDA"
) -> DeviceArray:
    """A new array on the GPU, of undefined content. Raises ExecutionError if there is no room."""
    array = DeviceArray(cuda, 0, shape, dtype, None, stream=stream)
    memory: Memory = cuda.allocate(array.nbytes, who)
    array.address, array._owner = memory.address, memory
    return array


def to_device(array: Any) -> DeviceArray:
    """A copy of a numpy array in the memory of the GPU; `DeviceArray.numpy` is the way back.

    Raises ExecutionError if there is no GPU, or it has no room; CompileError without nvcc, which
    has the CUDA runtime.
    """
    given = np.ascontiguousarray(array).reshape(np.shape(array))
    return copied_to(cuda_of(find_nvcc().library), given)


def copied_to(cuda: Cuda, array: np.ndarray, who: str = "CUDA") -> DeviceArray:
    """A copy of a C-contiguous array on the GPU."""
    copy = empty_on(cuda, array.shape, array.dtype, 0, who)
    with cuda.current():
        cuda.copy(copy.address, array.ctypes.data, array.nbytes)
    return copy


def is_on_device(value: Any) -> bool:
    """Test for an argument that says that its memory is a GPU's. One that fails to say where it is
    counts: the check of the argument tells why.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    try:
        if getattr(value, "__cuda_array_interface__", None) is not None:
            return True
        where = getattr(value, "__dlpack_device__", None)
        return where is not None and where()[0] in _DLPACK_DEVICES
    except Exception:  # the object's own code runs here
        return True


class DeviceSignature(Signature):
    """The parameters of a kernel for the GPU: a call has all of its arrays there, or all in numpy.

    aligned  the parameters that must begin at a multiple of 16 bytes
    """

    def __init__(
        self,
        kernel: str,
        params: Sequence[ir.Buffer],
        outputs: Collection[str],
        aligned: Collection[str],
        cuda: Cuda,
    ) -> None:
        super().__init__(kernel, params, outputs)
        self.aligned = frozenset(aligned)
        self.cuda = cuda

    def of(
        self, kernel: str, params: Sequence[ir.Buffer], outputs: Collection[str]
    ) -> DeviceSignature:
        """A signature of other parameters that takes arrays of the same kind."""
        return DeviceSignature(kernel, params, outputs, self.aligned, self.cuda)

    def accept(
        self, given: tuple[object, ...], named: Mapping[str, object] | None = None
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """The arrays of all parameters, and the outputs as the caller is to have them back: new
        ones of numpy for arrays of numpy, on the GPU for arrays there. See `Signature.accept`.
        """
        on_device = [is_on_device(value) for value in given]
        if named or not any(on_device):
            return super().accept(given, named)
        whole = len(given) == len(self.slots)
        slots = [slot for slot in self.slots if whole or not slot.is_output]
        if len(given) != len(slots):
            raise self._count(len(given))
        if not all(on_device):
            raise self._elsewhere(slots, on_device)
        arrays = [self._accepted(slot, value) for slot, value in zip(slots, given)]
        if whole:
            for output, other in self._apart:
                if _overlap(arrays[output], arrays[other]):
                    raise self._overlap(output, other)
            return arrays, tuple([given[n] for n in self.outputs])
        stream = next((array.stream for array in arrays if array.stream), 0)
        for n in self.outputs:
            shape, dtype = self.slots[n].buffer.shape, self.slots[n].dtype
            arrays.insert(n, empty_on(self.cuda, shape, dtype, stream, self.kernel))
        return arrays, tuple([arrays[n] for n in self.outputs])

    def _elsewhere(self, slots: Sequence[Slot], on_device: Sequence[bool]) -> ArgumentError:
        here, there = slots[on_device.index(True)], slots[on_device.index(False)]
        return there.refused(
            f"in the memory of the GPU, as {here.name} is",
            "one in that of the CPU",
            f"pass minitensor.runtime.to_device({there.name}), or all arrays as numpy's",
        )

    def _accepted(self, slot: Slot, value: Any) -> DeviceArray:
        """The memory of an argument. Raises ArgumentError if it does not fit."""
        lent, name = _lent_by(slot, value), slot.name
        dtype = slot.dtype if slot.buffer.dtype.is_packed and lent.dtype == _PACKED else lent.dtype
        new = "pass a new array, or leave the outputs out"
        if dtype != slot.dtype:
            copy = f"pass a copy of it (torch: {name}.to(torch.{slot.buffer.dtype}), cupy: {name}"
            copy = new if slot.is_output else f'{copy}.astype("{slot.buffer.dtype}"))'
            raise slot.refused(f"of dtype {slot.buffer.dtype}", f"{name}.dtype={dtype}", copy)
        if lent.shape != slot.buffer.shape:
            raise slot.shape_refused(lent.shape, f"a contiguous copy of {name}.T")
        copy = f"pass a copy of it (torch: {name}.clone(), cupy: {name}.copy())"
        if not lent.is_contiguous:
            copy = f"pass a copy of it (torch: {name}.contiguous(), cupy: cupy.ascontiguousarray("
            copy = new if slot.is_output else f"{copy}{name}))"
            raise slot.refused("that is C-contiguous", f"{name}.strides={lent.strides}", copy)
        if slot.is_output and lent.readonly:
            raise slot.refused("that can be written to", "a read-only one", new)
        array = DeviceArray(
            self.cuda, lent.address, lent.shape, dtype, lent.owner, stream=lent.stream
        )
        if array.nbytes == 0:
            return array
        alignment = ALIGNMENT if slot.buffer.name in self.aligned else slot.dtype.alignment
        if lent.address % alignment:
            given = f"an address of {lent.address:#x}"
            copy = new if slot.is_output else copy
            raise slot.refused(f"aligned to {alignment} bytes", given, copy)
        where = self.cuda.place_of(lent.address) if lent.device is None else lent.device
        if where is None:
            given = f"an address of {lent.address:#x}, which no GPU has"
            raise slot.refused("in the memory of a GPU", given, f"pass {_LENDERS}")
        if where != ORDINAL:
            copy = f"pass a copy there (torch: {name}.to('cuda:{ORDINAL}')), or name the GPU to use"
            copy += " in CUDA_VISIBLE_DEVICES"
            raise slot.refused(f"on GPU {ORDINAL}, where kernels run", f"one on GPU {where}", copy)
        return array


def _overlap(one: DeviceArray, other: DeviceArray) -> bool:
    if not one.nbytes or not other.nbytes:
        return False
    return one.address < other.address + other.nbytes and other.address < one.address + one.nbytes


@dataclass(frozen=True, slots=True)
class _Lent:
    """Memory of a GPU, as an object says it.

    strides  in bytes; None for those of a C-contiguous array
    device   None where it is not said
    owner    what keeps the memory
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    device: int | None
    stream: int
    readonly: bool
    owner: object

    @property
    def is_contiguous(self) -> bool:
        """Test for elements in the order of C without gaps."""
        if self.strides is None or 0 in self.shape:
            return True
        step = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True


def _lent_by(slot: Slot, value: Any) -> _Lent:
    """The memory that an object lends, which is asked once. Raises ArgumentError."""
    if type(value) is DeviceArray:
        made = value.address, value.shape, value.dtype, None, value.device
        return _Lent(*made, value.stream, value.readonly, value)
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            return _by_dlpack(value)
        return _by_interface(interface, value)
    except Exception as failure:  # the object's own code runs here
        given = f"{slot.name}={shown(value)} ({kind_of(value)})"
        reason = f"{given}: {printable(str(failure))}"
        raise slot.refused("that lends its memory", reason, f"pass {_LENDERS}") from failure


def _by_interface(interface: Mapping[str, Any], value: object) -> _Lent:
    """The memory that a `__cuda_array_interface__` names; see its definition in the documentation
    of Numba, "CUDA Array Interface (Version 3)". Raises anything if the interface is none.
    """
    if interface.get("mask") is not None:
        raise TypeError("it has a mask")
    address, readonly = interface["data"]
    shape = tuple(int(extent) for extent in interface["shape"])
    strides = interface.get("strides")
    strides = None if strides is None else tuple(int(stride) for stride in strides)
    if strides is not None and len(strides) != len(shape):
        raise ValueError(f"it has {len(strides)} strides for {len(shape)} axes")
    stream = interface.get("stream")
    if stream == 0:
        raise ValueError("its stream is 0, which has no meaning there")
    dtype = np.dtype(interface["typestr"])
    return _Lent(int(address), shape, dtype, strides, None, int(stream or 0), bool(readonly), value)


@functools.cache
def _dlpack() -> tuple[Any, Callable[[object, bytes], int]]:
    """DLTensor of dlpack.h, the head of DLManagedTensor; and the address that a capsule holds."""

    class Tensor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device_type", ctypes.c_int32),
            ("device_id", ctypes.c_int32),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("byte_offset", ctypes.c_uint64),
        )

    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.argtypes, address.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    return Tensor, address


def _by_dlpack(value: Any) -> _Lent:
    """The memory that an object lends by DLPack, ready in the default stream: the capsule gives it
    back at its end. Raises anything if it lends none.
    """
    capsule = value.__dlpack__(stream=_LEGACY)
    kind, address_in = _dlpack()
    tensor = kind.from_address(address_in(capsule, b"dltensor"))
    if tensor.code == _DLPACK_BFLOAT and tensor.bits == 16:
        dtype = _PACKED
    else:
        dtype = np.dtype(f"{_DLPACK_KINDS[tensor.code]}{tensor.bits * tensor.lanes // 8}")
    shape = tuple(tensor.shape[n] for n in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[n] * dtype.itemsize for n in range(tensor.ndim))
    address = (tensor.data or 0) + tensor.byte_offset
    return _Lent(address, shape, dtype, strides, int(tensor.device_id), 0, False, capsule)
