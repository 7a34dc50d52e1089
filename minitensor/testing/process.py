"""A process of a campaign, seen from outside: what it is sent, what it tells, how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import minitensor
from minitensor.errors import CompileError
from minitensor.runtime import find_toolchain
from minitensor.sanitize import Sanitizer, environment

MODULE: Final = "minitensor.testing.worker"
_ROOT: Final = str(Path(minitensor.__file__).parents[1])


class Process:
    """A worker (see `worker`), in a session of its own, which ends with `stop`.

    at     what it was last about to do, and with which pair
    heard  when it last told something, by time.monotonic()
    jobs   how many it has done; who gives them counts them
    ended  whether it has ended
    """

    def __init__(self, seed: int, sanitizer: str, cache: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        kind = Sanitizer(sanitizer)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={
                    **os.environ,
                    **environment(kind, find_toolchain()),
                    "MINITENSOR_CACHE_DIR": cache,
                    "PYTHONPATH": os.pathsep.join(
                        [
                            str(Path(minitensor.__file__).parents[1]),
                            os.environ.get("PYTHONPATH", ""),
                        ]
                    ),
                },
                start_new_session=True,
            )
        except OSError as failure:
            raise CompileError(f"cannot start a process: {failure.strerror}") from failure
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self.output = self._process.stdin, self._process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._rest = b""
        self.at: tuple[str, int] = ("start", -1)
        self.heard = time.monotonic()
        self.jobs = 0
        self.ended = False
        self.send({"seed": seed, "sanitizer": sanitizer})

    def send(self, job: Mapping[str, Any]) -> None:
        """Give it a job."""
        self.heard = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # its end is told by its output
            self._input.write(json.dumps(job).encode() + b"\n")
            self._input.flush()

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it has told since the last call."""
        read = self.output.read(1 << 20)
        if read is None:
            return
        if not read:
            self.ended = True
            return
        self.heard = time.monotonic()
        *whole, self._rest = (self._rest + read).split(b"\n")
        for line in whole:
            told = json.loads(line)
            if "at" in told:
                self.at = (told["at"][0], told["at"][1])
            yield told

    def last_words(self) -> str:
        """How it ended: the signal or the status, and the last line of its errors."""
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        summary = next((x for x in lines if "ERROR: " in x or "runtime error" in x), "")
        how = f"exit status {status}"
        if status < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-status).name
        said = summary or (lines[-1] if lines else "")
        return f"{how}: {said}" if said else how

    def stop(self) -> None:
        """Kill it, with everything it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for file in (self._input, self.output, self._errors):
            with contextlib.suppress(OSError):
                file.close()
