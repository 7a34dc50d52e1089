"""The C files of this package as libraries: compiled once, kept in the compile cache."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from minitensor.runtime import Toolchain, compile_library


@cache
def _text_of(name: str) -> str:
    return Path(__file__).with_name(f"{name}.c").read_text(encoding="utf-8")


def library_of(name: str, toolchain: Toolchain) -> Path:
    """The library of `<name>.c`. Raises CompileError if the compiler fails."""
    return compile_library(_text_of(name), toolchain).path
