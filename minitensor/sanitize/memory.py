"""Arrays between guard pages, and the accesses to those pages.

An array lies flush against one of its two guards, so that one element beyond it is in the guard
already; the other side has up to a page of slack. A check therefore runs a kernel twice. The CPU
reports an access to a guard page as a fault; guards.c records it and opens the page.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.errors import ExecutionError, unexpected
from minitensor.runtime import find_toolchain, load_function, pointer_to
from minitensor.sanitize.builds import Sanitizer, runtime_library
from minitensor.system import ctypes, mmap

Side: TypeAlias = Literal["start", "end"]

SMALLEST_GUARD: Final = 1 << 16
LARGEST_GUARD: Final = 1 << 26
"""Bytes of a guard: those of the array, within these bounds. It takes addresses, no memory."""

_NOTHING: Final = 0x0
"""PROT_NONE, which has this value everywhere."""

_FILLS: Final = (0xA5, 0x5A)
"""The bytes that fill elements which are no floats."""


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
        self.before = address_of(whole)
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
    bits_of(array)[...] = pattern(ir.DType.of(array.dtype), 0)
    return array


def pattern(dtype: ir.DType, which: int) -> int:
    """The bits to fill elements with: NaN for floats, else what stands out; `which` is 0 or 1."""
    if dtype.row.nans:
        return dtype.row.nans[which]
    return int.from_bytes(bytes([_FILLS[which]]) * (dtype.bits // 8), "little")


def bits_of(array: np.ndarray) -> np.ndarray:
    """The elements as unsigned integers of their size, in the same memory."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def address_of(array: np.ndarray) -> int:
    """The address where its memory begins."""
    address: int = array.__array_interface__["data"][0]
    return address


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@functools.cache
def _mprotect() -> Callable[[int, int, int], int]:
    found = ctypes.CDLL(None, use_errno=True).mprotect
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


def _protect(address: int, size: int) -> None:
    if _mprotect()(address, size, _NOTHING) != 0:
        raise ExecutionError("guard pages cannot be made inaccessible", "memory")


# ---- accesses to guard pages

_MOST_HITS: Final = 256
_ACCESS: Final = {0: "reads", 1: "writes"}
_one_at_a_time: Final = threading.Lock()


class Hit(NamedTuple):
    """An access to a guard page.

    memory   the number of the memory whose guard it is
    address  what was touched
    access   0 for a read, 1 for a write, else it is not known
    """

    memory: int
    address: int
    access: int


def guards_library() -> Path:
    """The library that watches guard pages. Raises CompileError without a compiler."""
    return runtime_library(Sanitizer.GUARDS, find_toolchain())


@contextlib.contextmanager
def watched(library: Path, memories: Sequence[GuardedMemory]) -> Iterator[list[Hit]]:
    """Watch the guards of these memories; the list is filled at the end.

    library  what `guards_library` gave

    A page that was touched stays open. One at a time in a process. Raises ExecutionError if there
    is no memory.
    """
    start, finish = (load_function(library, f"guards_{name}", 1) for name in ("start", "finish"))
    bounds = [len(memories)]
    for memory in memories:
        bounds += [memory.before, memory.start, memory.end, memory.after]
    given, found = np.array(bounds, np.uint64), np.zeros((_MOST_HITS, 3), np.int64)
    hits: list[Hit] = []
    with _one_at_a_time:
        if start(pointer_to(given)) != 0:
            raise ExecutionError("no memory to watch guard pages", "memory")
        try:
            yield hits
        finally:
            count = finish(pointer_to(found))
            hits.extend(Hit(*hit) for hit in found[:count].tolist())


def outside(kernel: str, buffer: ir.Buffer | None, memory: GuardedMemory, hit: Hit) -> str:
    """The message for an access to a guard page; `buffer` is None for scratch memory."""
    did = f"{ir.print_name(kernel)} {_ACCESS.get(hit.access, 'touches')}"
    if buffer is None:
        return f"{did} memory outside its scratch memory"
    start = address_of(memory.array)
    beyond = hit.address - start - memory.array.nbytes
    far, where = (beyond, "after its end") if beyond >= 0 else (start - hit.address, "before it")
    return (
        f"{did} outside {ir.print_name(buffer.name)}: {ir.print_type(buffer)}, {far} bytes {where}"
    )
