"""From generated code, or a program, to a kernel."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from minitensor.codegen import Emitted, Target, generate
from minitensor.errors import CompileError
from minitensor.ir import Program
from minitensor.runtime.cache import (
    TIME_LIMIT,
    Compiled,
    Compiler,
    compile_generated,
    compile_library,
    discard,
    is_whole,
)
from minitensor.runtime.cuda.target import cuda_target
from minitensor.runtime.interpreter import InterpreterKernel
from minitensor.runtime.kernel import Kernel, NativeKernel
from minitensor.runtime.module import load_function
from minitensor.runtime.toolchain import Toolchain, find_toolchain

logger = logging.getLogger("minitensor")

WITHOUT_COMPILER: Final = 256
"""Bits of the vectors that are shown where there is no compiler to find them out."""

_GENERATOR: Final = ("ir", "arith", "codegen")
"""The packages whose code makes a text of a program."""
_MOST_CORES: Final = 4096
_K = TypeVar("_K", bound=Kernel)
_ATTEMPTS: Final = 4
"""Times that a library is made whose file vanishes before it is loaded."""


def load(emitted: Emitted, toolchain: Toolchain, *, time_limit: float = TIME_LIMIT) -> NativeKernel:
    """Compile generated C (or take it from the cache) and load it.

    Raises CompileError if the compiler fails, takes more than `time_limit` seconds, or lacks a type
    that the program needs.
    """
    return load_together([emitted], toolchain, time_limit=time_limit)[0]


def load_together(
    emitted: Sequence[Emitted], toolchain: Toolchain, *, time_limit: float = TIME_LIMIT
) -> list[NativeKernel]:
    """The kernels of one text (see `generate_together`); raises as `load`."""
    source = emitted[0].source
    _check_instructions(toolchain)
    _check_float16(emitted, toolchain)
    return loaded(
        lambda: compile_library(source, toolchain, time_limit),
        lambda _: emitted,
        functools.partial(_native_kernels, toolchain),
    )


def load_program(
    program: Program, target: Target, header: str, toolchain: Toolchain
) -> NativeKernel:
    """Generate C of a program, compile and load it; or take text and library from the cache.

    header  comment lines for the top of the text

    Raises as `load`.
    """

    _check_instructions(toolchain)
    compiled, restored = program_library(
        program, target, header, toolchain, lambda e: _check_float16([e], toolchain)
    )
    return loaded(compiled, restored, functools.partial(_native_kernels, toolchain))[0]


def program_library(
    program: Program,
    target: Target,
    header: str,
    toolchain: Compiler,
    check: Callable[[Emitted], None] = lambda _: None,
    time_limit: float = TIME_LIMIT,
) -> tuple[Callable[[], Compiled], Callable[[Compiled], list[Emitted]]]:
    """Two functions: one gives the library of a program, generated and compiled or taken from the
    cache; the other, what was generated for it.

    check  may raise CompileError for what was generated
    """

    def generated() -> tuple[str, dict[str, Any]]:
        emitted = generate(program, target, header)
        check(emitted)
        return emitted.source, emitted.facts()

    def restored(compiled: Compiled) -> list[Emitted]:
        outputs = frozenset(b.name for b in program.outputs)
        facts, source = compiled.facts, compiled.source
        return [Emitted.restored(facts, source, program.params, outputs, target)]

    depends = [digest_of_code(_GENERATOR), program.spelled(), repr(target), header]
    compiled = functools.partial(compile_generated, depends, generated, toolchain, time_limit)
    return compiled, restored


def loaded(
    compiled: Callable[[], Compiled],
    emitted_of: Callable[[Compiled], Sequence[Emitted]],
    kernels_of: Callable[[Compiled, Sequence[Emitted]], list[_K]],
) -> list[_K]:
    """The kernels of a library. It is made again where its file went between making and loading:
    the cache folder may be deleted at any time.

    kernels_of  loads them; raises CompileError where that fails
    """
    for attempt in range(_ATTEMPTS):
        made = compiled()
        try:
            return kernels_of(made, emitted_of(made))
        except CompileError:
            last = is_whole(made) or attempt == _ATTEMPTS - 1
            discard(made)
            if last:
                raise
    raise AssertionError


def _native_kernels(
    toolchain: Toolchain, made: Compiled, emitted: Sequence[Emitted]
) -> list[NativeKernel]:
    functions = [load_function(made.path, e.entry, len(e.params) + 1) for e in emitted]
    return [NativeKernel(e, f, made.command, toolchain) for e, f in zip(emitted, functions)]


def _check_instructions(toolchain: Toolchain) -> None:
    if toolchain.lacking:
        raise CompileError(
            f"CFLAGS (or CC) ask for instructions that this CPU ({toolchain.cpu}) lacks: "
            f"{', '.join(toolchain.lacking)}: the first call would end Python by a signal. Name a "
            "CPU that this one is, or none (-march=native is taken then)",
            toolchain.words,
        )


def _check_float16(emitted: Sequence[Emitted], toolchain: Toolchain) -> None:
    if any(e.float16 for e in emitted) and not toolchain.float16:
        raise CompileError(
            f"{toolchain.version} has no 16-bit floats here, which float16 needs: gcc 12 "
            "or clang 15 have them on x86-64; CC can name another compiler, and "
            'target="interpreter" works without one',
            toolchain.words,
        )


@functools.cache
def digest_of_code(packages: tuple[str, ...]) -> str:
    """A digest of the files of some packages, by their sizes and times: what they make of equal
    inputs is equal as long as it is.
    """
    root = Path(__file__).parents[1]
    files = sorted(p for package in packages for p in (root / package).rglob("*.py"))
    facts = [(str(p.relative_to(root)), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def interpreter_kernel(program: Program) -> Kernel:
    """A kernel that the reference interpreter runs; needs no compiler."""
    return InterpreterKernel(program, native_target(Target("interpreter")))


def native_target(target: Target) -> Target:
    """The target with what it leaves open filled in from this machine.

    num_cores    OMP_NUM_THREADS if that is set, else the cores of this process (1 if the compiler
                 has no OpenMP)
    vector_bits  that of the toolchain; 0 for a target that is not compiled
    device       see `cuda_target`

    Raises CompileError if C is to be generated and there is no compiler.
    """
    if target.kind in ("interpreter", "accelerator"):
        return target.resolved(num_cores=1, vector_bits=0)
    if target.is_gpu:
        return cuda_target(target)
    if None not in (target.num_cores, target.vector_bits) and not target.features:
        return target
    toolchain = find_toolchain()
    lacking = [name for name in target.features or () if name not in toolchain.features]
    if lacking:
        raise CompileError(
            f"{toolchain.words[0]} may not use {', '.join(lacking)} for this machine, which the "
            "target asks for: leave its features open, or name what `minitensor doctor` lists"
        )
    wanted = _threads_wanted() if toolchain.openmp else None
    return target.resolved(wanted or toolchain.num_cores, toolchain.vector_bits)


def native_features(target: Target) -> tuple[str, ...]:
    """The features of a target for C: those named, or those that the compiler may use here; none
    without a compiler, and for other targets.
    """
    if target.features is not None or target.kind != "c":
        return target.features or ()
    try:
        return find_toolchain().features
    except CompileError:
        return ()


def shown_target(target: Target) -> Target:
    """The target with nothing left open, for what is only looked at: `native_target`, or without a
    compiler a common one.
    """
    try:
        return native_target(target)
    except CompileError:
        return target.resolved(num_cores=1, vector_bits=WITHOUT_COMPILER)


def _threads_wanted() -> int | None:
    """The first number of OMP_NUM_THREADS (the others are for nested loops); None if it is unset.

    One that makes no sense is ignored with a logged warning, as OpenMP runtimes do.
    """
    value = os.environ.get("OMP_NUM_THREADS", "")
    first = value.partition(",")[0].strip()
    if re.fullmatch(r"[0-9]{1,9}", first) and 1 <= int(first) <= _MOST_CORES:
        return int(first)
    if value.strip():
        logger.warning(
            "OMP_NUM_THREADS=%r is ignored: expected a number from 1 to %d", value, _MOST_CORES
        )
    return None
