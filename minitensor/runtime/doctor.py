"""The parts of this machine that minitensor uses, and how to get those that are missing."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import platform
import sys
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor.errors import ArgumentError, CompileError, ExecutionError, MinitensorError
from minitensor.runtime.caches import Known, chosen, measure_caches, said_caches
from minitensor.runtime.cuda.device import cuda_of
from minitensor.runtime.cuda.nvcc import ADVICE as NVCC_ADVICE
from minitensor.runtime.cuda.nvcc import Nvcc, probe_nvcc
from minitensor.runtime.cuda.target import nearest_device
from minitensor.runtime.folder import cache_folder, is_temporary
from minitensor.runtime.machine import cpu_name, usable_cores
from minitensor.runtime.module import ffi
from minitensor.runtime.toolchain import ADVICE, Toolchain, probe_toolchain
from minitensor.runtime.width import NARROW, WIDE

_OPENMP_ADVICE: Final = {
    "gcc": "install the OpenMP library of your gcc (Debian, Ubuntu: apt install libgomp1)",
    "clang": (
        "install the OpenMP library of your clang (Debian, Ubuntu: apt install libomp-dev; "
        'macOS: brew install libomp, and CFLAGS="-I$(brew --prefix libomp)/include '
        '-L$(brew --prefix libomp)/lib")'
    ),
}
_EXTRAS: Final = {"rich": "colours in the terminal"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for.

    ok      True if it is there, False if something needs it and it is not, None if it is optional
            and not there, or could not be looked for
    detail  what was found
    advice  how to get it; "" if ok is True
    """

    name: str
    ok: bool | None
    detail: str
    advice: str = ""


def diagnose() -> list[Finding]:
    """Look at everything anew. Raises nothing: what goes wrong is a finding."""
    compiler, toolchain = _compiler()
    nvcc, found = _nvcc()
    return [
        Finding("python", True, f"{platform.python_version()} ({sys.executable})"),
        _library("numpy", np.__version__, (1, 23)),
        _cffi(),
        compiler,
        _openmp(toolchain),
        _vectors(toolchain),
        _caches(toolchain),
        Finding("cores", True, f"{usable_cores()} usable ({cpu_name()})"),
        _folder(),
        nvcc,
        _gpu(found),
        *(_extra(name, use) for name, use in _EXTRAS.items()),
    ]


def _library(name: str, version: str, oldest: tuple[int, int]) -> Finding:
    major, minor = version.split(".")[:2]
    if (int(major), int(minor)) >= oldest:
        return Finding(name, True, version)
    wanted = ".".join(map(str, oldest))
    return Finding(name, False, version, f'python -m pip install "{name}>={wanted}"')


def _cffi() -> Finding:
    try:
        ffi()
    except CompileError as failure:
        return Finding("cffi", False, failure.message, "python -m pip install cffi")
    return _library("cffi", importlib.metadata.version("cffi"), (1, 15))


def _compiler() -> tuple[Finding, Toolchain | None]:
    try:
        toolchain = probe_toolchain()
    except CompileError as failure:
        detail = failure.message.removesuffix(f"; {ADVICE}")
        return Finding("C compiler", False, detail, ADVICE), None
    except ArgumentError as failure:
        detail = f"cannot be used: {failure.message}"
        return Finding("C compiler", False, detail, "change or unset the variable"), None
    words = " ".join(toolchain.words)
    return Finding(
        "C compiler", True, f"{words}: {toolchain.version}, {toolchain.triple}"
    ), toolchain


def _openmp(toolchain: Toolchain | None) -> Finding:
    if toolchain is None:
        return _unknown("OpenMP")
    if toolchain.openmp:
        return Finding("OpenMP", True, " ".join((*toolchain.openmp, *toolchain.libraries[1:])))
    detail = "does not work: parallel loops run on one core"
    again = "; then run this again, for kernels are built with what it found"
    return Finding("OpenMP", False, detail, _OPENMP_ADVICE[toolchain.family] + again)


def _vectors(toolchain: Toolchain | None) -> Finding:
    if toolchain is None:
        return _unknown("vector registers")
    if toolchain.lacking:
        detail = f"CFLAGS ask for instructions that the CPU lacks: {', '.join(toolchain.lacking)}"
        return Finding("vector registers", False, detail, "name a CPU that this one is, or none")
    count = f"{toolchain.vector_registers} of " if toolchain.vector_registers else ""
    how = toolchain.native or "no flag for this machine"
    if toolchain.rates:
        narrow, wide = toolchain.rates
        how += f"; one core: {wide:.0f} GFLOP/s with {WIDE} bits, {narrow:.0f} with {NARROW}"
    more = f"; {', '.join(toolchain.features)}" if toolchain.features else ""
    detail = f"{count}{toolchain.vector_bits} bits ({how}){more}; minitensor explain SUBJECT says "
    detail += "what does not fit in them"
    if toolchain.vector_bits:
        return Finding("vector registers", True, detail)
    advice = "check that CFLAGS names no older CPU; a newer compiler may know this one"
    return Finding("vector registers", None, detail, advice)


def _caches(toolchain: Toolchain | None) -> Finding:
    measured, said = Known(), said_caches()
    if toolchain is not None:
        with contextlib.suppress(MinitensorError):
            measured = measure_caches()
    used = chosen(measured, said)
    how = f"measured: {measured}; the system says: {said}"
    if measured == said:
        how = "measured, and the system says so"
    detail = f"{used} ({how})"
    if (measured.l1 or said.l1) and (measured.l2 or said.l2):
        return Finding("caches", True, detail)
    advice = "usual sizes are taken; pass others to Space.of of minitensor.search"
    return Finding("caches", None, detail, advice)


def _unknown(name: str) -> Finding:
    return Finding(name, None, "not known without a C compiler", "install a C compiler first")


def _folder() -> Finding:
    try:
        folder = cache_folder()
    except (ArgumentError, CompileError) as failure:
        return Finding("cache folder", False, failure.message, "chmod 700, or choose another")
    if is_temporary(folder):
        detail = f"{folder}, until this process ends: the usual one cannot be used"
        return Finding("cache folder", None, detail, "name a folder in MINITENSOR_CACHE_DIR")
    return Finding("cache folder", True, f"{folder} (private)")


def _nvcc() -> tuple[Finding, Nvcc | None]:
    try:
        nvcc = probe_nvcc()
    except (ArgumentError, CompileError) as failure:  # the first: no cache folder
        detail = failure.message.removesuffix(f"; {NVCC_ADVICE}")
        return Finding("nvcc", None, detail, f"only for CUDA: {NVCC_ADVICE}"), None
    known = f"sm_{nvcc.architectures[0]} to sm_{nvcc.architectures[-1]}"
    return Finding("nvcc", True, f"{nvcc.version}: {known}; runtime {nvcc.library}"), nvcc


def _gpu(nvcc: Nvcc | None) -> Finding:
    advice = 'only for target="cuda": target="cuda-emulator" runs kernels on the CPU'
    if nvcc is None:
        return Finding("GPU", None, "not known without nvcc, whose runtime is asked", advice)
    try:
        cuda = cuda_of(nvcc.library)
        more = f", the first of {cuda.count}" if cuda.count > 1 else ""
        detail = f"{cuda.name}, sm_{cuda.capability}, {cuda.multiprocessors} multiprocessors{more}"
        near = nearest_device(cuda.name, cuda.capability)
    except (CompileError, ExecutionError) as failure:
        detail, _, remedy = failure.message.removeprefix("CUDA: ").partition("; ")
        return Finding("GPU", None, detail, f"only for CUDA: {remedy}")
    if near is None:
        return Finding(
            "GPU", None, f"{detail}: too old for minitensor (sm_75 is the first)", advice
        )
    return Finding("GPU", True, f"{detail}; kernels are built for {near!r}")


def _extra(name: str, use: str) -> Finding:
    if importlib.util.find_spec(name) is not None:
        return Finding(name, True, f"installed ({use})")
    return Finding(name, None, f"not installed ({use})", f"python -m pip install {name}")
