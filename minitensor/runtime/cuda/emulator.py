"""CUDA kernels on a CPU: the text that nvcc would get, run thread by thread, checked and counted.

Arrays are copied to memory of the emulator and back, as they are to a device. Each buffer has a
page behind it that is no buffer's, and what is not an input holds NaNs at first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted
from minitensor.errors import CompileError, ExecutionError, unexpected
from minitensor.looks import Text
from minitensor.runtime.cache import TIME_LIMIT, Compiled
from minitensor.runtime.cuda.counters import FIELDS as COUNTED
from minitensor.runtime.cuda.counters import ROWS, AccessCount, counts_of
from minitensor.runtime.cuda.cxx import compile_emulated, emulator_library
from minitensor.runtime.cuda.reports import FIELDS, MOST, Describer, DeviceFault, Memory
from minitensor.runtime.cuda.symbols import Symbols, lines_of, symbols_of
from minitensor.runtime.kernel import Kernel
from minitensor.runtime.module import load_function, pointer_to
from minitensor.runtime.toolchain import Toolchain

ORDERS: Final = ("forward", "backward", "shuffled")
"""Of the threads of a block: which runs first where none waits for another."""

_PAGE: Final = 4096
_POISON: Final = 0xFF
_CHECK, _COUNT = 1, 2
_SHARED, _INPUT, _OUTPUT, _UNWRITTEN = 1, 2, 4, 8
_INTERRUPTED: Final = -2
_SHOWN: Final = 5
_one_at_a_time: Final = threading.Lock()

_ERRORS: Final = {
    1: "a launch asks for more dynamic shared memory than devices have (232,448 bytes)",
    2: "no memory to emulate it; run it on smaller arrays",
    9: "a launch has more threads or blocks than devices take, or none",
    719: "a kernel ended by a fault",
}
"""Errors of the CUDA runtime that the emulator returns."""


def load_emulated(
    emitted: Sequence[Emitted],
    toolchain: Toolchain,
    *,
    check: bool = False,
    order: str = "forward",
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
) -> list[EmulatedKernel]:
    """The kernels of one CUDA text, compiled for the emulator (or taken from the cache).

    check  look for faults in every call
    order  of the threads of a block: one of ORDERS
    seed   of the shuffled order

    Raises CompileError if the compiler fails or takes more than `time_limit` seconds, ArgumentError
    for an unknown order.
    """
    if order not in ORDERS:
        raise unexpected(f"one of {', '.join(ORDERS)}", "order", order)
    made = compile_emulated(emitted[0].source, toolchain, watched=check, time_limit=time_limit)
    return [
        EmulatedKernel(e, made, toolchain, check=check, order=order, seed=seed) for e in emitted
    ]


@dataclass(frozen=True, slots=True)
class Emulation:
    """One run in the emulator.

    status   what the launcher returned
    outputs  copies of the arrays that it may write, by their numbers
    reports  rows of what it did wrong
    counts   rows of what it accessed
    """

    status: int
    outputs: dict[int, np.ndarray]
    reports: np.ndarray
    counts: np.ndarray


class EmulatedKernel(Kernel):
    """A CUDA kernel that a CPU runs, thread by thread.

    emitted  the text it was compiled from, and what is known of it
    check    whether a call looks for faults: it raises ExecutionError for what it finds
    order    of the threads of a block
    seed     of the shuffled order
    """

    def __init__(
        self,
        emitted: Emitted,
        made: Compiled,
        toolchain: Toolchain,
        *,
        check: bool = False,
        order: str = "forward",
        seed: int = 0,
    ) -> None:
        super().__init__(
            emitted.name or emitted.entry,
            emitted.params,
            emitted.outputs,
            emitted.target,
            emitted.source,
            made.command,
            emitted.checks,
        )
        self.emitted, self.check, self.order, self.seed = emitted, check, order, seed
        self._toolchain = toolchain
        self._made = {check: made}

    def faults(self, /, *arrays: object, orders: Collection[str] = ORDERS) -> list[DeviceFault]:
        """Run on arrays as a call does, once for each order of threads, and say what is wrong.

        Found are races in shared and in device memory, accesses outside buffers or of misaligned
        vectors, reads of what nothing wrote, outputs that are not written, writes to inputs, and
        barriers or functions of a warp that some of their threads do not reach. Outputs that are
        given are left as they are. Returns nothing if all is well.
        Raises ArgumentError if an array does not fit; ExecutionError, as a call does, for an index
        that depends on data and is outside, and for a launch that fails.
        """
        accepted, _ = self._signature.accept(arrays)
        known = isinstance(orders, Collection) and not isinstance(orders, str)
        if not known or not all(isinstance(o, str) and o in ORDERS for o in orders):
            raise unexpected(f"some of {', '.join(ORDERS)}", "orders", orders)
        found: dict[object, DeviceFault] = {}
        status = 0
        for order in orders:
            run = self._emulate(accepted, _CHECK, order)
            status = status or run.status
            for fault in self._described(run):
                found.setdefault(fault.place, fault)
        if status != 0 and not found:
            raise self.failure(status)
        return list(found.values())

    def counters(self, /, *arrays: object) -> tuple[AccessCount, ...]:
        """Run on arrays as a call does, and count what the warps access, by places of the text.

        Raises as a call does.
        """
        accepted, _ = self._signature.accept(arrays)
        run = self._emulate(accepted, _COUNT, "forward")
        if run.status != 0:
            raise self.failure(run.status)
        names = [(memory.name, n >= self._first_shared) for n, memory in enumerate(self._memory)]
        return counts_of(run.counts, names, self._lines)

    def assembly(self) -> str:
        """Raises CompileError: what the emulator runs says nothing about a device."""
        raise CompileError(
            f"{ir.print_name(self.name)}: the emulator makes no code for a GPU; "
            'build with target="cuda" to see some (kernel.ptx)'
        )

    def explain(self) -> str:
        """The outcome of the schedule, as text: the needs of each kernel, the optimizations that
        were missed, the source.
        """
        lines = [
            f"{k.name}: grid {k.grid}, block {k.block}, "
            f"{k.shared + k.dynamic:,} bytes of shared memory"
            for k in self.emitted.kernels
        ]
        return Text("\n".join([*lines, *self._gpu_remarks(), "", str(self.source)]))

    # ---- running

    def _run(self, arrays: list[np.ndarray]) -> int:
        run = self._emulate(arrays, _CHECK if self.check else 0, self.order)
        faults = self._described(run)
        if faults:
            raise self._refused(faults)
        for n, output in run.outputs.items():
            arrays[n][...] = output
        return run.status

    def _prepared(self, arrays: list[np.ndarray]) -> Callable[[], int]:
        return partial(self._run, arrays)

    def failure(self, status: int) -> ExecutionError:
        """The error for a status that is not 0."""
        if status > 0:
            return super().failure(status)
        reason = _ERRORS.get(-status, f"error {-status} of the CUDA runtime")
        kind = "memory" if status == -2 else "device"
        return ExecutionError(f"{ir.print_name(self.name)}: {reason}", kind)

    def _refused(self, faults: Sequence[DeviceFault]) -> ExecutionError:
        first, *more = faults
        shown = [f"    {fault}" for fault in more[:_SHOWN]]
        if len(more) > _SHOWN:
            shown.append(f"    and {len(more) - _SHOWN} more: see kernel.faults(…)")
        picture = (lambda: "\n".join(shown)) if shown else None
        return ExecutionError(first.message, first.kind, picture)

    def _emulate(self, arrays: Sequence[np.ndarray], watch: int, order: str) -> Emulation:
        """Run on copies of the arrays.

        watch  _CHECK, _COUNT or 0
        """
        library = self._library(watched=watch != 0)
        entry = load_function(library, self.emitted.entry, len(arrays) + 2)
        emulator = emulator_library(self._toolchain)
        begin, end, counts = (
            load_function(emulator, f"emulator_{name}", 1) for name in ("begin", "end", "counts")
        )
        device = _DeviceMemory([*(array.nbytes for array in arrays), self.emitted.workspace])
        for n, array in enumerate(arrays):
            if n not in self._signature.outputs:
                device.bytes_of(n)[...] = array.reshape(-1).view(np.uint8)
        ranges = self._ranges(device) if watch else [0] * 8
        given = np.array([watch, ORDERS.index(order), self.seed, *ranges], np.uint64)
        found = np.zeros((MOST, FIELDS), np.int64)
        rows = np.zeros((ROWS if watch == _COUNT else 1, COUNTED), np.int64)
        rows[0, 0] = len(rows)
        pointers = [pointer_to(device.bytes_of(n, least=1)) for n in range(len(arrays) + 1)]
        with _one_at_a_time:
            if begin(pointer_to(given)) != 0:
                raise self.failure(-2)
            try:
                status = entry(*pointers, pointer_to(given))  # a stream, which nothing looks at
            finally:
                reports = end(pointer_to(found))
            counted = counts(pointer_to(rows)) if watch == _COUNT else 0
        if reports == _INTERRUPTED:
            signal.pthread_sigmask(signal.SIG_BLOCK, ())  # Python's own handler runs before it ends
            raise ExecutionError(f"{ir.print_name(self.name)}: interrupted", "crash")
        if reports < 0:
            raise self.failure(-2)
        outputs = {
            n: device.bytes_of(n).view(arrays[n].dtype).reshape(arrays[n].shape)
            for n in self._signature.outputs
        }
        return Emulation(status, outputs, found[:reports], rows[:counted])

    def _ranges(self, device: _DeviceMemory) -> list[int]:
        """The ranges of memory in the layout that `checks_begin` reads."""
        given = [device.start, device.size, self._first_shared, len(self._symbols.arrays)]
        for n, memory in enumerate(self._memory):
            if n < len(self.params):
                written = n in self._signature.outputs
                flags = _OUTPUT | _UNWRITTEN if written else _INPUT
            else:
                flags = _UNWRITTEN if n < self._first_shared else _UNWRITTEN | _SHARED
            place = device.places[n] if n < self._first_shared else self._places[n]
            given += [place, memory.size, memory.item.bit_length() - 1, flags]
        return given

    # ---- what it is made of

    def _library(self, watched: bool) -> Path:
        if watched not in self._made:
            self._made[watched] = compile_emulated(
                self.emitted.source, self._toolchain, watched=watched
            )
        return self._made[watched].path

    @cached_property
    def _symbols(self) -> Symbols:
        return symbols_of(self._library(watched=True), self.emitted.source, self._toolchain)

    @cached_property
    def _memory(self) -> tuple[Memory, ...]:
        """Parameters, workspace, static shared arrays and dynamic shared memory."""
        made = []
        for buffer in self.params:
            dtype = ir.numpy_dtype(buffer.dtype)
            size = dtype.itemsize * int(np.prod(buffer.shape, dtype=np.int64))
            made.append(Memory(buffer.name, size, dtype.itemsize, buffer))
        made.append(Memory("workspace", self.emitted.workspace, 4))
        made += [Memory(a.name, a.size, a.item) for a in self._symbols.arrays]
        dynamic = max([k.dynamic for k in self.emitted.kernels], default=0)
        return (*made, Memory("shared_memory", dynamic, 4))

    @cached_property
    def _places(self) -> dict[int, int]:
        """The addresses of static shared arrays in the library, by the numbers of their ranges."""
        first = self._first_shared
        places = {first + n: array.place for n, array in enumerate(self._symbols.arrays)}
        return {**places, len(self._memory) - 1: 0}

    @property
    def _first_shared(self) -> int:
        return len(self.params) + 1

    def _lines(self, addresses: Iterable[int]) -> dict[int, int]:
        return lines_of(self._library(watched=True), addresses, self._toolchain)

    def _described(self, run: Emulation) -> list[DeviceFault]:
        if not len(run.reports):
            return []
        describer = Describer(self.emitted, self._memory, self._symbols, self._lines)
        return describer.faults(run.reports)


class _DeviceMemory:
    """Memory for buffers of some sizes, each at the start of a page, with a free page behind it.

    start, size  of all of it
    places       where each buffer starts
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        spans = [(-(-size // _PAGE) + 1) * _PAGE for size in sizes]
        self.size = sum(spans) + _PAGE
        self._held = np.empty(self.size + _PAGE, np.uint8)
        address = self._held.__array_interface__["data"][0]
        self.start = -(-address // _PAGE) * _PAGE
        self._held.fill(_POISON)
        self.places = [self.start + _PAGE]
        for span in spans[:-1]:
            self.places.append(self.places[-1] + span)
        self._first = self.start - address

    def bytes_of(self, number: int, least: int = 0) -> np.ndarray:
        """The bytes of a buffer, and at least so many."""
        begin = self.places[number] - self.start + self._first
        return self._held[begin : begin + max(least, self.sizes[number])]
