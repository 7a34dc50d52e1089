"""`minitensor demo`: a definition, the schedule that a search finds for it, and its speed.

The long form, with a hand schedule step by step, is `make demo` in the project's folder.
"""

from __future__ import annotations

import argparse
from typing import Final

from minitensor import runtime
from minitensor.cli.bench import compare
from minitensor.cli.console import Console, indented
from minitensor.codegen import Target
from minitensor.lang import lower, workloads
from minitensor.search import tune

SIZES: Final = {True: (256, 8), False: (1024, 32)}
"""With and without --quick: the size of the matrices, and the candidates of the search."""

TEXT: Final = "define a dense layer, search for its schedule, and compare the two"
EPILOG: Final = """\
examples:
  minitensor demo                            a quarter of a minute
  minitensor demo --quick                    a smaller matrix, a shorter search
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--quick", action="store_true", help="a smaller matrix, a shorter search")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the kernels")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Define, tune, compare."""
    target = runtime.native_target(Target("c", num_cores=arguments.threads))
    size, trials = SIZES[arguments.quick]
    program = lower(workloads.matmul_bias_relu(m=size, n=size, k=size), name="dense")
    if not arguments.json:
        console.heading("A definition")
        console.print(indented(console.code(str(program))))
        console.heading(f"The best of {trials} schedules: mt.tune(program, trials={trials})")
    result = tune(program, target, trials, progress=False if arguments.json else None)
    if result.interrupted:
        raise KeyboardInterrupt
    python = result.trace.as_python()
    pace = runtime.QUICK if arguments.quick else runtime.Pace()
    compared = compare(program.name, result.schedule, target, pace)
    if arguments.json:
        described = {**compared.described(), "trials": trials, "python": python.splitlines()}
        console.json(described)
        return 0
    console.print(indented(console.code(python)))
    console.heading("Measured in turns")
    for line in compared.lines(console):
        console.print(line)
    return 0
