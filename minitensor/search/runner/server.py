"""The process that measures: it loads no kernel, and forks a child for each candidate.

    python -m minitensor.search.runner.server

Its standard input is lines of JSON: {"task": folder, "settings": …, "guards": path} once, and then
{"run": {"library": …, "entry": …, "workspace": …, "best": …}} for each candidate. It answers each
candidate with a line, and writes {"alive": true} once a second while it works. It ends with its
input, or with the process that started it, and nothing that it started outlives it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, Final

from minitensor.runtime import cache_folder
from minitensor.search.runner.attempt import Attempt
from minitensor.search.runner.check import Arena
from minitensor.search.runner.child import Job
from minitensor.search.runner.family import end_children, inherit_orphans
from minitensor.search.runner.quiet import timing
from minitensor.search.runner.settings import Settings
from minitensor.search.runner.task import Task

_PULSE: Final = 1.0
_TICK_MS: Final = 200
_IN: Final = 0


class _GoneError(Exception):
    """The process that asked is gone, or wants no more."""


class Server:
    """Reads jobs from one descriptor, and answers on another."""

    def __init__(self, output: int, scratch: Path) -> None:
        self._output = output
        self._scratch = scratch
        self._parent = os.getppid()
        self._poll = select.poll()
        self._poll.register(_IN, select.POLLIN)
        self._pulse = 0.0

    def serve(self) -> None:
        """Do all jobs. Raises _GoneError when nobody is there to hear of them."""
        lines = self._lines()
        first = next(lines)
        arena = Arena(Task.load(Path(first["task"])))
        settings, guards = Settings(**first["settings"]), Path(first["guards"])
        gc.collect()
        gc.freeze()
        self._tell({"ready": True})
        for line in lines:
            run = line["run"]
            job = Job(
                library=Path(run["library"]),
                entry=run["entry"],
                workspace=run["workspace"],
                guards=guards,
                settings=settings,
                best=run["best"],
            )
            with self._folder() as folder, timing(self._look):
                result = Attempt(job, arena, folder, self._look).result()
            self._tell({"result": asdict(result)})

    def _lines(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while True:
            *whole, rest = rest.split(b"\n")
            for line in whole:
                yield json.loads(line)
            while b"\n" not in rest:
                self._check_parent()
                if self._poll.poll(_TICK_MS):
                    read = os.read(_IN, 1 << 16)
                    if not read:
                        raise _GoneError
                    rest += read

    def _look(self) -> None:
        """Whether somebody still waits for the answer; and tell that it is worked on."""
        self._check_parent()
        if any(event & select.POLLHUP for _, event in self._poll.poll(0)):
            raise _GoneError
        if time.monotonic() > self._pulse + _PULSE:
            self._pulse = time.monotonic()
            self._tell({"alive": True})

    def _check_parent(self) -> None:
        """A pipe stays open as long as anybody has its other end, who may have been forked."""
        if os.getppid() != self._parent:
            raise _GoneError

    def _tell(self, what: dict[str, Any]) -> None:
        line = json.dumps(what).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._output, line) :]
        except BrokenPipeError:
            raise _GoneError from None

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        """A folder for a candidate to run in, which is emptied of what it wrote."""
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Serve on the standard streams; what is printed by mistake goes to standard error."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminated)
    inherit_orphans()
    folder = tempfile.mkdtemp(prefix="build-", dir=cache_folder())
    try:
        Server(output, Path(folder)).serve()
    except _GoneError:
        pass
    finally:
        end_children()
        shutil.rmtree(folder, ignore_errors=True)


def _terminated(number: int, frame: FrameType | None) -> None:
    raise _GoneError


if __name__ == "__main__":
    main()
