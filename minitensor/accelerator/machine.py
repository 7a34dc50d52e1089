"""The accelerator as data: an array of multipliers, memories on chip, one for each kind of operand,
and a road to DRAM.

The numbers are those published of VDLA, of 2018: an array of 16 x 16, 32 kB for inputs, 32 kB for
weights, 128 kB for accumulators, 32 kB of micro-operations, 200 MHz. Its bandwidth and the cycles
before an instruction begins are not published: they are parameters.

Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep Learning, OSDI 2018,
section 6.4.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from minitensor.answers import answered
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, is_real, unexpected, whole
from minitensor.ir import Scope

KIND: Final = "accelerator"
"""The kind of its target."""


@dataclass(frozen=True, slots=True)
class Machine:
    """An accelerator with decoupled access and execute.

    rows                   outputs that the array adds to in a cycle
    columns                products that it adds to each of them in a cycle
    input_bytes            memory for inputs, scope "acc.input"
    weight_bytes           memory for weights, scope "acc.weight"
    accumulator_bytes      memory for sums, scope "acc.accumulator"
    micro_ops              micro-operations that one instruction may have
    dram_bytes_per_cycle   bytes that a load, and at the same time a store, moves in a cycle
    dram_latency           cycles of a load or a store before its first byte
    issue_cycles           cycles of any other instruction before its first micro-operation
    megahertz              clock rate
    """

    rows: int = 16
    columns: int = 16
    input_bytes: int = 32 << 10
    weight_bytes: int = 32 << 10
    accumulator_bytes: int = 128 << 10
    micro_ops: int = 8192
    dram_bytes_per_cycle: float = 8.0
    dram_latency: int = 20
    issue_cycles: int = 20
    megahertz: float = 200.0

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type == "int":
                least = 0 if name in ("dram_latency", "issue_cycles") else 1
                object.__setattr__(self, name, whole(name, value, least, 1 << 40))
            elif is_real(value, 0, 1e9) and value > 0:
                object.__setattr__(self, name, float(value))
            else:
                raise unexpected("a number above 0", name, value)

    @staticmethod
    def of(target: Target) -> Machine:
        """The machine that a target names. Raises ArgumentError for what is none."""
        types = {field.name: int if field.type == "int" else float for field in fields(Machine)}
        parts = (part.partition("=") for part in (target.device or "").split(",") if part)
        try:
            given: dict[str, Any] = {name: types[name](text) for name, _, text in parts}
            return Machine(**given)
        except (KeyError, ValueError):
            wanted = "parts of an mt.accelerator.Machine, such as dram_bytes_per_cycle=8"
            raise unexpected(wanted, "device", target.device) from None

    @property
    def target(self) -> Target:
        """The machine as a target: `device` has what is not usual of it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        changed = [f"{n}={v}" for n, v in values.items() if v != getattr(_USUAL, n)]
        return Target(KIND, num_cores=1, vector_bits=0, device=",".join(changed) or None)

    @property
    def memories(self) -> dict[Scope, int]:
        """The bytes of each memory on chip, in the order of a product's operands."""
        return {
            Scope.ACC_INPUT: self.input_bytes,
            Scope.ACC_WEIGHT: self.weight_bytes,
            Scope.ACC_ACCUMULATOR: self.accumulator_bytes,
        }

    @property
    def peak(self) -> int:
        """Multiply-adds in a cycle."""
        return self.rows * self.columns

    def seconds(self, cycles: float) -> float:
        """The time of so many cycles."""
        return cycles / (self.megahertz * 1e6)

    def __str__(self) -> str:
        speed = 2 * self.peak * self.megahertz / 1e3
        lines = (
            ("array", f"{self.rows} x {self.columns}", "int8 x int8 -> int32, a step a cycle"),
            *((scope.value, f"{size:,} B", _HELD[scope]) for scope, size in self.memories.items()),
            ("micro-operations", f"{self.micro_ops:,}", "of one instruction"),
            ("DRAM", f"{self.dram_bytes_per_cycle:g} B/cycle", "each way"),
            ("DRAM latency", f"{self.dram_latency} cycles", "of a load or a store"),
            ("issue", f"{self.issue_cycles} cycles", "of any other instruction"),
            ("clock", f"{self.megahertz:g} MHz", f"{speed:g} GOP/s at the peak"),
        )
        return "\n".join(f"{name:<18}{value:>14}  {note}" for name, value, note in lines)


Machine.__init__ = answered(Machine.__init__)  # type: ignore[method-assign]
_USUAL: Final = Machine()
_HELD: Final = {
    Scope.ACC_INPUT: "inputs of products",
    Scope.ACC_WEIGHT: "weights of products",
    Scope.ACC_ACCUMULATOR: "sums, and what is computed of them",
}


def machine_of(machine: object) -> Machine:
    """A machine as itself, the usual one for None. Raises ArgumentError for anything else."""
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentError(f"expected an mt.accelerator.Machine, but got {type(machine).__name__}")
    return machine or _USUAL
