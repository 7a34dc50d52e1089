"""One run of a kernel in memory of its own, each array between two guard pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.runtime import NativeKernel
from minitensor.sanitize.fault import Fault, element_name
from minitensor.sanitize.memory import GuardedMemory, Side, bits_of, pattern
from minitensor.sanitize.subject import inputs_of
from minitensor.sanitize.watch import Hit, guards_library, outside, watched

_SCRATCH: Final = (0xFF, 0xB5)
"""What scratch memory is filled with: the first is NaN as a float of any size."""
_SIDES: Final[tuple[Side, Side]] = ("end", "start")


class GuardedRun:
    """A kernel and the memory that it will run in.

    Inputs are copied; ArgumentError is raised for one that does not fit. Outputs and scratch memory
    hold a pattern that nothing computes; there are two, 0 and 1. With 0 each array ends where a
    guard page begins, with 1 it begins where one ends.

    arrays  one for each parameter, by name
    """

    def __init__(self, kernel: NativeKernel, inputs: Sequence[object], which: int) -> None:
        self.kernel = kernel
        self.which = which
        self._memories: list[GuardedMemory] = []
        self._originals: dict[str, np.ndarray] = {}
        given = iter(inputs_of(kernel.emitted, inputs))
        for buffer in kernel.params:
            memory = GuardedMemory(buffer.shape, ir.numpy_dtype(buffer.dtype), _SIDES[which])
            if buffer.name in kernel.emitted.outputs:
                bits_of(memory.array)[...] = bits_of_nothing(buffer, which)
            else:
                self._originals[buffer.name] = memory.array[...] = next(given)
            self._memories.append(memory)
        self.arrays = {b.name: m.array for b, m in zip(kernel.params, self._memories)}
        self._memories.append(_scratch_memory(kernel.emitted.workspace, which))

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """Copies of the outputs, in call order."""
        names = [b.name for b in self.kernel.params if b.name in self.kernel.emitted.outputs]
        return tuple(self.arrays[name].copy() for name in names)

    def run(self) -> tuple[int, list[Fault]]:
        """Run once: the status, and the accesses to guard pages and changed inputs."""
        *arrays, workspace = [memory.array for memory in self._memories]
        with watched(guards_library(), self._memories) as hits:
            status = self.kernel.run_in(workspace, arrays)
        faults = [self._out_of_bounds(hit) for hit in hits]
        for buffer in self.kernel.params:
            if buffer.name in self._originals:
                faults.extend(self._changed(buffer))
        return status, faults

    def _out_of_bounds(self, hit: Hit) -> Fault:
        """The fault of an access to a guard page."""
        last = hit.memory == len(self.kernel.params)
        buffer = None if last else self.kernel.params[hit.memory]
        text = outside(self.kernel.name, buffer, self._memories[hit.memory], hit)
        return Fault("out of bounds", text, "" if buffer is None else buffer.name)

    def _changed(self, buffer: ir.Buffer) -> list[Fault]:
        before, after = np.asarray(self._originals[buffer.name]), self.arrays[buffer.name]
        index = first_of(bits_of(before) != bits_of(after))
        if index is None:
            return []
        did = f"{ir.print_name(self.kernel.name)} changes the input {element_name(buffer, index)}"
        text = f"{did} from {before[index]} to {after[index]}"
        return [Fault("input changed", text, buffer.name, index)]


def _scratch_memory(size: int, which: int) -> GuardedMemory:
    """Scratch memory, which is aligned to 64 bytes on either side."""
    memory = GuardedMemory((-(-size // 64) * 64,), np.uint8, _SIDES[which])
    memory.array[...] = _SCRATCH[which]
    return memory


def bits_of_nothing(buffer: ir.Buffer, which: int) -> int:
    """The bits of an element of an output before anything is written to it."""
    return pattern(ir.numpy_dtype(buffer.dtype), which, buffer.dtype == ir.BFLOAT16)


def address_of(array: np.ndarray) -> int:
    """Where its memory begins."""
    address: int = array.__array_interface__["data"][0]
    return address


def first_of(where: np.ndarray) -> tuple[int, ...] | None:
    """The first index at which it is true."""
    found = np.argwhere(where)
    return tuple(found[0].tolist()) if len(found) else None
