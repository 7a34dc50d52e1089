"""Models: networks as one function in machine code, with arrays in and out.

model = mt.build(graph)
y = model(x);  model.time(x).median;  print(model.profile(x));  print(model.memory)

A call copies nothing: kernels read the caller's inputs and write into its outputs; what lies
between is in one arena (`memory`). Not here: which schedules are taken (`Schedules`, from above).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.codegen import Target
from minitensor.errors import ArgumentError, ExecutionError
from minitensor.graph.assemble import Assembly, Schedules, Task, assembled
from minitensor.graph.checked import run_checked
from minitensor.graph.driver import ENTRY, POINTERS, Call, driver_text, failed_call
from minitensor.graph.memory import Plan
from minitensor.graph.nodes import Nodes
from minitensor.graph.profile import Profile, profile_of
from minitensor.looks import Text
from minitensor.runtime import (
    OUTPUTS,
    Kernel,
    Toolchain,
    address_of,
    compile_library,
    find_toolchain,
    load_function,
    null,
    pointer_to,
    starting_threads,
)

REPEATS = 10
"""The calls of which a profile takes the median."""


class Model(Kernel):
    """A network that can be called with arrays, by position or by name.

    graph    what it was built from, with its groups
    tasks    the distinct kernels, each with its schedule and where that is from
    calls    the calls of kernels, in order
    memory   the plan of the arena: memory.arena and memory.lower_bound are bytes
    source   the function in C that calls the kernels; model.tasks[0].kernel.source is one of these

    Several threads of Python may call it at the same time: each call has an arena of its own.
    """

    def __init__(
        self, parts: Assembly, target: Target, toolchain: Toolchain, flush: bool, check: bool
    ) -> None:
        graph = parts.graph
        about = (
            f"{ir.print_name(graph.name)}: {len(parts.calls)} calls of {len(parts.tasks)} kernels, "
            f"an arena of {parts.plan.arena:,} bytes"
        )
        source = driver_text(parts.calls, about, flush)
        compiled = compile_library(source, toolchain)
        results = [graph.values[name] for name in graph.outputs]
        params = [
            ir.Buffer(value.name, value.shape, value.dtype) for value in (*graph.inputs, *results)
        ]
        super().__init__(graph.name, params, graph.outputs, target, source, compiled.command)
        self.graph: Nodes = graph
        self.tasks: tuple[Task, ...] = parts.tasks
        self.calls: tuple[Call, ...] = parts.calls
        self.memory: Plan = parts.plan
        self._parts = parts
        self._checked, self._flush = check, flush
        function = load_function(compiled.path, ENTRY, POINTERS)
        self._function = function
        self._threads = any(task.kernel.emitted.parallel for task in parts.tasks)
        self._weights = np.array([address_of(array) for array in parts.weights], np.uintp)
        kernels = [task.kernel.address for task in parts.tasks]
        self._kernels = np.array(kernels, np.uintp)
        self._scratch_bytes = max((t.kernel.emitted.workspace for t in parts.tasks), default=0)
        # one for each call that has ever run at the same time; pop and append are atomic
        self._memories: list[_Memory] = []

    @property
    def kernels(self) -> tuple[tuple[str, ...], ...]:
        """The nodes behind each kernel that is called, in order."""
        groups = {group[-1]: group for group in self.graph.kernels}
        return tuple(groups[step.name] for step in self._parts.steps)

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

    def profile(self, /, *arrays: object, repeat: int = REPEATS, **named: object) -> Profile:
        """The time of each kernel, in the order of a call, each the median of `repeat` calls.

        Raises as a call does.
        """
        given, _ = self._signature.accept(self._by_position(arrays, named))
        return profile_of(self.calls, self.tasks, partial(self._timed, given), repeat)

    def explain(self) -> str:
        """The kernels with their schedules' origins, and the memory, as text."""
        lines = [f"{ir.print_name(self.name)}: {len(self.calls)} calls"]
        for task in self.tasks:
            name = ir.print_name(task.name)
            lines.append(f"    {task.count:3} x {name}, scheduled by {task.origin}")
        return Text("\n".join([*lines, str(self.memory)]))

    def assembly(self) -> str:
        """The machine code of the kernels as text, one behind the other."""
        return "\n".join(task.kernel.assembly() for task in self.tasks)

    # ---- running

    def _by_position(
        self, arrays: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[object, ...]:
        """The arrays in the order of the inputs. Raises ArgumentError for another name."""
        if not named:
            return arrays
        names = [value.name for value in self.graph.inputs]
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

    def _memory(self) -> _Memory:
        try:
            return _Memory(self.memory.arena, self._scratch_bytes)
        except (MemoryError, ValueError):
            raise ExecutionError(
                f"{ir.print_name(self.name)}: no memory for its arena, which needs "
                f"{self.memory.arena + self._scratch_bytes:,} bytes",
                "memory",
            ) from None

    def _prepared(
        self, arrays: list[np.ndarray], times: np.ndarray | None = None
    ) -> Callable[[], int]:
        return self._bound(arrays, self._memory(), times)

    def _bound(
        self, arrays: list[np.ndarray], memory: _Memory, times: np.ndarray | None = None
    ) -> Callable[[], int]:
        if self._checked:
            return partial(run_checked, self._parts, arrays)
        io = np.array([address_of(array) for array in arrays], np.uintp)
        call = starting_threads(self._function) if self._threads else self._function
        tables = (io, memory.arena, self._weights, self._kernels, memory.scratch)
        last = null() if times is None else pointer_to(times)
        return partial(_called, call, (*map(pointer_to, tables), last), arrays)

    def _run(self, arrays: list[np.ndarray]) -> int:
        try:
            memory = self._memories.pop()
        except IndexError:
            memory = self._memory()
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
        failure = self.tasks[call.kernel].kernel.failure(inner)
        failure.message = (
            f"{ir.print_name(self.name)}, at {ir.print_name(call.outputs[0])}: {failure.message}"
        )
        return failure


def _called(call: Callable[..., int], pointers: Sequence[Any], arrays: Sequence[np.ndarray]) -> int:
    """A call; the arrays stay alive as long as it can be made: the table knows their addresses
    only.
    """
    return call(*pointers)


class _Memory:
    """The memory of one call at a time."""

    def __init__(self, arena: int, scratch: int) -> None:
        bytes_ = np.dtype(np.uint8)
        self.arena = OUTPUTS.fresh((max(arena, 1),), bytes_)
        self.scratch = OUTPUTS.fresh((max(scratch, 1),), bytes_)


def build_model(
    graph: Nodes,
    target: Target,
    schedules: Schedules,
    *,
    check: bool = False,
    flush_denormals: bool = False,
) -> Model:
    """A model of a graph with groups; see `minitensor.build`.

    target  with nothing left open, of kind "c"
    """
    toolchain = find_toolchain()
    return Model(assembled(graph, target, schedules), target, toolchain, flush_denormals, check)
