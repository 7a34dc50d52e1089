"""The space holds what is written by hand: for each hand a sketch with the hand's tiles."""

import math

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import loops_of
from minitensor.search import generate_sketches
from minitensor.search.space.annotate import Annotatable
from tutorials.schedules import HAND_SCHEDULES

TARGET = mt.Target("c", num_cores=2, vector_bits=512)
_PACKED = ("B and A packed", [8, 8, 2], {"C": 0, "B_global": 0})
_STRIPS = {"relu": 1, "U": 0}
_CONV = "weight packed, relu follows each tile\npad   inline padding"

SAME = {
    "matmul-512": ("B and A packed", [8, 4, 2], {"C": 0, "B_global": 0}),
    "matmul-1024": _PACKED,
    "matmul-2048": ("B and A packed", [8, 16, 2], {"C": 0, "B_global": 0}),
    "matmul-odd": _PACKED,
    "matmul-16": ("read in place", [8, 1, 32], {"C": 1}),
    "batch-matmul": ("read in place", [12, 8, 1, 32], {"C": 0}),
    "dense-1024": ("B and A packed, D follows each tile", *_PACKED[1:]),
    "conv-64-56": (_CONV, [4, 8, 1, 2], {"conv": 1, "weight_global": 0}),
    "conv-128-28": (_CONV, [4, 7, 1, 2], {"conv": 1, "weight_global": 0}),
    "conv-256-14": (_CONV, [1, 7, 1, 2], {"conv": 3, "weight_global": 0}),
    "conv-512-7": (_CONV, [1, 7, 1, 2], {"conv": 3, "weight_global": 0}),
    "conv-1x1": ("read in place, relu follows each tile", [56, 6, 1, 56], {"conv": 1}),
    "conv-7x7": (_CONV, [8, 8, 1, 2], {"conv": 1, "weight_global": 0}),
    "winograd-64-56": ("all for one strip", [1, 32, 7], _STRIPS),
    "winograd-128-28": ("all for one strip", [1, 32, 7], _STRIPS),
    "winograd-256-14": ("all for one strip", [2, 32, 8], _STRIPS),
    "depthwise": ("pad for each image", [2, 56], {"conv": 1}),
    "softmax": ("row_sum, exps, row_max computed for each row", [4, 16, 4, 16], {"softmax": 0}),
    "layer-norm": ("row_sum computed for each row", [4, 16, 4, 16], {"D": 0}),
    "row-sum": ("rows in lanes", [4, 8], {"B": 0}),
    "full-sum": ("rows in lanes", [4, 8], {"B_rf": 0}),
    "elementwise": ("always inline", [], {}),
    "transpose-add": ("transposed read", [64, 16], {"C": 0}),
}
"""For each hand what the rules say of the sketch, the hand's choices, and its threads."""


def test_every_hand_schedule_is_there():
    assert SAME.keys() == HAND_SCHEDULES.keys()


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n.startswith("winograd") else n for n in SAME],
)
def test_the_choices_of_a_hand_schedule_are_among_those_of_a_sketch(name):
    said, choices, threads = SAME[name]
    program = HAND_SCHEDULES[name].define()
    sketches = generate_sketches(program, TARGET)
    assert len(sketches) <= 24
    assert len({sketch.trace.to_json() for sketch in sketches}) == len(sketches)
    trace = next(sketch.trace for sketch in sketches if said in sketch.explain())
    steps = [(n, trace.steps[n].arguments["candidates"]) for n in trace.decisions]
    assert len(steps) == len(choices)
    schedule = trace.with_decisions(
        {n: candidates.index(value) for (n, candidates), value in zip(steps, choices)}
    ).apply(program)
    for block, loop in threads.items():
        schedule.parallel(schedule.get_loops(block)[loop])


def test_the_window_around_an_unrolled_tile_can_be_unrolled():
    said, choices, _ = SAME["conv-128-28"]
    program = HAND_SCHEDULES["conv-128-28"].define()
    trace = next(s.trace for s in generate_sketches(program, TARGET) if said in s.explain())
    steps = [(n, trace.steps[n].arguments["candidates"]) for n in trace.decisions]
    values = {n: candidates.index(v) for (n, candidates), v in zip(steps, choices)}
    schedule = trace.with_decisions(values).apply(program)
    leaf = next(leaf for leaf in Annotatable.of(schedule).leaves if leaf.block == "conv")
    extents = {n.var: np.array([n.extent]) for n in loops_of(schedule.program.body)}
    tile = math.prod(int(extents[name][0]) for name in leaf.passed[0])
    assert tile == 14  # 7 positions by 2 vectors of channels
    assert [int(extents[name][0]) for name in leaf.unroll[:2]] == [3, 3]
    for copies, unrolled in ((16, 0), (3 * tile, 1), (9 * tile - 1, 1), (9 * tile, 2)):
        amounts = Annotatable((), (leaf,)).amounts(extents, np.array([1]), np.array([copies]), 2)
        assert amounts.unroll[0] == unrolled
