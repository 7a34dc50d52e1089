"""Counts that are computed from a program are those of the emulator, which runs its text."""

import numpy as np
import pytest

from minitensor import gpu
from minitensor.codegen import Target, generate_together, lowered
from minitensor.errors import CompileError
from minitensor.runtime import find_toolchain, load_emulated
from tests.run.gpu.kernels import KERNELS, UNEVEN

TARGET = Target("cuda-emulator", num_cores=1, vector_bits=0)
EVERY = KERNELS | UNEVEN


@pytest.fixture(scope="module")
def schedules():
    return {name: make() for name, make in EVERY.items()}


@pytest.fixture(scope="module")
def kernels(schedules):
    emitted = generate_together([(s.program, TARGET) for s in schedules.values()])
    try:
        made = load_emulated(emitted, find_toolchain(), check=True)
    except CompileError as failure:
        if "compiles no C++" in failure.message:
            pytest.skip(failure.message)
        raise
    return dict(zip(schedules, made))


def computed(program):
    """By array, direction and size: requests, lanes, sectors and cycles of the banks. Temporaries
    in device memory are all in the workspace.
    """
    found = {}
    own = {buffer.name for buffer in program.params}
    for kernel in gpu.kernels_of(program):
        own |= {buffer.name for buffer in kernel.parts.shared}
        for site in kernel.sites():
            if site.buffer is None or site.buffer in kernel.private:
                continue
            one = gpu.traffic_of(kernel, site, as_written=True, most=1 << 22)
            assert one.exact
            name = one.buffer if one.buffer in own else "workspace"
            counts = np.array([one.requests, one.wanted / one.size, one.sectors, one.cycles])
            key = (name, site.writes, one.size)
            found[key] = found.get(key, np.zeros(4)) + counts * kernel.launches
    return {key: counts.tolist() for key, counts in found.items() if counts.any()}


def executed(kernel, program):
    """The same, from the emulator; without what a reduction across threads hands over."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, b.shape).astype(str(b.dtype)) for b in program.inputs]
    found = {}
    for one in kernel.counters(*arrays):
        if not one.buffer.endswith("_parts"):
            key = (one.buffer, one.kind == "write", one.bytes)
            counts = (one.requests, one.lanes, one.sectors, one.passes)
            found[key] = found.get(key, np.zeros(4)) + counts
    return {key: counts.tolist() for key, counts in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_counts_are_those_of_the_emulator(name, schedules, kernels):
    program = schedules[name].program
    counts = executed(kernels[name], program)
    assert counts and computed(lowered(program, TARGET)) == counts


@pytest.mark.parametrize("name", UNEVEN)
def test_lanes_that_skip_iterations(name, schedules, kernels):
    """The emulator takes the n-th access of each lane for one request; a GPU, and the counts that
    are computed, the accesses of an iteration. Lanes are the same, and the rest is near.
    """
    program = schedules[name].program
    found, counts = computed(lowered(program, TARGET)), executed(kernels[name], program)
    assert found.keys() == counts.keys()
    for key, values in found.items():
        assert values[1] == counts[key][1]
        assert values == pytest.approx(counts[key], rel=0.3)
