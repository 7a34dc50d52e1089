"""Kernels under AddressSanitizer and UndefinedBehaviorSanitizer, and what their reports say.

Found are accesses outside parameters, temporaries and local arrays, by as little as one byte;
shifts by too much, integer division by zero, conversions of floats that no integer holds,
misaligned addresses, addresses that wrap. Not looked for, because it is defined in our kernels:
integer overflow (`-fwrapv`), float division by zero (IEEE).

The first thing found ends the process, with a report on its stderr that `read_report` understands.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted
from minitensor.errors import ExecutionError
from minitensor.runtime import (
    Fault,
    NativeKernel,
    element_at,
    element_name,
    find_toolchain,
    load_function,
    pointer_to,
)
from minitensor.sanitize.builds import Sanitizer, runtime_library
from minitensor.sanitize.fault import Outcome, inputs_of
from minitensor.sanitize.memory import address_of, bits_of, pattern
from minitensor.system import ctypes

_ALIGNMENT: Final = 64


def run_with_address_sanitizer(kernel: NativeKernel, inputs: Sequence[object]) -> Outcome:
    """Run a kernel of `load_sanitized(Sanitizer.ADDRESS, …)` in memory that ends where it ends.

    inputs  one array for each input, in call order; they are copied

    Raises ArgumentError for an array that does not fit. A fault ends the process.
    """
    emitted = kernel.emitted
    given = inputs_of(emitted, inputs)
    arrays: list[np.ndarray] = []
    for buffer in kernel.params:
        array = _exact(buffer.shape, ir.numpy_dtype(buffer.dtype))
        if buffer.name in emitted.outputs:
            bits_of(array)[...] = pattern(buffer.dtype, 0)
        else:
            array[...] = given[buffer.name]
        arrays.append(array)
    workspace = _exact((-(-emitted.workspace // _ALIGNMENT) * _ALIGNMENT,), np.dtype(np.uint8))
    bounds = [len(arrays)]
    for array in (*arrays, workspace):
        start = address_of(array)
        bounds += [start, start + array.nbytes]
    ends = pointer_to(np.array(bounds, np.uint64))
    path = runtime_library(Sanitizer.ADDRESS, find_toolchain())
    start_watch, finish = (load_function(path, f"address_{n}", 1) for n in ("start", "finish"))
    start_watch(ends)
    status = kernel.run_in(workspace, arrays)
    finish(ends)
    outputs = [a.copy() for b, a in zip(kernel.params, arrays) if b.name in emitted.outputs]
    return Outcome(status, tuple(outputs), ())


@functools.cache
def _c() -> ctypes.CDLL:
    """The C library."""
    c = ctypes.CDLL(None)
    size = ctypes.c_size_t
    c.posix_memalign.argtypes = (ctypes.POINTER(ctypes.c_void_p), size, size)
    c.free.argtypes, c.free.restype = (ctypes.c_void_p,), None
    return c


class _Allocated:
    """Memory of the C library, or of AddressSanitizer in its place; freed with this object."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], size: int) -> None:
        self.address = ctypes.c_void_p()
        if _c().posix_memalign(self.address, _ALIGNMENT, size) != 0:
            raise ExecutionError(f"no memory for an array of {size:,} bytes", "memory")
        self.__array_interface__ = {
            "shape": tuple(shape),
            "typestr": dtype.str,
            "data": (self.address.value or 0, False),
            "version": 3,
        }

    def __del__(self) -> None:
        _c().free(self.address)


def _exact(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """An array in memory of exactly its size."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    return np.asarray(_Allocated(shape, dtype, size))


# ---- reports

_UNDEFINED: Final = re.compile(r"^[^\n]*?:(\d+):\d+: runtime error: ([^\n]*)$", re.MULTILINE)
_ERROR: Final = re.compile(r"ERROR: AddressSanitizer: (\S+)(?: on (?:unknown )?address (0x\w+))?")
_ACCESS: Final = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_LINE: Final = re.compile(r"^ *#\d+ \S+ in \S+ [^\n]*kernel\.c:(\d+)", re.MULTILINE)
_VARIABLE: Final = re.compile(r"'(\w+)' \(line \d+\) <== Memory access at offset \d+ (\w+)")
_MEMORY: Final = re.compile(r"^checked memory (\d+) is \[(0x\w+),(0x\w+)\)$", re.MULTILINE)


def read_report(text: str, emitted: Emitted) -> Fault | None:
    """The fault that a kernel's process reports on stderr; None if the text is no such report."""
    kernel = ir.print_name(emitted.name or emitted.entry)
    undefined = _UNDEFINED.search(text)
    if undefined is not None:
        line = int(undefined[1])
        message = f"{kernel}: {undefined[2]}, line {line} of its text{_quoted(emitted, line)}"
        return Fault("undefined", message, line=line)
    error = _ERROR.search(text)
    if error is None:
        return None
    place = _LINE.search(text, error.end())
    line = int(place[1]) if place is not None else 0
    access = _ACCESS.search(text, error.end())
    did = "touches memory"
    if access is not None:
        did = f"{'reads' if access[1] == 'READ' else 'writes'} {access[2]} bytes"
    buffer, index, where = _where(text, emitted, int(error[2], 16) if error[2] else None)
    at = f", line {line} of its text{_quoted(emitted, line)}" if line else ""
    kind = "crash" if error[1] in ("SEGV", "BUS", "FPE", "ILL") else "out of bounds"
    return Fault(kind, f"{kernel} {did} {where} ({error[1]}){at}", buffer, index, line)


def _quoted(emitted: Emitted, line: int) -> str:
    lines = emitted.source.splitlines()
    return f": {lines[line - 1].strip()}" if 0 < line <= len(lines) else ""


def _where(text: str, emitted: Emitted, address: int | None) -> tuple[str, tuple[int, ...], str]:
    """The buffer next to the address, an element of it if that is where it lies, and words."""
    variable = _VARIABLE.search(text)
    if variable is not None:
        return variable[1], (), f"outside the local array {variable[1]}"
    known = (*emitted.params, *emitted.memory)
    nearest: tuple[int, ir.Buffer, int, int] | None = None
    for number, start, end in _MEMORY.findall(text):
        if address is None or int(number) >= len(known):
            continue
        low, high = int(start, 16), int(end, 16)
        far = max(low - address, address - high + 1, 0)
        if nearest is None or far < nearest[0]:
            nearest = (far, known[int(number)], low, high)
    if nearest is None or address is None or nearest[0] > 1 << 20:
        return "", (), "outside every buffer"
    far, buffer, low, high = nearest
    name = ir.print_name(buffer.name)
    if far == 0:
        index = element_at(buffer, address - low)
        return buffer.name, index, f"at {element_name(buffer, index)}, which is not in use"
    side = f"{far} bytes before it" if address < low else f"{address - high} bytes after its end"
    return buffer.name, (), f"outside {name}: {ir.print_type(buffer)}, {side}"
