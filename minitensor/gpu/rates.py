"""The speed of the parts of each GPU, with the source of each figure.

Vendors' documents, from which are clocks, lanes, sizes of caches and bandwidths of memory:

    t4       NVIDIA Turing GPU Architecture, white paper, 2018; NVIDIA T4 product brief
    a100     NVIDIA A100 Tensor Core GPU Architecture, white paper, 2020 (SXM4, 40 GB)
    rtx3090  NVIDIA Ampere GA102 GPU Architecture, white paper, 2021
    rtx4090  NVIDIA Ada GPU Architecture, white paper, 2022
    h100     NVIDIA H100 Tensor Core GPU Architecture, white paper, 2022 (SXM5, 80 GB)
    h200     NVIDIA H200 data sheet, 2024; the chip is that of h100

Operations in a cycle: CUDA C++ Programming Guide, "Arithmetic Instructions", table of throughputs.

Latencies, in cycles, were measured by others: of t4 by Jia et al., Dissecting the NVIDIA Turing T4
GPU via Microbenchmarking (arXiv 1903.07486, 2019); of a100, rtx4090 and h100 by Luo et al.,
Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking (arXiv
2402.13499, 2024). For rtx3090 those of a100, the same generation, are taken, for h200 of h100.

Bandwidths of L2: t4 from Jia et al.; a100 from its white paper (5120 bytes in a cycle); rtx4090
from Luo et al.; h100 measured by Chips and Cheese, Nvidia's H100: Funny L2, and Tons of Bandwidth,
2023. For rtx3090 that of rtx4090 is scaled by multiprocessors and clock: an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from minitensor.codegen import Device

SCHEDULERS: Final = 4
"""Schedulers of a multiprocessor; each issues an instruction of a warp in a cycle (Jia et al. 2018,
Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, and all white papers since)."""
ARITHMETIC_LATENCY: Final = 4
"""Cycles from an addition or FMA of float32 to what uses it (Jia et al. 2018, table 4.1)."""
PORT: Final = 64
"""Bytes in a cycle from L2 to a multiprocessor (A100 white paper, "L2 Cache")."""
LAUNCH: Final = 2.5e-6
"""Seconds of a kernel that does nothing, from event to event: of this order on all of them (Zhang
et al., A Study of Single and Multi-device Synchronization Methods in Nvidia GPUs, IPDPS 2020)."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The speed of a GPU.

    clock      cycles a second, boosted
    float32, float64, int32, special  operations of each kind in a cycle of a multiprocessor
    tensor     products of float16 that are added to float32, in such a cycle, of dense matrices
    l1         bytes of a multiprocessor for shared memory and L1 together
    l1_width   bytes in a cycle of either
    l2, l2_bandwidth      bytes, bytes a second
    memory_bandwidth      bytes a second
    shared_latency, l1_latency, l2_latency, memory_latency  cycles from a load to what uses it
    """

    clock: float
    float32: int
    float64: int
    int32: int
    special: int
    tensor: int
    l1: int
    l1_width: int
    l2: int
    l2_bandwidth: float
    memory_bandwidth: float
    shared_latency: float
    l1_latency: float
    l2_latency: float
    memory_latency: float


_K, _M = 1 << 10, 1 << 20
RATES: Final[Mapping[str, Rates]] = {
    "t4": Rates(
        *(1.59e9, 64, 2, 64, 16, 512, 96 * _K, 64, 4 * _M, 1.27e12, 320e9),
        *(19, 32, 188, 434),
    ),
    "a100": Rates(
        *(1.41e9, 64, 32, 64, 16, 1024, 192 * _K, 128, 40 * _M, 7.22e12, 1555e9),
        *(29, 38, 262, 466),
    ),
    "rtx3090": Rates(
        *(1.695e9, 128, 2, 64, 16, 256, 128 * _K, 128, 6 * _M, 1.76e12, 936e9),
        *(29, 38, 262, 466),
    ),
    "rtx4090": Rates(
        *(2.52e9, 128, 2, 64, 16, 256, 128 * _K, 128, 72 * _M, 4.09e12, 1008e9),
        *(30, 43, 273, 542),
    ),
    "h100": Rates(
        *(1.98e9, 128, 64, 64, 16, 2048, 256 * _K, 128, 50 * _M, 5.5e12, 3352e9),
        *(29, 41, 263, 479),
    ),
    "h200": Rates(
        *(1.98e9, 128, 64, 64, 16, 2048, 256 * _K, 128, 50 * _M, 5.5e12, 4800e9),
        *(29, 41, 263, 479),
    ),
}
"""By the names of `codegen.DEVICES`."""


def rates_of(device: Device) -> Rates:
    """The speed of a GPU of the table."""
    return RATES[device.name]
