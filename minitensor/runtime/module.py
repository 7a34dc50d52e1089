"""Native functions and the memory they are given.

cffi is used through `_cffi_backend`, its compiled half, as the modules that cffi itself generates
do: `cffi.FFI()` imports a parser of C (15 ms, more than loading a kernel takes in all) only to read
a declaration that is the same for every kernel.

A loaded library is never unloaded: the threads of an OpenMP runtime may still be waiting inside it.

A fork copies only the thread that calls it, and the OpenMP runtime of the child waits for the
threads of its parent for ever. It keeps them for each thread that starts a parallel region, so a
thread that is new in the child gets new ones: `starting_threads` makes calls go through that.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from minitensor.errors import CompileError
from minitensor.system import cffi

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the widest vector register."""
PAGE: Final = 4096
"""Bytes between addresses that alias: processors compare a load with earlier stores by the low 12
bits first, and delay it where they match ("4K aliasing", Intel's optimization manual). A loop that
reads A[i] and stores B[i] is up to three times slower where B lies one or two cache lines further
on in its page than A; the C library puts large arrays at the beginning of a page.
"""

Pointer = Any
"""A cffi pointer that keeps what it points to alive."""


@functools.cache
def ffi() -> Any:
    """The types and the memory of C. Raises CompileError where cffi is missing."""
    return cffi.FFI()


def pointer_to(array: np.ndarray) -> Pointer:
    """The address of a C-contiguous array's first element."""
    return ffi().from_buffer(array)


def pointers_to(arrays: Iterable[np.ndarray]) -> list[Pointer]:
    """`pointer_to` each of them, for calls in which a microsecond counts."""
    return list(map(ffi().from_buffer, arrays))


def load_library(path: Path | str) -> Any:
    """A shared library, which stays loaded. Raises OSError if it cannot be."""
    return cffi.load_library(str(path), os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_NODELETE)


def load_function(library: Path, name: str, pointers: int) -> Callable[..., int]:
    """The function `int name(void *, …)` of `pointers` parameters in a shared library.

    A call releases the interpreter's lock. Raises CompileError if the library cannot be loaded or
    has no such function. dlopen knows libraries by path: a path must not come to mean other code.
    """
    address, status = map(ffi().typeof, ("void *", "int"))
    try:
        # `typeof` reads at most some 300 parameters
        kind = cffi.new_function_type((address,) * pointers, status, False)
        function: Callable[..., int] = load_library(library).load_function(kind, name)
    except (OSError, AttributeError) as failure:
        advice = "if that folder is mounted noexec, name another in MINITENSOR_CACHE_DIR"
        if "undefined symbol" in str(failure):  # the emitter calls the C library only
            advice = "the body of an intrinsic calls it, and no library that is linked has it"
        raise CompileError(f"cannot load {name} from {library}: {failure}; {advice}") from failure
    return function


@functools.cache
def _finder() -> Callable[[np.ndarray], int]:
    """A function that gives an array's address: by cffi in a third of the time that numpy takes for
    it, which outputs of calls pay for.
    """
    try:
        address, cast, start = ffi().typeof("uintptr_t"), ffi().cast, ffi().from_buffer
    except CompileError:
        return lambda array: int(array.__array_interface__["data"][0])
    return lambda array: int(cast(address, start(array)))


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element, as a number: for a table of addresses. Nothing keeps
    the array alive.
    """
    return _finder()(array)


def address_of_function(function: Callable[..., int]) -> int:
    """The address of a function of `load_function`."""
    return int(ffi().cast("uintptr_t", function))


def null() -> Pointer:
    """The address of nothing."""
    return ffi().NULL


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """A C-contiguous array of undefined content that starts at a multiple of 64 bytes; from a page
    on, in the middle of one (see `PAGE`).
    """
    return maker_of(shape, dtype)()


def maker_of(shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], np.ndarray]:
    """A function that makes `aligned_empty(shape, dtype)`, for calls in which a microsecond counts.

    Raises nothing; what it returns may raise MemoryError or ValueError, as numpy does.
    """
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    start, step = (PAGE // 2, PAGE) if size >= PAGE else (0, ALIGNMENT)
    size += step
    find, of_bytes = _finder(), np.dtype(np.uint8)

    def make() -> np.ndarray:
        raw = np.empty(size, of_bytes)
        aligned: np.ndarray = np.ndarray(shape, dtype, raw, (start - find(raw)) % step)
        return aligned

    return make


_started = False
_lost = False
_thread: ThreadPoolExecutor | None = None


def starting_threads(function: Callable[..., int]) -> Callable[..., int]:
    """A function that starts threads, as this process can call it: in a child that was forked after
    threads had started, from a thread that its parent did not have.
    """
    global _started  # noqa: PLW0603 - a fact about the process
    _started = True
    return partial(_call, function) if _lost else function


def _call(function: Callable[..., int], *arguments: object) -> int:
    global _thread  # noqa: PLW0603 - made at the first call
    if _thread is None:
        _thread = ThreadPoolExecutor(1, thread_name_prefix="minitensor")
    return _thread.submit(function, *arguments).result()


def _after_fork() -> None:
    global _lost, _thread  # noqa: PLW0603 - a fact about the process
    _lost = _lost or _started
    _thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
