"""An accelerator with decoupled access and execute, simulated: three queues, tokens between them.

In reading order: `machine` (its numbers), `product` (what its array does, as an intrinsic), `lower`
(a scheduled program as operations, virtual threads interleaved), `stream` (instructions), `tokens`
(which are needed, and whether those there suffice), `execute` (instructions on arrays, in any order
that tokens allow), `clock` (the time they take), `draw`, `kernel` (what `mt.build` returns),
`definitions` (operators, padded to the array).

Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep Learning, OSDI 2018,
sections 4.4 and 6.4.
"""

from minitensor.accelerator.clock import Timing, timing_of
from minitensor.accelerator.definitions import conv2d, matmul
from minitensor.accelerator.draw import utilisation_picture
from minitensor.accelerator.kernel import AcceleratorKernel, Run, build
from minitensor.accelerator.machine import KIND, Machine
from minitensor.accelerator.product import product
from minitensor.accelerator.stream import Box, Instruction, Stream
from minitensor.accelerator.tokens import check, with_tokens

__all__ = [
    "KIND", "AcceleratorKernel", "Box", "Instruction", "Machine", "Run", "Stream", "Timing",
    "build", "check", "conv2d", "matmul", "product", "timing_of", "utilisation_picture",
    "with_tokens",
]  # fmt: skip
