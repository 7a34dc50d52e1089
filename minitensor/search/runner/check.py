"""The arrays a candidate runs on between guard pages, and what is wrong with what it left there.

They belong to the server, which shares them with its children: what a child says about them is not
asked. Each ends where a guard page begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from minitensor import ir
from minitensor.sanitize import GuardedMemory, Hit, bits_of, bits_of_nothing, outside
from minitensor.search.measure import difference, has_nan
from minitensor.search.runner.results import Status
from minitensor.search.runner.task import Task


class Arena:
    """Guarded memory for all parameters of a task.

    memories  one for each parameter
    with_nan  the names of outputs that are to hold a NaN
    size      their bytes, all together
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.memories = [
            GuardedMemory(b.shape, ir.numpy_dtype(b.dtype), shared=True) for b in task.params
        ]
        self.with_nan = {
            b.name
            for b in task.params
            if b.name in task.outputs and has_nan(b, task.arrays[b.name])
        }
        self.size = sum(memory.array.nbytes for memory in self.memories)
        self.reset(inputs=True)

    def reset(self, inputs: bool = False) -> None:
        """Fill outputs with what nothing computes, and restore the inputs if that is asked for."""
        for memory, buffer in zip(self.memories, self.task.params):
            if buffer.name in self.task.outputs:
                bits_of(memory.array)[...] = bits_of_nothing(buffer, 0)
            elif inputs:
                memory.array[...] = self.task.arrays[buffer.name]

    def fault(self, hits: Iterable[Sequence[int]] = ()) -> tuple[Status, str] | None:
        """What is wrong after a run; None if nothing is. Inputs that changed are restored.

        hits  accesses to guard pages
        """
        name = ir.print_name(self.task.name)
        for buffer, memory in zip(self.task.params, self.memories):
            if buffer.name in self.task.outputs:
                continue
            before = self.task.arrays[buffer.name]
            if not np.array_equal(bits_of(memory.array), bits_of(before)):
                self.reset(inputs=True)
                text = f"{name} changes its input {ir.print_name(buffer.name)}"
                return Status.WRONG, text
        for found in hits:
            hit = Hit(*found)
            if hit.memory < len(self.memories):
                buffer, memory = self.task.params[hit.memory], self.memories[hit.memory]
                return Status.BOUNDS, outside(self.task.name, buffer, memory, hit)
            return Status.BOUNDS, f"{name} touches memory outside its scratch memory"
        for buffer, memory in zip(self.task.params, self.memories):
            if buffer.name in self.task.outputs:
                wrong = self._fault_of(buffer, memory.array, self.task.arrays[buffer.name])
                if wrong is not None:
                    return wrong
        return None

    def _fault_of(
        self, buffer: ir.Buffer, got: np.ndarray, expected: np.ndarray
    ) -> tuple[Status, str] | None:
        text = difference(buffer, got, expected)
        if text is None and buffer.name not in self.with_nan:
            return None  # else what is not written, a NaN that nobody computes, is like another
        unwritten = np.count_nonzero(bits_of(got) == bits_of_nothing(buffer, 0))
        if unwritten:
            name = ir.print_name(buffer.name)
            told = f"{unwritten} of {got.size} elements of {name} are not written"
            return Status.INCOMPLETE, told
        return None if text is None else (Status.WRONG, text)
