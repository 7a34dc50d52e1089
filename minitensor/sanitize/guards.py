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

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor.errors import ExecutionError
from minitensor.ir import BFLOAT16, Buffer, numpy_dtype, print_name, print_type
from minitensor.runtime import NativeKernel, find_toolchain, load_function, pointer_to
from minitensor.sanitize.builds import Sanitizer, runtime_library
from minitensor.sanitize.fault import Fault, element_name
from minitensor.sanitize.memory import GuardedMemory, Side, bits_of, pattern
from minitensor.sanitize.outcome import Outcome

_MOST: Final = 256
_ACCESS: Final = {0: "reads", 1: "writes"}
_SCRATCH: Final = (0xFF, 0xB5)
"""What scratch memory is filled with: the first is NaN as a float of any size."""
_SIDES: Final[tuple[Side, Side]] = ("end", "start")
_one_at_a_time: Final = threading.Lock()


def run_guarded(kernel: NativeKernel, inputs: Sequence[np.ndarray]) -> Outcome:
    """Run a kernel twice between guard pages.

    inputs  one array for each input, in call order, known to fit; they are copied

    An access beyond a guard (64 KB, and at least the size of the buffer) may end the process.
    """
    first, second = (_Run(kernel, inputs, which) for which in (0, 1))
    faults = [*first.faults, *(f for f in second.faults if f not in first.faults)]
    if first.status != second.status:
        name = print_name(kernel.name)
        faults.append(Fault("unsteady", f"{name} returns {first.status}, and then {second.status}"))
    outputs = [b for b in kernel.params if b.name in kernel.emitted.outputs]
    results = tuple(first.arrays[b.name].copy() for b in outputs)
    if first.status == second.status == 0:
        for buffer in outputs:
            a, b = first.arrays[buffer.name], second.arrays[buffer.name]
            faults.extend(_compare(kernel.name, buffer, a, b))
    return Outcome(first.status, results, tuple(faults))


class _Run:
    """One run: `arrays` by name as it left them, `status`, and `faults`."""

    def __init__(self, kernel: NativeKernel, inputs: Sequence[np.ndarray], which: int) -> None:
        side = _SIDES[which]
        given = iter(inputs)
        memories: list[GuardedMemory] = []
        originals: dict[str, np.ndarray] = {}
        for buffer in kernel.params:
            memory = GuardedMemory(buffer.shape, numpy_dtype(buffer.dtype), side)
            if buffer.name in kernel.emitted.outputs:
                bits_of(memory.array)[...] = _pattern(buffer, which)
            else:
                originals[buffer.name] = memory.array[...] = next(given)
            memories.append(memory)
        scratch = _scratch_memory(kernel.emitted.workspace, which)
        arrays = [m.array for m in memories]
        self.arrays = dict(zip([b.name for b in kernel.params], arrays))
        self.status, hits = _watched(kernel, [*memories, scratch])
        name = print_name(kernel.name)
        self.faults = [_out_of_bounds(name, kernel.params, arrays, hit) for hit in hits]
        for buffer in kernel.params:
            if buffer.name in originals:
                before, after = originals[buffer.name], self.arrays[buffer.name]
                self.faults.extend(_changed(name, buffer, before, after))


@dataclass(frozen=True, slots=True)
class _Hit:
    """An access to a guard page: of which memory, where, and what kind (see `_ACCESS`)."""

    memory: int
    address: int
    access: int


def _watched(kernel: NativeKernel, memories: Sequence[GuardedMemory]) -> tuple[int, list[_Hit]]:
    """Run on memory for each parameter and the workspace: the status, and what guards report."""
    path = runtime_library(Sanitizer.GUARDS, find_toolchain())
    start, finish = (load_function(path, f"guards_{name}", 1) for name in ("start", "finish"))
    bounds = [len(memories)]
    for memory in memories:
        bounds += [memory.before, memory.start, memory.end, memory.after]
    given, found = np.array(bounds, np.uint64), np.zeros((_MOST, 3), np.int64)
    *arrays, workspace = [memory.array for memory in memories]
    with _one_at_a_time:
        if start(pointer_to(given)) != 0:
            raise ExecutionError("no memory to watch guard pages", "memory")
        try:
            status = kernel.run_in(workspace, arrays)
        finally:
            count = finish(pointer_to(found))
    return status, [_Hit(*row) for row in found[:count].tolist()]


def _scratch_memory(size: int, which: int) -> GuardedMemory:
    """Scratch memory, which is aligned to 64 bytes on either side."""
    memory = GuardedMemory((-(-size // 64) * 64,), np.uint8, _SIDES[which])
    memory.array[...] = _SCRATCH[which]
    return memory


def _pattern(buffer: Buffer, which: int) -> int:
    return pattern(numpy_dtype(buffer.dtype), which, buffer.dtype == BFLOAT16)


# ---- what is wrong


def _out_of_bounds(
    kernel: str, params: Sequence[Buffer], arrays: Sequence[np.ndarray], hit: _Hit
) -> Fault:
    did = _ACCESS.get(hit.access, "touches")
    if hit.memory == len(params):
        return Fault("out of bounds", f"{kernel} {did} memory outside its scratch memory")
    buffer, array = params[hit.memory], arrays[hit.memory]
    start = array.__array_interface__["data"][0]
    beyond = hit.address - start - array.nbytes
    far, where = (beyond, "after its end") if beyond >= 0 else (start - hit.address, "before it")
    text = f"{kernel} {did} outside {print_name(buffer.name)}: {print_type(buffer)}"
    return Fault("out of bounds", f"{text}, {far} bytes {where}", buffer.name)


def _changed(kernel: str, buffer: Buffer, before: np.ndarray, after: np.ndarray) -> list[Fault]:
    index = _first(bits_of(np.asarray(before)) != bits_of(after))
    if index is None:
        return []
    element = element_name(buffer, index)
    text = f"{kernel} changes the input {element} from {before[index]} to {after[index]}"
    return [Fault("input changed", text, buffer.name, index)]


def _compare(kernel: str, buffer: Buffer, a: np.ndarray, b: np.ndarray) -> list[Fault]:
    """What two runs say about an output."""
    a_bits, b_bits = bits_of(a), bits_of(b)
    unwritten = (a_bits == _pattern(buffer, 0)) & (b_bits == _pattern(buffer, 1))
    index = _first(unwritten)
    name = print_name(kernel)
    faults = []
    if index is not None:
        text = f"{name} does not write {element_name(buffer, index)}"
        count = int(unwritten.sum())
        more = f", nor {count - 1} others" if count > 1 else ""
        faults.append(Fault("unwritten", text + more, buffer.name, index))
    differs = (a_bits != b_bits) & ~unwritten & ~(_is_nan(buffer, a) & _is_nan(buffer, b))
    index = _first(differs)
    if index is not None:
        values = f"{a[index]} in one run and {b[index]} in another"
        reason = "it reads what nothing wrote, or threads race"
        text = f"{name} computes {element_name(buffer, index)} as {values}: {reason}"
        faults.append(Fault("unsteady", text, buffer.name, index))
    return faults


def _is_nan(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    if buffer.dtype == BFLOAT16:
        nan: np.ndarray = (array & 0x7FFF) > 0x7F80
        return nan
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _first(where: np.ndarray) -> tuple[int, ...] | None:
    """The first index at which it is true."""
    found = np.argwhere(where)
    return tuple(found[0].tolist()) if len(found) else None
