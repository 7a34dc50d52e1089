"""What all candidates of a search have in common: inputs, and what they are to compute."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Target
from minitensor.errors import unexpected
from minitensor.runtime import native_target
from minitensor.search.measure import reference
from minitensor.search.workload import multiply_adds

_FASTEST_CLOCK: Final = 8e9
_STORES: Final = 2 * 64
"""Bytes that a core stores in a cycle."""
_OPERATIONS: Final = 8
"""Operations in a cycle for each byte of a vector: two units, a multiply and an add, four 8-bit
products in a lane of 32 bits. Both are more than any CPU does, so that nothing true is refused.
"""
_FILE: Final = "task.json"


@dataclass(frozen=True)
class Task:
    """Inputs, the outputs that a right candidate gives for them, and what is known of the work.

    name    of the program, for messages
    params  in call order
    arrays  for each parameter, by name: an input, or what an output should hold
    outputs the names of those that are written
    target  what candidates are built for, with nothing left open
    floor   seconds that no call takes less than
    """

    name: str
    params: tuple[ir.Buffer, ...]
    arrays: Mapping[str, np.ndarray]
    outputs: frozenset[str]
    target: Target
    floor: float

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
            raise unexpected("a program (see mt.lower)", "program", program)
        exact = native_target(Target.of(target))
        if exact.kind != "c":
            raise unexpected('"c" or an mt.Target for it', "target", target)
        given, results = reference(program, exact, inputs, seed)
        buffers = (*program.inputs, *program.outputs)
        arrays = {b.name: np.asarray(a).copy() for b, a in zip(buffers, (*given, *results))}
        outputs = frozenset(b.name for b in program.outputs)
        return Task(
            name=program.name,
            params=program.params,
            arrays=arrays,
            outputs=outputs,
            target=exact,
            floor=_floor(program, exact),
        )

    def save(self, folder: Path) -> None:
        """Write it to a folder: task.json, and one .npy file for each parameter, by number."""
        for number, buffer in enumerate(self.params):
            file = folder / f"{number}.npy"
            np.save(file, _stored(buffer, self.arrays[buffer.name]), allow_pickle=False)
        target = self.target
        told = {
            "name": self.name,
            "params": [_buffer_as_json(b) for b in self.params],
            "outputs": sorted(self.outputs),
            "target": [target.kind, target.num_cores, target.vector_bits],
            "floor": self.floor,
        }
        (folder / _FILE).write_text(json.dumps(told), encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Task:
        """The task that `save` wrote."""
        told = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        params = tuple(
            ir.Buffer(b["name"], tuple(b["shape"]), ir.DType.of(b["dtype"]), ir.Scope.GLOBAL)
            for b in told["params"]
        )
        arrays = {
            b.name: np.load(folder / f"{number}.npy", allow_pickle=False)
            for number, b in enumerate(params)
        }
        outputs, target = frozenset(told["outputs"]), Target(*told["target"])
        return Task(told["name"], params, arrays, outputs, target, told["floor"])


def _floor(program: ir.Program, target: Target) -> float:
    """Seconds that no machine of this kind takes less than: outputs stored, operations done."""
    sizes = [math.prod(b.shape) * ir.numpy_dtype(b.dtype).itemsize for b in program.outputs]
    width = max(target.vector_bits or 0, 64) // 8
    cycles = max(sum(sizes) / _STORES, multiply_adds(program) / (width * _OPERATIONS))
    return cycles / (_FASTEST_CLOCK * (target.num_cores or 1))


def _stored(buffer: ir.Buffer, array: np.ndarray) -> np.ndarray:
    """The array as a kernel takes it: bfloat16 as uint16."""
    dtype = ir.numpy_dtype(buffer.dtype)
    plain = np.ascontiguousarray(array).reshape(buffer.shape)
    return plain if plain.dtype == dtype else plain.view(dtype)


def _buffer_as_json(buffer: ir.Buffer) -> dict[str, Any]:
    return {"name": buffer.name, "shape": buffer.shape, "dtype": str(buffer.dtype)}
