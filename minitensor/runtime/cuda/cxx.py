"""CUDA texts for a CPU: compiled as C++ by the C compiler of this machine, and linked with the
emulator (emulator.cpp).

A text that is to be *watched* is compiled as it stands, without optimisation, and with a call in
front of each access to memory that other threads could see (`-fsanitize=thread`); emulator.cpp has
those functions. So every access of the text is made, in its order.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from minitensor.errors import CompileError
from minitensor.runtime.cache import TIME_LIMIT, Compiled, compile_generated
from minitensor.runtime.toolchain import Toolchain

_FOLDER: Final = Path(__file__).parent
_FILES: Final = (
    "device.h",
    "emulator.h",
    "fibers.h",
    "checks.h",
    "counters.h",
    "warps.h",
    "emulator.cpp",
)
_FLAGS: Final = (
    "-std=gnu++17",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-D_GLIBCXX_INCLUDE_NEXT_C_HEADERS",  # math.h of the C library, which is read in half the time
    "-w",
    f"-I{_FOLDER}",
)
_WATCHED: Final = ("-O0", "-g1", "-fsanitize=thread")
_LIBRARIES: Final = ("-nodefaultlibs", "-lc", "-lm", "-ldl", "-lgcc")
"""No library of C++, and none for `-fsanitize=thread`."""


def compile_emulated(
    source: str, toolchain: Toolchain, *, watched: bool, time_limit: float = TIME_LIMIT
) -> Compiled:
    """The library of a CUDA text for this CPU, taken from the cache if it is there.

    Raises CompileError if the compiler fails, or is none of C++, or takes too long.
    """
    emulator = str(emulator_library(toolchain))
    flags = _WATCHED if watched else ("-O2",)
    made = _for_cxx(toolchain, flags, (emulator,))
    return _compiled(source, made, time_limit)


def emulator_library(toolchain: Toolchain) -> Path:
    """The library of emulator.cpp."""
    source = dict(_texts())["emulator.cpp"]
    return _compiled(source, _for_cxx(toolchain, ("-O3",), ()), TIME_LIMIT).path


def _compiled(source: str, toolchain: Toolchain, time_limit: float) -> Compiled:
    def generated() -> tuple[str, dict[str, Any]]:
        return source, {}

    try:
        return compile_generated([source, repr(_texts())], generated, toolchain, time_limit)
    except CompileError as failure:
        if "cc1plus" not in failure.stderr:
            raise
        raise CompileError(
            f"{toolchain.words[0]} compiles no C++, which the emulator of CUDA needs; install that "
            "part of it (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or name "
            "another compiler in CC",
            failure.command,
            failure.stderr,
        ) from failure


def _for_cxx(toolchain: Toolchain, flags: tuple[str, ...], libraries: tuple[str, ...]) -> Toolchain:
    """The toolchain, for C++; CFLAGS are for C.

    Raises CompileError on a system where the emulator does not work.
    """
    if not sys.platform.startswith("linux"):
        raise CompileError(f"the emulator of CUDA works on Linux only; this is {sys.platform}")
    return replace(
        toolchain,
        flags=(*_FLAGS, *flags, "-x", "c++"),
        libraries=("-x", "none", *libraries, *_LIBRARIES),
    )


@functools.cache
def _texts() -> tuple[tuple[str, str], ...]:
    return tuple((name, (_FOLDER / name).read_text(encoding="utf-8")) for name in _FILES)
