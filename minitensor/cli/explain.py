"""`minitensor explain`: what became of a schedule, and what was not done."""

from __future__ import annotations

import argparse
import json
from typing import Final

from minitensor.cli import subject as subjects
from minitensor.cli import target as targets
from minitensor.cli.console import Console
from minitensor.cli.errors import UsageError
from minitensor.cli.show import WITHOUT_COMPILER
from minitensor.errors import CompileError
from minitensor.runtime import Toolchain, explained, find_toolchain, native_target

_EPILOG: Final = """\
examples:
  minitensor explain matmul                          loops, buffers, registers, remarks
  minitensor explain matmul --trace best.json
  minitensor explain my_schedule.py:s --json
  minitensor explain softmax --vector-bits 256       with narrower vectors

Spills are found in the assembly that this machine's compiler makes; without one the rest is told
all the same. docs/explain.md says what each remark means and what to do about it.
"""


def add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """The arguments of the command."""
    text = "say what became of each loop of a schedule, what was not done, and why"
    parser = commands.add_parser("explain", help=text, description=text, epilog=_EPILOG)
    subjects.add_arguments(parser)
    targets.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Print the explanation."""
    target = targets.of(arguments)
    if target.kind == "interpreter":
        raise UsageError("the interpreter runs a program as it is: there is nothing to explain")
    subject = subjects.resolve(arguments)
    toolchain: Toolchain | None = None
    try:
        toolchain = find_toolchain()
        exact = native_target(target)
    except CompileError:
        exact = target.resolved(num_cores=1, vector_bits=WITHOUT_COMPILER)
    explanation = explained(subject.schedule.program, exact, toolchain)
    if arguments.json:
        console.print(json.dumps(explanation.as_dict(), indent=1))
    else:
        console.print(str(explanation))
    return 0
