"""Running a compiler, or a program that it made: no shell, no input, and not for ever."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minitensor.errors import CompileError, printable
from minitensor.system import subprocess

_MOST_SHOWN: Final = 400
"""Characters of a line that a program printed."""
_WITHHELD: Final = (
    *("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG"),
    *("SOURCE_DATE_EPOCH", "CCC_OVERRIDE_OPTIONS", "CCC_ADD_ARGS"),
    *("CC_PRINT_OPTIONS", "CC_PRINT_OPTIONS_FILE", "CC_PRINT_HEADERS", "CC_PRINT_HEADERS_FILE"),
    *("CC_LOG_DIAGNOSTICS", "CC_LOG_DIAGNOSTICS_FILE"),
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
    *("CC_PRINT_PROC_STAT", "CC_PRINT_PROC_STAT_FILE"),
)
"""Variables that make compilers write elsewhere, or add to the command unseen."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended by itself: its exit status and what it printed."""

    status: int
    stdout: str
    stderr: str


REPLACED: Final[list[Callable[[Sequence[str], Path], Finished]]] = []
"""The function of `runtime.webassembly` that runs compilers, where it is used."""


def run_compiler(command: Sequence[str], folder: Path, time_limit: float) -> Finished:
    """Run a command in `folder`, which also takes its temporary files, and wait for its end.

    It has the environment of this process, less what makes compilers write elsewhere.
    It has a session of its own, so that after `time_limit` seconds (or when the user interrupts)
    it is stopped together with everything it started.
    Raises CompileError if it does not start, or does not end in time.
    """
    if REPLACED:
        return REPLACED[-1](command, folder)
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as failure:
        raise CompileError(
            f"{command[0]} cannot be started: {failure.strerror}; CC (for CUDA, NVCC) can name "
            "another compiler",
            command,
        ) from failure
    with process:
        try:
            stdout, stderr = process.communicate(timeout=time_limit)
        except BaseException as failure:
            _stop(process)
            if isinstance(failure, subprocess.TimeoutExpired):
                raise CompileError(
                    f"{command[0]} did not end within {time_limit:g} s and was stopped; "
                    "a smaller kernel (fewer unrolled statements) compiles faster",
                    command,
                ) from None
            raise
    return Finished(process.returncode, _text(stdout), _text(stderr))


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _WITHHELD}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(folder)}


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole session; it may have ended in the meantime."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _text(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")


def first_error(stderr: str) -> str:
    """The line of a compiler's messages that says what is wrong, which need not be the first."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    found = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
    return one_line(found)


def one_line(line: str) -> str:
    """A line as it can be part of a message: without control characters, and not without end."""
    return printable(line if len(line) <= _MOST_SHOWN else line[:_MOST_SHOWN] + "…")
