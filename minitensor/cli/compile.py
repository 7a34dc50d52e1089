"""`minitensor compile`: the C, the CUDA or the assembly of a program, or how long it takes."""

from __future__ import annotations

import argparse
from typing import Any, Final

from minitensor.api import build
from minitensor.cli import subject as subjects
from minitensor.cli import target as targets
from minitensor.cli.console import Console, counted
from minitensor.cli.errors import CommandError, UsageError
from minitensor.cli.files import write_text
from minitensor.cli.subject import Subject
from minitensor.codegen import Target, generate
from minitensor.errors import CompileError
from minitensor.ir import LoopKind, loops_of
from minitensor.runtime import Timing, native_target
from minitensor.search import random_inputs

TEXT: Final = "write the C, CUDA or assembly of an operator, a program or a schedule, or time it"
EPILOG: Final = """\
examples:
  minitensor compile matmul --size m=256,n=256,k=256          C on standard output
  minitensor compile my_schedule.py:s -o kernel.c
  minitensor compile matmul --trace best.json --time          milliseconds and GFLOP/s
  minitensor compile matmul --trace best.json --assembly | grep vfmadd
  minitensor compile softmax --cores 8 --vector-bits 256      for another machine; no compiler
                                                              is needed
  minitensor compile my_schedule.py:s --target cuda --device h100
  minitensor compile my_schedule.py:s --target cuda --assembly           PTX

With --time the program is built and timed, and the text is written only where -o says.
GFLOP/s count 2 operations for each product that the definition sums.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    subjects.add_arguments(parser)
    targets.add_arguments(parser, gpus=True)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the text to a file")
    parser.add_argument(
        "--assembly", action="store_true", help="assembly (of cuda: PTX) instead of C"
    )
    parser.add_argument("--time", action="store_true", help="build it and time it")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Write the text, the time, or both."""
    target = targets.of(arguments)
    if arguments.assembly and target.kind in ("interpreter", "cuda-emulator"):
        raise UsageError(f"the {target.kind} makes no machine code; leave out --assembly")
    subject = subjects.resolve(arguments)
    text = _text(subject, target, arguments.assembly)
    if arguments.output:
        write_text(arguments.output, text)
    timing = _timing(subject, target) if arguments.time else None
    if arguments.json:
        report = _report(subject, target, text, arguments.assembly, timing)
        console.json(report)
    elif timing is not None:
        console.print(_time_line(subject, target, timing))
    elif not arguments.output:
        console.print(text.rstrip("\n"))
    return 0


def _text(subject: Subject, target: Target, assembly: bool) -> str:
    """The C or the assembly; for the interpreter the program, which is all there is."""
    schedule = subject.schedule
    if target.kind == "interpreter":
        return str(schedule.program)
    if assembly:
        return build(schedule, target).assembly()
    return generate(schedule.program, _resolved(target), schedule.trace.as_python()).source


def _resolved(target: Target) -> Target:
    """The target with nothing left open. Raises CommandError if that takes a compiler."""
    try:
        return native_target(target)
    except CompileError as failure:
        raise CommandError(
            f"{failure.message}; C for another machine can be written without one: give --cores "
            "and --vector-bits"
        ) from failure


def _timing(subject: Subject, target: Target) -> Timing:
    kernel = build(subject.schedule, target)
    inputs = random_inputs(subject.programs[0], seed=0)
    if target.kind in ("interpreter", "cuda-emulator"):  # slow, and hardly noisy
        return kernel.time(*inputs, number=1, repeat=1)
    return kernel.time(*inputs)


def _time_line(subject: Subject, target: Target, timing: Timing) -> str:
    exact = native_target(target)
    parts = [str(timing)]
    if subject.flop:
        parts.append(f"{subject.flop / timing.median / 1e9:.3g} GFLOP/s")
    if exact.kind == "c":
        kinds = {loop.kind for loop in loops_of(subject.schedule.program.body)}
        threads = exact.num_cores or 1 if LoopKind.PARALLEL in kinds else 1
        parts.append(counted(threads, "thread"))
    return f"{subject.name}: {'; '.join(parts)}"


def _report(
    subject: Subject, target: Target, text: str, assembly: bool, timing: Timing | None
) -> dict[str, Any]:
    exact = native_target(target)
    report: dict[str, Any] = {
        "name": subject.name,
        "target": exact.as_dict(),
        "trace": subject.schedule.trace.as_python().splitlines(),
        "flop": subject.flop or None,
        "assembly" if assembly else "source": text,
    }
    if timing is not None:
        report["time"] = {
            "median_seconds": timing.median,
            "min_seconds": timing.min,
            "results": timing.results,
            "number": timing.number,
            "gflops": subject.flop / timing.median / 1e9 if subject.flop else None,
        }
    return report
