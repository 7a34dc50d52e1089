"""nvcc, the compiler of CUDA: found, asked what it is, and remembered.

It is looked for in NVCC, CUDA_HOME, PATH and the packages of PyPI that the extra `[cuda]` installs.
A library that it makes is linked to the CUDA runtime that lies beside it, which `device` loads
first: no path is looked for when a kernel is loaded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from minitensor.errors import CompileError, shown
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember, scratch_folder
from minitensor.runtime.process import Finished, first_error, one_line, run_compiler

OLDEST: Final = (11, 8)
"""The first release that knows all of the GPUs in the table."""
PACKAGES: Final = 'python -m pip install "minitensor[cuda]"'
ADVICE: Final = (
    f"install one ({PACKAGES}, or NVIDIA's CUDA toolkit), or name one in NVCC; "
    'target="cuda-emulator" needs neither nvcc nor a GPU'
)
HOST_ADVICE: Final = (
    "NVCC_CCBIN can name a C++ compiler that it takes (Debian, Ubuntu: apt install g++-12, and "
    "NVCC_CCBIN=g++-12)"
)

_FOLDER: Final = Path(__file__).parent
"""The folder of device.h."""
_FLAGS: Final = ("-std=c++17", "-O3", "-Xptxas=-v", f"-I{_FOLDER}")
_SHARED: Final = ("-shared", "-Xcompiler=-fPIC", "-cudart=none")
_PROBE_SECONDS: Final = 20.0
_REFUSED_HOSTS: Final = ("unsupported GNU version", "unsupported clang version", "ost compiler")
"""The text that nvcc and its headers print about a C++ compiler that they do not take."""
_TRIAL: Final = 'extern "C" __global__ void trial(float *x) { x[threadIdx.x] = 0; }\n'


@dataclass(frozen=True, slots=True)
class Nvcc:
    """A compiler of CUDA.

    path           of the program
    release        such as (13, 0)
    version        the line of `--version` that names it
    architectures  the compute capabilities that it makes code for: 80 for 8.0
    library        the path of its CUDA runtime, a shared library
    host           the C++ compiler that NVCC_CCBIN names; "" for the one that it chooses
    identity       a digest of the files that it consists of
    capability     what it makes code for
    """

    path: str
    release: tuple[int, ...]
    version: str
    architectures: tuple[int, ...]
    library: str
    host: str = ""
    identity: str = ""
    capability: int = 0

    @property
    def source(self) -> str:
        """The name of a file of source."""
        return "kernel.cu"

    @property
    def careful(self) -> tuple[str, ...]:
        """The flags to try where it crashes: there are none."""
        return ()

    @property
    def key(self) -> tuple[str, ...]:
        """All that its code depends on, but for the command."""
        return (self.version, self.identity, _header())

    @property
    def words(self) -> list[str]:
        """The program, and the flags of every command."""
        code = f"-gencode=arch=compute_{self.capability},code=[sm_{self.capability},compute_"
        host = [f"-ccbin={self.host}"] if self.host else []
        return [self.path, *_FLAGS, *host, f"{code}{self.capability}]"]

    def command(self, source: str, output: str) -> list[str]:
        """The words that compile a file to a shared library. The text of the kernels (PTX) is in it
        too, so that GPUs that are newer than nvcc can run it.
        """
        return [*self.words, *_SHARED, "-o", output, source, f"-Xlinker={self.library}"]

    def assembly_command(self, source: str, output: str, origins: bool = False) -> list[str]:
        """The words that compile a file to PTX; `origins` adds lines of the source."""
        arch = f"-arch=compute_{self.capability}"
        lines = ["-lineinfo"] if origins else []
        return [*self.words[:-1], arch, *lines, "-ptx", "-o", output, source]

    def advice(self, stderr: str) -> str:
        """The step to take, where it failed and printed this."""
        if any(words in stderr for words in _REFUSED_HOSTS):
            return HOST_ADVICE
        return "check NVCC and NVCC_CCBIN, and report it if they are not the reason"

    def making(self, capability: int) -> Nvcc:
        """The same compiler, making code for a compute capability.

        Raises CompileError if it does not know it.
        """
        if capability not in self.architectures:
            known = ", ".join(f"sm_{number}" for number in self.architectures)
            raise CompileError(
                f"{self.version} makes no code for sm_{capability} (it does for {known}); name "
                'another GPU, as in mt.Target("cuda", device="h100"), or another nvcc in NVCC',
                [self.path],
            )
        return dataclasses.replace(self, capability=capability)


def find_nvcc() -> Nvcc:
    """The nvcc of NVCC; else that of CUDA_HOME, of PATH, or of the extra `[cuda]`, in this order.

    Raises CompileError if there is none, or it is too old, or it has no CUDA runtime.
    """
    path, host = _find_program(), _find_host()
    key = _key(path, host)
    if key not in _known:
        _known[key] = _recall(key) or _ask_and_record(path, host, key)
    return _known[key]


def probe_nvcc() -> Nvcc:
    """As `find_nvcc`, but asked again, and tried on a small kernel.

    Raises CompileError if that fails, too.
    """
    path, host = _find_program(), _find_host()
    key = _key(path, host)
    _known[key] = found = _ask_and_record(path, host, key)
    tried = found.making(found.architectures[0])
    with scratch_folder(cache_folder()) as folder:
        (folder / tried.source).write_text(_TRIAL, encoding="utf-8")
        done = run_compiler(tried.command(tried.source, "trial.so"), folder, _PROBE_SECONDS)
    if done.status != 0:
        raise CompileError(
            f"{path} cannot compile a small kernel: {first_error(done.stderr)}; "
            f"{tried.advice(done.stderr)}",
            [path],
            done.stderr,
        )
    return found


_known: dict[str, Nvcc] = {}


def _find_program() -> str:
    named = os.environ.get("NVCC")
    if named:
        path = shutil.which(named)
        if path is None:
            raise CompileError(f"NVCC={shown(named)}: no such program is found; {ADVICE}")
        return os.path.abspath(path)
    for place in _places():
        path = shutil.which(place)
        if path is not None:
            return os.path.abspath(path)
    raise CompileError(
        f"no nvcc is found (looked for in NVCC, CUDA_HOME, PATH and the packages of Python); "
        f"{ADVICE}"
    )


def _places() -> Iterator[str]:
    home = os.environ.get("CUDA_HOME")
    if home:
        yield os.path.join(home, "bin", "nvcc")
    yield "nvcc"
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("nvidia")
        for folder in (spec and spec.submodule_search_locations) or ():
            yield from sorted(glob.glob(os.path.join(glob.escape(folder), "cu*", "bin", "nvcc")))


def _find_host() -> str:
    named = os.environ.get("NVCC_CCBIN", "")
    path = shutil.which(named) if named else ""
    if path is None:
        raise CompileError(f"NVCC_CCBIN={shown(named)}: no such program is found; {HOST_ADVICE}")
    return os.path.abspath(path) if path else ""


def _key(path: str, host: str) -> str:
    """A key of everything that the answers, and the code it makes, depend on."""
    files = []
    for word in (path, host or shutil.which("g++") or "", shutil.which("gcc") or ""):
        real = os.path.realpath(word) if word else ""
        if os.path.isfile(real):
            found = os.stat(real)
            files.append((real, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return entry_name("nvcc", path, host, files)


def _recall(key: str) -> Nvcc | None:
    values: dict[str, Any] = {
        n: tuple(v) if isinstance(v, list) else v for n, v in (recall(key) or {}).items()
    }
    try:
        found = Nvcc(**values)
    except TypeError:  # missing, or of other fields
        return None
    return found if os.path.exists(found.library) else None


def _ask_and_record(path: str, host: str, key: str) -> Nvcc:
    with scratch_folder(cache_folder()) as folder:
        found = _asked(path, host, key, folder)
    remember(key, dataclasses.asdict(found))
    return found


def _asked(path: str, host: str, key: str, folder: Path) -> Nvcc:
    def ask(*words: str) -> Finished:
        return run_compiler([path, *words], folder, _PROBE_SECONDS)

    printed = ask("--version").stdout
    line = re.search(r"^.*\brelease (\d+)\.(\d+).*$", printed, re.MULTILINE)
    if line is None:
        raise CompileError(f"{path} is no nvcc (it printed: {first_error(printed)}); {ADVICE}")
    release = int(line[1]), int(line[2])
    version = f"nvcc {line[1]}.{line[2]} ({path})"
    if release < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise CompileError(f"{version} is too old: {oldest} or newer is needed; {ADVICE}", [path])
    listed = ask("--list-gpu-code")
    known = sorted({int(number) for number in re.findall(r"^sm_(\d+)$", listed.stdout, re.M)})
    if not known:
        raise CompileError(
            f"{version} does not say which GPUs it knows: {first_error(listed.stderr)}; {ADVICE}",
            [path, "--list-gpu-code"],
        )
    return Nvcc(path, release, version, tuple(known), _library(ask, folder, version), host, key)


def _library(ask: Any, folder: Path, version: str) -> str:
    """The path of the CUDA runtime that belongs to an nvcc, where it would look for it."""
    (folder / "trial.cu").write_text(_TRIAL, encoding="utf-8")
    planned = ask("--dryrun", "-c", "-o", "trial.o", "trial.cu").stderr
    top = re.search(r"^#\$ TOP=(.*)$", planned, re.MULTILINE)
    line = re.search(r"^#\$ LIBRARIES=(.*)$", planned, re.MULTILINE)
    folders = re.findall(r'-L([^"]+)', line[1]) if line else []
    if top is not None:
        folders += [os.path.join(top[1].strip(), name) for name in ("lib64", "lib")]
    for place in folders:
        found = sorted(glob.glob(os.path.join(glob.escape(place), "libcudart.so*")), key=len)
        if found:
            return os.path.realpath(found[0])
    raise CompileError(
        f"{one_line(version)} has no CUDA runtime (libcudart.so) in {', '.join(folders) or 'sight'}"
        f"; install it ({PACKAGES}, or all of NVIDIA's CUDA toolkit)"
    )


def _header() -> str:
    """A digest of what texts include."""
    files = sorted(_FOLDER.glob("*.h"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
