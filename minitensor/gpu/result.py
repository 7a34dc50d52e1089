"""The cost of a program and of its kernels, and its text: shape, terms, accesses, remarks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from minitensor import codegen, ir
from minitensor.gpu.instructions import Instructions
from minitensor.gpu.kernels import Kernel
from minitensor.gpu.rates import LAUNCH
from minitensor.gpu.residency import Occupancy
from minitensor.gpu.warps import Traffic
from minitensor.looks import Shown, readable_count, readable_seconds


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The cost of a kernel.

    kernel        its parts
    registers     of a thread, estimated or as given
    occupancy     blocks and warps on a multiprocessor
    accesses      the traffic of each access of memory
    instructions  of warps
    fetched       bytes of each array between L2 and multiprocessors
    memory        bytes of each array between DRAM and L2
    terms         seconds of each part of the GPU, by name
    remarks       sentences on what costs
    """

    kernel: Kernel
    registers: int
    occupancy: Occupancy
    accesses: tuple[Traffic, ...]
    instructions: Instructions
    fetched: Mapping[str, float]
    memory: Mapping[str, float]
    terms: Mapping[str, float]
    remarks: tuple[str, ...]

    @property
    def bound(self) -> str:
        """The part of the GPU that takes longest."""
        return max(self.terms, key=lambda name: self.terms[name])

    @property
    def seconds(self) -> float:
        """The time of one launch; infinity of a kernel that cannot be launched."""
        if self.occupancy.blocks == 0:
            return float("inf")
        return max(self.terms.values()) + LAUNCH

    def as_dict(self) -> dict[str, Any]:
        """The cost as JSON has it."""
        return {
            "name": ir.print_name(self.kernel.name),
            "launches": self.kernel.launches,
            "grid": list(self.kernel.parts.grid),
            "block": list(self.kernel.parts.block),
            "registers": self.registers,
            "shared": self.kernel.shared_bytes,
            "blocks": self.occupancy.blocks,
            "occupancy": self.occupancy.share,
            "limit": self.occupancy.limit,
            "seconds": _finite(self.seconds),
            "bound": self.bound,
            "terms": dict(self.terms),
            "instructions": asdict(self.instructions),
            "accesses": [_access(one) for one in self.accesses],
            "fetched": {ir.print_name(name): n for name, n in self.fetched.items()},
            "memory": {ir.print_name(name): n for name, n in self.memory.items()},
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Shown):
    """The cost of a program on a GPU."""

    device: codegen.Device
    kernels: tuple[KernelCost, ...]

    @property
    def seconds(self) -> float:
        """The time of a call."""
        return sum(one.seconds * one.kernel.launches for one in self.kernels)

    def as_dict(self) -> dict[str, Any]:
        """The cost as JSON has it."""
        kernels = [one.as_dict() for one in self.kernels]
        return {"device": self.device.name, "seconds": _finite(self.seconds), "kernels": kernels}

    def __str__(self) -> str:
        many = len(self.kernels)
        head = f"{readable_seconds(self.seconds)} estimated on {self.device.name}, {many} kernel"
        return "\n\n".join([head + "s" * (many != 1), *map(kernel_text, self.kernels)])


def _finite(seconds: float) -> float | None:
    """A time; None for never, which JSON cannot hold."""
    return seconds if math.isfinite(seconds) else None


def _access(one: Traffic) -> dict[str, Any]:
    names = ("space", "size", "requests", "sectors", "cycles", "wanted", "ways", "exact")
    counts = {name: getattr(one, name) for name in names}
    return {"buffer": ir.print_name(one.buffer), "writes": one.site.writes, **counts}


def kernel_text(one: KernelCost) -> str:
    """The cost of a kernel as text."""
    kernel, room = one.kernel, one.occupancy
    grid, block = (" x ".join(map(str, n)) for n in (kernel.parts.grid, kernel.parts.block))
    times = f", {kernel.launches:,} launches" if kernel.launches > 1 else ""
    took = f"{readable_seconds(one.seconds)}, bound by {one.bound}"
    lines = [
        f"{ir.print_name(kernel.name)}: {took}{times}",
        f"    grid {grid}, block {block}; {one.registers} registers, "
        f"{kernel.shared_bytes:,} bytes of shared memory",
        f"    occupancy {room.share:.0%}: {room.blocks} blocks, {room.warps} warps on a "
        f"multiprocessor, limited by {room.limit}",
        "    "
        + ", ".join(f"{name} {readable_seconds(t)}" for name, t in one.terms.items())
        + f", launch {readable_seconds(LAUNCH)}",
        f"    {_work(one)}",
    ]
    lines += ["    " + line for line in _table(one)]
    lines += [f"    ! {remark}" for remark in one.remarks]
    return "\n".join(lines)


def _work(one: KernelCost) -> str:
    work = one.instructions
    parts = [
        f"{getattr(work, name):,.0f} {label}"
        for name, label in (
            ("fma", "FMA"), ("float32", "float"), ("float64", "double"), ("special", "special"),
            ("integer", "integer"), ("tensor", "tensor"), ("memory", "memory"),
            ("barriers", "barriers"), ("shuffles", "shuffles"),
        )
        if getattr(work, name)
    ]  # fmt: skip
    return "instructions of warps: " + (", ".join(parts) or "none")


def _table(one: KernelCost) -> list[str]:
    """A line for each access, and for each array what goes through the caches."""
    rows = [("access", "bytes", "requests", "a request moves", "L2", "DRAM")]
    told = set[str]()
    for access in one.accesses:
        name = access.buffer
        if access.space == "shared":
            moves = f"{access.cycles_a_request:.3g} x 128 bytes, {access.ways:.3g}-way"
        else:
            moves = f"{access.sectors_a_request:.3g} sectors"
        moves += "" if access.exact else " (sampled)"
        fetched = memory = ""
        if access.space != "shared" and name not in told:
            told.add(name)
            fetched = readable_count(one.fetched.get(name, 0.0), "B")
            memory = readable_count(one.memory.get(name, 0.0), "B")
        word = "store" if access.site.writes else "load"
        count = f"{access.requests:,.0f}"
        rows.append(
            (f"{word} {ir.print_name(name)}", str(access.size), count, moves, fetched, memory)
        )
    if len(rows) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
