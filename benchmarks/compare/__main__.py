"""The command: arguments in, processes started, results shown and kept."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.compare import options, plot
from benchmarks.compare.about import about
from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.baselines.tvm_baseline import RECORDS
from benchmarks.compare.implementation import LOG
from benchmarks.compare.measure import Progress, measure
from benchmarks.compare.report import markdown, summary
from benchmarks.compare.results import Report, Run
from minitensor.cli.bench import pace_of
from minitensor.cli.console import Console, aligned
from minitensor.cli.errors import CommandError
from minitensor.cli.main import perform
from minitensor.errors import printable
from tutorials.schedules import HAND_SCHEDULES

_EPILOG: Final = """\
examples:
  python -m benchmarks.compare                           all workloads, on all cores
  python -m benchmarks.compare --list                    workloads, and installed baselines
  python -m benchmarks.compare matmul-1024 'conv-*' --threads 1,2
  python -m benchmarks.compare matmul-1024 --baselines numpy,onnxruntime --rounds 15
  python -m benchmarks.compare --save benchmarks/results --plot roofline.png

All take turns in one process that is pinned to as many cores as it has threads, and so do loops
that do nothing but multiply and add, or read and write: "of machine" is the part of their rate in
the same rounds. A figure is the median over the rounds of the fastest call in a round; "1.20 x" is
1.2 times as fast. Results are compared with numpy in float64 before anything is timed. Baselines:
numpy; where they are installed scipy's OpenBLAS with its AVX-512 kernels, torch, onnxruntime, TVM
(from tuning records), and, only if named in --baselines, inductor (torch.compile).
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    return perform(_parser(), argv)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.compare",
        description="time the hand schedules in turns with numpy, torch and other baselines",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    text = "workloads, * and ? standing for anything"
    parser.add_argument("names", nargs="*", metavar="NAME", help=text)
    parser.add_argument("--list", action="store_true", help="list workloads and baselines")
    parser.add_argument(
        "--threads", metavar="N,...", help="numbers of threads (default: all usable cores)"
    )
    parser.add_argument("--baselines", metavar="NAME,...", help="default: all that are installed")
    parser.add_argument("--tvm-records", metavar="FOLDER", help="TVM's tuning records")
    parser.add_argument("--log", metavar="FILE", help="time the schedules of this log, too")
    parser.add_argument("--rounds", type=int, metavar="N", help="turns of each (default: 7)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of short bursts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", metavar="FOLDER", help="write the results, .json and .md")
    parser.add_argument("--plot", metavar="FILE.png", help="draw a roofline (needs matplotlib)")
    return parser


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Measure, show, keep. 0; 130 if it was interrupted, after showing the finished workloads."""
    if arguments.list:
        return _list(arguments, console)
    keys = options.keys_of(arguments.names)
    baselines = options.baselines_of(arguments.baselines, arguments.tvm_records)
    pace = pace_of(arguments)
    _check_places(arguments)
    threads = options.threads_of(arguments.threads)
    report = Report(about(pace, baselines))
    job = {
        "baselines": baselines,
        "options": {RECORDS: arguments.tvm_records, LOG: _log(arguments.log)},
        "pace": asdict(pace),
    }
    progress = Progress(console, quiet=arguments.json, total=len(keys) * len(threads))
    progress.introduce(report)
    try:
        for count in threads:
            report.runs.append(Run(count, []))
            measure(report.runs[-1], keys, job, progress)
    except KeyboardInterrupt:
        report.interrupted = True
    progress.clear()
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


def _check_places(arguments: argparse.Namespace) -> None:
    """Raise CommandError, before the measuring, for files that cannot be written."""
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
    baselines = [
        {"name": r.name, "versions": r.versions, "missing": list(r.missing)}
        for r in BASELINES.values()
    ]
    if arguments.json:
        workloads = [
            {
                "key": key,
                "name": hand.name,
                "kind": hand.kind,
                "parameters": dict(hand.parameters),
                "flop": hand.flop,
                "bytes": hand.bytes,
                "constants": list(hand.constants),
            }
            for key, hand in HAND_SCHEDULES.items()
        ]
        console.print(json.dumps({"workloads": workloads, "baselines": baselines}, indent=1))
        return 0
    rows = [("workload", "", "work of a call")]
    for key, hand in HAND_SCHEDULES.items():
        amount = f"{hand.flop / 1e6:.4g} MFLOP" if hand.flop else f"{hand.bytes / 1e6:.4g} MB"
        rows.append((key, hand.name, amount))
    for line in aligned(rows, right=(2,)):
        console.print(line)
    console.print()
    others = [("baseline", "")]
    for baseline in BASELINES.values():
        missing = f"not installed: pip install {' '.join(baseline.missing)}"
        found = ", ".join(f"{name} {version}" for name, version in baseline.versions.items())
        others.append((baseline.name, missing if baseline.missing else found))
    for line in aligned(others):
        console.print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
