"""The oracle: two programs that must give the same outputs, everywhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from minitensor import ir
from minitensor.codegen import Target, generate, passes_without
from minitensor.errors import ArgumentError, ExecutionError, VerifyError, unexpected
from minitensor.runtime import (
    ORDERS,
    find_toolchain,
    load,
    load_emulated,
    native_target,
)
from minitensor.sanitize import run_guarded
from minitensor.schedule import Schedule
from minitensor.testing.reference import evaluate_by_numpy
from minitensor.testing.scripts import arrays_as_python, with_script

LARGEST_VALUE = 4


def small_arrays(program: ir.Program, seed: int) -> list[np.ndarray]:
    """One array for each input, of integers in [-4, 4] (unsigned: [0, 4])."""
    rng = np.random.default_rng(seed)
    return [small_values(rng, b.dtype, b.shape) for b in program.inputs]


def small_values(rng: np.random.Generator, dtype: ir.DType, shape: Sequence[int]) -> np.ndarray:
    """An array of integers in [-4, 4] (unsigned: [0, 4]; bool: [0, 1]), as a call takes it."""
    low = 0 if dtype.kind in ("uint", "bool") else -LARGEST_VALUE
    high = 1 if dtype.kind == "bool" else LARGEST_VALUE
    values = np.asarray(rng.integers(low, high + 1, tuple(shape)))
    return ir.pack(values, dtype)


def assert_equivalent(
    program: ir.Program,
    scheduled: Schedule | ir.Program,
    targets: Sequence[str | Target] = ("interpreter", "c"),
    arrays: Sequence[np.ndarray] | None = None,
    without: Collection[str] = (),
    then: Sequence[Any] = (),
) -> None:
    """Assert that two programs give equal outputs, bit for bit (any NaN equals any other).

    program    the definition; computed by numpy, or if it has been scheduled by the interpreter
    scheduled  what must do the same
    targets    where to run it: "interpreter"; "c" with one thread and with two; "cuda-emulator",
               checked, in each order of threads; "passes" for the interpreter after each pass of
               code generation, "cuda-passes" for those of a GPU; or an mt.Target
    arrays     one for each input; random small integers if None
    without    passes of code generation to leave out, by name
    then       a transformation of yours that comes after the schedule: a function from a program
               to a program, and its other arguments

    Compiled code runs between guard pages, in memory that holds NaN (`sanitize.run_guarded`).
    A schedule that no GPU runs is refused with a LoweringError, as `mt.build` does.

    Raises AssertionError that names the target, the output and the first element that differs, or
    what was found as it ran; or what the interpreter says of an access out of bounds, an
    uninitialised read or a race; with a script that shows it, if `scheduled` is a schedule of a
    definition. What the interpreter says of a program without a schedule is an ExecutionError.
    """
    inputs = small_arrays(program, 0) if arrays is None else list(arrays)
    after = scheduled.program if isinstance(scheduled, Schedule) else scheduled
    if then:
        transform, *given = then
        after = transform(after, *given)
    try:
        _Comparison(program, after, inputs, without).run(targets)
    except (AssertionError, ExecutionError, VerifyError) as failure:
        if not isinstance(scheduled, Schedule):
            raise
        if scheduled.history[0] != program:
            raise AssertionError(
                f"{failure}\nThe schedule is of another definition:\n{scheduled.history[0]}\n"
                f"The one that was given:\n{program}"
            ) from failure
        text = with_script(failure, program, scheduled, arrays_as_python(inputs), then=then)
        raise AssertionError(text) from failure


class _Comparison:
    """A program on some inputs, and what must come out of it by the definition.

    without  passes of code generation to leave out
    """

    def __init__(
        self,
        definition: ir.Program,
        program: ir.Program,
        inputs: Sequence[np.ndarray],
        without: Collection[str],
    ) -> None:
        self.outputs, self.expected = definition.outputs, expected_outputs(definition, inputs)
        self.program, self.inputs, self.without = program, inputs, without
        self.interpreted: set[ir.Program] = set()

    def run(self, targets: Sequence[str | Target]) -> None:
        """Run it everywhere; raises as `assert_equivalent`."""
        ir.verify(self.program)
        for target in targets:
            match target:
                case "interpreter" | Target(kind="interpreter"):
                    self.interpret(self.program, "in the interpreter")
                case "passes":
                    self.after_each_pass()
                case "cuda-passes":
                    self.after_passes_for(native_target(Target("cuda-emulator")))
                case "c":
                    for cores in (1, 2):
                        self.native(Target("c", num_cores=cores))
                case "cuda-emulator" | Target(kind="cuda-emulator"):
                    self.emulated(Target.of(target))
                case Target():
                    self.native(target)
                case _:
                    expected = (
                        '"interpreter", "c", "cuda-emulator", "passes", "cuda-passes" or an '
                        "mt.Target"
                    )
                    raise unexpected(expected, "target", target)

    def interpret(self, program: ir.Program, where: str) -> None:
        names = [buffer.name for buffer in self.outputs]
        got, _ = ir.interpret(program, self.inputs, names)
        compare(self.outputs, self.expected, got, where, program)

    def native(self, target: Target) -> None:
        passes = passes_without(self.without)
        emitted = generate(self.program, native_target(target), passes=passes)
        ran = run_guarded(load(emitted, find_toolchain()), self.inputs)
        where = f"in C ({target}){self.left_out}"
        if ran.status != 0:
            raise AssertionError(f"{emitted.checks[ran.status - 1]}, {where}:\n{self.program}")
        if ran.faults:
            raise AssertionError(f"{ran.faults[0]}, {where}:\n{self.program}")
        compare(self.outputs, self.expected, ran.outputs, where, self.program)

    @property
    def left_out(self) -> str:
        return f" without {', '.join(self.without)}" if self.without else ""

    def emulated(self, target: Target) -> None:
        exact, tools = native_target(target), find_toolchain()
        emitted = generate(self.program, exact, passes=passes_without(self.without, exact))
        for order in ORDERS:
            (kernel,) = load_emulated([emitted], tools, check=True, order=order)
            got = kernel(*self.inputs)
            where = f"in the emulator of CUDA, {order}{self.left_out}"
            compare(self.outputs, self.expected, listed(got), where, self.program)

    def after_each_pass(self) -> None:
        """Interpret what each pass makes of the program, for vectors of three widths."""
        for bits in (0, 128, native_target(Target("c")).vector_bits or 512):
            self.after_passes_for(Target("c", num_cores=1, vector_bits=bits))

    def after_passes_for(self, target: Target) -> None:
        """Interpret what each pass makes of the program; a program that comes again is known."""
        current = self.program
        for name, run in passes_without(self.without, target):
            current = run(current, target)
            if current not in self.interpreted:
                self.interpreted.add(current)
                ir.verify(current)
                self.interpret(current, f"after the pass {name} ({target})")


def expected_outputs(program: ir.Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a program by numpy, or by the interpreter if it is more than a definition."""
    try:
        return evaluate_by_numpy(program, arrays)
    except ArgumentError:
        return ir.interpret(program, arrays)[0]


def listed(results: object) -> Sequence[np.ndarray]:
    """The outputs that a call of a kernel returns: one array, or a tuple of them."""
    return results if isinstance(results, tuple) else (results,)


def compare(
    outputs: Sequence[ir.Buffer],
    expected: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    where: str,
    program: ir.Program,
) -> None:
    """Raise AssertionError for the first element that differs; `where` says where it was run."""
    for buffer, a, b in zip(outputs, expected, got):
        name = buffer.name
        if a.dtype != b.dtype:
            raise AssertionError(f"{name} has dtype {b.dtype}, not {a.dtype}, {where}")
        if a.shape != b.shape:
            raise AssertionError(f"{name} has shape {b.shape}, not {a.shape}, {where}")
        wanted, found = ir.unpack(a, buffer.dtype), ir.unpack(b, buffer.dtype)
        differs = (wanted != found) & ~((wanted != wanted) & (found != found))  # any NaN is any NaN
        if differs.any():
            wrong = tuple(np.argwhere(differs)[0])
            index = ", ".join(map(str, wrong))
            raise AssertionError(
                f"{name}[{index}] is {found[wrong]}, not {wanted[wrong]}, {where}:\n{program}"
            )
