"""The work of schedules and derivations grows with the number of blocks, not with its square.

Work is counted in calls of Python functions: the same in each run, on any machine.
"""

import random
import sys

import pytest

import minitensor as mt
from minitensor.runtime import USUAL_CACHES
from minitensor.search import generate_sketches
from minitensor.search.space import Space

TARGET = mt.Target("c", num_cores=2, vector_bits=256)
LINEAR = 2.4
"""The most that twice the blocks may cost: a step joins what is known of all nests."""
COPIED = 3.3
"""The same, where each stage is put into an expression that grows: its path is written anew."""


def calls_of(work):
    """The calls that some work makes."""
    count = 0

    def counted(frame, event, arg):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def stages(count):
    """A chain of elementwise stages."""
    A = stage = mt.placeholder((64,), name="A")
    for n in range(count):
        stage = mt.compute((64,), lambda i, read=stage: read[i] * 2.0 + 1.0, name=f"T{n}")
    return mt.lower([A, stage])


def products(count):
    """A chain of matrix products."""
    A = product = mt.placeholder((32, 32), name="A")
    inputs = [A]
    for n in range(count):
        inputs.append(mt.placeholder((32, 32), name=f"B{n}"))
        k = mt.reduce_axis(32, name="k")
        product = mt.compute(
            (32, 32),
            lambda i, j, a=product, b=inputs[-1], k=k: mt.sum(a[i, k] * b[k, j], k),
            name=f"C{n}",
        )
    return mt.lower([*inputs, product])


def inlined(program):
    """All stages in the last one, the first stage first."""
    schedule = mt.Schedule(program)
    for block in schedule.get_blocks()[:-1]:
        schedule.compute_inline(block)
    return schedule


def tiled(program):
    """A loop of each block split, in parallel, and lanes."""
    schedule = mt.Schedule(program)
    for block in schedule.get_blocks():
        i, *_, j = schedule.get_loops(block)[:2]
        outer, inner = schedule.split(i, [None, 4])
        schedule.parallel(outer)
        schedule.reorder(j, inner)
    return schedule


def sketches(program):
    return generate_sketches(program, TARGET, caches=USUAL_CACHES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "program", "count", "most"),
    [
        (inlined, stages, 16, LINEAR),
        (sketches, stages, 16, COPIED),
        (tiled, products, 8, LINEAR),
        (sketches, products, 3, LINEAR),
    ],
)
def test_twice_the_blocks_cost_about_twice_the_work(work, program, count, most):
    few, many = (program(n) for n in (count, 2 * count))
    work(program(2))  # imports, and what is computed once for a process
    assert calls_of(lambda: work(many)) < most * calls_of(lambda: work(few))


@pytest.mark.slow
def test_the_schedule_of_a_candidate_grows_with_the_blocks():
    calls = []
    for count in (2, 2, 4):
        program = products(count)
        space = Space(program, TARGET, sketches(program)[:1])
        candidate = space.draw(random.Random(0))
        calls.append(calls_of(lambda s=space, c=candidate: s.schedule(c)))
    assert calls[2] < LINEAR * calls[1]
