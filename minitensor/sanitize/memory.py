"""Arrays with guard pages before and after them: touching one is a fault that the CPU reports.

An array lies flush against one of its two guards, so that one element beyond it is in the guard
already; the other side has up to a page of slack. A check therefore runs a kernel twice.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from minitensor.errors import ExecutionError, unexpected

Side: TypeAlias = Literal["start", "end"]

PAGE: Final = mmap.PAGESIZE
SMALLEST_GUARD: Final = 1 << 16
LARGEST_GUARD: Final = 1 << 26
"""Bytes of a guard: those of the array, within these bounds. It takes addresses, no memory."""

_NOTHING: Final = 0x0
"""PROT_NONE, which has this value everywhere."""

_FILLS: Final = {
    1: (0xA5, 0x5A),
    2: (0xA5A5, 0x5A5A),
    4: (0xA5A5A5A5, 0x5A5A5A5A),
    8: (0xA5A5A5A5A5A5A5A5, 0x5A5A5A5A5A5A5A5A),
}
_NANS: Final = {
    2: (0x7E55, 0x7E2A),
    4: (0x7FD5A5A5, 0x7FEA5A5A),
    8: (0x7FFDA5A5A5A5A5A5, 0x7FFA5A5A5A5A5A5A),
}
_BFLOAT16_NANS: Final = (0x7FD5, 0x7FEA)
"""Quiet NaNs, told apart by their payload, which arithmetic keeps."""


class GuardedMemory:
    """Memory for one array, between two guards. It is given back when the last view of it dies.

    array   the array, its content undefined
    before  the address where the guard before it begins
    start   where that ends, and memory begins
    end     where memory ends, and the guard behind begins
    after   where that ends

    With `shared`, processes that are forked later use the same memory; their guards are theirs.
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, side: Side = "end", shared: bool = False
    ) -> None:
        if side not in ("start", "end"):
            raise unexpected('"start" or "end"', "side", side)
        dtype = np.dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        room = _whole_pages(size)
        guard = _whole_pages(min(max(size, SMALLEST_GUARD), LARGEST_GUARD))
        kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        try:
            mapping = mmap.mmap(-1, guard + room + guard, flags=kind | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError, OverflowError):
            raise ExecutionError(f"no memory for an array of {size:,} bytes", "memory") from None
        offset = guard if side == "start" else guard + room - size
        whole = np.frombuffer(mapping, np.uint8)
        self.before = whole.__array_interface__["data"][0]
        self.start = self.before + guard
        self.end = self.start + room
        self.after = self.end + guard
        self.array: np.ndarray = np.ndarray(tuple(shape), dtype, mapping, offset)
        self.close()

    def close(self) -> None:
        """Make both guards inaccessible (again)."""
        _protect(self.before, self.start - self.before)
        _protect(self.end, self.after - self.end)


def guarded_empty(shape: Sequence[int], dtype: Any, side: Side = "end") -> np.ndarray:
    """An array that ends where a guard page begins (or begins where one ends: `side="start"`).

    Floats are NaN, other elements a pattern that stands out. It is aligned to its elements, and to
    no more unless its size is. Raises ExecutionError if there is no memory.
    """
    array = GuardedMemory(shape, dtype, side).array
    bits_of(array)[...] = pattern(array.dtype, 0)
    return array


def pattern(dtype: np.dtype[Any], which: int, bfloat16: bool = False) -> int:
    """The bits to fill elements with: NaN for floats, else what stands out; two of each, 0 and 1.

    bfloat16  whether elements of uint16 are the bits of bfloat16
    """
    if bfloat16:
        return _BFLOAT16_NANS[which]
    return (_NANS if dtype.kind == "f" else _FILLS)[dtype.itemsize][which]


def bits_of(array: np.ndarray) -> np.ndarray:
    """The elements as unsigned integers of their size, in the same memory."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


_mprotect: Final = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def _protect(address: int, size: int) -> None:
    if _mprotect(address, size, _NOTHING) != 0:
        raise ExecutionError("guard pages cannot be made inaccessible", "memory")
