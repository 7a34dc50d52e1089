"""The command: arguments in, processes started, results shown and kept."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from minitensor.cli.bench import choices, plot
from minitensor.cli.bench.about import about
from minitensor.cli.bench.contender import LOG
from minitensor.cli.bench.launch import Died, events
from minitensor.cli.bench.report import (
    about_lines,
    block,
    limits_text,
    markdown,
    summary,
    threads_text,
)
from minitensor.cli.bench.results import Report, Result, Run, result_of_json
from minitensor.cli.bench.rivals import RIVALS
from minitensor.cli.bench.rivals.tvm_rival import RECORDS
from minitensor.cli.bench.work import PROGRAM
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError
from minitensor.errors import printable
from minitensor.ladders import LADDERS
from minitensor.runtime import Limits

_EPILOG: Final = """\
examples:
  minitensor bench                           all workloads, on all cores
  minitensor bench --list                    what there is, and which rivals are installed
  minitensor bench matmul-1024 'conv-*' --threads 1,2
  minitensor bench matmul-1024 --rivals numpy,onnxruntime --rounds 15
  minitensor bench my_schedule.py:s          against the same program as it was defined
  minitensor bench --save benchmarks/results --plot roofline.png

Everybody takes turns in one process that is pinned to as many cores as it has threads, and so do
loops that do nothing but multiply and add, or read and write: "of machine" is the part of what the
machine gave in the same rounds. A figure is the median over the rounds of the fastest call in a
round; "1.20 x" is 1.2 times as fast. Results are compared with numpy in float64 before anything is
timed. Rivals: numpy; and where they are installed scipy's OpenBLAS with its AVX-512 kernels, torch,
onnxruntime, TVM (from tuning records), and, only if named in --rivals, inductor (torch.compile).
"""


def add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """The arguments of the command."""
    text = "time the hand schedules against numpy, torch and others, interleaved in one run"
    parser = commands.add_parser("bench", help=text, description=text, epilog=_EPILOG)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="workloads, * and ? standing for anything; or path/to/file.py:schedule",
    )
    parser.add_argument("--list", action="store_true", help="list workloads and rivals")
    parser.add_argument(
        "--threads", metavar="N,...", help="numbers of threads (default: all usable cores)"
    )
    parser.add_argument(
        "--rivals", metavar="NAME,...", help="who else runs (default: whoever is installed)"
    )
    parser.add_argument("--tvm-records", metavar="FOLDER", help="TVM's tuning records")
    parser.add_argument(
        "--log", metavar="FILE", help="what `minitensor tune` found takes part too, from its log"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="turns of each (default: 7)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of short bursts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--save", metavar="FOLDER", help="write the results there, as .json and as .md"
    )
    parser.add_argument("--plot", metavar="FILE.png", help="draw a roofline (needs minitensor[ui])")
    return parser


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Measure, show, keep. 0; 130 if it was interrupted, after showing what was finished."""
    if arguments.list:
        return _list(arguments, console)
    keys = choices.keys_of(arguments.names)
    rivals = choices.rivals_of(arguments.rivals, arguments.tvm_records)
    pace = choices.pace_of(arguments)
    _check_places(arguments)
    threads = choices.threads_of(arguments.threads)
    report = Report(about(pace, rivals))
    job = {
        "rivals": rivals,
        "options": {RECORDS: arguments.tvm_records, LOG: _log(arguments.log)},
        "pace": asdict(pace),
    }
    teller = Teller(console, quiet=arguments.json, total=len(keys) * len(threads))
    teller.introduce(report)
    try:
        for count in threads:
            one = Run(count, [])
            report.runs.append(one)
            _measure(one, keys, job, teller)
    except KeyboardInterrupt:
        report.interrupted = True
    teller.clear()
    _finish(report, arguments, console)
    return 130 if report.interrupted else 0


def _log(path: str | None) -> str | None:
    """The log for a process that may have another current folder. Raises CommandError."""
    if path is not None and not Path(path).is_file():
        raise CommandError(f"there is no log {printable(path)}; `minitensor tune` writes one")
    return None if path is None else str(Path(path).resolve())


def _finish(report: Report, arguments: argparse.Namespace, console: Console) -> None:
    if arguments.json:
        console.print(json.dumps(report.to_json(), indent=1))
    else:
        console.print(summary(report, console))
    if not any(True for _ in report.each()):
        return
    if arguments.save:
        for path in save(report, Path(arguments.save)):
            print(f"written: {path}", file=sys.stderr)
    if arguments.plot:
        plot.draw(report, arguments.plot)
        print(f"written: {arguments.plot}", file=sys.stderr)


def save(report: Report, folder: Path) -> list[Path]:
    """Write the results as <cpu>-<date>.json and .md; their paths. Raises CommandError."""
    cpu = re.sub(r"[^a-z0-9]+", "-", report.about["machine"]["cpu"].lower()).strip("-")
    date = re.sub(r"[^0-9]+", "", report.about["date"])
    stem = f"{cpu}-{date[:8]}-{date[8:]}"
    texts = {".json": json.dumps(report.to_json(), indent=1) + "\n", ".md": markdown(report)}
    paths = []
    for suffix, text in texts.items():
        path = folder / (stem + suffix)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as failure:
            raise CommandError(f"cannot write {path}: {failure.strerror}") from failure
        paths.append(path)
    return paths


# ---- measuring


class Teller:
    """Tells what happens: finished workloads on the console, progress on stderr."""

    def __init__(self, console: Console, quiet: bool, total: int) -> None:
        self._console, self._quiet, self._total = console, quiet, total
        self._number = 0
        self._line = sys.stderr.isatty()

    def introduce(self, report: Report) -> None:
        """Where it is measured."""
        if not self._quiet:
            for line in about_lines(report.about):
                self._console.paragraph(line)

    def limits(self, limits: Limits) -> None:
        """What the machine can do."""
        if not self._quiet:
            self.clear()
            self._console.print()
            self._console.paragraph(limits_text(limits))

    def begin(self, key: str, run: Run) -> None:
        """A workload begins."""
        self._number += 1
        if not self._line:
            where = f"[{self._number}/{self._total}]"
            print(f"{where} {key}, {threads_text(run.threads)}", file=sys.stderr, flush=True)

    def progress(self, key: str, run: Run, what: str) -> None:
        """What is going on within a workload."""
        if self._line:
            where = f"[{self._number}/{self._total}]"
            text = f"\r\x1b[K{where} {key}, {threads_text(run.threads)}: {what}"
            print(text, end="", file=sys.stderr, flush=True)

    def result(self, result: Result, run: Run) -> None:
        """A workload is finished."""
        self.clear()
        if not self._quiet:
            self._console.print()
            self._console.print(block(result, run, self._console))

    def clear(self) -> None:
        """Remove the line of progress."""
        if self._line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _measure(run: Run, keys: Sequence[str], job: dict[str, Any], teller: Teller) -> None:
    """One number of threads: fill `run`.

    If the process dies while somebody is being prepared, the workload is done again without them;
    if it dies later, without the workload.
    """
    remaining = list(keys)
    without: dict[str, str] = {}
    while remaining:
        progress = _Progress(run, teller)
        whole = {
            **job,
            "threads": run.threads,
            "keys": remaining,
            "limits": run.limits is None,
            "without": {remaining[0]: without},
        }
        try:
            with contextlib.closing(events(whole)) as told:
                for event in told:
                    progress.take(event)
            return
        except Died as news:
            if progress.key is None:
                raise CommandError(str(news)) from news
            remaining = remaining[remaining.index(progress.key) :]
            before = without if progress.key == whole["keys"][0] else {}
            without = {**before, progress.entering: str(news)}
            if not progress.entering:
                run.results.append(_lost(remaining.pop(0), without))
                teller.result(run.results[-1], run)
                without = {}


class _Progress:
    """Follows the events of one process.

    key       the workload it is at; None before the first
    entering  who is being prepared; "" if nobody is
    """

    def __init__(self, run: Run, teller: Teller) -> None:
        self._run, self._teller = run, teller
        self.key: str | None = None
        self.entering = ""

    def take(self, event: dict[str, Any]) -> None:
        """One event."""
        run, teller = self._run, self._teller
        match event["event"]:
            case "limits":
                run.limits = Limits(**event["limits"])
                run.cores = event["cores"]
                teller.limits(run.limits)
            case "begin":
                self.key, self.entering = event["key"], ""
                teller.begin(event["key"], run)
            case "enter":
                self.entering = event["name"]
                teller.progress(event["key"], run, f"preparing {event['name']}")
            case "round":
                self.entering = ""
                number = f"round {event['number'] + 1} of {event['rounds']}"
                teller.progress(event["key"], run, number)
            case "result":
                run.results.append(result_of_json(event["result"]))
                teller.result(run.results[-1], run)


def _lost(key: str, reasons: dict[str, str]) -> Result:
    """The result of a workload that nobody survived."""
    dropped = {name or "everybody": reason for name, reason in reasons.items()}
    if key not in LADDERS:
        return Result(key, key, PROGRAM, {}, 0, 0, [], (), dropped)
    of = LADDERS[key]
    return Result(key, of.name, of.kind, dict(of.parameters), of.flop, of.bytes, [], (), dropped)


# ---- arguments


def _check_places(arguments: argparse.Namespace) -> None:
    """Refuse before the measuring, not after it, what cannot be written. Raises CommandError."""
    if arguments.save:
        folder = Path(arguments.save)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise CommandError(f"--save {folder}: {failure.strerror}") from failure
        if not os.access(folder, os.W_OK | os.X_OK):
            raise CommandError(f"--save {folder}: the folder cannot be written to")
    if arguments.plot:
        plot.check(arguments.plot)


def _list(arguments: argparse.Namespace, console: Console) -> int:
    rivals = [
        {"name": r.name, "versions": r.versions, "missing": list(r.missing)}
        for r in RIVALS.values()
    ]
    if arguments.json:
        ladders = [
            {
                "key": key,
                "name": ladder.name,
                "kind": ladder.kind,
                "parameters": dict(ladder.parameters),
                "flop": ladder.flop,
                "bytes": ladder.bytes,
                "constants": list(ladder.constants),
            }
            for key, ladder in LADDERS.items()
        ]
        console.print(json.dumps({"workloads": ladders, "rivals": rivals}, indent=1))
        return 0
    rows = [("workload", "", "work of a call")]
    for key, ladder in LADDERS.items():
        amount = f"{ladder.flop / 1e6:.4g} MFLOP" if ladder.flop else f"{ladder.bytes / 1e6:.4g} MB"
        rows.append((key, ladder.name, amount))
    for line in console.table(rows, right=(2,)):
        console.print(line)
    console.print()
    others = [("rival", "")]
    for rival in RIVALS.values():
        missing = f"not installed: pip install {' '.join(rival.missing)}"
        found = ", ".join(f"{name} {version}" for name, version in rival.versions.items())
        others.append((rival.name, missing if rival.missing else found))
    for line in console.table(others):
        console.print(line)
    return 0
