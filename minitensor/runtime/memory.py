"""Memory for the outputs of calls, used again when the arrays that held it are gone.

A large block that numpy frees goes back to the system, and the next one costs a page fault for each
of its pages: for an output of 40 MB, as long as it takes to write it twice. So the blocks of large
outputs are kept, the last ones that were freed, and a call that needs as much takes one of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from minitensor.runtime.module import aligned_empty, maker_of

LARGE: Final = 1 << 20
"""Bytes from which on a block is kept; the C library keeps smaller ones."""
MOST: Final = 1 << 28
"""Bytes kept in all, at most: 256 MiB."""


class Kept:
    """Blocks of memory that no array uses.

    Without a lock: the collector frees arrays at any time, and a process that is forked has the
    locks of threads that it does not have. Each step on the list is a whole one.

    most  bytes in all; the blocks that were freed first are let go
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._blocks: list[_Block] = []

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """A C-contiguous array of undefined content that starts at a multiple of 64 bytes.

        Raises MemoryError or ValueError, as numpy does, if there is no memory for it.
        """
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        if not LARGE <= size <= self.most:
            return self.fresh(shape, dtype)
        lease = _Lease(self, self._taken(size) or _Block(self.fresh((size,), np.dtype(np.uint8))))
        array: np.ndarray = np.asarray(lease).view(dtype).reshape(shape)
        return array

    def maker(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], np.ndarray]:
        """A function that makes what `empty` returns, as fast as can be for small arrays."""
        size = dtype.itemsize * math.prod(shape)
        return partial(self.empty, shape, dtype) if size >= LARGE else maker_of(shape, dtype)

    def fresh(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """`aligned_empty`; what is kept is let go if there is no memory otherwise."""
        try:
            return aligned_empty(shape, dtype)
        except MemoryError:
            self._blocks.clear()
            return aligned_empty(shape, dtype)

    def held(self) -> int:
        """The bytes that are kept now."""
        return sum(block.array.nbytes for block in self._blocks.copy())

    def put(self, block: _Block) -> None:
        """Keep a block that no array uses any more."""
        self._blocks.append(block)
        while self.held() > self.most:
            with contextlib.suppress(IndexError):  # another thread may do the same
                self._blocks.pop(0)

    def _taken(self, size: int) -> _Block | None:
        """A block of so many bytes: the one freed last, the likeliest in a cache."""
        for block in reversed(self._blocks.copy()):
            if block.array.nbytes == size:
                with contextlib.suppress(ValueError):  # another thread may have taken it
                    self._blocks.remove(block)
                    return block
        return None


class _Block:
    """Memory; equal to itself alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class _Lease:
    """The owner of a block while arrays use it: numpy keeps it as their base, views included."""

    def __init__(self, kept: Kept, block: _Block) -> None:
        self._kept, self._block = kept, block
        self.__array_interface__ = block.array.__array_interface__

    def __del__(self) -> None:
        self._kept.put(self._block)


OUTPUTS: Final = Kept()
"""Of this process."""
