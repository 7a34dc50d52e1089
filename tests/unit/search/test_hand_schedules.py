"""The space holds what is written by hand: for each hand schedule a candidate with its loops."""

import math
from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from benchmarks.by_hand import find
from minitensor.ir import loops_of
from minitensor.runtime import Caches
from minitensor.search import generate_sketches
from minitensor.search.space.annotate import Annotatable
from tutorials.schedules import HAND_SCHEDULES

TARGETS = {bits: mt.Target("c", num_cores=2, vector_bits=bits) for bits in (512, 256)}
CACHES = Caches(l1=48 << 10, l2=1 << 20)
"""Those of the machine for which the hand schedules cut their sums."""
LONG = ("conv-", "attention", "transposed", "layer-norm")
"""Searches that take long: `make test` has the wide ones; of the others, one width for a name, and
another for the next.
"""
PACKED = ("matmul-512", "matmul-1024", "matmul-2048", "matmul-odd", "matmul-long", "dense-1024")
CUT_ELSEWHERE = {("elementwise", 256), *((name, 256) for name in PACKED)}
"""A loop that the hand schedule cuts at 32 elements, and the space at 64; with 16 registers, rows
of A that the hand schedule packs by six, and the space by four (tiles of six read A in place).
"""
FOUND = [
    (name, bits) for name in HAND_SCHEDULES for bits in TARGETS if (name, bits) not in CUT_ELSEWHERE
]


def _marks(name, bits):
    if name.startswith("winograd"):
        return [pytest.mark.slow if name.endswith("14") and bits == 512 else pytest.mark.whole]
    if name in ("conv-64-56", "conv-256-14"):
        return [pytest.mark.whole]
    widths = [512] if name.startswith(LONG) else [b for b in TARGETS if (name, b) in FOUND]
    number = list(HAND_SCHEDULES).index(name)
    return [] if bits == widths[number % len(widths)] else [pytest.mark.whole]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, bits",
    [pytest.param(name, bits, marks=_marks(name, bits)) for name, bits in FOUND],
)
def test_a_candidate_has_the_loops_of_a_hand_schedule(name, bits):
    found = find(HAND_SCHEDULES[name], TARGETS[bits], enough=0.98, caches=CACHES)
    assert len(found.space.sketches) <= 24
    assert found.same >= 0.98


def test_what_the_space_lacks_is_no_candidate():
    hand = HAND_SCHEDULES["matmul-512"]

    def in_tiles_of_five(s, target):
        i, j = s.get_loops("C")[:2]
        s.split(j, [None, 5])
        s.parallel(i)
        yield "Tiles", "Five columns at a time."

    assert find(replace(hand, steps=in_tiles_of_five), TARGETS[512]).same < 0.5


def test_the_window_around_an_unrolled_tile_can_be_unrolled():
    program = HAND_SCHEDULES["conv-128-28"].define()
    sketches = generate_sketches(program, TARGETS[512])
    said = "weight packed, relu follows each strip\npad   inline padding"
    trace = next(s.trace for s in sketches if said in s.explain())
    steps = [(n, trace.steps[n].arguments["candidates"]) for n in trace.decisions]
    choices = zip(steps, [4, 7, 1, 2], strict=True)
    values = {n: candidates.index(value) for (n, candidates), value in choices}
    schedule = trace.with_decisions(values).apply(program)
    leaf = next(leaf for leaf in Annotatable.of(schedule).leaves if leaf.block == "conv")
    extents = {n.var: np.array([n.extent]) for n in loops_of(schedule.program.body)}
    tile = math.prod(int(extents[name][0]) for name in leaf.passed[0])
    assert tile == 14  # 7 positions by 2 vectors of channels
    assert [int(extents[name][0]) for name in leaf.unroll[:2]] == [3, 3]

    def unrolled(copies, lanes):
        most = {"conv": np.array([copies])}
        return Annotatable((), (leaf,)).amounts(extents, {}, most, 2, lanes).unroll[0]

    for copies, count in ((16, 0), (3 * tile, 1), (9 * tile - 1, 1), (9 * tile, 2)):
        assert unrolled(copies, lanes=16) == count
        assert unrolled(2 * copies, lanes=8) == count  # a vector is two instructions


def test_strided_elements_count_one_by_one_in_a_nest_of_several_blocks():
    def unrolled(shape, element, nested):
        A = mt.placeholder(shape, name="A")
        B = mt.compute((8, *shape), lambda m, *at: A[at] + 1.0, name="B")
        C = mt.compute((8, 4, 2, 4, 8), lambda m, *at: element(B, m, *at) * 2.0, name="C")
        schedule = mt.Schedule(mt.lower([A, C]))
        if nested:
            schedule.compute_at("B", schedule.get_loops("C")[0])
        leaf = next(leaf for leaf in Annotatable.of(schedule).leaves if leaf.block == "C")
        extents = {n.var: np.array([n.extent]) for n in loops_of(schedule.program.body)}
        most = {"C": np.array([16, 64, 512])}
        return Annotatable((), (leaf,)).amounts(extents, {}, most, 2, lanes=8).unroll[0].tolist()

    beside = (4, 2, 4, 8), lambda B, m, n, j, k, i: B[m, n, j, k, i]
    apart = (4, 8, 4, 2), lambda B, m, n, j, k, i: B[m, n, i, k, j]
    assert unrolled(*beside, nested=True) == [2, 3, 3]
    assert unrolled(*apart, nested=True) == [0, 2, 2]
    assert unrolled(*apart, nested=False) == [1, 2, 3]
