"""Traces spoilt at random: refused by an error of ours, or a schedule that is as legal as any."""

import math
import random
import resource
import sys
import time

import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.ir import paths, verify
from minitensor.schedule import REGISTRY
from tests.unit.schedule.common import same_results
from tests.unit.schedule.mutations import mutated
from tests.unit.schedule.valid_traces import VALID, valid

TARGET = Target("c", 2, 256)
PARTS, EACH = 20, 250
"""The number of parts, and of mutations in each: 5,000 in all."""
QUICK = 1
"""Parts of the quick run."""
USUAL = 5
"""Parts that `make test` tries."""
SECONDS = 2.0
MEMORY = 256
"""MiB that all mutations of a part together may take."""


@pytest.fixture(scope="module")
def cases():
    """Programs, and traces for them."""
    return [valid(name) for name in VALID]


def test_the_valid_traces_are_and_have_every_primitive(cases):
    used = set()
    for program, text in cases:
        s = mt.Trace.from_json(text).apply(program)
        used |= {step.primitive for step in s.trace.steps}
        same_results(program, s.program)
    assert used == set(REGISTRY)


def part_of(part):
    marks = [pytest.mark.slow] * (part >= QUICK) + [pytest.mark.whole] * (part >= USUAL)
    return pytest.param(part, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("part", [part_of(n) for n in range(PARTS)])
def test_spoilt_traces(part, cases):
    rng = random.Random(part)
    texts = [text for _, text in cases]
    before = peak()
    legal = equal = refused = 0
    for number in range(EACH):
        program, text = cases[number % len(cases)]
        spoilt = mutated(text, rng, texts)
        start = time.process_time()
        try:
            trace = mt.Trace.from_json(spoilt)
            s = trace.apply(program, seed=number)
        except (mt.ArgumentError, mt.ScheduleError) as error:
            assert error.message.isprintable()
            assert len(error.message) < 4000
            refused += 1
        else:
            equal += check_legal(program, trace, s)
            legal += 1
        assert time.process_time() - start < SECONDS, spoilt[:2000]
    assert legal > EACH / 20
    assert equal > 0.9 * legal
    assert refused > EACH / 4
    assert peak() - before < MEMORY


def check_legal(program, trace, s):
    """The schedule computes what the program does, and its text can be written.

    Returns whether both were run.
    """
    verify(s.program)
    again = mt.Trace.from_json(s.trace.to_json())
    assert again == s.trace
    assert generate(s.program, TARGET, s.trace.as_python()).source
    try:
        trace.as_python()
    except mt.ArgumentError as error:  # what it says that steps returned is not what they do
        assert "returned no such thing" in error.message
    if not is_small(s.program):
        return False
    same_results(program, s.program)
    return True


def is_small(program):
    """Whether the interpreter has run it within a second."""
    runs = [math.prod(max(1, loop.extent) for loop in nest) for nest in paths(program).values()]
    sizes = [math.prod(buffer.shape) for buffer in program.buffers.values()]
    return max(runs) < 20_000 and max(sizes) < 100_000


def peak():
    """The most MiB that this process has had in memory."""
    unit = 1 << (20 if sys.platform == "darwin" else 10)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
