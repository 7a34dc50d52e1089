"""Candidates of all kinds compute what their definitions say, and are found again in traces."""

import contextlib
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.ir import structural_hash
from minitensor.lang import workloads
from minitensor.schedule import Trace
from minitensor.search.space import Mutations, Space
from minitensor.search.space.candidate import GRANULARITY, UNROLL
from minitensor.testing import assert_equivalent
from tests.parts import examples

TARGET = mt.Target("c", num_cores=2, vector_bits=256)


def padded_stencil():
    """A chain of three stages, with halos."""
    A = mt.placeholder((9, 14), name="A")
    P = mt.compute(
        (11, 16),
        lambda i, j: mt.if_then_else(
            mt.logical_and(i > 0, mt.logical_and(i < 10, mt.logical_and(j > 0, j < 15))),
            A[i - 1, j - 1],
            0.0,
        ),
        name="P",
    )
    r = mt.reduce_axis((0, 3), name="r")
    S = mt.compute((11, 14), lambda i, j: mt.sum(P[i, j + r], axis=r), name="S")
    T = mt.compute((9, 14), lambda i, j: mt.maximum(S[i, j] + S[i + 2, j], 0.0), name="T")
    return [A, T]


DEFINITIONS = {
    "matmul": lambda: workloads.matmul(m=12, n=20, k=7),
    "bias relu": lambda: workloads.matmul_bias_relu(m=6, n=35, k=8),
    "convolution": lambda: workloads.conv2d_bias_relu(1, 3, 6, 6, 4, 3, 1, 1),
    "depthwise": lambda: workloads.depthwise_conv2d(1, 3, 7, 7, 3, 1, 1),
    "softmax": lambda: workloads.softmax(5, 24),
    "layer norm": lambda: workloads.layer_norm(4, 18),
    "row sum": lambda: workloads.row_sum(5, 70),
    "full sum": lambda: workloads.full_sum(6, 40),
    "transpose": lambda: workloads.transpose_add(13, 18),
    "stencil": padded_stencil,
    "short rows": lambda: [
        A := mt.placeholder((6, 5, 7), name="A"),
        mt.compute((6, 5, 7), lambda i, j, k: A[i, j, k] * 2.0, name="B"),
    ],
}
_spaces = {}


def space_of(name, rules):
    if (name, rules) not in _spaces:
        _spaces[name, rules] = Space.of(mt.lower(DEFINITIONS[name]()), TARGET, rules)
    return _spaces[name, rules]


def exact(program):
    """Whether small integers give exact results."""
    return program.name not in ("softmax", "layer_norm")


@pytest.mark.slow
@examples(10, 50, deadline=None)
@given(
    st.sampled_from(sorted(DEFINITIONS)),
    st.sampled_from(["ansor", "default"]),
    st.integers(0, 2**32),
    st.integers(0, 3),
)
def test_candidates_compute_the_same(name, rules, seed, changes):
    space, rng = space_of(name, rules), random.Random(seed)
    candidate = space.draw(rng)
    for _ in range(changes):
        if rng.random() < 0.5:
            candidate = space.mutated(candidate, rng, Mutations(1, 1, 1, 1))
        else:
            candidate = space.crossed(candidate, space.draw(rng), rng)
    try:
        schedule = space.schedule(candidate)
    except mt.ScheduleError as refusal:
        assert refusal.rule, refusal
        return
    if name in ("softmax", "layer norm"):
        assert mt.verify(schedule.program) is None
        mt.build(schedule, TARGET)
    else:
        assert_equivalent(space.program, schedule, targets=["interpreter", TARGET])
    assert space.decode(Trace.from_json(schedule.trace.to_json())) is not None


@examples(15, 100, deadline=None)
@given(st.sampled_from(sorted(DEFINITIONS)), st.integers(0, 2**32))
def test_a_schedule_does_not_depend_on_those_that_were_made_before(name, seed):
    space, rng = space_of(name, "default"), random.Random(seed)
    family = [space.draw(rng)]
    for _ in range(6):
        parent = rng.choice(family)
        family.append(rng.choice([space.mutated(parent, rng), space.draw(rng, parent.sketch)]))
    after_others = [outcome(space, candidate) for candidate in family]
    for candidate, found in zip(family, after_others):
        space.replays.clear()
        assert outcome(space, candidate) == found


def outcome(space, candidate):
    """All that a schedule knows, or the refusal of a step."""
    try:
        found = space.schedule(candidate)
    except mt.ScheduleError as refusal:
        return refusal.rule, refusal.step, str(refusal)
    return found.trace, found.history, found._results, found._origins


@pytest.mark.parametrize("name", ["matmul", "stencil", "softmax"])
def test_most_candidates_are_legal(name):
    space, rng = space_of(name, "default"), random.Random(1)
    legal = 0
    for _ in range(40):
        try:
            space.schedule(space.draw(rng))
            legal += 1
        except mt.ScheduleError:
            pass
    assert legal >= 36


def test_the_same_seed_draws_the_same():
    space = space_of("stencil", "default")
    first, second = (
        [space.draw(rng) for _ in range(20)] for rng in (random.Random(5), random.Random(5))
    )
    assert first == second
    assert len(set(first)) > 10


def test_a_child_takes_each_decision_from_one_parent_and_most_blocks_whole():
    A, B, C = (mt.placeholder((32, 32), name=n) for n in "ABC")
    k, m = mt.reduce_axis((0, 32), name="k"), mt.reduce_axis((0, 32), name="m")
    D = mt.compute((32, 32), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="D")
    E = mt.compute((32, 32), lambda i, j: mt.sum(D[i, m] * C[m, j], axis=m), name="E")
    space, rng = Space.of(mt.lower([A, B, C, E]), TARGET, "ansor"), random.Random(0)
    sketch = max(range(len(space.sketches)), key=lambda n: len({k.block for k in space.knobs[n]}))
    blocks = [knob.block for knob in space.knobs[sketch]]
    assert len(set(blocks)) == 2
    mixed = whole = 0
    for _ in range(100):
        a, b = space.draw(rng, sketch), space.draw(rng, sketch)
        child = space.crossed(a, b, rng)
        origins = set()
        for block in set(blocks):
            mine = [n for n, name in enumerate(blocks) if name == block]
            values = [tuple(c.values[n] for n in mine) for c in (child, a, b)]
            assert all(v in pair for v, *pair in zip(*values))
            whole += values[0] in values[1:]
            origins.add(values[0] == values[1])
        mixed += len(origins) == 2
        for name in ("parallel", "unroll"):
            given = zip(*(getattr(c, name) for c in (child, a, b)))
            assert all(v in pair for v, *pair in given)
    assert mixed > 20
    assert 130 < whole < 190  # of 200: two in three, and some of the others by chance


def test_places_that_do_not_exist_are_drawn_anew():
    space, rng = space_of("stencil", "ansor"), random.Random(0)
    candidate = next(c for c in iter(lambda: space.draw(rng), None) if len(c.locations) >= 2)
    broken = replace(candidate, locations=("nowhere",) * len(candidate.locations))
    mended = space._repaired(broken, rng)
    assert "nowhere" not in mended.locations
    space.schedule(mended)


@examples(15, 80, deadline=None)
@given(st.sampled_from(sorted(DEFINITIONS)), st.integers(0, 2**32))
def test_what_has_one_identity_is_one_program(name, seed):
    space, rng = space_of(name, "default"), random.Random(seed)
    candidate = space.draw(rng)
    programs = {}
    for parallel in GRANULARITY[1:]:
        for unroll in UNROLL:
            one = space.annotated(candidate, parallel, unroll)
            with contextlib.suppress(mt.ScheduleError):
                found = structural_hash(space.schedule(one).program)
                assert programs.setdefault(space.identity(one), found) == found
