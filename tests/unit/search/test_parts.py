"""Long sums in parts, whose panels stay in the caches."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError
from minitensor.runtime import USUAL_CACHES, Caches
from minitensor.search import DEFAULT_RULES, Rule, Space, Verdict, generate_sketches
from minitensor.search.sketch import derive
from minitensor.search.sketch.rule import State
from minitensor.search.sketch.tiles import part_lengths
from tests.unit.search.programs import product_by_axes

W = mt.workloads
TARGET = mt.Target("c", num_cores=4, vector_bits=256)


def in_parts(tensors, caches=USUAL_CACHES):
    """The sketches whose sums are in parts."""
    sketches = generate_sketches(mt.lower(tensors), TARGET, caches=caches)
    return [s for s in sketches if any("summed in parts" in step.what for step in s.history)]


@pytest.mark.parametrize(
    ("tensors", "long"),
    [
        (product_by_axes("ik", "kj", (64, 64, 2048)), False),
        (product_by_axes("ik", "kj", (64, 64, 2049)), True),
        (W.conv2d(1, 256, 14, 14, 64, 3, padding=1), True),
        (W.conv2d(1, 64, 56, 56, 64, 3, padding=1), False),
    ],
)
def test_long_sums_are_in_parts_too(tensors, long):
    assert bool(in_parts(tensors)) == long


@pytest.mark.parametrize("bits, caches, lengths", [
    (512, Caches(48 << 10, 1 << 20), [256, 512, 1024, 2048]),
    (512, Caches(32 << 10, 1 << 20), [128, 256, 512, 1024, 2048]),
    (512, Caches(48 << 10, 768 << 10), [256, 512, 1024]),
    (256, USUAL_CACHES, [256, 512, 1024, 2048]),
    (256, Caches(48 << 10, 1 << 20), [512, 1024, 2048, 4096]),
    (256, Caches(32 << 10, 256 << 10), [256, 512, 1024]),
    (128, Caches(64 << 10, 512 << 10), [1024, 2048, 4096]),
    (0, Caches(128 << 10, 512 << 10), [2048, 4096]),
    (256, Caches(256, 2048), [2, 4, 8]),
    (512, Caches(128 << 10, 128 << 10), [256]),
    (512, Caches(1, 1), [1]),
])  # fmt: skip
def test_parts_follow_the_caches(bits, caches, lengths):
    """From half of L1 to a quarter of L2; one length if these are in the other order."""
    target = mt.Target("c", num_cores=4, vector_bits=bits)
    state = State(mt.Schedule(mt.lower(W.matmul(8, 8, 8))), ("C",), target=target, caches=caches)
    assert part_lengths(state) == lengths


def test_long_is_what_a_quarter_of_the_second_cache_does_not_hold():
    tensors = product_by_axes("ik", "kj", (64, 64, 2049))
    assert in_parts(tensors) and not in_parts(tensors, Caches(48 << 10, 1 << 20))
    assert in_parts(product_by_axes("ik", "kj", (64, 64, 1025)), Caches(32 << 10, 256 << 10))


@pytest.mark.parametrize("size", [1, (1, 2), "32K"])
def test_caches_are_caches(size):
    with pytest.raises(ArgumentError, match=r"expected Caches .*, but got caches="):
        in_parts(product_by_axes("ik", "kj"), size)


def test_caches_of_this_machine_unless_others_are_given(monkeypatch):
    monkeypatch.setattr(derive, "known_caches", lambda: Caches(1 << 10, 1 << 20))
    seen = []
    spy = Rule("spy", lambda state, cores: seen.append(state.caches) or Verdict.SKIP, lambda *_: [])
    program, rules = mt.lower(W.matmul(8, 8, 8)), [spy, *DEFAULT_RULES]
    Space.of(program, TARGET, rules)
    assert set(seen) == {Caches(1 << 10, 1 << 20)}
    seen.clear()
    Space.of(program, TARGET, rules, USUAL_CACHES)
    assert set(seen) == {USUAL_CACHES}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [("ik", "kj"), ("ki", "jk")])
@pytest.mark.parametrize(
    "seed", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5)]]
)
def test_sums_in_parts_are_right(a, b, seed):
    """Small integers: sums of them are exact in any order. In the second a copy follows."""
    tensors = product_by_axes(a, b, (5, 17, 11))
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-3, 4, x.shape).astype(x.dtype) for x in tensors[:2]]
    wanted = mt.interpret(mt.lower(tensors), *arrays).tolist()
    sketches = in_parts(tensors, Caches(256, 2048))  # of 2, 4 or 8
    assert len(sketches) >= 2
    for sketch in sketches:
        assert mt.interpret(sketch.apply(seed=seed), *arrays).tolist() == wanted
