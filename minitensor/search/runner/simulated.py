"""Candidates for an accelerator, timed by its simulator: a number of cycles, always the same."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from minitensor import accelerator
from minitensor.codegen import Target
from minitensor.errors import CompileError, ExecutionError, MinitensorError
from minitensor.ir import Buffer, Program, numpy_dtype
from minitensor.runtime import native_target
from minitensor.schedule import Schedule
from minitensor.search.measure import reference, wrong_output
from minitensor.search.runner.results import Result, Status

CHECKED: Final = 1 << 20
"""The most multiply-adds of a program each of whose candidates is executed, and not only timed."""
CHECKED_AT_LAST: Final = 1 << 28
"""The same for the best one."""
ORDERS: Final = (None, 1, 2, 3)
"""The orders in which the best one is executed."""


class Simulated:
    """Times candidates by cycles, and executes those of small programs, each in another order.

    target  for "accelerator"
    """

    exact: Final = True

    def __init__(
        self, program: Program, target: Target, inputs: Sequence[Any] | None, seed: int
    ) -> None:
        self.program, self.machine = program, accelerator.Machine.of(target)
        self.inputs, self.seed = inputs, seed
        self._count = sum(
            math.prod(i.extent for i in block.iters) for block in program.blocks.values()
        )
        self._known: tuple[Any, Any] | None = None
        self._order = 0

    def measure(self, schedules: Sequence[Schedule], best: float | None = None) -> Iterator[Result]:
        """Yield the simulated time of each, as one that was measured once."""
        for schedule in schedules:
            start = time.perf_counter()
            self._order += 1
            result = self._timed(schedule.program)
            yield replace(result, spent=round(time.perf_counter() - start, 4))

    def _timed(self, program: Program) -> Result:
        try:
            kernel = accelerator.build(program, self.machine)
            timing = kernel.timing
        except MinitensorError as failure:
            return Result(Status.BUILD, message=failure.message)
        if self._count <= CHECKED:
            try:
                wrong = self._wrong(kernel, self._order)
            except CompileError:  # and so no reference
                wrong = None
            if wrong is not None:
                return Result(Status.WRONG, message=wrong)
        return Result(Status.OK, (self.machine.seconds(max(1, timing.cycles)),), 1)

    def _wrong(self, kernel: accelerator.AcceleratorKernel, order: int | None) -> str | None:
        """The difference from the program as it is written, executed in an order; None for none."""
        if self._known is None:
            inputs = self.inputs
            if inputs is None:  # of all sizes: what is small is 0 once it is quantised
                rng = np.random.default_rng(self.seed)
                inputs = [_bytes(rng, buffer) for buffer in self.program.inputs]
            exact = native_target(Target("c"))
            self._known = reference(self.program, exact, inputs, self.seed)
        given, expected = self._known

        def run(*arrays: Any) -> Any:
            outputs = kernel.simulate(*arrays, order=order).outputs
            return outputs[0] if len(outputs) == 1 else outputs

        try:
            return wrong_output(self.program, run, given, expected)
        except ExecutionError as failure:
            return failure.message

    def checked(self, schedule: Schedule) -> tuple[bool, str]:
        """True if nothing is wrong with a schedule, and a sentence on what was seen."""
        if self._count > CHECKED_AT_LAST:
            return True, f"timed, not executed: {self._count:,} executions of statements"
        try:
            kernel = accelerator.build(schedule.program, self.machine)
            for order in ORDERS:
                wrong = self._wrong(kernel, order)
                if wrong is not None:
                    return False, wrong
        except CompileError as failure:
            return True, f"timed, not executed: {failure.message}"
        return True, f"right in the simulator, in {len(ORDERS)} orders of its queues"


def _bytes(rng: np.random.Generator, buffer: Buffer) -> np.ndarray:
    dtype = numpy_dtype(buffer.dtype)
    drawn: np.ndarray = rng.integers(-128, 128, buffer.shape)
    return drawn.astype(dtype)
