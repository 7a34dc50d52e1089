"""Files named on a command line: read, written, or refused with a reason before the work begins."""

from __future__ import annotations

import os
from pathlib import Path

from minitensor.cli.errors import CommandError
from minitensor.errors import printable


def read_text(path: str, kind: str) -> str:
    """The text of a file of some kind, such as "trace". Raises CommandError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as failure:
        where = printable(path)
        raise CommandError(f"cannot read the {kind} {where}: {_reason(failure)}") from failure


def write_text(path: str | Path, text: str) -> None:
    """Write a file. Raises CommandError."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as failure:
        raise CommandError(f"cannot write {printable(str(path))}: {_reason(failure)}") from failure


def check_writable(name: str) -> None:
    """Raise CommandError for a file that cannot be written."""
    fault = ""
    try:
        path = Path(name)
        if path.is_dir():
            fault = "it is a folder"
        elif not path.parent.is_dir():
            fault = f"there is no folder {printable(str(path.parent))}"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            fault = "permission denied"
    except (OSError, ValueError) as failure:
        fault = _reason(failure)
    if fault:
        raise CommandError(f"cannot write {printable(name)}: {fault}")


def _reason(failure: OSError | ValueError) -> str:
    if isinstance(failure, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(failure, OSError):
        return failure.strerror or ""
    return "no file can have that name"
