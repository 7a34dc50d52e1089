"""Inputs and expected outputs of all candidates of a search, and the guarded memory they run on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted, Target
from minitensor.errors import unexpected
from minitensor.phrasebook import no_program
from minitensor.runtime import load_kernel, native_target, save_kernel
from minitensor.sanitize import GuardedMemory, Hit, bits_of, bits_of_nothing, outside
from minitensor.search.measure import difference, has_nan, reference
from minitensor.search.runner.results import Status


@dataclass(frozen=True)
class Task:
    """Inputs, and the outputs that a right candidate gives for them.

    name    of the program, for messages
    params  in call order
    arrays  for each parameter, by name: an input, or what an output should hold
    outputs the names of those that are written
    target  what candidates are built for, with nothing left open
    """

    name: str
    params: tuple[ir.Buffer, ...]
    arrays: Mapping[str, np.ndarray]
    outputs: frozenset[str]
    target: Target

    @staticmethod
    def of(
        program: ir.Program,
        target: str | Target = "c",
        inputs: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> Task:
        """The task of a definition, which is built and run here, unscheduled, once.

        target  "c" or an mt.Target for C; what is left open is filled in from this machine
        inputs  one array for each input; None for small random integers, whose sums are exact in
                any order
        seed    of those

        Raises ArgumentError for what does not fit, CompileError without a compiler.
        """
        if not isinstance(program, ir.Program):
            raise no_program("program", program)
        exact = exact_target(target)
        given, results = reference(program, exact, inputs, seed)
        buffers = (*program.inputs, *program.outputs)
        arrays = {b.name: np.asarray(a).copy() for b, a in zip(buffers, (*given, *results))}
        outputs = frozenset(b.name for b in program.outputs)
        return Task(program.name, program.params, arrays, outputs, exact)

    def save(self, folder: Path, candidate: Emitted | None = None) -> None:
        """Write it to a folder, with the text of a candidate if one is given."""
        text = candidate or Emitted("", "", self.params, self.outputs, (), 0, self.target)
        save_kernel(folder, replace(text, name=self.name), self.arrays)

    @staticmethod
    def load(folder: Path) -> tuple[Task, Emitted]:
        """The task that `save` wrote, and the candidate."""
        text, arrays = load_kernel(folder)
        return Task(text.name, text.params, arrays, text.outputs, text.target), text


def exact_target(target: str | Target, gpu: bool = False) -> Target:
    """A target that candidates can be measured on, with nothing left open. Raises ArgumentError.

    gpu  whether it may be a GPU, or the emulator of one, or the simulated accelerator
    """
    exact = native_target(Target.of(target))
    if exact.kind != "c" and not (gpu and (exact.is_gpu or exact.kind == "accelerator")):
        kinds = '"c", "cuda", "cuda-emulator", "accelerator"' if gpu else '"c"'
        raise unexpected(f"{kinds} or an mt.Target for it", "target", target)
    return exact


class Arena:
    """Guarded memory for all parameters of a task: each array ends where a guard page begins.

    It belongs to the process that measures, which shares it with the processes of candidates and
    looks at it itself.

    memories  one for each parameter
    with_nan  the names of outputs that are to hold a NaN
    size      their bytes, all together
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.name = ir.print_name(task.name)
        shapes = [(b.shape, ir.numpy_dtype(b.dtype)) for b in task.params]
        self.memories = [GuardedMemory(*shape, shared=True) for shape in shapes]
        pairs = list(zip(task.params, self.memories))
        self.outputs = [(b, m.array) for b, m in pairs if b.name in task.outputs]
        self.inputs = [(b, m.array) for b, m in pairs if b.name not in task.outputs]
        self.with_nan = {b.name for b, _ in self.outputs if has_nan(b, task.arrays[b.name])}
        self.size = sum(memory.array.nbytes for memory in self.memories)
        self._restore()
        self.reset()

    def reset(self) -> None:
        """Fill outputs with what nothing computes."""
        for buffer, array in self.outputs:
            bits_of(array)[...] = bits_of_nothing(buffer, 0)

    def fault(self, hits: Iterable[Sequence[int]] = ()) -> tuple[Status, str] | None:
        """The fault of a run; None if there is none. Inputs that changed are restored.

        hits  accesses to guard pages
        """
        for buffer, array in self.inputs:
            if not np.array_equal(bits_of(array), bits_of(self.task.arrays[buffer.name])):
                self._restore()
                text = f"{self.name} changes its input {ir.print_name(buffer.name)}"
                return Status.WRONG, text
        for hit in map(Hit._make, hits):
            if hit.memory >= len(self.memories):
                return Status.BOUNDS, f"{self.name} touches memory outside its scratch memory"
            buffer, memory = self.task.params[hit.memory], self.memories[hit.memory]
            return Status.BOUNDS, outside(self.task.name, buffer, memory, hit)
        found = (self._fault_of(buffer, array) for buffer, array in self.outputs)
        return next((fault for fault in found if fault is not None), None)

    def _restore(self) -> None:
        for buffer, array in self.inputs:
            array[...] = self.task.arrays[buffer.name]

    def _fault_of(self, buffer: ir.Buffer, got: np.ndarray) -> tuple[Status, str] | None:
        text = difference(buffer, got, self.task.arrays[buffer.name])
        if text is None and buffer.name not in self.with_nan:
            return None  # else an element that is not written, a NaN, is like a NaN that is
        unwritten = np.count_nonzero(bits_of(got) == bits_of_nothing(buffer, 0))
        if unwritten:
            name = ir.print_name(buffer.name)
            text = f"{unwritten} of {got.size} elements of {name} are not written"
            return Status.INCOMPLETE, text
        return None if text is None else (Status.WRONG, text)
