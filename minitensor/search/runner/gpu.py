"""Candidates for a GPU: measured on one, or ranked by the cost of their kernels without one.

    Estimates  nothing is built or run: the time of a candidate is what `gpu.cost_of` says
    Device     nvcc builds several in one run; each is checked, and timed by events of the GPU

Both hold candidates against the limits of the GPU before a compiler is asked. Candidates run in
this process: a kernel that faults ends the use of the GPU here, and so the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from minitensor import runtime
from minitensor.api import build
from minitensor.codegen import Emitted, Target, device_of, generate, lowered
from minitensor.errors import CompileError, ExecutionError, MeasureError, MinitensorError
from minitensor.gpu import cost_of
from minitensor.ir import Program
from minitensor.runtime import native_target
from minitensor.schedule import Schedule
from minitensor.search.measure import reference, wrong_output
from minitensor.search.runner.results import Result, Settings, Status

LEAST: Final = 1e-9
"""The least estimate in seconds: a time is above 0, that of a program without elements too."""
EMULATED: Final = 1 << 22
"""The most executions of statements in a program that the emulator is asked about: some seconds."""


class Estimates:
    """Ranks candidates by the cost of their kernels on a GPU; nothing is measured.

    target  for "cuda-emulator", with nothing left open
    """

    exact: Final = True

    def __init__(self, target: Target) -> None:
        self.target, self.device = target, device_of(target).name

    def measure(self, schedules: Sequence[Schedule], best: float | None = None) -> Iterator[Result]:
        """Yield the estimated time of each, as one that was measured once."""
        for schedule in schedules:
            start = time.perf_counter()
            result = self._estimated(schedule.program)
            yield replace(result, spent=round(time.perf_counter() - start, 4))

    def _estimated(self, program: Program) -> Result:
        try:
            cost = cost_of(lowered(program, self.target), self.device)
        except MinitensorError as failure:
            return Result(Status.BUILD, message=failure.message)
        if not math.isfinite(cost.seconds):
            return Result(Status.BUILD, message=f"{self.device} cannot launch one of its kernels")
        return Result(Status.OK, (max(cost.seconds, LEAST),), 1)


@dataclass(frozen=True)
class Device:
    """Builds candidates for the GPU of this machine, checks and times them there.

    target    for "cuda", with nothing left open
    inputs    one array for each
    expected  what the program computes of them, unscheduled
    settings  `batch`, `compile_limit`, `repeat` and `repeats` count
    """

    target: Target
    inputs: Sequence[Any]
    expected: Sequence[np.ndarray]
    settings: Settings

    @staticmethod
    def of(
        program: Program,
        target: Target,
        inputs: Sequence[Any] | None,
        seed: int,
        settings: Settings | None = None,
    ) -> Device:
        """Raises MeasureError without a GPU, with the way to go without; else as `reference`."""
        try:
            _ = runtime.cuda_of(runtime.find_nvcc().library).count
        except (CompileError, ExecutionError) as failure:
            raise MeasureError(
                f"candidates cannot be measured: {failure.message}. Without a GPU, "
                'target="cuda-emulator" ranks them by an estimate of their time'
            ) from None
        given, expected = reference(program, native_target(Target("c")), inputs, seed)
        return Device(target, given, expected, settings or Settings())

    def measure(self, schedules: Sequence[Schedule], best: float | None = None) -> Iterator[Result]:
        """Yield the result of each, in order. Those of a batch are built in one run of nvcc."""
        for start in range(0, len(schedules), self.settings.batch):
            yield from self._batch(schedules[start : start + self.settings.batch])

    def _batch(self, schedules: Sequence[Schedule]) -> Iterator[Result]:
        start = time.perf_counter()
        texts = [self._text(schedule) for schedule in schedules]
        kernels = iter(self._built([text for text in texts if isinstance(text, Emitted)]))
        share = (time.perf_counter() - start) / len(schedules)
        for schedule, text in zip(schedules, texts):
            start = time.perf_counter()
            built = next(kernels) if isinstance(text, Emitted) else text
            result = built if isinstance(built, Result) else self._run(schedule.program, built)
            yield replace(result, spent=round(share + time.perf_counter() - start, 4))

    def _text(self, schedule: Schedule) -> Emitted | Result:
        try:
            return generate(schedule.program, self.target, "")
        except MinitensorError as failure:
            return Result(Status.BUILD, message=failure.message)

    def _built(self, texts: Sequence[Emitted]) -> list[runtime.CudaKernel | Result]:
        """The kernels of some texts; where they do not compile together, each alone."""
        if not texts:
            return []
        try:
            limit = self.settings.compile_limit * len(texts)
            return [*runtime.load_cuda_together(texts, time_limit=limit)]
        except CompileError as failure:
            if len(texts) > 1:
                return [found for text in texts for found in self._built([text])]
            details = failure.stderr
            return [Result(Status.BUILD, message=failure.message, details=details)]

    def _run(self, program: Program, kernel: runtime.CudaKernel) -> Result:
        try:
            wrong = wrong_output(program, kernel, self.inputs, self.expected)
            if wrong is not None:
                return Result(Status.WRONG, message=wrong)
            least = self.settings.repeat * 1e3
            timing = kernel.time(*self.inputs, repeat=self.settings.repeats, min_repeat_ms=least)
        except ExecutionError as failure:
            return Result(Status.CHECK, message=failure.message)
        return Result(Status.OK, tuple(timing.results), timing.number)


def emulated(
    schedule: Schedule, program: Program, target: Target, inputs: Sequence[Any] | None, seed: int
) -> tuple[bool, str]:
    """Run a schedule in the emulator of CUDA, checked, where that takes seconds only.

    Returns whether nothing is wrong with it, and a sentence on what was seen.
    """
    count = sum(math.prod(i.extent for i in block.iters) for block in program.blocks.values())
    if count > EMULATED:
        return True, f"not run in the emulator: {count:,} executions of statements take too long"
    try:
        given, expected = reference(program, native_target(Target("c")), inputs, seed)
        kernel = build(schedule, target, check=True)
    except CompileError as failure:
        return True, f"not run in the emulator: {failure.message}"
    try:
        wrong = wrong_output(program, kernel, given, expected)
    except ExecutionError as failure:
        return False, failure.message
    return wrong is None, wrong or "right in the emulator, without races"
