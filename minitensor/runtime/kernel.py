"""Kernels: built programs that can be called with arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.codegen import (
    PASSES,
    Emitted,
    Passes,
    Remark,
    Target,
    gpu_remarks,
    split_constants,
)
from minitensor.errors import ArgumentError, ExecutionError
from minitensor.looks import Shown, Text
from minitensor.phrasebook import unknown_name
from minitensor.runtime.arguments import Signature
from minitensor.runtime.cache import compile_assembly
from minitensor.runtime.explain import Explanation, explained
from minitensor.runtime.memory import OUTPUTS
from minitensor.runtime.module import (
    Pointer,
    address_of_function,
    aligned_empty,
    pointer_to,
    pointers_to,
    starting_threads,
)
from minitensor.runtime.timing import Lap, Timing, check_repeats, lap_of, measure_laps
from minitensor.runtime.toolchain import Toolchain

Build: TypeAlias = "Callable[[ir.Program], Kernel]"
"""Builds a program for the target of a kernel."""


class Kernel(Shown, ABC):
    """A built program.

    name     the function's name
    params   its parameters in call order
    target   what it was built for, with nothing left open
    source   the text it was built from
    command  the words of the command that compiled it, from a file kernel.c that holds `source`
             (none for the interpreter)
    """

    def __init__(
        self,
        name: str,
        params: Sequence[ir.Buffer],
        outputs: Collection[str],
        target: Target,
        source: str,
        command: Sequence[str] = (),
        checks: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.params = tuple(params)
        self.target = target
        self.source = Text(source)
        self.command = list(command)
        self._checks = tuple(checks)
        self._signature = Signature(name, params, outputs)
        self._origin: tuple[ir.Program, Build] | None = None
        self._passes: Passes = PASSES

    if not TYPE_CHECKING:  # a checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_name("kernel", name, "a Kernel", dir(type(self)))

    def __call__(self, /, *arrays: object, **named: object) -> Any:
        """Run on one array for each input, in call order, and return new outputs.

        Given one array for each parameter, outputs among them, it writes into those and returns
        them. One output is returned as itself, several as a tuple.
        Raises ArgumentError if an array does not fit (nothing has run then), and ExecutionError if
        a check made while running fails (the outputs given are then incomplete).
        """
        accepted, results = self._signature.accept(arrays, named)
        status = self._run(accepted)
        if status != 0:
            raise self.failure(status)
        return results[0] if len(results) == 1 else results

    def built_from(self, program: ir.Program, build: Build, passes: Passes = PASSES) -> Kernel:
        """Keep the program and the passes that it was built from, and for `bind` the way to build.

        Returns the kernel.
        """
        self._origin = program, build
        self._passes = passes
        return self

    def bind(self, /, **constants: object) -> Kernel:
        """A kernel with some inputs given once and for all, by name: it takes the others.

        What depends on them alone (copies of them in another layout, say: see `cache_read` and
        `transform_layout`) is computed now, and never again. Inputs that calls still read are
        copied, so that changing the arrays later changes nothing.
        Raises ArgumentError for a name that is no input, or an array that does not fit.
        """
        slots = {slot.buffer.name: slot for slot in self._signature.slots}
        inputs = [ir.print_name(n) for n, slot in slots.items() if not slot.is_output]
        for name in constants:
            if name not in slots or slots[name].is_output:
                kind = "an output" if name in slots else "no parameter"
                raise ArgumentError(
                    f"{ir.print_name(self.name)}: expected names of inputs ({', '.join(inputs)}), "
                    f"but got {ir.print_name(name)}, which is {kind}"
                )
        given = {name: slots[name].accept(array) for name, array in constants.items()}
        return self._bind(given, [n for n in slots if n not in given])

    def _bind(self, given: Mapping[str, np.ndarray], params: Sequence[str]) -> Kernel:
        """A kernel with these inputs given, that takes the parameters named."""
        if self._origin is None:
            raise ArgumentError(
                f"{ir.print_name(self.name)}: only a kernel of mt.build can be bound"
            )
        program, build = self._origin
        return _bound(program, program, build, given, params)

    def time(
        self,
        *arrays: object,
        number: int | None = None,
        repeat: int = 5,
        min_repeat_ms: float = 20.0,
    ) -> Timing:
        """Seconds per call, without the checks of its arguments: the median of `repeat` repeats.

        A repeat is `number` calls; None for as many as last `min_repeat_ms` milliseconds. One call
        before the first repeat is not counted. The outputs may be left out.
        Raises as a call does.
        """
        check_repeats(number, repeat, min_repeat_ms)
        lap = self._lap(self._signature.accept(arrays)[0])
        return measure_laps(lap, number, repeat, min_repeat_ms)

    def prepare(self, /, *arrays: object, **named: object) -> Callable[[], object]:
        """A call on these arrays with everything done that can be done before, run once already.

        For many calls on the same arrays: the rest costs well under a microsecond. Takes what a
        call takes; the results are in the outputs that were given. Raises as a call does; the
        function that it returns does not check the status.
        """
        return self._tried(self._prepared(self._signature.accept(arrays, named)[0]))

    def _tried(self, call: Callable[[], int]) -> Callable[[], int]:
        """The call, made once. Raises ExecutionError for its status."""
        status = call()
        if status != 0:
            raise self.failure(status)
        return call

    @abstractmethod
    def assembly(self) -> str:
        """The machine code as text."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Missed optimizations, with reasons: scalar tails, accesses that go lane by lane, results
        that are not kept in registers, vector registers that spill.

        The first use generates the code once more and runs the compiler.
        """
        return ()

    def explain(self) -> str:
        """The outcome of the schedule, as text: loops, buffers, registers, spills, remarks."""
        name = ir.print_name(self.name)
        return Text(f"{name} runs in the interpreter, as it is:\n\n{self.source}")

    def _gpu_remarks(self) -> list[str]:
        """The optimizations that were missed in a kernel for a GPU, a line each."""
        if self._origin is None:
            return []
        found = gpu_remarks(self._origin[0], self.target, self._passes)
        return [f"    {remark.kind}: {remark}" for remark in found]

    @abstractmethod
    def _run(self, arrays: list[np.ndarray]) -> int:
        """Run on arrays for all parameters, and return a status as `Emitted` describes it."""

    @abstractmethod
    def _prepared(self, arrays: list[np.ndarray]) -> Callable[[], int]:
        """`_run` on these arrays, with all done that can be done before."""

    def _lap(self, arrays: list[Any]) -> Lap:
        """A function that times calls on these arrays; one has been made."""
        return lap_of(self._tried(self._prepared(arrays)))

    def _constant(self, array: np.ndarray) -> Any:
        """A copy of a constant, as `_run` takes it best; it never changes."""
        return _own_copy(array)

    def failure(self, status: int) -> ExecutionError:
        """The error for a status that is not 0."""
        return ExecutionError(
            f"{ir.print_name(self.name)}: {self._checks[status - 1]}", "out of bounds"
        )

    def __str__(self) -> str:
        params = ", ".join(
            f"{ir.print_name(b.name)}: {b.dtype}[{', '.join(map(str, b.shape))}]"
            for b in self.params
        )
        return (
            f"<{type(self).__name__} {ir.print_name(self.name)}({params}) for {self.target.kind!r}>"
        )


class NativeKernel(Kernel):
    """A kernel in machine code. Several threads of Python may call it at the same time.

    emitted  the text it was compiled from, and what is known of it
    """

    def __init__(
        self,
        emitted: Emitted,
        function: Callable[..., int],
        command: Sequence[str],
        toolchain: Toolchain,
    ) -> None:
        super().__init__(
            emitted.name or emitted.entry,
            emitted.params,
            emitted.outputs,
            emitted.target,
            emitted.source,
            command,
            emitted.checks,
        )
        self.emitted = emitted
        self._function = function
        self._toolchain = toolchain
        self._workspace_bytes = emitted.workspace
        self._is_parallel = emitted.parallel
        # one for each call that has ever run at the same time; pop and append are atomic
        self._workspaces: list[Pointer] = []

    @property
    def address(self) -> int:
        """The address of its function, for another function in C that calls it."""
        return address_of_function(self._function)

    def assembly(self) -> str:
        """The machine code as text, made anew by the compiler with the flags of the kernel.

        Raises CompileError if the compiler fails.
        """
        return compile_assembly(self.source, self._toolchain)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """See `Kernel.remarks`. Raises ArgumentError for a kernel that mt.build did not make."""
        return self.explanation.remarks

    def explain(self) -> str:
        """The outcome of the schedule, as text: loops, buffers, registers, spills, remarks.

        Raises ArgumentError for a kernel that mt.build did not make.
        """
        return Text(self.explanation)

    @cached_property
    def explanation(self) -> Explanation:
        """The outcome of the schedule, as data."""
        if self._origin is None:
            raise ArgumentError(
                f"{ir.print_name(self.name)}: only a kernel of mt.build can be explained"
            )
        return explained(self._origin[0], self.target, self._toolchain, self._passes)

    def _run(self, arrays: list[np.ndarray]) -> int:
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = self._new_workspace()
        status = self._safe_function()(*self._pointers(arrays), workspace)
        self._workspaces.append(workspace)
        return status

    def run_in(self, workspace: np.ndarray, arrays: Sequence[np.ndarray]) -> int:
        """Run on one array for each parameter, with scratch memory of the caller's.

        Nothing is checked: for observing where a kernel reads and writes. Returns its status
        (see `Emitted`); `workspace` has at least `emitted.workspace` bytes.
        """
        return self._safe_function()(*pointers_to((*arrays, workspace)))

    def _prepared(self, arrays: list[np.ndarray]) -> Callable[[], int]:
        return partial(self._safe_function(), *self._pointers(arrays), self._new_workspace())

    def _safe_function(self) -> Callable[..., int]:
        return starting_threads(self._function) if self._is_parallel else self._function

    def _pointers(self, arrays: list[np.ndarray]) -> list[Pointer]:
        pointers = pointers_to(arrays)
        for n in self._signature.empty:
            pointers[n] = _nowhere()
        return pointers

    def _new_workspace(self) -> Pointer:
        try:
            return pointer_to(OUTPUTS.fresh((self._workspace_bytes,), np.dtype(np.uint8)))
        except (MemoryError, ValueError):
            raise ExecutionError(
                f"{ir.print_name(self.name)}: no memory for its temporaries, which need "
                f"{self._workspace_bytes:,} bytes; compute_at or compute_inline makes them smaller",
                "memory",
            ) from None


@cache
def _nowhere() -> Pointer:
    """The address of an array without elements, whose own may be anything."""
    scratch = aligned_empty((64,), np.dtype(np.uint8))
    scratch[...] = 0
    return pointer_to(scratch)


def _bound(
    program: ir.Program,
    rest: ir.Program,
    build: Build,
    given: Mapping[str, np.ndarray],
    params: Sequence[str],
) -> Kernel:
    """A kernel of a program with constants: what depends on them alone is computed here.

    rest  what is left of the program after earlier bindings
    """
    early, late, kept = split_constants(rest, given)
    held = dict(given)
    if early is not None and kept:
        results = build(early)(*[given[b.name] for b in early.inputs])
        found = results if isinstance(results, tuple) else (results,)
        held |= {b.name: array for b, array in zip(kept, found)}
    return BoundKernel(program, late, build, held, params)


class BoundKernel(Kernel):
    """A kernel with some inputs given; see `Kernel.bind`.

    constants  the arrays it holds, by name: bound inputs that a call reads, and what was computed
               from those and others
    """

    def __init__(
        self,
        program: ir.Program,
        late: ir.Program,
        build: Build,
        held: Mapping[str, np.ndarray],
        params: Sequence[str],
    ) -> None:
        kernel = build(late)
        buffers = {b.name: b for b in program.params}
        outputs = [b.name for b in late.outputs]
        mine = [buffers[name] for name in params]
        super().__init__(program.name, mine, outputs, kernel.target, kernel.source, kernel.command)
        self._signature = kernel._signature.of(program.name, mine, outputs)
        self._kernel = kernel
        self._program, self._late, self._build = program, late, build
        places = {name: n for n, name in enumerate(params)}
        self._places = [places.get(b.name) for b in late.params]
        self.constants = {
            b.name: kernel._constant(held[b.name]) for b in late.params if b.name not in places
        }
        self._fixed = [self.constants.get(b.name) for b in late.params]

    def _bind(self, given: Mapping[str, np.ndarray], params: Sequence[str]) -> Kernel:
        held = {**self.constants, **given}
        return _bound(self._program, self._late, self._build, held, params)

    def assembly(self) -> str:
        """The machine code of a call as text."""
        return self._kernel.assembly()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Those of a call; see `Kernel.remarks`."""
        return self._kernel.remarks

    def explain(self) -> str:
        """The outcome of the schedule, without what was computed when the inputs were bound."""
        return self._kernel.explain()

    def _run(self, arrays: list[np.ndarray]) -> int:
        return self._kernel._run(self._all(arrays))

    def _prepared(self, arrays: list[np.ndarray]) -> Callable[[], int]:
        return self._kernel._prepared(self._all(arrays))

    def _lap(self, arrays: list[Any]) -> Lap:
        return self._kernel._lap(self._all(arrays))

    def failure(self, status: int) -> ExecutionError:
        """The error for a status that is not 0."""
        return self._kernel.failure(status)

    def _all(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The arrays of all parameters of the kernel inside."""
        return [
            fixed if fixed is not None else arrays[place]  # type: ignore[index]
            for fixed, place in zip(self._fixed, self._places)
        ]


def _own_copy(array: np.ndarray) -> np.ndarray:
    """A copy that is aligned to 64 bytes and never changes."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    copy.flags.writeable = False
    return copy
