"""The arguments that say what code is for."""

from __future__ import annotations

import argparse

from minitensor.cli.errors import UsageError
from minitensor.codegen import Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--target, --cores, --vector-bits."""
    parser.add_argument(
        "--target", choices=("c", "interpreter"), default="c", help="what to build for (default: c)"
    )
    text = "threads of a parallel loop (default: this machine's)"
    parser.add_argument("--cores", type=int, metavar="N", help=text)
    text = "width of vector registers (default: this machine's; 0 for none)"
    parser.add_argument("--vector-bits", type=int, metavar="N", help=text)


def of(arguments: argparse.Namespace) -> Target:
    """The target that the arguments name. Raises ArgumentError for numbers that cannot be."""
    return Target(arguments.target, arguments.cores, arguments.vector_bits)


def compiled(arguments: argparse.Namespace, otherwise: str) -> Target:
    """The target; UsageError, with a reason, if it is the interpreter."""
    target = of(arguments)
    if target.kind == "interpreter":
        raise UsageError(otherwise)
    return target
