"""Kernels between guard pages, in memory that holds nothing: the code is the one that others run.

A kernel runs twice. The first time every buffer ends where a guard page begins, the second time it
begins where one ends; outputs and scratch memory hold other patterns each time. So what is found is

    out of bounds   a guard page was touched
    unwritten       an element of an output holds the pattern still, or what was computed from it
    unsteady        an element differs between the runs: something was read that nothing wrote, or
                    threads race
    input changed   an input does not hold what it held
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.runtime import (
    Fault,
    NativeKernel,
    element_name,
)
from minitensor.sanitize.fault import Outcome, inputs_of
from minitensor.sanitize.memory import (
    GuardedMemory,
    Hit,
    Side,
    bits_of,
    guards_library,
    outside,
    pattern,
    watched,
)

_SCRATCH: Final = (0xFF, 0xB5)
"""The bytes that fill scratch memory in the two runs; the first is NaN as a float of any size."""
_SIDES: Final[tuple[Side, Side]] = ("end", "start")


def run_guarded(kernel: NativeKernel, inputs: Sequence[object]) -> Outcome:
    """Run a kernel twice between guard pages.

    inputs  one array for each input, in call order; they are copied

    Raises ArgumentError for an array that does not fit. An access beyond a guard (64 KB, and at
    least the size of the buffer) may end the process.
    """
    runs = [GuardedRun(kernel, inputs, which) for which in (0, 1)]
    (first, faults), (second, more) = [run.run() for run in runs]
    faults += [fault for fault in more if fault not in faults]
    if first != second:
        text = f"{ir.print_name(kernel.name)} returns {first}, and then {second}"
        faults.append(Fault("unsteady", text))
    if first == second == 0:
        for buffer in kernel.params:
            if buffer.name in kernel.emitted.outputs:
                a, b = (run.arrays[buffer.name] for run in runs)
                faults.extend(_compare(kernel.name, buffer, a, b))
    return Outcome(first, runs[0].outputs, tuple(faults))


def _compare(kernel: str, buffer: ir.Buffer, a: np.ndarray, b: np.ndarray) -> list[Fault]:
    """The faults of an output, by comparison of two runs."""
    a_bits, b_bits = bits_of(a), bits_of(b)
    unwritten = (a_bits == bits_of_nothing(buffer, 0)) & (b_bits == bits_of_nothing(buffer, 1))
    index = first_of(unwritten)
    name = ir.print_name(kernel)
    faults = []
    if index is not None:
        text = f"{name} does not write {element_name(buffer, index)}"
        count = int(unwritten.sum())
        more = f", nor {count - 1} others" if count > 1 else ""
        faults.append(Fault("unwritten", text + more, buffer.name, index))
    differs = (a_bits != b_bits) & ~unwritten & ~(_is_nan(buffer, a) & _is_nan(buffer, b))
    index = first_of(differs)
    if index is not None:
        values = f"{a[index]} in one run and {b[index]} in another"
        reason = "it reads what nothing wrote, or threads race"
        text = f"{name} computes {element_name(buffer, index)} as {values}: {reason}"
        faults.append(Fault("unsteady", text, buffer.name, index))
    return faults


def _is_nan(buffer: ir.Buffer, array: np.ndarray) -> np.ndarray:
    if not buffer.dtype.is_float:
        return np.zeros(array.shape, bool)
    nan: np.ndarray = np.isnan(ir.unpack(array, buffer.dtype))
    return nan


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
        given = inputs_of(kernel.emitted, inputs)
        for buffer in kernel.params:
            memory = GuardedMemory(buffer.shape, ir.numpy_dtype(buffer.dtype), _SIDES[which])
            if buffer.name in kernel.emitted.outputs:
                bits_of(memory.array)[...] = bits_of_nothing(buffer, which)
            else:
                self._originals[buffer.name] = memory.array[...] = given[buffer.name]
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
    return pattern(buffer.dtype, which)


def first_of(where: np.ndarray) -> tuple[int, ...] | None:
    """The first index at which it is true."""
    found = np.argwhere(where)
    return tuple(found[0].tolist()) if len(found) else None
