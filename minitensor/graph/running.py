"""The running of a model: tables of addresses, memory for each call, arrays by position or by name.

Not here: where the parts are from, a graph (`model`) or a folder (`saved`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, ExecutionError
from minitensor.graph.driver import Call, failed_call
from minitensor.runtime import (
    OUTPUTS,
    Kernel,
    address_of,
    compile_assembly,
    find_toolchain,
    null,
    pointer_to,
    starting_threads,
)


class RunningModel(Kernel):
    """A function in C that calls kernels, with what it needs; see `Model` and `mt.graph.load`.

    calls    the calls of kernels, in order
    weights  the constants that they read, as they want them

    Several threads of Python may call it at the same time: each call has an arena of its own.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[ir.Buffer],
        outputs: Sequence[ir.Buffer],
        target: Target,
        source: str,
        command: Sequence[str],
        function: Callable[..., int],
        calls: Sequence[Call],
        weights: Sequence[np.ndarray],
        memory: tuple[int, int],
        kernels: Sequence[int] = (),
        checks: Sequence[Sequence[str]] = (),
    ) -> None:
        """
        memory   bytes of the arena, and of scratch memory
        kernels  addresses of those that are not in the library of the function
        checks   for each kernel what its checks say (see `Emitted`)
        """
        names = [b.name for b in outputs]
        super().__init__(name, (*inputs, *outputs), names, target, source, command)
        self.calls = tuple(calls)
        self._inputs = [b.name for b in inputs]
        self._function = function
        self._threads = (target.num_cores or 1) > 1
        self.weights = tuple(weights)
        self._weights = np.array([address_of(array) for array in weights] or [0], np.uintp)
        self._kernels = np.array(list(kernels) or [0], np.uintp)
        self._bytes = memory
        self._kernel_checks = checks
        # one for each call that has ever run at the same time; pop and append are atomic
        self._memories: list[Memory] = []

    def __call__(self, /, *arrays: object, **named: object) -> Any:
        """Run on one array for each input, by position or by name, and return new outputs.

        Given one array for each output too, it writes into those and returns them. One output is
        returned as itself, several as a tuple. Raises as a kernel does: ArgumentError for arrays
        that do not fit, ExecutionError for a check that fails while running.
        """
        return super().__call__(*self._by_position(arrays, named))

    def prepare(self, /, *arrays: object, **named: object) -> Callable[[], object]:
        """A call on these arrays with everything done that can be done before; see
        `Kernel.prepare`.
        """
        return super().prepare(*self._by_position(arrays, named))

    def bind(self, /, **constants: object) -> Kernel:
        """Raises ArgumentError: a graph says what is constant."""
        raise ArgumentError(
            f"{ir.print_name(self.name)}: a model has its constants from its graph; give arrays to "
            "mt.graph.trace in the place of shapes"
        )

    def assembly(self) -> str:
        """The machine code of the function that calls the kernels as text, made anew.

        Raises CompileError if the compiler fails.
        """
        return compile_assembly(self.source, find_toolchain())

    # ---- running

    def _by_position(
        self, arrays: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[object, ...]:
        """The arrays in the order of the inputs. Raises ArgumentError for another name."""
        if not named:
            return arrays
        names = self._inputs
        left = names[len(arrays) :]
        if set(named) != set(left):
            listed = ", ".join(map(ir.print_name, names))
            wrong = [name for name in named if name not in left]
            missing = [name for name in left if name not in named]
            found = f"got {ir.print_name(wrong[0])}" if wrong else "got no"
            twice = " twice" if wrong and wrong[0] in names else ""
            what = f"{found}{twice}" if wrong else f"{found} {ir.print_name(missing[0])}"
            raise ArgumentError(
                f"{ir.print_name(self.name)}: expected an array for each input ({listed}), but "
                f"{what}"
            )
        return (*arrays, *(named[name] for name in left))

    def _new_memory(self) -> Memory:
        try:
            return Memory(*self._bytes)
        except (MemoryError, ValueError):
            raise ExecutionError(
                f"{ir.print_name(self.name)}: no memory for its arena, which needs "
                f"{sum(self._bytes):,} bytes",
                "memory",
            ) from None

    def _prepared(
        self, arrays: list[np.ndarray], times: np.ndarray | None = None
    ) -> Callable[[], int]:
        return self._bound(arrays, self._new_memory(), times)

    def _bound(
        self, arrays: list[np.ndarray], memory: Memory, times: np.ndarray | None = None
    ) -> Callable[[], int]:
        io = np.array([address_of(array) for array in arrays], np.uintp)
        call = starting_threads(self._function) if self._threads else self._function
        tables = (io, memory.arena, self._weights, self._kernels, memory.scratch)
        last = null() if times is None else pointer_to(times)
        return partial(_called, call, (*map(pointer_to, tables), last), (arrays, self.weights))

    def _run(self, arrays: list[np.ndarray]) -> int:
        try:
            memory = self._memories.pop()
        except IndexError:
            memory = self._new_memory()
        status = self._bound(arrays, memory)()
        self._memories.append(memory)
        return status

    def _timed(self, arrays: list[np.ndarray]) -> Iterator[np.ndarray]:
        """The nanoseconds of each kernel, call after call; the first call is not counted."""
        times = np.zeros(len(self.calls) + 1, np.int64)
        call = self._tried(self._prepared(arrays, times))
        while True:
            call()
            yield np.diff(times)

    def failure(self, status: int) -> ExecutionError:
        """The error for a status that is not 0: that of the kernel, with the value it computes."""
        number, inner = failed_call(status)
        call = self.calls[number]
        text = self._kernel_checks[call.kernel][inner - 1]
        where = f"{ir.print_name(self.name)}, at {ir.print_name(call.outputs[0])}"
        return ExecutionError(f"{where}: {text}", "out of bounds")


def _called(call: Callable[..., int], pointers: Sequence[Any], kept: object) -> int:
    """A call. The arrays and weights in `kept` stay alive as long as it can be made: the tables
    know their addresses only.
    """
    return call(*pointers)


class Memory:
    """The memory of one call at a time."""

    def __init__(self, arena: int, scratch: int) -> None:
        bytes_ = np.dtype(np.uint8)
        self.arena = OUTPUTS.fresh((max(arena, 1),), bytes_)
        self.scratch = OUTPUTS.fresh((max(scratch, 1),), bytes_)
