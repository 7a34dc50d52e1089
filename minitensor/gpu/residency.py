"""Blocks that are on a multiprocessor at the same time, and what there could be no more of.

As NVIDIA's occupancy calculator has it (CUDA C++ Programming Guide, "Multiprocessor Level"; CUDA
C++ Best Practices Guide, "Calculating Occupancy"): registers are given to warps in units of 256,
the warps that registers are enough for come in fours, and shared memory is given in units to
blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.codegen import Device

REGISTER_UNIT: Final = 256
WARP_UNIT: Final = 4


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks on a multiprocessor.

    blocks  at the same time; 0 of a kernel that cannot be launched
    warps   of them
    share   of the warps that a multiprocessor has room for
    limits  the blocks that each resource allows: "threads", "blocks", "registers", "shared memory"
    """

    blocks: int
    warps: int
    share: float
    limits: tuple[tuple[str, int], ...]

    @property
    def limit(self) -> str:
        """The resource of which there is least."""
        return min(self.limits, key=lambda one: one[1])[0]


def occupancy(device: Device, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of blocks of so many threads.

    registers  of a thread
    shared     bytes of a block
    """
    warps = max(1, -(-threads // ir.WARP))
    each = -(-max(1, registers) * ir.WARP // REGISTER_UNIT) * REGISTER_UNIT
    enough = device.registers // each // WARP_UNIT * WARP_UNIT
    unit = 256 if device.capability < 80 else 128
    taken = -(-(shared + device.reserved) // unit) * unit
    limits = (
        ("threads", device.warps // warps),
        ("blocks", device.blocks),
        ("registers", enough // warps),
        ("shared memory", device.shared // taken if taken else device.blocks),
    )
    blocks = min(number for _, number in limits)
    if shared > device.most_shared:
        blocks = 0
    return Occupancy(blocks, blocks * warps, blocks * warps / device.warps, limits)
