"""Memory for the outputs of calls, used again when the arrays that held it are gone.

A large block that numpy frees goes back to the system, and the next one costs a page fault for each
of its pages: for an output of 40 MB, as long as it takes to write it twice. So the blocks of large
outputs are kept, the last ones that were freed, and a call that needs as much takes one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from minitensor.runtime.module import aligned_empty

LARGE: Final = 1 << 20
"""Bytes from which on a block is kept; the C library keeps smaller ones."""
MOST: Final = 1 << 28
"""Bytes kept in all, at most: 256 MiB."""


class Kept:
    """Blocks of memory that no array uses.

    most  bytes in all; the blocks that were freed first are let go
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._blocks: list[np.ndarray] = []
        self._lock = threading.RLock()  # a block can be freed, by the collector, while one is taken

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """A C-contiguous array of undefined content that starts at a multiple of 64 bytes.

        Raises MemoryError or ValueError, as numpy does, if there is no memory for it.
        """
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        if not LARGE <= size <= self.most:
            return aligned_empty(shape, dtype)
        lease = _Lease(self, self._taken(size))
        array: np.ndarray = np.asarray(lease).view(dtype).reshape(shape)
        return array

    def held(self) -> int:
        """The bytes that are kept now."""
        return sum(block.nbytes for block in self._blocks)

    def put(self, block: np.ndarray) -> None:
        """Keep a block that no array uses any more."""
        with self._lock:
            self._blocks.append(block)
            while self.held() > self.most:
                del self._blocks[0]

    def _taken(self, size: int) -> np.ndarray:
        """A block of so many bytes: the one freed last, the likeliest in a cache."""
        with self._lock:
            for n in reversed(range(len(self._blocks))):
                if self._blocks[n].nbytes == size:
                    return self._blocks.pop(n)
        return aligned_empty((size,), np.dtype(np.uint8))


class _Lease:
    """The owner of a block while arrays use it: numpy keeps it as their base, views included."""

    def __init__(self, kept: Kept, block: np.ndarray) -> None:
        self._kept, self._block = kept, block
        self.__array_interface__ = block.__array_interface__

    def __del__(self) -> None:
        self._kept.put(self._block)


OUTPUTS: Final = Kept()
"""Of this process."""
