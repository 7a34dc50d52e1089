"""`minitensor explain`: what became of a schedule, and what was not done."""

from __future__ import annotations

import argparse
import contextlib
from typing import Final

from minitensor.api import explain
from minitensor.cli import subject as subjects
from minitensor.cli import target as targets
from minitensor.cli.console import Console
from minitensor.cli.errors import UsageError
from minitensor.errors import CompileError
from minitensor.runtime import Toolchain, explained, find_toolchain, shown_target

TEXT: Final = "say what became of each loop of a schedule, what was not done, and why"
EPILOG: Final = """\
examples:
  minitensor explain matmul                          loops, buffers, registers, remarks
  minitensor explain matmul --trace best.json
  minitensor explain my_schedule.py:s --json
  minitensor explain softmax --vector-bits 256       with narrower vectors
  minitensor explain my_kernel.py:s --target cuda-emulator

Spills are found in the assembly that this machine's compiler makes; without one the rest is shown
all the same. docs/explain.md says what each remark means and what to do about it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    subjects.add_arguments(parser)
    targets.add_arguments(parser, gpus=True)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Print the explanation."""
    nothing = "the interpreter runs a program as it is: there is nothing to explain"
    target = targets.compiled(arguments, nothing)
    subject = subjects.resolve(arguments)
    if target.is_gpu:
        if arguments.json:
            raise UsageError("an explanation for a GPU is text: leave out --json")
        console.print(explain(subject.schedule, target))
        return 0
    toolchain: Toolchain | None = None
    with contextlib.suppress(CompileError):
        toolchain = find_toolchain()
    explanation = explained(subject.schedule.program, shown_target(target), toolchain)
    if arguments.json:
        console.json(explanation.as_dict())
    else:
        console.print(str(explanation))
    return 0
