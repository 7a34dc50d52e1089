"""The subject of a command: a named operator at some size, or an object of a user's file.

matmul                                  an operator of mt.workloads, at its benchmark size
matmul --size m=128,layout=NHWC         with some of its arguments replaced
path/to/file.py:name                    a Program or a Schedule at the top level of a file
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from minitensor.cli.errors import CommandError, UsageError
from minitensor.cli.files import read_text
from minitensor.errors import ArgumentError, MinitensorError, printable
from minitensor.ir import Program
from minitensor.lang import lower, workloads
from minitensor.schedule import Schedule, Trace
from minitensor.search import operations
from minitensor.userfile import run_file

SUBJECT_HELP: Final = "an operator (see `minitensor show --list`), or path/to/file.py:name"


@dataclass(frozen=True, slots=True)
class Subject:
    """A program, and what has been done to it.

    name        as the user wrote it
    schedule    the program with its steps, if there are any
    is_program  True for a Program without --trace; False for a Schedule, even one without steps
    """

    name: str
    schedule: Schedule
    is_program: bool = False

    @property
    def programs(self) -> tuple[Program, ...]:
        """The program before the first step, and after each."""
        return tuple(self.schedule.history)

    @property
    def flop(self) -> int:
        """Operations of one call as the definition counts them; see `search.operations`."""
        return operations(self.programs[0])


def add_arguments(
    parser: argparse.ArgumentParser, *, required: bool = True, trace: bool = True
) -> None:
    """The arguments that say what a command works on; `trace`: whether steps can be applied."""
    parser.add_argument("subject", nargs=None if required else "?", help=SUBJECT_HELP)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--small", action="store_true", help="the operator's small size")
    sizes.add_argument(
        "--benchmark", action="store_true", help="the size worth timing (what you get anyway)"
    )
    parser.add_argument(
        "--size",
        action="add",
        metavar="NAME=VALUE,...",
        default={},
        type=_sizes,
        help="other arguments for the operator, such as m=128,n=64 or kernel=3x3,layout=NHWC; "
        "may be repeated",
    )
    parser.set_defaults(trace=None)
    if trace:
        parser.add_argument("--trace", metavar="FILE", help="apply a trace (JSON of Trace.to_json)")


def resolve(arguments: argparse.Namespace) -> Subject:
    """The subject that the arguments name, with the trace applied.

    Raises UsageError if there is no such thing, CommandError if a file cannot be read or run, and
    what the library raises for sizes and traces that do not work.
    """
    name: str = arguments.subject
    file, colon, attribute = name.rpartition(":")
    is_file = name.endswith(".py") or (bool(colon) and file.endswith(".py"))
    if is_file:
        if arguments.size or arguments.small or arguments.benchmark:
            raise UsageError("--size, --small and --benchmark are for named operators")
        found = _object_of_file(*((file, attribute) if colon else (name, "")))
    else:
        found = _workload(name, arguments.size, arguments.small)
    if isinstance(found, Schedule):
        if arguments.trace:
            raise UsageError(f"--trace is for a program, and {name} has been scheduled already")
        return Subject(name, found)
    schedule = Schedule(found)
    if arguments.trace:
        schedule.replay(_trace(arguments.trace))
    return Subject(name, schedule, is_program=not arguments.trace)


# ---- named operators


def _workload(name: str, sizes: Mapping[str, Any], small: bool) -> Program:
    workload = workloads.WORKLOADS.get(name)
    if workload is None:
        close = difflib.get_close_matches(name, workloads.WORKLOADS, n=3, cutoff=0.5)
        advice = f"did you mean {' or '.join(close)}?" if close else "`minitensor show --list`"
        if "." in name or "/" in name:
            advice = "nor such a file; a program of yours is path/to/file.py:name"
        raise UsageError(f"there is no operator {name!r}; {advice}")
    known = inspect.signature(workload.function).parameters
    unknown = [key for key in sizes if key not in known]
    if unknown:
        raise UsageError(f"{name} has no argument {unknown[0]!r}; it takes {', '.join(known)}")
    given = {**(workload.small if small else workload.benchmark), **sizes}
    return lower(workload.function(**given), name=name)


def _sizes(text: str) -> dict[str, Any]:
    """NAME=VALUE,… as keyword arguments. Raises ArgumentTypeError for anything else."""
    sizes: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name.isidentifier() and equals and value):
            raise argparse.ArgumentTypeError(
                f"expected NAME=VALUE,NAME=VALUE such as m=128,n=64, but got {part!r}"
            )
        if name in sizes:
            text = f"{name} is given twice: {sizes[name]}, then {_value(value)}"
            raise argparse.ArgumentTypeError(text)
        sizes[name] = _value(value)
    return sizes


def _value(text: str) -> int | tuple[int, ...] | str:
    """128 as a number, 3x3 as several, anything else as a word."""
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18})+", text):
        return tuple(map(int, text.split("x")))
    return text


# ---- files


def _trace(path: str) -> Trace:
    try:
        return Trace.from_json(read_text(path, "trace"))
    except MinitensorError as failure:
        raise CommandError(f"{printable(path)}: {failure.message}") from failure


def _object_of_file(path: str, name: str) -> Program | Schedule:
    """The program or schedule called `name` at the top level of a Python file, which is run."""
    try:
        module = run_file(path)
    except ArgumentError as failure:
        raise CommandError(failure.message) from failure
    fitting = [n for n, v in vars(module).items() if isinstance(v, (Program, Schedule))]
    choice = (
        f"choose {' or '.join(f'{path}:{n}' for n in fitting)}"
        if fitting
        else ("it has no Program and no Schedule at its top level")
    )
    if not name:
        raise UsageError(f"{path}: say which object is meant; {choice}")
    found = getattr(module, name, None)
    if not isinstance(found, (Program, Schedule)):
        kind = f"is of type {type(found).__name__}" if hasattr(module, name) else "is not there"
        raise CommandError(f"{path}: {name!r} {kind}; {choice}")
    return found
