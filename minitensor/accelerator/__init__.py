"""An accelerator with decoupled access and execute, simulated: three queues, tokens between them.

In reading order: `machine` (its numbers), `definitions` (what its array does, as an intrinsic, and
operators), `lower` (a scheduled program as operations, virtual threads interleaved), `stream`
(instructions), `tokens` (which are needed, and whether those there suffice), `execute` (what they
do to arrays, in any order that tokens allow), `clock` (the time they take), `draw`, `kernel` (what
`mt.build` returns).

Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep Learning, OSDI 2018,
sections 4.4 and 6.4.
"""

from typing import NoReturn as _NoReturn

from minitensor.accelerator.clock import Timing, timing_of
from minitensor.accelerator.definitions import conv2d, matmul, product
from minitensor.accelerator.kernel import AcceleratorKernel, build
from minitensor.accelerator.machine import KIND, Machine
from minitensor.accelerator.stream import Box, Instruction, Stream
from minitensor.accelerator.tokens import check, with_tokens
from minitensor.phrasebook import unknown_name as _unknown_name

__all__ = [
    "KIND", "AcceleratorKernel", "Box", "Instruction", "Machine", "Stream", "Timing", "build",
    "check", "conv2d", "matmul", "product", "timing_of", "with_tokens",
]  # fmt: skip


def __getattr__(name: str) -> _NoReturn:
    raise _unknown_name("accelerator", name, "mt.accelerator", __all__)
