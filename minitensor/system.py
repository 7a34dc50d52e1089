"""The modules that not every Python has: a browser's lacks most of them, Windows some.

`from minitensor.system import fcntl` imports nothing yet. The first use does, or raises an error
that names what is missing, says what it is for, and what works without it. So the package can be
imported everywhere, and no other file asks for these modules (`tests/unit/test_layers.py`).
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from minitensor.errors import CompileError, MeasureError, MinitensorError

# fmt: off
__all__ = [
    "ALONE",
    "asyncio",
    "cffi",
    "ctypes",
    "fcntl",
    "is_ours",
    "mmap",
    "resource",
    "subprocess",
]

ALONE: Final = sys.platform == "emscripten"
"""True in a tab of a browser: no other process is there, and no other user."""
WITHOUT: Final = (
    'target="interpreter", schedules and their legality, sketches, features and the cost model '
    "work without it"
)


class _Module:
    """A module that is imported when it is used."""

    def __init__(self, name: str, use: str, error: type[MinitensorError]) -> None:
        self._name, self._use, self._error = name, use, error

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # of who looks at objects, and uses nothing
            raise AttributeError(attribute)
        try:
            if ALONE and self._name == "subprocess":  # it is there, and starts nothing
                raise ImportError("a tab of a browser has no other processes")
            module = importlib.import_module(self._name)
        except ImportError as failure:
            raise self._error(
                f"this Python has no module {self._name}, {self._use}: {failure}; {WITHOUT}"
            ) from None
        return getattr(module, attribute)


class _Alone:
    """File locks that do nothing, for a process that has no competitor."""

    LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4, 8

    @staticmethod
    def flock(descriptor: int, operation: int) -> None:
        """Lock a file, or unlock it."""


def is_ours(found: os.stat_result) -> bool:
    """True for a file of this user; for any, where users have no numbers (Windows, a browser)."""
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


if TYPE_CHECKING:
    import asyncio
    import ctypes
    import fcntl
    import mmap
    import resource
    import subprocess

    import _cffi_backend as cffi  # type: ignore[import-not-found, import-untyped, unused-ignore]
else:
    asyncio = _Module("asyncio", "by which workers of other machines' searches run", MeasureError)
    backend = "minitensor.runtime.webassembly" if ALONE else "_cffi_backend"
    cffi = _Module(backend, "by which compiled kernels are loaded", CompileError)
    subprocess = _Module("subprocess", "which starts the compiler", CompileError)
    ctypes = _Module("ctypes", "by which workers and guard pages call the system", MeasureError)
    mmap = _Module("mmap", "which makes guard pages", MeasureError)
    resource = _Module("resource", "which limits the processes of candidates", MeasureError)
    locks = _Module("fcntl", "which locks logs and the timing of kernels", MinitensorError)
    fcntl = _Alone if ALONE else locks
