"""The processes that compile and measure, seen from the one that asks them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import minitensor
from minitensor.errors import MeasureError
from minitensor.runtime import cache_folder
from minitensor.sanitize import guards_library
from minitensor.search.runner.family import MARK, kill_marked
from minitensor.search.runner.settings import Settings

SERVER: Final = "minitensor.search.runner.server"
SILENCE: Final = 15.0
"""Seconds without a sign of life after which a server is given up."""
_PATIENCE: Final = 3.0
_ALONE: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""A process that forks should have one thread, and these give numpy others."""


class LostError(MeasureError):
    """A server ended, or is silent."""


class Process:
    """A module that runs as a process and talks in lines of JSON, in a session of its own.

    module     its name
    arguments  what it is given
    variables  of its environment, beside those of this process
    """

    def __init__(self, module: str, *arguments: str, variables: Mapping[str, str] = {}) -> None:
        self.token = secrets.token_hex(16)
        root = str(Path(minitensor.__file__).parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                env={
                    **os.environ,
                    "MINITENSOR_CACHE_DIR": str(cache_folder()),
                    "PYTHONPATH": path,
                    MARK: self.token,
                    **variables,
                },
                start_new_session=True,
            )
        except OSError as failure:
            self._errors.close()
            raise MeasureError(f"cannot start a process: {failure.strerror}") from failure
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._rest = b""

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def send(self, what: Mapping[str, Any]) -> None:
        """Write a line. Raises LostError if it has ended."""
        line = memoryview(json.dumps(what).encode() + b"\n")
        try:
            while line:
                line = line[self._input.write(line) :]
        except BrokenPipeError:
            raise self._lost("ended") from None

    def line(self, patience: float | None) -> dict[str, Any]:
        """The next line; waits for it, `patience` seconds at most. Raises LostError."""
        until = None if patience is None else time.monotonic() + patience
        while b"\n" not in self._rest:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._output], [], [], left)[0]:
                raise self._lost(f"is silent for {patience:g} s")
            read = self._output.read(1 << 16)
            if not read:
                raise self._lost("ended")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        """End it, with everything it started: it does that itself, unless it cannot any more."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.returncode != 0:
            kill_marked(self.token)
        self._output.close()
        self._errors.close()

    def kill(self) -> None:
        """End it at once; what it started is killed by its mark."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        kill_marked(self.token)

    def _lost(self, how: str) -> LostError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        with contextlib.suppress(ValueError, OSError):
            self._errors.seek(0)
            said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            return LostError(f"the process that measures {how}{f': {said[-1]}' if said else ''}")
        return LostError(f"the process that measures {how}")


class ServerProcess(Process):
    """A process that measures (see `server`). Raises LostError if it does not start."""

    def __init__(self, task: Path, settings: Settings) -> None:
        guards = str(guards_library())
        super().__init__(SERVER, variables=_ALONE)
        try:
            self.send({"task": str(task), "settings": settings.as_json(), "guards": guards})
            while "ready" not in self.line(2 * SILENCE):
                pass
        except BaseException:
            self.close()
            raise

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What became of a candidate, as JSON. Raises LostError if the server is no more."""
        self.send({"run": job})
        while "result" not in (told := self.line(SILENCE)):
            pass
        found: dict[str, Any] = told["result"]
        return found


class BuilderProcess(Process):
    """A process that compiles (see `builder`), several texts at a time.

    threads  how many
    """

    def __init__(self, threads: int) -> None:
        super().__init__("minitensor.search.runner.builder", str(threads))
        self._wanted: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._lost_to: Exception | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def compile(self, source: str, time_limit: float) -> Future[dict[str, Any]]:
        """What `compile_text` gives, when it is done."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            self._count += 1
            number = self._count
            self._wanted[number] = future
            try:
                if self._lost_to is not None:
                    raise self._lost_to
                self.send({"id": number, "source": source, "time_limit": time_limit})
            except LostError as lost:
                del self._wanted[number]
                future.set_exception(lost)
        return future

    def close(self) -> None:
        """End it, in the middle of its work."""
        with contextlib.suppress(OSError):
            self._input.close()
        self._reader.join(_PATIENCE)
        if self._reader.is_alive():
            self.kill()
            self._reader.join()
        super().close()

    def _read(self) -> None:
        try:
            while True:
                told = self.line(None)
                with self._lock:
                    future = self._wanted.pop(told.pop("id"))
                future.set_result(told)
        except Exception as failure:  # whoever waits is told
            with self._lock:
                self._lost_to = failure
                wanted, self._wanted = self._wanted, {}
            for future in wanted.values():
                future.set_exception(failure)
