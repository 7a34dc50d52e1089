"""The cores and the CPU of this machine, found without starting a process."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Collection
from typing import Final

from minitensor.codegen import FEATURES
from minitensor.system import ALONE

_NAMING = ("model name", "CPU implementer", "CPU part", "cpu")
_TELLING = (*_NAMING, "vendor_id", "cpu family", "model", "stepping", "CPU variant")
_FEATURES = ("flags", "Features")
INSTRUCTIONS: Final = {
    **{f"__{name.upper()}__": name for name in ("avx", "avx2", "bmi2", "f16c", "fma", "fma4")},
    **{f"__{name.upper()}__": name for name in ("movbe", "popcnt", "sse4a", "ssse3", "tbm", "xop")},
    **{f"__AVX512{name.upper()}__": f"avx512{name}" for name in ("f", "cd", "bw", "dq", "vl")},
    **{f"__AVX512{name.upper()}__": f"avx512{name}" for name in ("ifma", "vbmi")},
    **{f"__AVX512{name.upper()}__": f"avx512_{name}" for name in ("vbmi2", "vnni", "bitalg")},
    **{f"__AVX512{name.upper()}__": f"avx512_{name}" for name in ("vpopcntdq", "bf16", "fp16")},
    "__SSE3__": "pni",
    "__SSE4_1__": "sse4_1",
    "__SSE4_2__": "sse4_2",
    "__BMI__": "bmi1",
    "__LZCNT__": "abm",
    "__AVXVNNI__": "avx_vnni",
    "__AMX_INT8__": "amx_int8",
    "__AMX_BF16__": "amx_bf16",
}
"""Instructions of x86 that compilers use without being asked, by their macros: Linux's names."""


def usable_cores() -> int:
    """The number of cores this process may run on: its affinity where that is known, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return 1 if ALONE else os.cpu_count() or 1


def cpu_name() -> str:
    """The CPU as its maker calls it; where the system does not say, what is known instead."""
    about = _about_cpu()
    named = [about[key] for key in _NAMING if key in about]
    return " ".join(named) or os.uname().machine


@functools.cache
def cpu_fingerprint() -> str:
    """A digest that differs between CPUs for which `-march=native` may mean different code.

    The name is not enough: virtual machines give one name to CPUs with different instructions.
    """
    about = _about_cpu()
    known = [f"{key}={about[key]}" for key in (*_TELLING, *_FEATURES) if key in about]
    return hashlib.sha256("\n".join([os.uname().machine, *known]).encode()).hexdigest()


def lacking(macros: Collection[str]) -> tuple[str, ...]:
    """The instructions of x86 that a compiler with these macros uses and this CPU lacks, as Linux
    calls them; none where the system does not say which it has.
    """
    known = _about_cpu().get("flags", "").split()
    used = [name for macro, name in INSTRUCTIONS.items() if macro in macros]
    return tuple(name for name in used if known and name not in known)


def features_in(macros: Collection[str]) -> tuple[str, ...]:
    """The features of targets that a compiler with these macros may use."""
    used = {name for macro, name in INSTRUCTIONS.items() if macro in macros}
    return tuple(name for name in FEATURES if name in used)


@functools.cache
def _about_cpu() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; on macOS the kernel's name for the chip.

    Read up to the first empty line only: the file has an entry for each core and is slow to make.
    """
    about: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if not key.strip():
                    break
                about[key.strip()] = value.strip()
    except OSError:
        system = os.uname()
        # ends in the chip, as in "...~1/RELEASE_ARM64_T8103"
        about["cpu"] = f"{system.machine} {system.version.rpartition('/')[2]}"
    return about
