"""The C compiler of this machine: found, probed once for what it can do, and remembered.

Probing takes some ten processes. The answers are an entry of the cache, under all that they depend
on, so that a later Python process starts none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from minitensor.errors import CompileError, shown
from minitensor.runtime.flags import compiler_named, extra_flags
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember, scratch_folder
from minitensor.runtime.machine import (
    INSTRUCTIONS,
    cpu_name,
    features_in,
    lacking,
    usable_cores,
)
from minitensor.runtime.module import load_function
from minitensor.runtime.process import Finished, first_error, one_line, run_compiler
from minitensor.runtime.width import (
    WIDE,
    WITHOUT_WIDE,
    faster_width,
    preferred_width,
    preferring,
    program,
    read_rates,
)

logger = logging.getLogger("minitensor")

NAMES: Final = ("cc", "gcc", "clang")
ADVICE: Final = (
    "install one (Debian, Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc; "
    "macOS: xcode-select --install) or name one in CC; "
    'target="interpreter" works without a compiler'
)

_SHARED: Final = ("-fPIC", "-shared")
_FLAGS: Final = (
    "-std=gnu11",
    "-O2",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
)
_CONTRACTION: Final = {"gcc": "-ffp-contract=fast", "clang": "-ffp-contract=on"}
"""With these, what the emitted text keeps apart is not fused: clang looks at each expression."""
_IF_KNOWN: Final = ("--param=avoid-fma-max-bits=0", "-falign-functions=64", "-falign-loops=64")
"""Without the first, it depends on the loop whether gcc fuses short vectors on processors of AMD;
without the others, where a loop happens to begin makes up to a fourth of its time."""
_NATIVE: Final = (("-march=native",), ("-mcpu=native",), ())
_PROBE_SECONDS: Final = 20.0
_ROOM: Final = 1 << 20
"""Bytes on the disk that the questions may take."""

_TOOLS: Final = ("as", "ld")
"""Programs that a compiler may take from PATH."""
_READ_BY_COMPILERS: Final = (
    *("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("LD_LIBRARY_PATH", "LD_RUN_PATH", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET"),
)
"""Variables that say where compilers look for programs, headers and libraries."""
_CHANGES_PROCESS: Final = {
    "crtfastmath": "makes the processor flush tiny numbers to zero",
    "crtprec": "changes how the processor rounds",
}
"""Files that a compiler links for some flags, and what loading them does to the whole process."""

_PLAIN: Final = (
    "#include <math.h>\n#include <stdint.h>\ndouble probe(double x) { return exp(x); }\n"
)
_FLOAT16: Final = "_Float16 probe(_Float16 *x) { return x[0] * x[1] + (_Float16)1.0f; }\n"
_OPENMP: Final = """
#ifndef _OPENMP
#error OpenMP is off
#endif
void probe(float *x) {
    #pragma omp parallel for num_threads(2)
    for (int i = 0; i < 1024; i++) x[i] = 0;
}
"""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler, and what it can do on this machine.

    words             the command, such as ("/usr/bin/ccache", "gcc")
    family            "gcc" or "clang"
    version           the first line of what `--version` prints
    triple            the machine it compiles for, such as "x86_64-linux-gnu"
    flags             for a kernel, the user's CFLAGS last
    libraries         what follows the source file
    native            the flag for this machine's own instructions, "" if there is none
    openmp            the flags for OpenMP; without any, parallel loops run serially
    vector_bits       the width of vectors in bits, 0 for none: the widest that `flags` allow, but
                      narrower where the user's flags say so or wide vectors were found slower
    vector_registers  the number of registers for vectors of that width; 0 if it has none
    float16           whether the compiler has the type `_Float16`
    identity          a digest of what it is: its files, what it is given, where it looks for others
    lacking           instructions that the user's flags ask for and the CPU lacks, as Linux calls
                      them: code for another CPU can be made, but not loaded
    rates             GFLOP/s of one core with vectors of 256 and of 512 bits, by which the width
                      was chosen; empty if there was no choice, or they could not be measured
    features          the instructions of `codegen.FEATURES` that `flags` allow
    """

    words: tuple[str, ...]
    family: str
    version: str
    triple: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    native: str
    openmp: tuple[str, ...]
    vector_bits: int
    vector_registers: int
    float16: bool
    identity: str = ""
    lacking: tuple[str, ...] = ()
    rates: tuple[float, ...] = field(default=(), compare=False)
    features: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The name of a file of source."""
        return "kernel.c"

    @property
    def careful(self) -> tuple[str, ...]:
        """Compiling without gcc's vectorizer, where most of its faults are: the kernel's own
        vectors stay.
        """
        return ("-fno-tree-vectorize",)

    @property
    def key(self) -> tuple[str, ...]:
        """All that its code depends on, but for the command."""
        return (self.version, self.triple, self.identity)

    @property
    def num_cores(self) -> int:
        """The cores a kernel may use: those of this process, or one without OpenMP."""
        return usable_cores() if self.openmp else 1

    @property
    def cpu(self) -> str:
        """The name of the CPU."""
        return cpu_name()

    def command(self, source: str, output: str) -> list[str]:
        """The words that compile a file to a shared library."""
        return [*self.words, *_SHARED, *self.flags, "-o", output, source, *self.libraries]

    def assembly_command(self, source: str, output: str, origins: bool = False) -> list[str]:
        """The words that compile a file to assembly text.

        origins  whether the text says which line an instruction comes from, and which of its
                 operands are variables that did not fit in registers; the code is the same
        """
        origin = ("-g1", "-fverbose-asm") if origins else ()
        return [*self.words, "-fPIC", *self.flags, *origin, "-S", "-o", output, source]

    def advice(self, stderr: str) -> str:
        """The step to take, where it failed and printed this."""
        return "check CC and CFLAGS, and report it if they are not the reason"

    def file_named(self, name: str) -> str | None:
        """The path of one of the compiler's own files, such as "libasan.so"; None if it has none.

        Raises CompileError if the compiler cannot be started.
        """
        with scratch_folder(cache_folder()) as folder:
            words = [*self.words, f"-print-file-name={name}"]
            path = run_compiler(words, folder, _PROBE_SECONDS).stdout.strip()
        return path if os.path.isabs(path) and os.path.exists(path) else None


def find_toolchain() -> Toolchain:
    """The compiler that CC names, else the first of cc, gcc and clang on PATH.

    Raises CompileError if there is none, or it cannot make a library; ArgumentError for CFLAGS
    that are refused.
    """
    return REPLACED[-1] if REPLACED else _found(again=False)


def probe_toolchain() -> Toolchain:
    """As `find_toolchain`, but probed again: something may have been installed since."""
    return REPLACED[-1] if REPLACED else _found(again=True)


def _found(again: bool) -> Toolchain:
    words, extra = _find_compiler(), extra_flags()
    key = _key(words, extra)
    if again or key not in _known:
        _known[key] = (not again and _recall(key)) or _probe_and_record(words, extra, key)
    return _known[key]


_known: dict[str, Toolchain] = {}
REPLACED: Final[list[Toolchain]] = []  # that of `runtime.webassembly`, where it is used


def _find_compiler() -> tuple[str, ...]:
    named = compiler_named()
    for words in [named] if named else [(name,) for name in NAMES]:
        if (path := shutil.which(words[0])) is not None:
            return (os.path.abspath(path), *words[1:])
    if named:
        fault = f"no program {named[0]!r} is found"
        if os.path.exists(named[0]):
            kind = "a folder" if os.path.isdir(named[0]) else "not executable"
            fault = f"{named[0]!r} is {kind}, not a program"
        raise CompileError(f"CC={' '.join(named)!r}: {fault}; {ADVICE}")
    raise CompileError(f"no C compiler is found on PATH (tried {', '.join(NAMES)}); {ADVICE}")


# ---- the answers of a former process


def _key(words: tuple[str, ...], extra: tuple[str, ...]) -> str:
    """A key of everything that the answers, and the code it makes, depend on.

    A wrapper such as ccache counts with its compiler. The time of the last change of a file counts
    too: it cannot be set, so a program replaced by another of its size and date is another.
    """
    files: list[tuple[str, int, int, int]] = []
    for word in (*words, *_TOOLS):
        if (path := shutil.which(word)) is not None:
            real = os.path.realpath(path)
            found = os.stat(real)
            files.append((real, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    variables = [os.environ.get(name) for name in _READ_BY_COMPILERS]
    given = _FLAGS, sorted(_CONTRACTION.items()), _IF_KNOWN, program(), INSTRUCTIONS
    return entry_name("toolchain", words, extra, files, variables, given)


def _recall(key: str) -> Toolchain | None:
    values: dict[str, Any] = {
        n: tuple(v) if isinstance(v, list) else v for n, v in (recall(key) or {}).items()
    }
    try:
        return Toolchain(**values)
    except TypeError:  # missing, or of other fields
        return None


def _probe_and_record(words: tuple[str, ...], extra: tuple[str, ...], key: str) -> Toolchain:
    with scratch_folder(cache_folder()) as folder:
        spare = folder / "spare"  # without room the compiler would fail, which is not its answer
        spare.write_bytes(bytes(_ROOM))
        spare.unlink()
        found = dataclasses.replace(_Probe(words, extra, folder).toolchain(), identity=key)
    remember(key, dataclasses.asdict(found))
    logger.debug("C compiler: %s", found)
    return found


# ---- the questions


@dataclass
class _Probe:
    """Questions to one compiler, by compiling small files in `folder`."""

    words: tuple[str, ...]
    extra: tuple[str, ...]
    folder: Path
    count: int = 0

    def toolchain(self) -> Toolchain:
        version = one_line(self.ask("--version").stdout.partition("\n")[0].strip())
        triple = self.ask("-dumpmachine").stdout.strip()
        self.refuse_changes_of_process()
        native = self.native()
        flags = (*_FLAGS, *native)
        macros = self.macros(flags)
        if "__clang__" not in macros and "__GNUC__" not in macros:
            raise CompileError(
                f"{self.words[0]} is neither gcc nor clang ({version}); {ADVICE}", self.words
            )
        family = "clang" if "__clang__" in macros else "gcc"
        flags = (*flags, _CONTRACTION[family])
        all_known = self.knows((*flags, *_IF_KNOWN))
        flags += tuple(f for f in _IF_KNOWN if all_known or self.knows((*flags, f)))
        if family == "clang":
            flags = (*flags, "-fbracket-depth=4096")
        found = self.vectors(flags, macros)
        flags = (*flags, *found.flags)
        openmp, libraries = self.openmp(flags)
        return Toolchain(
            words=self.words,
            family=family,
            version=version,
            triple=triple,
            flags=(*flags, *openmp, *self.extra),
            libraries=("-lm", *libraries),
            native=" ".join(native),
            openmp=openmp,
            vector_bits=found.bits,
            vector_registers=_vector_registers(triple, found),
            float16=self.knows(flags, _FLOAT16),
            lacking=lacking(macros) if any(w.startswith("-m") for w in self.users) else (),
            rates=found.rates,
            features=features_in(self.macros(flags)),
        )

    @property
    def users(self) -> tuple[str, ...]:
        """The flags that the user gave."""
        return (*self.words[1:], *self.extra)

    def ask(self, *arguments: str) -> Finished:
        return run_compiler([*self.words, *arguments], self.folder, _PROBE_SECONDS)

    def compile(
        self, source: str, flags: tuple[str, ...], libraries: tuple[str, ...] = ()
    ) -> Finished:
        """Compile to `probe-<count>.so`."""
        self.count += 1
        (self.folder / "probe.c").write_text(source, encoding="utf-8")
        output = f"probe-{self.count}.so"
        return self.ask(*_SHARED, *flags, *self.extra, "-o", output, "probe.c", "-lm", *libraries)

    def knows(self, flags: tuple[str, ...], source: str = _PLAIN) -> bool:
        return self.compile(source, flags).status == 0

    def refuse_changes_of_process(self) -> None:
        """Raise CompileError if what the compiler links would change this process when loaded."""
        (self.folder / "probe.c").write_text(_PLAIN, encoding="utf-8")
        planned = self.ask(*_SHARED, *_FLAGS, *self.extra, "-o", "probe.so", "probe.c", "-###")
        for name, effect in _CHANGES_PROCESS.items():
            if name in planned.stderr + planned.stdout:
                raise CompileError(
                    f"{self.words[0]} links {name}, which {effect} in the whole Python process "
                    "when a kernel is loaded; remove from CC and CFLAGS the flag that asks for it "
                    "(such as -ffast-math or -Ofast)",
                    self.words,
                )

    def native(self) -> tuple[str, ...]:
        for native in _NATIVE:
            if (done := self.compile(_PLAIN, (*_FLAGS, *native))).status == 0:
                return native
        given = [
            f"{name}={shown(os.environ[name])}" for name in ("CC", "CFLAGS") if name in os.environ
        ]
        advice = f"are CC and CFLAGS right? {ADVICE}"
        if self.extra or len(self.words) > 1:
            advice = f"are CC and CFLAGS right? They say {', '.join(given)}; correct or unset them"
        raise CompileError(
            f"{self.words[0]} cannot make a shared library from a small C file: "
            f"{first_error(done.stderr)}; {advice}",
            self.words,
            done.stderr,
        )

    def openmp(self, flags: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The flags and libraries with which OpenMP compiles, links and loads."""
        ways: list[tuple[tuple[str, ...], tuple[str, ...]]] = [(("-fopenmp",), ())]
        if sys.platform == "darwin":  # Apple's clang has OpenMP, but hides it and lacks the library
            ways.append((("-Xpreprocessor", "-fopenmp"), ("-lomp",)))
        for way, libraries in ways:
            if self.compile(_OPENMP, (*flags, *way), libraries).status == 0:
                with contextlib.suppress(CompileError):
                    load_function(self.folder / f"probe-{self.count}.so", "probe", pointers=1)
                    return way, libraries
        return (), ()

    def vectors(self, flags: tuple[str, ...], macros: dict[str, str]) -> _Vectors:
        """The vectors to use: where there is a choice, those that are fast in a measurement."""
        widest, more = _vector_bits(macros), "__AVX512VL__" in macros
        if (preferred := preferred_width(self.users)) is not None:
            return _Vectors(min(widest, preferred), more)
        done = self.measure((*flags, preferring(WIDE))) if widest == WIDE else None
        if done is None:
            return _Vectors(widest, more)
        if done.status == -signal.SIGILL and not any(w.startswith("-m") for w in self.users):
            logger.warning("this machine has no AVX-512, although %s says so", self.words[0])
            narrower = self.macros((*flags, WITHOUT_WIDE))
            return _Vectors(_vector_bits(narrower), False, (WITHOUT_WIDE,))
        rates = read_rates(done.stdout)
        if not rates:
            return _Vectors(widest, more)
        bits = faster_width(rates)
        return _Vectors(bits, more, (preferring(bits),), rates)

    def measure(self, flags: tuple[str, ...]) -> Finished | None:
        """Run the program of `width`; None if it cannot be made or run."""
        (self.folder / "width.c").write_text(program(), encoding="utf-8")
        if self.ask(*flags, *self.extra, "-o", "width", "width.c").status == 0:
            with contextlib.suppress(CompileError):
                return run_compiler([str(self.folder / "width")], self.folder, _PROBE_SECONDS)
        return None

    def macros(self, flags: tuple[str, ...]) -> dict[str, str]:
        (self.folder / "probe.c").write_text("", encoding="utf-8")
        printed = self.ask(*flags, *self.extra, "-dM", "-E", "probe.c").stdout
        return dict(re.findall(r"^#define (\w+) ?(.*)$", printed, re.MULTILINE))


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Vectors of a width, and the flags for them.

    more  whether the instructions name 32 registers for every width (AVX-512VL)
    """

    bits: int
    more: bool
    flags: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()


def _vector_registers(triple: str, vectors: _Vectors) -> int:
    if not vectors.bits:
        return 0
    machine = triple.partition("-")[0]
    if re.fullmatch(r"i[3-6]86", machine):
        return 8
    if machine in ("x86_64", "amd64"):
        return 32 if vectors.more or vectors.bits >= WIDE else 16
    return 32  # AArch64, and what else has vectors of this kind


def _vector_bits(macros: dict[str, str]) -> int:
    if "__AVX512F__" in macros:
        return 512
    if "__AVX__" in macros:
        return 256
    scalable = macros.get("__ARM_FEATURE_SVE_BITS", "0")
    if scalable.isdecimal() and int(scalable) > 0:
        return int(scalable)
    return 128 if "__SSE2__" in macros or "__ARM_NEON" in macros else 0
