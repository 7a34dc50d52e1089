"""`minitensor tune`: search for the fastest schedule of an operator or a program."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from minitensor.cli import subject as subjects
from minitensor.cli import target as targets
from minitensor.cli import tls
from minitensor.cli.bench import AS_SLOW
from minitensor.cli.console import Console, indented
from minitensor.cli.errors import CommandError, UsageError
from minitensor.cli.files import check_writable, write_text
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, printable
from minitensor.ir import Program, print_name
from minitensor.pictures import folder_of
from minitensor.runtime import find_toolchain
from minitensor.search import (
    MUTATION_POLICIES,
    RULES,
    SKETCH_POLICIES,
    STRATEGIES,
    Log,
    Progress,
    Remote,
    TuneResult,
    tune,
    workload_key,
)

LOG: Final = "tuning.jsonl"
TRIALS: Final = 64
INTERRUPTED: Final = 130

TEXT: Final = "search for the fastest schedule of an operator or a program"
EPILOG: Final = """\
examples:
  minitensor tune matmul --size m=512,n=512,k=512
  minitensor tune my_program.py:program --trials 256 --explain
  minitensor tune softmax --plot pictures            curves as SVG
  minitensor tune matmul --target cuda-emulator --device h100     by estimated cost
  minitensor tune matmul --workers tcp://server:8786     on other machines
  minitensor tune matmul --json --quiet > best.json
  minitensor log best tuning.jsonl                   what was found, later

Candidates are written to the log before the next ones are tried. The same command goes on from
there: nothing is measured twice, and more --trials add to those of before. Ctrl-C stops, and what
is in the log stays. In Python: mt.tune(program), and mt.load_best("tuning.jsonl", program) without
a search. docs/tuning.md describes the search.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    subjects.add_arguments(parser, trace=False)
    targets.add_arguments(parser, gpus=True)
    parser.add_argument(
        "--trials",
        type=int,
        default=TRIALS,
        metavar="N",
        help=f"candidates in all, those in the log counted in ({TRIALS})",
    )
    parser.add_argument(
        "--log", default=LOG, metavar="FILE", help=f"where candidates are kept ({LOG})"
    )
    parser.add_argument(
        "--no-resume", action="store_true", help="start anew; what is in the log stays there"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of what is drawn (0)")
    parser.add_argument(
        "--time-limit", type=float, metavar="T", help="seconds after which nothing more is tried"
    )
    parser.add_argument(
        "--workers", metavar="ADDRESS", help="measure on the workers of this Dask scheduler"
    )
    parser.add_argument("--kind", metavar="KIND", help="of workers, if there are several")
    tls.add_arguments(parser)
    parser.add_argument(
        "--patience", type=int, metavar="N", help="end after N candidates without a faster one"
    )
    parser.add_argument(
        "--rules",
        choices=tuple(RULES),
        default="default",
        help="which rules derive sketches; ansor: the paper's alone (default: default)",
    )
    parser.add_argument(
        "--strategy",
        choices=tuple(STRATEGIES),
        default="evolution",
        help="how candidates are chosen (default: evolution)",
    )
    parser.add_argument(
        "--sketch-policy",
        choices=tuple(SKETCH_POLICIES),
        default="uniform",
        help="which sketch gets how much of a round (default: uniform)",
    )
    parser.add_argument(
        "--mutation-policy",
        choices=tuple(MUTATION_POLICIES),
        default="fixed",
        help="which mutations are made how often (default: fixed)",
    )
    parser.add_argument(
        "--history",
        action="append",
        metavar="FILE",
        help="a log of searches for other programs, to learn from at first; may be repeated",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the best trace to a file")
    parser.add_argument("--plot", metavar="FOLDER", help="draw the search into SVG files")
    parser.add_argument("--explain", action="store_true", help="say why, and what was tried")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Search, and print what was found; 130 if Ctrl-C ended it early."""
    _check_words(arguments)
    subject = subjects.resolve(arguments)
    if len(subject.programs) > 1:
        raise UsageError(
            f"a search starts from a definition, and {printable(subject.name)} has steps already; "
            "give the program instead"
        )
    _check_surroundings(arguments)
    last: list[Progress] = []
    try:
        result = _searched(arguments, subject.programs[0], last)
    except KeyboardInterrupt:
        _say_what_is_kept(arguments, sum(p.trials for p in last))
        raise
    except ArgumentError as failure:
        raise CommandError(_with_options(failure.message)) from failure
    if arguments.output:
        write_text(arguments.output, result.trace.to_json())
    pictures = result.plot(arguments.plot) if arguments.plot else ()
    drawn = [f"{arguments.plot}/{picture.name}.svg" for picture in pictures]
    if arguments.json:
        report = _report(result, last, arguments)
        console.json({**report, "plots": drawn})
    else:
        _print(result, arguments, console)
        for path in drawn:
            console.print(f"drawn: {printable(path)}")
    if result.interrupted:
        _say_what_is_kept(arguments, len(result.tried))
        return INTERRUPTED
    return 0


def _check_words(arguments: argparse.Namespace) -> None:
    targets.compiled(arguments, AS_SLOW)
    for name, least in (("trials", 1), ("seed", 0), ("time_limit", 0), ("patience", 1)):
        value = getattr(arguments, name)
        if value is not None and not value >= least:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} must be at least {least}, but is {value}")


def _with_options(message: str) -> str:
    """A message that names arguments of mt.tune, with the options in their place."""
    options = [name for name in inspect.signature(tune).parameters if f"{name}=" in message]
    for name in options:
        option = f"--{name.replace('_', '-')}"
        message = re.sub(rf"\b{name}=(?=[\w'\"[])", f"{option} ", message)
        message = re.sub(rf"\b{name}=", option, message)
    return message


def _check_surroundings(arguments: argparse.Namespace) -> None:
    """Check before the search what would fail after it."""
    check_writable(arguments.log)
    if arguments.output:
        check_writable(arguments.output)
    if arguments.workers is None and not targets.of(arguments).is_gpu:
        find_toolchain()
    for option in ("kind", "tls_ca_file", "tls_cert", "tls_key"):
        if getattr(arguments, option) is not None and arguments.workers is None:
            raise UsageError(f"--{option.replace('_', '-')} is of workers: give --workers too")
    if arguments.plot:
        folder_of(arguments.plot)


def _searched(arguments: argparse.Namespace, program: Program, last: list[Progress]) -> TuneResult:
    """The search; `last` gets where it stood last."""

    def remember(progress: Progress) -> None:
        last[:] = [progress]

    target, remote = targets.of(arguments), None
    if arguments.workers is not None:
        security = tls.security(arguments, "client")
        remote = Remote(
            arguments.workers, kind=arguments.kind, seed=arguments.seed, security=security
        )
        target = remote.target
    with remote or contextlib.nullcontext():
        return _tuned(arguments, program, target, remote, remember)


def _tuned(
    arguments: argparse.Namespace,
    program: Program,
    target: Target,
    remote: Remote | None,
    remember: Callable[[Progress], None],
) -> TuneResult:
    return tune(
        program,
        target,
        arguments.trials,
        runner=remote,
        log=Log(arguments.log),
        resume=not arguments.no_resume,
        seed=arguments.seed,
        rules=arguments.rules,
        strategy=arguments.strategy,
        sketch_policy=arguments.sketch_policy,
        mutation_policy=arguments.mutation_policy,
        history=arguments.history,
        time_limit=arguments.time_limit,
        patience=arguments.patience,
        callbacks=[remember],
        progress=False if arguments.quiet else None if arguments.json else True,
    )


def _say_what_is_kept(arguments: argparse.Namespace, count: int) -> None:
    if not count:
        print("\nstopped before anything was tried", file=sys.stderr)
        return
    again = "the same command, without --no-resume," if arguments.no_resume else "the same command"
    print(
        f"\nstopped; {_candidates(count)} kept in {printable(arguments.log)}: {again} goes on from "
        "there",
        file=sys.stderr,
    )


def _candidates(count: int) -> str:
    return f"{count:,} candidate{' is' if count == 1 else 's are'}"


def _print(result: TuneResult, arguments: argparse.Namespace, console: Console) -> None:
    """The explanation, or the figures and the schedule."""
    log = printable(arguments.log)
    if arguments.explain:
        console.print(result.explain())
    else:
        name = console.styled(print_name(result.program.name), "bold")
        if result.target.is_gpu:
            figures, *_ = str(result).partition(": ")[2].partition(", the fastest")
        else:
            figures = result.roofline().figures(result.seconds)
        console.print(f"{name}: {figures}, {_tried(result)}")
        text = result.trace.as_python() or "# as it is written: no steps"
        console.print(indented(console.code(text)))
    target = f', target="{result.target.kind}"' if result.target.is_gpu else ""
    again = f"mt.load_best({log!r}, program{target})"
    console.print(f"kept in {log}; again, without a search: {again}")


def _tried(result: TuneResult) -> str:
    failed = sum(result.failures.values())
    text = f"the fastest of {len(result.tried):,}"
    text += f", of which {failed:,} failed" if failed else ""
    return text + (f"; ended early: {result.ended}" if result.ended else "")


def _history(result: TuneResult) -> dict[str, Any] | None:
    known = result.history
    if known is None:
        return None
    names = ("records", "workloads", "correlation", "weight")
    return {name: getattr(known, name) for name in names}


def _report(
    result: TuneResult, last: list[Progress], arguments: argparse.Namespace
) -> dict[str, Any]:
    roofline = result.roofline()
    candidate = result.candidate
    return {
        "name": result.program.name,
        "workload": workload_key(result.program),
        "target": result.target.as_dict(),
        "rules": arguments.rules,
        "strategy": arguments.strategy,
        "sketch_policy": arguments.sketch_policy,
        "mutation_policy": arguments.mutation_policy,
        "history": _history(result),
        "seed": arguments.seed,
        "log": arguments.log,
        "best_seconds": result.seconds,
        "flop": roofline.flop or None,
        "bytes": roofline.bytes,
        "gflops": result.gflops,
        "of_peak": roofline.part(result.seconds),
        "limits": None if roofline.limits is None else asdict(roofline.limits),
        "trials": len(result.tried),
        "known": sum(tried.known for tried in result.tried),
        "failures": dict(result.failures),
        "correlation": last[-1].correlation if last else None,
        "curve": [seconds if seconds < float("inf") else None for seconds in result.curve()],
        "elapsed": result.elapsed,
        "measuring": result.measuring,
        "time": result.time.rounded(),
        "interrupted": result.interrupted,
        "stopped": result.stopped or None,
        "ended": result.ended or None,
        "unmade": dict(result.unmade.counts),
        "unrecorded": result.unrecorded,
        "sketch": None if candidate is None else candidate.sketch + 1,
        "sketches": len(result.space.sketches),
        "python": result.trace.as_python().splitlines(),
        "trace": json.loads(result.trace.to_json()),
    }
