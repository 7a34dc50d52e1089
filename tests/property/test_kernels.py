"""Random schedules for a GPU give kernels that compute the same, with no race and no barrier less.

The interpreter runs the program that the passes give. It finds threads that touch one element,
elements that nothing wrote, and barriers that not all threads reach.
"""

from collections import Counter

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from minitensor.codegen import Target
from minitensor.codegen.gpu.kernels import kernel_of, kernels_in
from minitensor.codegen.pipeline import CUDA_PASSES
from minitensor.errors import LoweringError
from minitensor.ir import Barrier, For, ThreadReduce, interpret, stmts_of, verify
from minitensor.testing import arrays_for, kernel_schedules, programs, schedules
from minitensor.testing.draws import drawn
from tests.parts import times

TARGET = Target("cuda", num_cores=1, vector_bits=0)
RELAXED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
REFUSED = (
    "which a kernel has not",
    "are a chain at its top",
    "is in shared memory, which lives in one block",
    "threads a block, the most that its nests have along each index",
)


def mapped(program, arrays):
    """The program after all passes, held against the one before; None if no kernel can do it."""
    names = [b.name for b in program.outputs]
    expected, _ = interpret(program, arrays)
    for name, step in CUDA_PASSES:
        try:
            program = step(program, TARGET)
        except LoweringError as error:
            assert any(text in error.message for text in REFUSED), error.message
            return None
        verify(program)
        if name == "map_threads" or (name, step) == CUDA_PASSES[-1]:
            for a, b in zip(expected, interpret(program, arrays, names)[0]):
                assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (name, str(program))
    return program


def about(program):
    """Words for what the kernels of a program have."""
    if program is None:
        return ["no kernel"]
    found = list(stmts_of(program.body))
    kernels = [kernel_of(stmt) for stmt in kernels_in(program.body)]
    words = {
        "threads": any(k.threads for k in kernels),
        "threads along two indices": any(len(k.threads) > 1 for k in kernels),
        "blocks": any(k.blocks for k in kernels),
        "shared memory": any(k.shared for k in kernels),
        "barrier": any(isinstance(x, Barrier) for x in found),
        "barrier in a loop": any(
            isinstance(y, Barrier)
            for x in found
            if isinstance(x, For) and not x.kind.is_bound
            for y in stmts_of(x)
        ),
        "threads combine": any(isinstance(x, ThreadReduce) for x in found),
    }  # fmt: skip
    return [word for word, holds in words.items() if holds]


@given(st.data())
@settings(RELAXED, max_examples=times(40, 400))
def test_kernels_compute_the_same(data):
    program = data.draw(programs(max_stages=3, max_steps=150))
    schedule = data.draw(kernel_schedules(program))
    result = mapped(schedule.program, data.draw(arrays_for(program)))
    for word in about(result):
        event(word)


@given(st.data())
@settings(RELAXED, max_examples=times(20, 200))
def test_schedules_without_a_plan_compute_the_same(data):
    program = data.draw(programs(max_stages=3, max_steps=150))
    schedule = data.draw(schedules(program))
    for word in about(mapped(schedule.program, data.draw(arrays_for(program)))):
        event(word)


@st.composite
def scheduled(draw):
    program = draw(programs(max_stages=3, max_steps=150))
    return draw(kernel_schedules(program)), draw(arrays_for(program))


def test_random_kernels_have_what_makes_kernels_hard():
    counts = Counter()
    tried = times(25, 200)
    for seed in range(tried):
        schedule, arrays = drawn(scheduled(), seed)
        counts.update(about(mapped(schedule.program, arrays)))
    fractions = {
        "threads": 0.7,
        "threads along two indices": 0.4,
        "blocks": 0.6,
        "shared memory": 0.5,
        "barrier": 0.5,
        "barrier in a loop": 0.3,
        "threads combine": 0.06,
    }
    for word, fraction in fractions.items():
        assert counts[word] >= tried * fraction, counts
