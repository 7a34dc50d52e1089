"""A table of GPUs and of what they allow a kernel.

The limits are those of NVIDIA's CUDA C++ Programming Guide, "Compute Capabilities", tables
"Technical Specifications per Compute Capability"; the numbers of multiprocessors are those of the
architecture white papers. The
limits of a launch are the same for all GPUs (see `ir.MOST_ALONG`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from minitensor.errors import unexpected
from minitensor.ir import WARP

MOST_STATIC_SHARED: Final = 48 << 10
"""Bytes of shared memory that a kernel may declare; more is asked for at its launch."""
MOST_LOCAL: Final = 512 << 10
"""Bytes of memory that a thread may have for itself."""
MOST_REGISTERS_A_THREAD: Final = 255
"""The most registers of a thread."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU.

    capability    its compute capability: 80 for 8.0
    processors    its streaming multiprocessors
    most_shared   bytes of shared memory that a block can have, if it asks for them at its launch
    shared        bytes of shared memory of a multiprocessor
    threads, blocks, registers  the most of a multiprocessor
    reserved      bytes of shared memory that the system takes for each block
    """

    name: str
    capability: int
    processors: int
    most_shared: int
    shared: int
    threads: int
    blocks: int
    registers: int = 65536
    reserved: int = 1 << 10

    @property
    def warps(self) -> int:
        """The most warps of a multiprocessor."""
        return self.threads // WARP


_KB: Final = 1 << 10
DEVICES: Final[Mapping[str, Device]] = {
    device.name: device
    for device in (
        Device("t4", 75, 40, 64 * _KB, 64 * _KB, 1024, 16, reserved=0),
        Device("a100", 80, 108, 163 * _KB, 164 * _KB, 2048, 32),
        Device("rtx3090", 86, 82, 99 * _KB, 100 * _KB, 1536, 16),
        Device("rtx4090", 89, 128, 99 * _KB, 100 * _KB, 1536, 24),
        Device("h100", 90, 132, 227 * _KB, 228 * _KB, 2048, 32),
        Device("h200", 90, 132, 227 * _KB, 228 * _KB, 2048, 32),
    )
}
"""The GPUs that code is generated for, by name."""
DEFAULT: Final = "a100"
"""The GPU of a target that names none."""


def device_named(name: object) -> Device:
    """A GPU of the table. Raises ArgumentError for any other name."""
    if not isinstance(name, str) or name not in DEVICES:
        raise unexpected("one of " + ", ".join(map(repr, DEVICES)), "device", name)
    return DEVICES[name]


class OnDevice(Protocol):
    """A target that may name a GPU."""

    @property
    def device(self) -> str | None:
        """Its name in the table."""


def device_of(target: OnDevice) -> Device:
    """The GPU of a target."""
    return device_named(target.device or DEFAULT)
