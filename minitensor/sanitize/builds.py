"""The flags of each sanitizer, and the environment of the process that runs its kernels.

A sanitizer's kernels are made of the same text as others, generated with hooks for those that need
them, and built by the same compiler with other flags:

    generate(program, target, hooks=sanitizer.hooks)
    load_sanitized(sanitizer, [emitted])        in a process started with environment(sanitizer)

Texts of many kernels (`generate_together`) are built the same way, in one run of the compiler.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final

from minitensor.codegen import Emitted
from minitensor.errors import CompileError
from minitensor.runtime import (
    TIME_LIMIT,
    NativeKernel,
    Toolchain,
    compile_library,
    load_together,
)
from minitensor.system import ctypes


class Sanitizer(Enum):
    """The kind of fault that is looked for while a kernel runs.

    GUARDS   accesses outside buffers, results that depend on memory that nothing wrote; the code is
             the one that others run
    ADDRESS  accesses outside buffers and temporaries, and undefined behaviour: the compiler's
             AddressSanitizer and UndefinedBehaviorSanitizer
    RACES    iterations of a parallel loop that touch the same bytes, one of them writing
    """

    GUARDS = "guards"
    ADDRESS = "address"
    RACES = "races"

    @property
    def hooks(self) -> bool:
        """True if texts are generated with hooks."""
        return self is not Sanitizer.GUARDS


def toolchain_for(sanitizer: Sanitizer, toolchain: Toolchain) -> Toolchain:
    """The toolchain with the flags of a sanitizer: `toolchain_for(…).command` compiles with it.

    Raises CompileError if the compiler lacks what the sanitizer needs.
    """
    match sanitizer:
        case Sanitizer.GUARDS:
            return toolchain
        case Sanitizer.ADDRESS:
            return _for_address(toolchain)
        case Sanitizer.RACES:
            return _for_races(toolchain)


def load_sanitized(
    sanitizer: Sanitizer,
    emitted: Sequence[Emitted],
    toolchain: Toolchain,
    *,
    time_limit: float | None = None,
) -> list[NativeKernel]:
    """The kernels of one text, compiled for a sanitizer and loaded.

    time_limit  seconds for the compiler; None for `time_limit_for(sanitizer)`

    Raises CompileError if the compiler fails or lacks what the sanitizer needs, or if this process
    was not started with `environment(sanitizer, …)`.
    """
    if sanitizer is Sanitizer.ADDRESS:
        if not address_sanitizer_is_loaded():
            raise CompileError(
                "a kernel with AddressSanitizer can only be loaded into a process that was started "
                "with it; start one with environment(Sanitizer.ADDRESS, toolchain), or use "
                "check_address, which does"
            )
        os.environ.pop("LD_PRELOAD", None)  # what this process starts does without: a compiler
    limit = time_limit_for(sanitizer) if time_limit is None else time_limit
    return load_together(emitted, toolchain_for(sanitizer, toolchain), time_limit=limit)


def time_limit_for(sanitizer: Sanitizer) -> float:
    """Seconds for the compiler, which takes long over AddressSanitizer."""
    return TIME_LIMIT * (5 if sanitizer is Sanitizer.ADDRESS else 1)


def environment(sanitizer: Sanitizer, toolchain: Toolchain) -> dict[str, str]:
    """The variables with which a process is to be started that runs kernels of a sanitizer.

    Raises CompileError if the compiler has no AddressSanitizer and that is what is wanted.
    """
    if sanitizer is not Sanitizer.ADDRESS:
        return {}
    options = {
        "detect_leaks": "0",  # Python's own memory is alive at the end
        "redzone": "512",
        "allocator_may_return_null": "1",
        "abort_on_error": "0",
        "exitcode": "99",
        "handle_segv": "1",
    }
    text = ":".join(f"{name}={value}" for name, value in options.items())
    preload = " ".join(filter(None, [_address_library(toolchain), os.environ.get("LD_PRELOAD")]))
    return {"LD_PRELOAD": preload, "ASAN_OPTIONS": text, "UBSAN_OPTIONS": "print_stacktrace=0"}


@cache
def _text_of(name: str) -> str:
    return Path(__file__).with_name(f"{name}.c").read_text(encoding="utf-8")


def library_of(name: str, toolchain: Toolchain) -> Path:
    """The library of `<name>.c`. Raises CompileError if the compiler fails."""
    return compile_library(_text_of(name), toolchain).path


def address_sanitizer_is_loaded() -> bool:
    """True if this process was started with AddressSanitizer."""
    return hasattr(ctypes.CDLL(None), "__asan_init")


def runtime_library(sanitizer: Sanitizer, toolchain: Toolchain) -> Path:
    """The library that the hooks of a kernel call, or that watches guard pages."""
    plain = _without_openmp(toolchain)
    more = {Sanitizer.ADDRESS: _ADDRESS_SWITCH, Sanitizer.RACES: ("-O3",)}.get(sanitizer, ())
    return library_of(sanitizer.value, replace(plain, flags=(*plain.flags, *more)))


# ---- AddressSanitizer and UndefinedBehaviorSanitizer

_ADDRESS_SWITCH: Final = ("-fsanitize=address",)
_ADDRESS_FLAGS: Final = (
    *_ADDRESS_SWITCH,
    "-fsanitize=undefined,float-cast-overflow",
    "-fno-sanitize=null,object-size",  # AddressSanitizer finds what they find
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g1",
    "-O1",
)
_GCC_FASTER: Final = (
    "-fno-var-tracking",
    "--param=asan-instrumentation-with-call-threshold=0",
)
"""An unrolled kernel compiles in seconds, and not in a minute."""


def _for_address(toolchain: Toolchain) -> Toolchain:
    _address_library(toolchain)
    runtime = str(runtime_library(Sanitizer.ADDRESS, toolchain))
    faster = _GCC_FASTER if toolchain.family == "gcc" else ()
    flags = (*toolchain.flags, *_ADDRESS_FLAGS, *faster)
    return replace(toolchain, flags=flags, libraries=(runtime, *toolchain.libraries))


@cache
def _address_library(toolchain: Toolchain) -> str:
    """The path of the compiler's libasan."""
    _linux_only("AddressSanitizer")
    if toolchain.family == "clang":
        machine = toolchain.triple.partition("-")[0]
        names = [f"libclang_rt.asan-{machine}.so", "libclang_rt.asan.so"]
    else:
        names = ["libasan.so"]
    for name in names:
        path = toolchain.file_named(name)
        if path is not None:
            return os.path.realpath(path)
    raise CompileError(
        f"{toolchain.version} has no AddressSanitizer here: {names[0]} is missing; install it "
        "(Debian, Ubuntu: apt install libgcc-12-dev, or the one of your gcc; Fedora: dnf install "
        "libasan libubsan; clang: apt install libclang-rt-dev)",
        toolchain.words,
    )


# ---- races


_WRAPPED: Final = ("memcpy", "memmove", "memset")
_GCC_KEEPS: Final = (
    "-fno-tree-fre",
    "-fno-tree-dse",
    "-fno-tree-dce",
    "-fno-tree-dominator-opts",
    "-fno-tree-sink",
)
"""Every access of the text is made: what the optimiser leaves out of `x = x` would not be seen."""


def _for_races(toolchain: Toolchain) -> Toolchain:
    _linux_only("the race checker")
    runtime = str(runtime_library(Sanitizer.RACES, toolchain))
    plain = _without_openmp(toolchain)
    flags = (
        *plain.flags,
        "-O1",
        "-g0",
        "-fsanitize=thread",
        *[f"-fno-builtin-{name}" for name in _WRAPPED],
        *[f"-D__builtin_{name}={name}" for name in _WRAPPED],
        *[f"-Wl,--wrap={name}" for name in _WRAPPED],
    )
    libraries = (runtime, *plain.libraries)
    if plain.family == "gcc":  # it would link its own libtsan
        flags, libraries = (*flags, *_GCC_KEEPS, "-nodefaultlibs"), (*libraries, "-lc", "-lgcc")
    return replace(plain, flags=flags, libraries=libraries)


def _without_openmp(toolchain: Toolchain) -> Toolchain:
    flags = tuple(flag for flag in toolchain.flags if flag not in toolchain.openmp)
    libraries = tuple(name for name in toolchain.libraries if name != "-lomp")
    return replace(toolchain, flags=flags, libraries=libraries, openmp=())


def _linux_only(what: str) -> None:
    if not sys.platform.startswith("linux"):
        raise CompileError(f"{what} works on Linux only; this is {sys.platform}")
