"""`minitensor log`: what a log of records holds, and keeping it small and whole."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minitensor.cli.console import Console, aligned, counted, indented
from minitensor.cli.errors import CommandError, UsageError
from minitensor.codegen import Target
from minitensor.errors import MinitensorError, printable
from minitensor.looks import readable_seconds
from minitensor.search import Log, Record

TEXT: Final = "show, merge, prune and check the records of searches"
EPILOG: Final = """\
examples:
  minitensor log show tuning.jsonl                   workloads, how often tried, the best time
  minitensor log best tuning.jsonl --workload dense  the fastest schedule, as Python
  minitensor log merge a.jsonl b.jsonl --into all.jsonl
  minitensor log prune tuning.jsonl --best 5         keep the five fastest of each workload
  minitensor log verify tuning.jsonl                 status 1 if a line is damaged

`minitensor log COMMAND --help` says more; docs/records.md describes the format.
"""
_SHORT: Final = 12
"""Digits of a workload that are shown; --workload takes any unique beginning."""
_KEPT: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands below, and their arguments."""
    below = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, act: Callable[..., int], text: str) -> argparse.ArgumentParser:
        added = below.add_parser(name, help=text, description=text)
        added.add_argument("files", nargs="+", metavar="FILE", help="a log")
        added.add_argument("--json", action="store_true", help="print JSON")
        added.set_defaults(act=act)
        return added

    show = command("show", _show, "list the workloads of logs, or their records")
    show.add_argument("--records", action="store_true", help="list every record")
    best = command("best", _best, "print the fastest schedule of each workload and target")
    for one in (show, best):
        one.add_argument("--workload", metavar="W", help="only this one: its name or key")
    merge = command("merge", _merge, "add the records of logs to another that lacks them")
    merge.add_argument("--into", metavar="FILE", required=True, help="the log to add to")
    prune = command("prune", _prune, "rewrite logs with only their fastest records")
    prune.add_argument(
        "--best",
        type=int,
        default=_KEPT,
        metavar="N",
        help=f"how many to keep of each workload and target ({_KEPT})",
    )
    prune.add_argument("--failed", action="store_true", help="keep failures as well")
    command("verify", _verify, "check every line of logs; status 1 if one is damaged")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Do what the words below `log` say."""
    act: Callable[[argparse.Namespace, Console], int] = arguments.act
    return act(arguments, console)


# ---- show


@dataclass
class _Group:
    """The records of one workload and target."""

    workload: str
    name: str
    target: Target
    records: int = 0
    failed: int = 0
    best: Record | None = None
    last: str = ""

    def add(self, record: Record) -> None:
        self.records += 1
        self.failed += not record.seconds
        self.last = max(self.last, record.date)
        if record.seconds and (self.best is None or record.median < self.best.median):
            self.best = record


def _groups(arguments: argparse.Namespace) -> list[_Group]:
    found: dict[tuple[str, Target], _Group] = {}
    for record in _records(arguments.files, arguments.workload):
        key = (record.workload, record.target)
        if key not in found:
            found[key] = _Group(record.workload, record.name, record.target)
        found[key].add(record)
    if arguments.workload and not found:
        raise CommandError(
            f"no record of a workload {arguments.workload!r}; see minitensor log show"
        )
    return list(found.values())


def _records(files: Iterable[str], workload: str | None) -> Iterator[Record]:
    """The records of the files, those of one workload if it is given by name or key."""
    logs = [_log(file) for file in files]
    for log in logs:
        for record in log:
            if workload is None or record.name == workload or record.workload.startswith(workload):
                yield record


def _log(file: str) -> Log:
    """The log of that name. Raises TuningError if there is none."""
    log = Log(file)
    log.check_is_there()
    return log


def _show(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.records:
        _show_records(arguments, console)
        return 0
    groups = _groups(arguments)
    if arguments.json:
        console.json([_described(group) for group in groups])
        return 0
    rows = [("workload", "", "target", "records", "failed", "best", "GFLOP/s", "last")]
    rows += [
        (
            printable(group.name),
            group.workload[:_SHORT],
            _target(group.target),
            f"{group.records:,}",
            f"{group.failed:,}",
            _time(group.best),
            _gflops(group.best),
            group.last[:16].replace("T", " "),
        )
        for group in groups
    ]
    _table(console, rows, right=(3, 4, 5, 6))
    return 0


def _show_records(arguments: argparse.Namespace, console: Console) -> None:
    records = _records(arguments.files, arguments.workload)
    if arguments.json:
        console.json([_as_json(record) for record in records])
        return
    rows = [("workload", "", "target", "trace", "time", "GFLOP/s", "status")]
    rows += [
        (
            printable(record.name),
            record.workload[:_SHORT],
            _target(record.target),
            record.trace_key[:_SHORT],
            _time(record),
            _gflops(record),
            printable(f"{record.status}: {record.error}" if record.error else record.status),
        )
        for record in records
    ]
    _table(console, rows, right=(4, 5))


def _table(console: Console, rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    if len(rows) == 1:
        console.print("no records")
        return
    heading, *lines = aligned(rows, right)
    console.print(console.styled(heading, "bold"))
    for line in lines:
        console.print(line)


def _described(group: _Group) -> dict[str, Any]:
    return {
        "workload": group.workload,
        "name": group.name,
        "target": group.target.as_dict(),
        "records": group.records,
        "failed": group.failed,
        "best_seconds": group.best.median if group.best else None,
        "gflops": group.best.gflops if group.best else None,
        "last": group.last,
    }


# ---- best


def _best(arguments: argparse.Namespace, console: Console) -> int:
    working = [(group, group.best) for group in _groups(arguments) if group.best is not None]
    if arguments.json:
        console.json([_as_json(best) for _, best in working])
        return 0
    if not working:
        console.print("no records of candidates that worked")
    for number, (group, best) in enumerate(working):
        if number:
            console.print()
        name = console.styled(printable(group.name), "bold")
        console.print(f"{name}  {group.workload}  {_target(group.target)}")
        speed = f", {_gflops(best)} GFLOP/s" if best.gflops else ""
        tried = f"best of {group.records:,}" if group.records > 1 else "the only one"
        console.print(f"{_time(best)}{speed} ({tried}), on {printable(best.host.cpu)}, {best.date}")
        python = _python(best)
        if isinstance(python, str):
            console.print(indented(console.code(python or "# no steps")))
        else:
            console.print(f"    its trace cannot be read: {printable(python.message)}")
    return 0


def _python(record: Record) -> str | MinitensorError:
    """The steps as Python, or why they cannot be written so."""
    try:
        return record.parsed().as_python()
    except MinitensorError as problem:
        return problem


def _as_json(record: Record) -> dict[str, Any]:
    python = _python(record)
    return {
        **dataclasses.asdict(record),
        "trace": json.loads(record.trace),
        "best_seconds": record.median if record.seconds else None,
        "gflops": record.gflops,
        "python": python.splitlines() if isinstance(python, str) else None,
    }


# ---- merge, prune, verify


def _merge(arguments: argparse.Namespace, console: Console) -> int:
    merged = Log(arguments.into).merge(arguments.files)
    if arguments.json:
        found = {"added": merged.added, "known": merged.known, **dataclasses.asdict(merged.report)}
        console.json(found)
        return 0
    added = counted(merged.added, "record")
    console.print(
        printable(f"{arguments.into}: {added} added, {merged.known:,} were there already")
    )
    return 0


def _prune(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.best < 0:
        raise UsageError(f"--best must be at least 0, but is {arguments.best}")
    described = []
    for log in [_log(file) for file in arguments.files]:
        done = log.prune(arguments.best, failed=arguments.failed)
        found = {"file": str(log.path), "kept": done.kept, "dropped": done.dropped}
        described.append({**found, **dataclasses.asdict(done.report)})
        if not arguments.json:
            text = f"{log.path}: {counted(done.kept, 'record')} kept, {done.dropped:,} dropped"
            lines = done.report.damaged + done.report.torn
            console.print(
                printable(text + (f", and {counted(lines, 'damaged line')}" if lines else ""))
            )
    if arguments.json:
        console.json(described)
    return 0


def _verify(arguments: argparse.Namespace, console: Console) -> int:
    described, status = [], 0
    for file in arguments.files:
        try:
            report = Log(file).verify()
        except MinitensorError as problem:
            print(f"minitensor log verify: error: {problem.message}", file=sys.stderr)
            status = 1
            continue
        whole = not report.damaged and not report.unfinished
        status = status if whole else 1
        described.append({"file": file, "whole": whole, **dataclasses.asdict(report)})
        if not arguments.json:
            found = counted(report.good, "record")
            if report.definitions:
                found += f", {counted(report.definitions, 'definition')}"
            console.print(printable(f"{file}: {found}, {report.faults or 'nothing damaged'}"))
            if report.old:
                console.print(
                    f"  {counted(report.old, 'record')} by version 0.1, too old for load_best if "
                    "the program has several stages"
                )
    if arguments.json:
        console.json(described)
    return status


# ---- texts


def _target(target: Target) -> str:
    if target.kind == "interpreter":
        return target.kind
    return f"{target.kind}, {counted(target.num_cores or 1, 'core')}, {target.vector_bits} bits"


def _time(record: Record | None) -> str:
    if record is None or math.isinf(record.median):
        return "-"
    return readable_seconds(record.median)


def _gflops(record: Record | None) -> str:
    gflops = None if record is None else record.gflops
    return "-" if gflops is None else f"{gflops:.4g}"
