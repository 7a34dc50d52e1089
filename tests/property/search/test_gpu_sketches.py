"""Sketches for a GPU: whatever is decided, threads compute what the definition does, without races:
as blocks, and as the kernels that the passes make of them.
"""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.codegen import Target, kernel_of, lowered, nbytes
from minitensor.codegen.gpu.kernels import kernels_in
from minitensor.ir import interpret
from minitensor.search import generate_sketches
from minitensor.search.features import BatchError, extract_features, features_of
from minitensor.search.space import Space
from minitensor.search.unmade import ResourceError
from minitensor.testing import assert_equivalent
from tests.parts import examples, times
from tests.property.search.test_sketches import DEFINITIONS

W = mt.workloads
TARGET = Target("cuda", device="a100").resolved(num_cores=1, vector_bits=0)
SMALL = {
    "product": lambda: W.matmul(m=7, n=10, k=9),
    "few results": lambda: W.matmul(m=3, n=2, k=70),
    "bias": lambda: W.matmul_bias_relu(m=9, n=5, k=6),
    "products": lambda: W.batch_matmul(3, 5, 4, 6),
    "convolution": lambda: W.conv2d_bias_relu(1, 3, 5, 6, 4, 3, 1, 1),
    "depthwise": lambda: W.depthwise_conv2d(1, 3, 7, 5, 3, 1, 1),
    "rows": lambda: W.row_sum(5, 70),
    "everything": lambda: W.full_sum(7, 11),
    "pool": lambda: W.max_pool2d(1, 2, 7, 7, 3, 2, 1),
    "argmax": lambda: W.argmax(3, 50),
    "elements": lambda: W.elementwise_chain(37),
    "transposed": lambda: W.transpose_add(7, 5),
}


def agrees(program, schedule):
    """The schedule and its kernels compute what the program does."""
    assert_equivalent(program, schedule, ["interpreter"])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, b.shape).astype(b.dtype) for b in program.inputs]
    expected, _ = interpret(program, arrays)
    found, _ = interpret(lowered(schedule.program, TARGET), arrays)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_sketch_of_small_odd_shapes(name):
    program = mt.lower(SMALL[name]())
    made = [s for r in ("ansor", "default") for s in generate_sketches(program, TARGET, rules=r)]
    for sketch in {sketch.trace.to_json(): sketch for sketch in made}.values():
        for seed in range(times(1, 2)):
            agrees(program, sketch.apply(seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(DEFINITIONS) - {"winograd"}))
@examples(1, 20)
@given(data=st.data())
def test_whatever_is_decided_computes_the_same(name, data):
    function, arguments = DEFINITIONS[name]
    program = mt.lower(function(**data.draw(arguments)))
    rules = data.draw(st.sampled_from(["ansor", "default"]))
    sketches = generate_sketches(program, TARGET, rules=rules)
    assert len({sketch.trace.to_json() for sketch in sketches}) == len(sketches)
    sketch = data.draw(st.sampled_from(sketches))
    schedule = sketch.apply(seed=data.draw(st.integers(0, 999)))
    bound = {loop.kind for loop in mt.ir.loops_of(schedule.program.body)}
    assert mt.ir.LoopKind.PARALLEL not in bound
    assert_equivalent(program, schedule, ["interpreter"])


# ---- spaces


SPACES = {}


def space_of(name, rules):
    if (name, rules) not in SPACES:
        SPACES[name, rules] = Space.of(mt.lower(SMALL[name]()), TARGET, rules)
    return SPACES[name, rules]


def drawn(space, rng):
    """A candidate, and its schedule, that is not refused."""
    for _ in range(100):
        candidate = space.draw(rng)
        if rng.random() < 0.5:
            candidate = space.mutated(candidate, rng)
        try:
            return candidate, space.schedule(candidate)
        except mt.ScheduleError as refusal:
            assert isinstance(refusal, ResourceError) or refusal.rule, refusal
    raise AssertionError("100 candidates in a row are refused")


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("rules", ["ansor", "default"])
@pytest.mark.parametrize("name", SMALL)
@examples(2, 30)
@given(seed=st.integers(0, 2**32))
def test_candidates_compute_the_same(name, rules, seed):
    space = space_of(name, rules)
    candidate, schedule = drawn(space, random.Random(seed))
    agrees(space.program, schedule)
    assert space.decode(schedule.trace) == candidate


def is_numbered(space, plan, *candidates):
    """Tell whether arrays compute the features of candidates. (Others are replayed.)"""
    try:
        return bool(candidates) and space.numbered(plan, candidates) is not None
    except BatchError:
        return False


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("rules", ["ansor", "default"])
@pytest.mark.parametrize("name", SMALL)
def test_features_of_a_batch_are_those_of_each(name, rules):
    space, rng, compared = space_of(name, rules), random.Random(name), 0
    for sketch in range(len(space.sketches)):
        plan = space.plan(sketch, ())
        if plan.structure is None:  # what rfactor makes of a fused sum is moved
            assert name == "everything", space.sketches[sketch].explain()
            continue
        found = dict(drawn(space, rng) for _ in range(times(14, 30)))
        own = [candidate for candidate in found if candidate.sketch == sketch]
        batch = [candidate for candidate in own if is_numbered(space, plan, candidate)]
        half = batch[: len(batch) // 2]
        groups = [half] if is_numbered(space, plan, *half) else [[one] for one in half]
        groups += [[one] for one in batch[len(half) :]]
        tables = features_of([space.numbered(plan, group) for group in groups], TARGET)
        for group, table in zip(groups, tables):
            for candidate, rows in zip(group, table, strict=True):
                np.testing.assert_array_equal(rows, extract_features(found[candidate], TARGET))
        compared += len(batch)
    assert compared > 3 or name == "everything"


@pytest.mark.parametrize("name", ["product", "convolution", "rows", "elements"])
def test_what_is_said_to_have_no_room_has_none(name):
    """The resources of candidates, against their kernels."""
    space, rng = space_of(name, "ansor"), random.Random(1)
    for _ in range(times(8, 20)):
        candidate = space.draw(rng)
        plan = space.plan(candidate.sketch, ())
        assert space.has_room(plan, [candidate]) == [True]  # they are small
        try:
            schedule = space.schedule(candidate)
        except mt.ScheduleError:
            continue
        extents = {loop.var: loop.extent for loop in mt.ir.loops_of(schedule.program.body)}
        threads, shared, _ = plan.resources.taken(extents)
        kernels = [kernel_of(k) for k in kernels_in(lowered(schedule.program, TARGET).body)]
        assert threads == max(math.prod(kernel.block) for kernel in kernels)
        assert 1.1 * shared >= max(sum(map(nbytes, kernel.shared)) for kernel in kernels)
