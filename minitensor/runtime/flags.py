"""The words of CC and CFLAGS, and which flags a user may not add.

CFLAGS often comes from elsewhere (a build system, a container) and was meant for other programs.
Refused is what would run other code than the compiler's, what would change what the compiler
makes, and what would change the arithmetic of the whole process.
"""

from __future__ import annotations

import os
import shlex
from typing import Final

from minitensor.errors import unexpected

_RUNS_CODE: Final = "it loads or runs other code than the compiler's"
_HIDES: Final = "it passes options that cannot be checked"
_OTHER_OUTPUT: Final = "it changes what is compiled, or to where"
_FLUSHES: Final = (
    "loading such code makes the processor flush tiny numbers to zero in the whole Python process"
)

_REFUSED: Final = {
    "-fplugin": _RUNS_CODE,
    "-fpass-plugin": _RUNS_CODE,
    "-wrapper": _RUNS_CODE,
    "-B": _RUNS_CODE,
    "--prefix": _RUNS_CODE,
    "-specs": _RUNS_CODE,
    "--specs": _RUNS_CODE,
    "-fuse-ld=/": _RUNS_CODE,
    "--ld-path": _RUNS_CODE,
    "--gcc-toolchain": _RUNS_CODE,
    "-load": _RUNS_CODE,
    "@": _HIDES,
    "--config": _HIDES,
    "-X": _HIDES,
    "-Wl,": _HIDES,
    "-Wa,": _HIDES,
    "-Wp,": _HIDES,
    "-o": _OTHER_OUTPUT,
    "--output": _OTHER_OUTPUT,
    "-x": _OTHER_OUTPUT,
    "--language": _OTHER_OUTPUT,
    "-M": _OTHER_OUTPUT,
    "-ffast-math": _FLUSHES,
    "-Ofast": _FLUSHES,
    "-funsafe-math-optimizations": _FLUSHES,
    "-mdaz-ftz": _FLUSHES,
}
"""Beginnings of flags, with the reason."""

_REFUSED_WORDS: Final = ("-", "-E", "-S", "-c", "-fsyntax-only")


def compiler_named() -> tuple[str, ...]:
    """The words of CC, so that `ccache gcc` works; none if it is unset or empty.

    No shell reads them: `gcc; rm x` is a program called "gcc;", which does not exist.
    """
    return _words("CC")


def extra_flags() -> tuple[str, ...]:
    """The words of CFLAGS. Raises ArgumentError for a word that is not a flag, or is refused."""
    words = _words("CFLAGS")
    for word in words:
        reason = next((r for start, r in _REFUSED.items() if word.startswith(start)), None)
        if word in _REFUSED_WORDS:
            reason = _OTHER_OUTPUT
        if reason is not None:
            raise unexpected(f"CFLAGS without {word} ({reason})", "CFLAGS", os.environ["CFLAGS"])
    return words


def _words(variable: str) -> tuple[str, ...]:
    value = os.environ.get(variable, "")
    try:
        return tuple(shlex.split(value))
    except ValueError as failure:
        raise unexpected(f"words as a shell reads them ({failure})", variable, value) from None
