"""Texts of code generation in the emulator: those as they are, and each with one bug planted."""

import numpy as np
import pytest

from minitensor.codegen import Target, generate
from minitensor.ir import interpret
from minitensor.runtime import ORDERS, find_toolchain, load_emulated, native_target
from tests.run.cuda.mutants import mutants, renamed
from tests.run.cuda.schedules import SCHEDULES

UNNEEDED = [("rows_of_several_warps", "no barrier", "__syncthreads();")]
"""The barrier behind a reduction keeps the next one from its shared memory; here is no next one."""


def arrays_of(program):
    rng = np.random.default_rng(0)
    return [rng.integers(1, 9, b.shape).astype(b.dtype) for b in program.inputs]


@pytest.fixture(scope="module")
def emitted():
    target = native_target(Target("cuda-emulator"))
    return {name: generate(make().program, target) for name, make in SCHEDULES.items()}


@pytest.fixture(scope="module")
def planted(emitted):
    return {
        f"m{number}_{name}": (name, mutant)
        for name, one in emitted.items()
        for number, mutant in enumerate(mutants(one))
    }


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_values_are_those_of_the_interpreter_and_nothing_is_wrong(emitted, loaded, name):
    (kernel,) = load_emulated([emitted[name]], find_toolchain(), check=True)
    program = SCHEDULES[name]().program
    arrays = arrays_of(program)
    (expected,), _ = interpret(program, arrays)
    np.testing.assert_array_equal(kernel(*arrays), expected)
    assert kernel.faults(*arrays) == []


@pytest.mark.slow
def test_each_bug_is_found(emitted, planted, loaded):
    """By a fault; threads may swap their elements in good order, and then values differ."""
    texts = renamed({label: mutant.emitted for label, (_, mutant) in planted.items()})
    kernels = load_emulated(list(texts.values()), find_toolchain(), check=True, time_limit=60)
    missed, found = [], {}
    for label, kernel in zip(texts, kernels):
        name, mutant = planted[label]
        program = SCHEDULES[name]().program
        arrays = arrays_of(program)
        outputs = [np.zeros(b.shape, b.dtype) for b in program.outputs]
        faults = kernel.faults(*arrays, orders=ORDERS[:1])
        if not faults and mutant.bug == "swapped":
            (expected,), _ = interpret(program, arrays)
            faults = [] if np.array_equal(kernel(*arrays, *outputs), expected) else ["values"]
        if faults:
            found[mutant.bug] = found.get(mutant.bug, 0) + 1
        else:
            missed.append((name, mutant.bug, mutant.line))
    assert missed == UNNEEDED
    assert min(found[bug] for bug in ("no barrier", "no guard", "merged", "swapped")) >= 5
