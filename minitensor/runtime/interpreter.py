"""Kernels without a compiler: the reference interpreter runs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from minitensor import ir
from minitensor.codegen import Target
from minitensor.errors import CompileError
from minitensor.runtime.kernel import Kernel


class InterpreterKernel(Kernel):
    """A kernel that the reference interpreter runs: slow, with every check on, on any machine."""

    def __init__(self, program: ir.Program, target: Target) -> None:
        outputs = [buffer.name for buffer in program.outputs]
        super().__init__(program.name, program.params, outputs, target, str(program))
        self._program = program

    def assembly(self) -> str:
        """Raises CompileError: there is none."""
        raise CompileError(
            f"{ir.print_name(self.name)}: the interpreter makes no machine code; "
            'build with target="c" to see some'
        )

    def _run(self, arrays: list[np.ndarray]) -> int:
        slots = self._signature.slots
        inputs = [array for slot, array in zip(slots, arrays) if not slot.is_output]
        results, _ = ir.interpret(self._program, inputs)
        for n, result in zip(self._signature.outputs, results):
            arrays[n][...] = result
        return 0

    def _prepared(self, arrays: list[np.ndarray]) -> Callable[[], int]:
        return partial(self._run, arrays)
