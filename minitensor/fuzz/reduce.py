"""A failure made small, its candidates tried in a process of their own."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Sequence
from typing import Final

from minitensor.fuzz.choices import Recorded
from minitensor.fuzz.pair import FailedError, Failure, draw_pair
from minitensor.fuzz.process import Process
from minitensor.fuzz.shrink import Answers, shrink

PATIENCE: Final = 20.0
"""Seconds for one candidate, after which it hangs."""
BUDGET: Final = 120.0
"""Seconds for all of them."""


def reduced(answers: Sequence[int], failure: Failure, start: Callable[[], Process]) -> Answers:
    """The smallest answers that were found to give a failure of the same kind.

    start  starts a process; another one after each crash
    """
    with contextlib.closing(_Judge(failure.kind, start)) as judge:
        return shrink(answers, spans_of, judge.fails)


def spans_of(answers: Answers) -> list[tuple[int, int]]:
    """Which answers belong together: those of a stage, of a step."""
    choices = Recorded(answers)
    with contextlib.suppress(FailedError):
        draw_pair(choices)
    return choices.spans


class _Judge:
    """Says whether answers give a failure of a kind."""

    def __init__(self, kind: str, start: Callable[[], Process]) -> None:
        self.kind, self.start = kind, start
        self.process: Process | None = None
        self.deadline = time.monotonic() + BUDGET

    def fails(self, answers: Answers) -> bool:
        if time.monotonic() > self.deadline:
            return False
        if self.process is None:
            self.process = self.start()
        self.process.send({"answers": answers})
        kind = self.verdict(self.process)
        if kind in ("crash", "hang"):
            self.close()
        return kind == self.kind

    def verdict(self, process: Process) -> str | None:
        """What kind of failure the process tells, or is."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if not select.select([process.output], [], [], 1.0)[0]:
                continue
            for told in process.lines():
                if "done" in told:
                    failures = told["done"]["failures"]
                    return str(failures[0]["kind"]) if failures else None
            if process.ended:
                return "crash"
        return "hang"

    def close(self) -> None:
        if self.process is not None:
            self.process.stop()
            self.process = None
