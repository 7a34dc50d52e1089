"""`minitensor show`: a loop nest, as it is and as steps change it."""

from __future__ import annotations

import argparse
from typing import Any, Final

from minitensor.api import gpu_cost
from minitensor.cli import subject as subjects
from minitensor.cli import target as targets
from minitensor.cli.console import Console, indented
from minitensor.cli.errors import UsageError
from minitensor.cli.subject import Subject
from minitensor.codegen import DEFAULT, DEVICES, lowered
from minitensor.ir import Program, print_name
from minitensor.lang import workloads
from minitensor.runtime import shown_target

TEXT: Final = "print the loop nest of an operator, a program or a schedule"
EPILOG: Final = """\
examples:
  minitensor show --list                     every operator, with a line about each
  minitensor show matmul --small
  minitensor show conv2d --size c=32,h=28,w=28,layout=NHWC
  minitensor show matmul --trace best.json --steps
  minitensor show my_schedule.py:s --lowered --vector-bits 256
  minitensor show my_schedule.py:s --gpu h100   what its kernels would cost there, estimated
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    subjects.add_arguments(parser, required=False)
    parser.add_argument("--list", action="store_true", help="list the operators")
    parser.add_argument("--steps", action="store_true", help="show what every step changes")
    parser.add_argument(
        "--lowered", action="store_true", help="show the program that C is written from"
    )
    text = "show what the kernels cost on a GPU, estimated without one: %(choices)s"
    parser.add_argument(
        "--gpu",
        nargs="?",
        const=DEFAULT,
        choices=tuple(DEVICES),
        metavar="DEVICE",
        help=f"{text} ({DEFAULT})",
    )
    targets.add_arguments(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Print the subject."""
    if arguments.list:
        _list(arguments.json, console)
        return 0
    if arguments.subject is None:
        raise UsageError("say what to show, or --list")
    if arguments.steps and arguments.lowered:
        raise UsageError("--steps and --lowered cannot go together")
    if arguments.gpu and (arguments.steps or arguments.lowered):
        raise UsageError("--gpu goes with neither --steps nor --lowered")
    targets.of(arguments)
    subject = subjects.resolve(arguments)
    if arguments.gpu:
        cost = gpu_cost(subject.schedule, arguments.gpu)
        if arguments.json:
            console.json(cost.as_dict())
        else:
            console.print(str(cost))
        return 0
    if arguments.steps and len(subject.programs) == 1:
        raise UsageError(f"{arguments.subject} has no steps; give it some with --trace")
    program = subject.programs[-1]
    if arguments.lowered:
        nothing = "the interpreter runs a program as it is: there is nothing to lower"
        target = targets.compiled(arguments, nothing)
        program = lowered(program, shown_target(target), check=True)
    if arguments.json:
        console.json(_described(subject, program, arguments.steps))
    elif arguments.steps:
        _steps(subject, console)
    else:
        console.print(console.code(str(program)))
    return 0


def _list(as_json: bool, console: Console) -> None:
    every = workloads.WORKLOADS.values()
    if as_json:
        described = [
            {
                "name": w.name,
                "description": w.description,
                "small": dict(w.small),
                "benchmark": dict(w.benchmark),
            }
            for w in every
        ]
        console.json(described)
        return
    width = max(len(workload.name) for workload in every)
    for workload in every:
        name = console.styled(workload.name.ljust(width), "bold")
        sizes = ", ".join(f"{key}={_written(value)}" for key, value in workload.benchmark.items())
        console.print(f"{name}  {workload.description}")
        console.print(" " * (width + 2) + console.styled(sizes, "dim"))


def _written(value: object) -> str:
    """An argument as --size takes it."""
    return "x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _steps(subject: Subject, console: Console) -> None:
    programs = [str(program) for program in subject.programs]
    lines = subject.schedule.trace.as_python().splitlines()
    console.print(console.code(programs[0]))
    for number, (line, before, after) in enumerate(zip(lines, programs, programs[1:]), start=1):
        console.print()
        console.print(f"{console.styled(f'{number:3d}', 'bold')}  {console.code(line)}")
        console.print(indented(console.difference(before, after)))


def _described(subject: Subject, program: Program, steps: bool) -> dict[str, Any]:
    outputs = {buffer.name for buffer in program.outputs}
    described: dict[str, Any] = {
        "name": print_name(program.name),
        "parameters": [
            {
                "name": print_name(buffer.name),
                "dtype": str(buffer.dtype),
                "shape": list(buffer.shape),
                "output": buffer.name in outputs,
            }
            for buffer in program.params
        ],
        "flop": subject.flop or None,
        "program": str(program),
        "trace": subject.schedule.trace.as_python().splitlines(),
    }
    if steps:
        described["steps"] = [
            {"python": line, "program": str(after)}
            for line, after in zip(described["trace"], subject.programs[1:])
        ]
    return described
