"""A program for an accelerator: built, called, simulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.accelerator.clock import Timing, timing_of
from minitensor.accelerator.execute import execute
from minitensor.accelerator.lower import operations
from minitensor.accelerator.machine import Machine
from minitensor.accelerator.stream import Stream, bare_stream, stream_of
from minitensor.accelerator.tokens import with_tokens
from minitensor.errors import whole
from minitensor.looks import Whole
from minitensor.runtime import Signature


class AcceleratorKernel:
    """A program as a stream of instructions of a simulated accelerator.

    Called with arrays, it returns the outputs. `stream` has the instructions; `timing` what they
    take, which depends on no array.
    """

    def __init__(self, program: ir.Program, stream: Stream) -> None:
        self.program, self.stream = program, stream
        self._signature = Signature(program.name, program.params, [b.name for b in program.outputs])

    @property
    def machine(self) -> Machine:
        """The accelerator that it is for."""
        return self.stream.machine

    @property
    def timing(self) -> Timing:
        """Cycles, utilisation and stalls."""
        return timing_of(self.stream)

    def __call__(self, *arrays: Any) -> Any:
        """The output of arrays, one for each input in call order; a tuple of several outputs."""
        outputs = self._run(arrays, None)
        return outputs[0] if len(outputs) == 1 else outputs

    def simulate(self, *arrays: Any, order: int | None = None) -> Timing:
        """Run and time it: the timing has `outputs`.

        order  the seed of an adversary that chooses an order of the queues that the tokens allow;
               None for the order of the program

        Raises ArgumentError for arrays that do not fit, ExecutionError for tokens that allow a race
        or a deadlock.
        """
        if order is not None:
            order = whole("order", order, 0)
        return replace(self.timing, outputs=self._run(arrays, order))

    def with_stream(self, stream: Stream) -> AcceleratorKernel:
        """The same program with other tokens: `stream.with_tokens(…)`."""
        return AcceleratorKernel(self.program, stream_of(stream))

    def _run(self, arrays: tuple[Any, ...], order: int | None) -> tuple[np.ndarray, ...]:
        accepted, results = self._signature.accept(arrays)
        execute(self.stream, dict(zip((b.name for b in self.program.params), accepted)), order)
        return tuple(results)

    @property
    def source(self) -> str:
        """All instructions as text."""
        return self.stream.listing(len(self.stream))

    def explain(self) -> str:
        """The machine, the memories that are used, and where the cycles go."""
        used = dict.fromkeys(self.machine.memories, 0)
        for buffer in self.stream.buffers.values():
            if buffer.scope in used:
                used[buffer.scope] += buffer.nbytes
        memories = [
            f"  {scope.value:<18}{size:>9,} of {self.machine.memories[scope]:,} B"
            for scope, size in used.items()
        ]
        return Whole("\n".join([str(self.machine), "", *memories, "", str(self.timing)]))

    def __repr__(self) -> str:
        name = ir.print_name(self.program.name)
        return f"<AcceleratorKernel {name}: {len(self.stream):,} instructions>"


def build(program: ir.Program, machine: Machine) -> AcceleratorKernel:
    """A program for a machine. Raises LoweringError for what it does not do."""
    stream = bare_stream(operations(program, machine), machine)
    return AcceleratorKernel(program, with_tokens(stream))
