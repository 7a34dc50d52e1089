"""Compiling for another processor with the same compiler: `-march=native` spelled out.

What gcc takes that flag for on one machine it takes on another, if it is said word by word. clang
does not say it in words of its own command line.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence
from typing import Final

from minitensor.errors import ArgumentError, CompileError, shown
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember, scratch_folder
from minitensor.runtime.process import run_compiler
from minitensor.runtime.toolchain import Toolchain

_SECONDS: Final = 20.0
_OF_A_PROCESSOR: Final = re.compile(
    r"-m(?!pc|daz|llvm)[a-z0-9][\w.+-]*(=[\w.+-]+)?|--param=l[12]-cache(-line)?-size=\d+"
)


def spelled_flags(toolchain: Toolchain) -> tuple[str, ...]:
    """The flags of kernels, with what `-march=native` stands for here; () if the compiler does not
    say that.
    """
    if toolchain.family != "gcc":
        return ()
    key = entry_name("spelled", *toolchain.flags, toolchain.key)
    known = recall(key)
    if known is None:
        known = {"flags": _spelled(toolchain)}
        remember(key, known)
    return tuple(known["flags"])


def _spelled(toolchain: Toolchain) -> list[str]:
    with scratch_folder(cache_folder()) as folder:
        (folder / "probe.c").write_text("", encoding="utf-8")
        words = [*toolchain.words, *toolchain.flags, "-###", "-S", "probe.c"]
        printed = run_compiler(words, folder, _SECONDS).stderr
    for line in printed.splitlines():
        words = shlex.split(line) if "cc1" in line else []
        if words and words[0].endswith("cc1"):
            after = [f"{a}={b}" if a == "--param" else a for a, b in zip(words, [*words[1:], ""])]
            found = [word for word in after if _OF_A_PROCESSOR.fullmatch(word)]
            return [*(f for f in toolchain.flags if not f.startswith("-m")), *found]
    return []


def compiler_for(flags: Sequence[str], version: str, own: Toolchain) -> Toolchain:
    """This machine's compiler with the `spelled_flags` of another machine.

    version  of the compiler there

    Raises CompileError if it is another compiler; ArgumentError for flags of another kind.
    """
    if own.version != version or own.family != "gcc":
        raise CompileError(f"the compiler here is {own.version}, and not {version}")
    allowed = {f for f in own.flags if not f.startswith("-m")}
    for flag in flags:
        if flag not in allowed and not _OF_A_PROCESSOR.fullmatch(flag):
            raise ArgumentError(
                f"{shown(flag)} is no flag of a processor; kernels are not compiled with it here"
            )
    return dataclasses.replace(own, flags=tuple(flags), lacking=())
