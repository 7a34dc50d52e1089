"""The arguments that say what code is for."""

from __future__ import annotations

import argparse

from minitensor.cli.errors import UsageError
from minitensor.codegen import DEVICES, KINDS, Target


def add_arguments(parser: argparse.ArgumentParser, gpus: bool = False) -> None:
    """--target, --cores, --vector-bits; for a command that can also build for GPUs, --device."""
    kinds = KINDS if gpus else ("c", "interpreter")
    parser.add_argument(
        "--target", choices=kinds, default="c", help="what to build for (default: c)"
    )
    if gpus:
        text = "the GPU of cuda (default: this machine's, or a100)"
        parser.add_argument("--device", choices=tuple(DEVICES), help=text)
    text = "threads of a parallel loop (default: this machine's)"
    parser.add_argument("--cores", type=int, metavar="N", help=text)
    text = "width of vector registers (default: this machine's; 0 for none)"
    parser.add_argument("--vector-bits", type=int, metavar="N", help=text)


def of(arguments: argparse.Namespace) -> Target:
    """The target that the arguments name. Raises ArgumentError for numbers that cannot be."""
    device = getattr(arguments, "device", None)
    return Target(arguments.target, arguments.cores, arguments.vector_bits, device)


def compiled(arguments: argparse.Namespace, otherwise: str) -> Target:
    """The target; UsageError, with a reason, if it is the interpreter."""
    target = of(arguments)
    if target.kind == "interpreter":
        raise UsageError(otherwise)
    return target
