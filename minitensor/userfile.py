"""A Python file of a user's, which is run as Python runs it, and the place of what it raised."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from minitensor.errors import ArgumentError, printable

_MODULE: Final = "minitensor_users_file"


def run_file(path: str) -> ModuleType:
    """Run a user's file as a module; what it prints goes to stderr.

    Raises ArgumentError, with the line, for a file that is not there, or whatever it raises.
    """
    if not Path(path).is_file():
        raise ArgumentError(f"there is no file {printable(path)}")
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    with _importable(module, str(Path(path).resolve().parent)):
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as failure:  # the user's code: it may raise anything
            raise ArgumentError(failure_in(path, failure)) from failure
    return module


@contextlib.contextmanager
def _importable(module: ModuleType, folder: str) -> Iterator[None]:
    """As when Python runs a file: its folder is searched for modules, and it is one itself."""
    sys.path.insert(0, folder)
    sys.modules[_MODULE] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path.remove(folder)


def failure_in(path: str, failure: BaseException) -> str:
    """The exception of a user's file, and the line that raised it."""
    where = path
    if isinstance(failure, SyntaxError) and failure.lineno is not None:
        where = f"{failure.filename}, line {failure.lineno}"
        return f"{where}: {type(failure).__name__}: {failure.msg}"
    own = [f for f in traceback.extract_tb(failure.__traceback__) if _same(f.filename, path)]
    if own:
        where = f"{path}, line {own[-1].lineno}"
    text = str(failure)
    return f"{where}: {type(failure).__name__}{f': {text}' if text else ''}"


def _same(a: str, b: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(a).samefile(b)
    return False
