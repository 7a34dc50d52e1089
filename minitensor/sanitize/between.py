"""One run of a kernel in memory of its own, each array between two guard pages."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np

from minitensor.errors import ExecutionError
from minitensor.ir import BFLOAT16, Buffer, numpy_dtype, print_name, print_type
from minitensor.runtime import NativeKernel, find_toolchain, load_function, pointer_to
from minitensor.sanitize.builds import Sanitizer, runtime_library
from minitensor.sanitize.fault import Fault, element_name
from minitensor.sanitize.memory import GuardedMemory, Side, bits_of, pattern
from minitensor.sanitize.subject import inputs_of

_MOST: Final = 256
_ACCESS: Final = {0: "reads", 1: "writes"}
_SCRATCH: Final = (0xFF, 0xB5)
"""What scratch memory is filled with: the first is NaN as a float of any size."""
_SIDES: Final[tuple[Side, Side]] = ("end", "start")
_one_at_a_time: Final = threading.Lock()


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
            memory = GuardedMemory(buffer.shape, numpy_dtype(buffer.dtype), _SIDES[which])
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
        path = runtime_library(Sanitizer.GUARDS, find_toolchain())
        start, finish = (load_function(path, f"guards_{name}", 1) for name in ("start", "finish"))
        bounds = [len(self._memories)]
        for memory in self._memories:
            bounds += [memory.before, memory.start, memory.end, memory.after]
        given, found = np.array(bounds, np.uint64), np.zeros((_MOST, 3), np.int64)
        *arrays, workspace = [memory.array for memory in self._memories]
        with _one_at_a_time:
            if start(pointer_to(given)) != 0:
                raise ExecutionError("no memory to watch guard pages", "memory")
            try:
                status = self.kernel.run_in(workspace, arrays)
            finally:
                count = finish(pointer_to(found))
        faults = [self._out_of_bounds(*hit) for hit in found[:count].tolist()]
        for buffer in self.kernel.params:
            if buffer.name in self._originals:
                faults.extend(self._changed(buffer))
        return status, faults

    def _out_of_bounds(self, memory: int, address: int, access: int) -> Fault:
        """The fault of an access to a guard page of the memory of that number."""
        did = f"{print_name(self.kernel.name)} {_ACCESS.get(access, 'touches')}"
        if memory == len(self.kernel.params):
            return Fault("out of bounds", f"{did} memory outside its scratch memory")
        buffer = self.kernel.params[memory]
        array = self.arrays[buffer.name]
        start = address_of(array)
        beyond = address - start - array.nbytes
        far, where = (beyond, "after its end") if beyond >= 0 else (start - address, "before it")
        text = f"{did} outside {print_name(buffer.name)}: {print_type(buffer)}"
        return Fault("out of bounds", f"{text}, {far} bytes {where}", buffer.name)

    def _changed(self, buffer: Buffer) -> list[Fault]:
        before, after = np.asarray(self._originals[buffer.name]), self.arrays[buffer.name]
        index = first_of(bits_of(before) != bits_of(after))
        if index is None:
            return []
        did = f"{print_name(self.kernel.name)} changes the input {element_name(buffer, index)}"
        text = f"{did} from {before[index]} to {after[index]}"
        return [Fault("input changed", text, buffer.name, index)]


def _scratch_memory(size: int, which: int) -> GuardedMemory:
    """Scratch memory, which is aligned to 64 bytes on either side."""
    memory = GuardedMemory((-(-size // 64) * 64,), np.uint8, _SIDES[which])
    memory.array[...] = _SCRATCH[which]
    return memory


def bits_of_nothing(buffer: Buffer, which: int) -> int:
    """The bits of an element of an output before anything is written to it."""
    return pattern(numpy_dtype(buffer.dtype), which, buffer.dtype == BFLOAT16)


def address_of(array: np.ndarray) -> int:
    """Where its memory begins."""
    address: int = array.__array_interface__["data"][0]
    return address


def first_of(where: np.ndarray) -> tuple[int, ...] | None:
    """The first index at which it is true."""
    found = np.argwhere(where)
    return tuple(found[0].tolist()) if len(found) else None
