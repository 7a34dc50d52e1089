"""Models: networks as one function in machine code, with arrays in and out.

model = mt.build(graph)
y = model(x);  model.time(x).median;  print(model.profile(x));  print(model.memory)

A call copies nothing: kernels read the caller's inputs and write into its outputs; what lies
between is in one arena (`memory`). Not here: which schedules are taken (`Schedules`, from above).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import numpy as np

from minitensor import ir
from minitensor.codegen import Target
from minitensor.garbage import collected_seldom
from minitensor.graph.assemble import Assembly, Schedules, Task, assembled
from minitensor.graph.checked import run_checked
from minitensor.graph.driver import ENTRY, POINTERS, driver_text
from minitensor.graph.memory import Plan
from minitensor.graph.nodes import Nodes, Value
from minitensor.graph.profile import Profile, profile_of
from minitensor.graph.running import Memory, RunningModel
from minitensor.graph.saved import export, save
from minitensor.looks import Text
from minitensor.runtime import Toolchain, compile_library, find_toolchain, load_function

REPEATS = 10
"""The calls of which a profile takes the median."""


class Model(RunningModel):
    """A network that can be called with arrays, by position or by name.

    graph    what it was built from, with its groups
    tasks    the distinct kernels, each with its schedule and where that is from
    memory   the plan of the arena: memory.arena and memory.lower_bound are bytes
    source   the function in C that calls the kernels; model.tasks[0].kernel.source is one of these
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
        emitted = [task.kernel.emitted for task in parts.tasks]
        super().__init__(
            graph.name,
            [_buffer(value) for value in graph.inputs],
            [_buffer(graph.values[name]) for name in graph.outputs],
            target,
            source,
            compiled.command,
            load_function(compiled.path, ENTRY, POINTERS),
            parts.calls,
            parts.weights,
            (parts.plan.arena, max((e.workspace for e in emitted), default=0)),
            [task.kernel.address for task in parts.tasks],
            [e.checks for e in emitted],
        )
        self.graph: Nodes = graph
        self.tasks: tuple[Task, ...] = parts.tasks
        self.memory: Plan = parts.plan
        self.flush_denormals = flush
        self._parts, self._checked = parts, check

    @property
    def kernels(self) -> tuple[tuple[str, ...], ...]:
        """The nodes behind each kernel that is called, in order."""
        groups = {group[-1]: group for group in self.graph.kernels}
        return tuple(groups[step.name] for step in self._parts.steps)

    def profile(self, /, *arrays: object, repeat: int = REPEATS, **named: object) -> Profile:
        """The time of each kernel, in the order of a call, each the median of `repeat` calls.

        Raises as a call does.
        """
        given, _ = self._signature.accept(self._by_position(arrays, named))
        return profile_of(self.graph, self.calls, self.tasks, partial(self._timed, given), repeat)

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

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it to a new folder, with the library of this machine: see `mt.graph.load`.

        Raises ArgumentError where there is one already, or it cannot be written.
        """
        save(self, folder)

    def export(self, folder: str | os.PathLike[str]) -> None:
        """Write it to a new folder as C, with a header, its weights and a Makefile: it builds with
        any C compiler that has GNU vectors (gcc, clang), and runs without Python.

        Raises as `save`.
        """
        export(self, folder)

    def _bound(
        self, arrays: list[np.ndarray], memory: Memory, times: np.ndarray | None = None
    ) -> Callable[[], int]:
        if self._checked:
            return partial(run_checked, self._parts, arrays)
        return super()._bound(arrays, memory, times)


def _buffer(value: Value) -> ir.Buffer:
    return ir.Buffer(value.name, value.shape, value.dtype)


@collected_seldom()
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
