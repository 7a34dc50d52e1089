"""The entry point: arguments in, exit status out. No error leaves it as a traceback."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from minitensor.cli import bench, course, demo, doctor, explain, fuzz, log, show, tune, viz
from minitensor.cli import compile as compiling
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError, UsageError
from minitensor.cli.options import Parser
from minitensor.errors import MinitensorError
from minitensor.version import __version__

COMMANDS: Final = (doctor, demo, course, show, compiling, explain, viz, tune, bench, log, fuzz)
"""Modules with a line of TEXT, an EPILOG, `add_arguments(parser)` and `run(arguments, console)`."""

EXAMPLES: Final = """\
examples:
  minitensor doctor                          what this machine has, and how to get the rest
  minitensor demo --quick                    from a definition to a fast kernel, in seconds
  minitensor course start my_course          lessons, and tasks that are judged
  minitensor show matmul                     the loop nest of a known operator
  minitensor compile matmul --time           build it and time it
  minitensor explain matmul                  what became of its loops, and what was not done
  minitensor viz matmul --small              its loops as pictures, in a browser
  minitensor tune matmul --trials 64         search for the fastest schedule
  minitensor bench my_file.py:s              a schedule against its definition and numpy
  minitensor log best tuning.jsonl           the fastest schedules that searches found
  minitensor fuzz --seconds 30               random schedules of random programs, tested

`minitensor COMMAND --help` says more. NO_COLOR turns colours off.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; `argv` are its words, those of the process if None.

    Returns the exit status: 0 done, 1 the work failed, 2 bad usage, 130 interrupted.
    """
    return perform(_parser(), argv)


def perform(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    """Parse the words and call `run(arguments, console)`, a default of the parser; the exit status.

    `parser`, another default, is the parser that a usage error refers to.
    """
    _prepare_streams()
    try:
        status = _status(parser, argv)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as failure:  # commands report those of the files they use
        _discard_output()
        print(f"{parser.prog}: error: cannot write the output: {failure.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def _prepare_streams() -> None:
    """Let characters that a stream cannot show become "?", and a closed stream swallow its text."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.StringIO())
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _status(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as done:  # argparse has printed the help, the version, or what is wrong
        return done.code if isinstance(done.code, int) else 2
    command: argparse.ArgumentParser = arguments.parser
    run: Callable[[argparse.Namespace, Console], int] = arguments.run
    try:
        return run(arguments, Console.of_process())
    except UsageError as wrong:
        print(f"{command.prog}: error: {wrong} (see {command.prog} --help)", file=sys.stderr)
        return 2
    except (CommandError, MinitensorError) as failure:
        print(f"{command.prog}: error: {failure}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="minitensor",
        description="A tensor-program compiler that one person can read.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"minitensor {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        added = commands.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.TEXT,
            description=command.TEXT,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(added)
        if command not in (course, log):  # their commands have their own
            added.add_argument("--json", action="store_true", help="print JSON")
        added.set_defaults(run=command.run)
        if command is not course:
            added.set_defaults(parser=added)
    return parser


def _discard_output() -> None:
    """The reader has gone (`| head`): let what is still buffered vanish without a word."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
