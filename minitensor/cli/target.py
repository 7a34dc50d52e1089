"""The arguments that say what code is for."""

from __future__ import annotations

import argparse

from minitensor.codegen import Target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--target, --cores, --vector-bits."""
    parser.add_argument(
        "--target", choices=("c", "interpreter"), default="c", help="what to build for (default: c)"
    )
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="threads of a parallel loop (default: this machine's)",
    )
    parser.add_argument(
        "--vector-bits",
        type=int,
        metavar="N",
        help="width of vector registers (default: this machine's; 0 for none)",
    )


def of(arguments: argparse.Namespace) -> Target:
    """The target that the arguments ask for. Raises ArgumentError for numbers that cannot be."""
    return Target(arguments.target, arguments.cores, arguments.vector_bits)
