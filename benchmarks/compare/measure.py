"""The measuring of one number of threads: processes started, their events shown and collected."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.launch import Died, events
from benchmarks.compare.report import about_lines, block, threads_text
from benchmarks.compare.results import Report, Result, Run, lost, result_of_json
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError
from minitensor.runtime import Limits


class Progress:
    """Finished workloads on the console, the state of the current one on stderr."""

    def __init__(self, console: Console, quiet: bool, total: int) -> None:
        self._console, self._quiet, self._total = console, quiet, total
        self._number = 0
        self._line = sys.stderr.isatty()

    def introduce(self, report: Report) -> None:
        """The machine, the compiler, the pace."""
        if not self._quiet:
            for line in about_lines(report.about):
                self._console.paragraph(line)

    def limits(self, limits: Limits) -> None:
        """The limits of the machine."""
        if not self._quiet:
            self.clear()
            self._console.print()
            self._console.paragraph(str(limits))

    def begin(self, key: str, run: Run) -> None:
        """A workload begins."""
        self._number += 1
        if not self._line:
            where = f"[{self._number}/{self._total}]"
            print(f"{where} {key}, {threads_text(run.threads)}", file=sys.stderr, flush=True)

    def within(self, key: str, run: Run, text: str) -> None:
        """The state of a workload."""
        if self._line:
            where = f"[{self._number}/{self._total}]"
            line = f"\r\x1b[K{where} {key}, {threads_text(run.threads)}: {text}"
            print(line, end="", file=sys.stderr, flush=True)

    def result(self, result: Result, run: Run) -> None:
        """A workload is finished."""
        self.clear()
        if not self._quiet:
            self._console.print()
            self._console.print(block(result, run, self._console))

    def clear(self) -> None:
        """Remove the line of the state."""
        if self._line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def measure(run: Run, keys: Sequence[str], job: dict[str, Any], progress: Progress) -> None:
    """Fill the run of one number of threads.

    If the process dies while an implementation is being prepared, the workload is measured again
    without it; if it dies later, the workload is given up.
    """
    remaining = list(keys)
    without: dict[str, str] = {}
    while remaining:
        followed = _Followed(run, progress)
        whole = {
            **job,
            "threads": run.threads,
            "keys": remaining,
            "limits": run.limits is None,
            "without": {remaining[0]: without},
        }
        try:
            with contextlib.closing(events(whole)) as stream:
                for event in stream:
                    followed.take(event)
            return
        except Died as death:
            if followed.key is None:
                raise CommandError(str(death)) from death
            remaining = remaining[remaining.index(followed.key) :]
            before = without if followed.key == whole["keys"][0] else {}
            without = {**before, followed.entering: str(death)}
            if not followed.entering:
                dropped = {name or "all": reason for name, reason in without.items()}
                run.results.append(lost(remaining.pop(0), dropped))
                progress.result(run.results[-1], run)
                without = {}


class _Followed:
    """The state of one process, by its events.

    key       the current workload; None before the first
    entering  the implementation that is being prepared; "" if none is
    """

    def __init__(self, run: Run, progress: Progress) -> None:
        self._run, self._progress = run, progress
        self.key: str | None = None
        self.entering = ""

    def take(self, event: dict[str, Any]) -> None:
        """One event."""
        run, progress = self._run, self._progress
        match event["event"]:
            case "limits":
                run.limits = Limits(**event["limits"])
                run.cores = event["cores"]
                progress.limits(run.limits)
            case "begin":
                self.key, self.entering = event["key"], ""
                progress.begin(event["key"], run)
            case "enter":
                self.entering = event["name"]
                progress.within(event["key"], run, f"preparing {event['name']}")
            case "round":
                self.entering = ""
                number = f"round {event['number'] + 1} of {event['rounds']}"
                progress.within(event["key"], run, number)
            case "result":
                run.results.append(result_of_json(event["result"]))
                progress.result(run.results[-1], run)
