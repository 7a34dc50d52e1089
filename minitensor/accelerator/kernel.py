"""A program for an accelerator: built, called, simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minitensor import ir, pictures
from minitensor.accelerator.clock import Timing, timing_of
from minitensor.accelerator.execute import execute
from minitensor.accelerator.lower import operations
from minitensor.accelerator.machine import Machine
from minitensor.accelerator.stream import Stream, bare_stream
from minitensor.accelerator.tokens import with_tokens
from minitensor.errors import whole
from minitensor.looks import Whole
from minitensor.runtime import Signature


@dataclass(frozen=True)
class Run:
    """One simulated run: what came out, and the time that it took.

    outputs  the arrays of the outputs, in call order
    """

    outputs: tuple[np.ndarray, ...]
    timing: Timing

    @property
    def cycles(self) -> int:
        """From the first instruction to the end of the last."""
        return self.timing.cycles

    @property
    def utilisation(self) -> float:
        """The part of the array's peak that products reach, from 0 to 1."""
        return self.timing.utilisation

    def timeline(self, most: int = 4000) -> pictures.Picture:
        """The three queues over time, as a picture; `most` cycles of it."""
        return self.timing.timeline(most)

    def __str__(self) -> str:
        return str(self.timing)

    __repr__ = __str__


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

    def simulate(self, *arrays: Any, order: int | None = None) -> Run:
        """Run and time it.

        order  the seed of an adversary that chooses an order of the queues that the tokens allow;
               None for the order of the program

        Raises ArgumentError for arrays that do not fit, ExecutionError for tokens that allow a race
        or a deadlock.
        """
        if order is not None:
            order = whole("order", order, 0)
        return Run(self._run(arrays, order), self.timing)

    def with_stream(self, stream: Stream) -> AcceleratorKernel:
        """The same program with other tokens: `stream.with_tokens(…)`, `stream.without(…)`."""
        return AcceleratorKernel(self.program, stream)

    def _run(self, arrays: tuple[Any, ...], order: int | None) -> tuple[np.ndarray, ...]:
        accepted, results = self._signature.accept(arrays)
        by_name = dict(zip((b.name for b in self.program.params), accepted))
        outputs = {b.name: by_name.pop(b.name) for b in self.program.outputs}
        execute(self.stream, by_name, outputs, order)
        return tuple(results)

    @property
    def source(self) -> str:
        """All instructions as text."""
        return Whole(self.stream.listing(len(self.stream)))

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
