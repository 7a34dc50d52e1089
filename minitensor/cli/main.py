"""The entry point: arguments in, exit status out. No error leaves it as a traceback."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from types import ModuleType
from typing import Final

from minitensor.cli import (
    bench,
    demo,
    doctor,
    explain,
    fuzz,
    log,
    network,
    show,
    tune,
    viz,
    worker,
)
from minitensor.cli import compile as compiling
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError, UsageError
from minitensor.cli.options import Parser
from minitensor.errors import MinitensorError
from minitensor.version import __version__

COMMANDS: Final = (
    doctor, demo, show, compiling, explain, viz, tune, bench, network, log, worker, fuzz,
)  # fmt: skip
"""Modules with a line of TEXT, an EPILOG, `add_arguments(parser)` and `run(arguments, console)`."""
GROUP: Final = "minitensor.commands"
"""The entry points of other packages' commands: such modules too, whose parsers are their own."""
ELSEWHERE: Final = {
    "course": "it comes with the package minitensor_course, which `python -m pip install .` in "
    "minitensor's folder installs; there, `python -m tutorials` does the same",
}
"""Commands that are told of here, and are in other packages: how to get them."""

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
  minitensor network net.onnx tune           the kernels of a network, from an ONNX file
  minitensor log best tuning.jsonl           the fastest schedules that searches found
  minitensor worker tcp://server:8786        measure for searches on other machines
  minitensor fuzz --seconds 30               random schedules of random programs, tested

`minitensor COMMAND --help` says more. NO_COLOR turns colours off.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; `argv` are its words, those of the process if None.

    Returns the exit status: 0 done, 1 the work failed, 2 bad usage, 130 interrupted.
    """
    words = sys.argv[1:] if argv is None else argv
    _prepare_streams()
    try:
        parser = _parser(words[0] if words else "")
    except CommandError as failure:
        print(f"minitensor: error: {failure}", file=sys.stderr)
        return 1
    return perform(parser, argv)


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


def _name(command: ModuleType) -> str:
    return command.__name__.rpartition(".")[2]


def _installed(wanted: str) -> dict[str, ModuleType]:
    """The commands of other packages, by name; looked for only if `wanted` is none of ours.

    Raises CommandError for the wanted one if it is missing or broken.
    """
    if wanted in map(_name, COMMANDS):
        return {}
    found = {}
    for point in metadata.entry_points(group=GROUP):
        try:
            found[point.name] = point.load()
        except ImportError as failure:
            if point.name == wanted:
                text = f"the command {wanted} ({point.value}) cannot be imported: {failure}"
                raise CommandError(text) from failure
    if wanted in ELSEWHERE and wanted not in found:
        raise CommandError(f"the command {wanted} is not installed: {ELSEWHERE[wanted]}")
    return found


def _parser(wanted: str = "") -> argparse.ArgumentParser:
    """The parser of all commands; those of other packages are there if `wanted` is none of ours."""
    parser = Parser(
        prog="minitensor",
        description="A tensor-program compiler that one person can read.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"minitensor {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    others = _installed(wanted)
    for name, command in (*((_name(c), c) for c in COMMANDS), *others.items()):
        added = commands.add_parser(
            name,
            help=command.TEXT,
            description=command.TEXT,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(added)
        if command is not log and name not in others:  # their commands have their own
            added.add_argument("--json", action="store_true", help="print JSON")
        added.set_defaults(run=command.run, parser=added)
    return parser


def _discard_output() -> None:
    """The reader has gone (`| head`): let what is still buffered vanish without a word."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
