"""A failure made small, its candidates tried in a process of their own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final

from minitensor.fuzz.choices import Recorded
from minitensor.fuzz.pair import FailedError, Failure, draw_pair
from minitensor.fuzz.shrink import Answers, shrink
from minitensor.runtime import Reason, Worker, WorkerError

PATIENCE: Final = 20.0
"""Seconds for one candidate, after which it hangs."""
BUDGET: Final = 120.0
"""Seconds for all of them."""


def reduced(answers: Sequence[int], failure: Failure, start: Callable[[], Worker]) -> Answers:
    """The smallest answers that were found to give a failure of the same kind.

    start  starts a worker; another one after each crash
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

    def __init__(self, kind: str, start: Callable[[], Worker]) -> None:
        self.kind, self.start = kind, start
        self.worker: Worker | None = None
        self.deadline = time.monotonic() + BUDGET

    def fails(self, answers: Answers) -> bool:
        if time.monotonic() > self.deadline:
            return False
        if self.worker is None:
            self.worker = self.start()
        self.worker.send({"answers": answers})
        return self._verdict(self.worker) == self.kind

    def _verdict(self, worker: Worker) -> str | None:
        """The kind of failure that the worker reports, or shows."""
        end = time.monotonic() + PATIENCE
        try:
            while "done" not in (reply := worker.receive(end - time.monotonic())):
                pass
        except WorkerError as failure:
            self.close()
            return "hang" if failure.reason is Reason.TIMEOUT else "crash"
        failures = reply["done"]["failures"]
        return str(failures[0]["kind"]) if failures else None

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None
