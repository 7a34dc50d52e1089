"""Kernels in a tab of a browser: a compiler that is a function, and libraries of WebAssembly.

A tab has no processes, and no cffi. But clang exists as WebAssembly, its library is a *side module*
(a shared library, with wasm-ld), and the dlopen of Emscripten loads it into the memory of Python
itself. So a kernel is called by the addresses of arrays, as everywhere, by way of ctypes.

There are no threads: parallel loops run serially. Vectors have 128 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from minitensor.runtime.process import REPLACED as COMPILERS
from minitensor.runtime.process import Finished
from minitensor.runtime.toolchain import REPLACED as TOOLCHAINS
from minitensor.runtime.toolchain import Toolchain
from minitensor.system import ctypes

Compile = Callable[[Sequence[str], str, str], tuple[bytes, str]]
"""Compiles: arguments, the name of the source among them and its text; what is made of it, empty
if it fails, and what was printed."""

TRIPLE: Final = "wasm32"
_LINKED: Final = ("-nostdlib", "-Wl,--experimental-pic", "-Wl,--no-entry", "-Wl,--allow-undefined")
_FLAGS: Final = ("-O2", "-msimd128", "-ffp-contract=on", "-Wl,--export-all", *_LINKED)


def use(compile_text: Compile, version: str) -> None:
    """Compile with a function from now on.

    version  of the compiler, which is part of what names a kernel in the cache
    """

    def run(command: Sequence[str], folder: Path) -> Finished:
        words = [str(word) for word in command[1:]]
        source = words[-1]
        output = folder / words[words.index("-o") + 1]
        made, printed = compile_text(words, source, (folder / source).read_text(encoding="utf-8"))
        if made:
            output.write_bytes(made)
        return Finished(0 if made else 1, "", printed)

    COMPILERS[:] = [run]
    TOOLCHAINS[:] = [
        Toolchain(
            words=("clang",),
            family="clang",
            version=version,
            triple=TRIPLE,
            flags=_FLAGS,
            libraries=(),
            native="",
            openmp=(),
            vector_bits=128,
            vector_registers=16,
            float16=False,
            identity=version,
        )
    ]


# ---- the part of `_cffi_backend` that kernels need


class Address(ctypes.c_void_p):
    """An address that keeps what it points to alive."""

    kept: Any = None


class FFI:
    """The types and the memory of C, by ctypes."""

    NULL: Final = ctypes.c_void_p(None)

    def from_buffer(self, array: Any) -> Address:
        """The address of an array."""
        found = Address(array.__array_interface__["data"][0])
        found.kept = array
        return found

    def typeof(self, name: str) -> Any:
        """A type by its name in C."""
        return {"void *": ctypes.c_void_p, "int": ctypes.c_int, "uintptr_t": int}[name]

    def cast(self, _: Any, value: Any) -> int:
        """An address as a number."""
        return int(ctypes.cast(value, ctypes.c_void_p).value or 0)


class _Library:
    """A library that is loaded."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def load_function(self, kind: tuple[Sequence[Any], Any], name: str) -> Callable[..., int]:
        """A function of it. Raises AttributeError if it has none of that name."""
        function = self._library[name]
        function.argtypes, function.restype = list(kind[0]), kind[1]
        return function


def new_function_type(parameters: Sequence[Any], result: Any, _: bool) -> tuple[Any, Any]:
    """The type of a function."""
    return tuple(parameters), result


def load_library(path: str, _: int) -> _Library:
    """A shared library. Raises OSError if it cannot be loaded."""
    return _Library(path)
