"""The words of CC and CFLAGS, and which flags a user may not add.

They often come from elsewhere (a build system, a container) and were meant for other programs.
Refused is what would run other code than the compiler's, what would change what the compiler
makes or write elsewhere, and what would change the arithmetic or end the whole process.
The toolchain also has the compiler print what it would link: spellings that are not known here, and
flags that a script adds, are found there.
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
_ROUNDS: Final = "loading such code changes how the whole Python process rounds"
_ENDS: Final = (
    "its library must be there before Python starts, else it ends the process; "
    "minitensor.sanitize does that"
)
_WEAKENS: Final = "it can make the stacks of the whole Python process executable"
_UNSEEN: Final = "Python could not find the kernel in the library"
_LONG: Final = "only the short spelling of an option is checked"
_FILE: Final = "it is no flag: it names a file to be compiled or linked"

_REFUSED: Final = {
    _RUNS_CODE: (
        "-fplugin -fpass-plugin -iplugindir -fmodule-mapper -wrapper -B --prefix -specs --specs "
        "-fuse-ld=/ --ld-path --gcc-toolchain -gcc-toolchain -load -l:"
    ),
    _HIDES: "@ --config -X -Wl, -Wa, -Wp, -mllvm -cc1 -T",
    _OTHER_OUTPUT: (
        "-o --output -x --language -M -d -include -imacros -aux-info -save-temps -print- "
        "-fdump- -fopt-info -fprofile -fauto-profile -ftest-coverage"
    ),
    _FLUSHES: "-ffast-math -Ofast -funsafe-math-optimizations -ffp-model=fast -mdaz-ftz",
    _ROUNDS: "-mpc",
    _ENDS: "-fsanitize=",
    _WEAKENS: "-z",
    _UNSEEN: "-fvisibility",
}
"""Beginnings of flags, by the reason."""

_REFUSED_WORDS: Final = ("-", "-E", "-S", "-c", "-r", "-pg", "-###", "-fsyntax-only")
_LONG_TAKEN: Final = ("--sysroot", "--target", "--param", "--sdk")
"""The rest of what begins so is gcc's other spelling of a flag: --fast-math, --machine=pc32."""
_BEFORE_A_WORD: Final = {
    *("-I", "-L", "-l", "-D", "-U", "-F", "-isystem", "-idirafter", "-iquote", "-isysroot"),
    *("-framework", "-arch", "-target", "--sysroot", "--target", "--param"),
}
"""Flags whose value may be the next word."""


def compiler_named() -> tuple[str, ...]:
    """The words of CC, so that `ccache gcc` works; none if it is unset or empty.

    No shell reads them: `gcc; rm x` is a program called "gcc;", which does not exist.
    Raises ArgumentError for a flag that CFLAGS may not hold either.
    """
    words = _words("CC")
    for word in words[1:]:
        _check("CC", word)
    return words


def extra_flags() -> tuple[str, ...]:
    """The words of CFLAGS. Raises ArgumentError for a word that is not a flag, or is refused."""
    words = _words("CFLAGS")
    for before, word in zip(("", *words), words):
        _check("CFLAGS", word)
        if not word.startswith("-") and before not in _BEFORE_A_WORD:
            raise _refusal("CFLAGS", word, _FILE)
    return words


def _check(variable: str, word: str) -> None:
    """Raises ArgumentError if the word, a flag or not, is refused."""
    found = (r for r, starts in _REFUSED.items() if word.startswith(tuple(starts.split())))
    reason = next(found, None)
    if word in _REFUSED_WORDS:
        reason = _OTHER_OUTPUT
    if reason is None and word.startswith("--") and word.partition("=")[0] not in _LONG_TAKEN:
        reason = _LONG
    if reason is not None:
        raise _refusal(variable, word, reason)


def _refusal(variable: str, word: str, reason: str) -> Exception:
    return unexpected(f"{variable} without {word} ({reason})", variable, os.environ[variable])


def _words(variable: str) -> tuple[str, ...]:
    value = os.environ.get(variable, "")
    try:
        return tuple(shlex.split(value))
    except ValueError as failure:
        raise unexpected(f"words as a shell reads them ({failure})", variable, value) from None
