"""The oracle: two programs that must give the same outputs, everywhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minitensor.codegen import Target, generate, passes
from minitensor.errors import unexpected
from minitensor.ir import Program, interpret, numpy_dtype, verify
from minitensor.runtime import find_toolchain, load, native_target
from minitensor.schedule import Schedule

LARGEST_VALUE = 4


@st.composite
def arrays_for(draw: DrawFn, program: Program) -> list[np.ndarray]:
    """One array for each input of a program, of small integers; shrinks to a simple seed."""
    return small_arrays(program, draw(st.integers(0, 2**16 - 1)))


def small_arrays(program: Program, seed: int) -> list[np.ndarray]:
    """One array for each input, of integers in [-4, 4] (unsigned: [0, 4])."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in program.inputs:
        low = 0 if buffer.dtype.kind in ("uint", "bool") else -LARGEST_VALUE
        high = 1 if buffer.dtype.kind == "bool" else LARGEST_VALUE
        values = rng.integers(low, high + 1, buffer.shape)
        arrays.append(values.astype(numpy_dtype(buffer.dtype)))
    return arrays


def assert_equivalent(
    program: Program,
    scheduled: Schedule | Program,
    targets: Sequence[str | Target] = ("interpreter", "c"),
    arrays: Sequence[np.ndarray] | None = None,
    without: Collection[str] = (),
) -> None:
    """Assert that two programs give equal outputs, bit for bit (any NaN equals any other).

    program    the definition; it is run in the interpreter, with every check on
    scheduled  what must do the same
    targets    where to run it: "interpreter"; "c" with one thread and with two; "passes" for the
               interpreter after each pass of code generation; or an mt.Target
    arrays     one for each input; random small integers if None
    without    passes of code generation to leave out, by name (see `codegen.passes`)

    Raises AssertionError that names the target, the output and the first element that differs, or
    what the interpreter raises for an access out of bounds, an uninitialised read or a race.
    """
    after = scheduled.program if isinstance(scheduled, Schedule) else scheduled
    inputs = small_arrays(program, 0) if arrays is None else list(arrays)
    expected, _ = interpret(program, inputs)
    names = [buffer.name for buffer in program.outputs]
    verify(after)
    for target in targets:
        match target:
            case "interpreter" | Target(kind="interpreter"):
                got, _ = interpret(after, inputs, names)
                _compare(names, expected, got, "in the interpreter", after)
            case "passes":
                _check_passes(after, inputs, names, expected, without)
            case "c":
                for cores in (1, 2):
                    exact = Target("c", num_cores=cores)
                    _check_native(after, exact, inputs, names, expected, without)
            case Target():
                _check_native(after, target, inputs, names, expected, without)
            case _:
                raise unexpected('"interpreter", "passes", "c" or an mt.Target', "target", target)


def _check_native(
    program: Program,
    target: Target,
    inputs: Sequence[np.ndarray],
    names: Sequence[str],
    expected: Sequence[np.ndarray],
    without: Collection[str],
) -> None:
    emitted = generate(program, native_target(target), without=without)
    result = load(emitted, find_toolchain())(*inputs)
    got = result if isinstance(result, tuple) else (result,)
    left_out = f" without {', '.join(without)}" if without else ""
    _compare(names, expected, got, f"in C ({target}){left_out}", program)


def _check_passes(
    program: Program,
    inputs: Sequence[np.ndarray],
    names: Sequence[str],
    expected: Sequence[np.ndarray],
    without: Collection[str],
) -> None:
    target = native_target(Target("c"))
    for bits in (0, 128, target.vector_bits or 512):
        current = program
        exact = Target("c", num_cores=1, vector_bits=bits)
        for name, run in passes(without):
            current = run(current, exact)
            verify(current)
            got, _ = interpret(current, inputs, names)
            _compare(names, expected, got, f"after the pass {name}, {bits} bits", current)


def _compare(
    names: Sequence[str],
    expected: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    where: str,
    program: Program,
) -> None:
    for name, a, b in zip(names, expected, got):
        assert a.dtype == b.dtype, f"{name} has dtype {b.dtype}, not {a.dtype}, {where}"
        assert a.shape == b.shape, f"{name} has shape {b.shape}, not {a.shape}, {where}"
        if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            wrong = tuple(np.argwhere(a != b)[0]) if a.shape else ()
            index = ", ".join(map(str, wrong))
            raise AssertionError(
                f"{name}[{index}] is {b[wrong]}, not {a[wrong]}, {where}:\n{program}"
            )
