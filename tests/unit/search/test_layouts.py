"""Layouts of what blocks write: images whose channels are side by side."""

import re

import pytest

import minitensor as mt
from minitensor import ir
from minitensor.codegen import generate
from minitensor.search import generate_sketches
from minitensor.testing import assert_equivalent

W = mt.workloads
TARGET = mt.Target("c", num_cores=2, vector_bits=256)


def by_channels(program):
    return [s for s in generate_sketches(program, TARGET) if "by channels" in s.rules]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((1, 8, 7, 9, 16, 3), {"padding": 1}),
        ((2, 12, 6, 7, 15, 3), {"padding": 2, "stride": 2}),
        ((1, 9, 9, 11, 20, 3), {"padding": 2, "dilation": 2}),
        ((1, 17, 5, 5, 9, 5), {"padding": 2}),
        ((2, 9, 7, 21, 20, 3), {"stride": 2}),
    ],
)
def test_an_image_may_be_written_by_channels(size, options):
    program = mt.lower(W.conv2d(*size, **options))
    found = by_channels(program)
    assert found
    for seed, sketch in enumerate(found):
        schedule = sketch.apply(seed=seed)
        assert_equivalent(program, schedule, targets=("interpreter", "c"))
    by_hand = mt.schedule_for(program, TARGET)
    assert_equivalent(program, by_hand, targets=("interpreter", "c"))


def test_channels_lie_side_by_side_in_it_and_in_the_weights():
    program = mt.lower(W.conv2d(1, 16, 7, 9, 24, 3, padding=1))
    schedule = mt.schedule_for(program, TARGET)
    assert program.buffers["pad"].shape == (1, 16, 9, 11)
    assert schedule.program.buffers["pad"].shape == (1, 9, 11, 16)
    assert schedule.program.buffers["weight_global"].shape == (3, 3, 3, 16, 8)


@pytest.mark.slow
def test_results_are_stored_as_squares_of_a_strip_of_tiles():
    """Its pixels lie side by side in the result, and its filters in the registers."""
    program = mt.lower(W.conv2d(1, 16, 7, 20, 24, 3))
    schedule = mt.schedule_for(program, TARGET)
    (read,) = ir.loads(schedule.program.blocks["conv_local"].body)
    pixels, filters = (schedule.get_loops("conv_local")[n] for n in (-1, -2))
    loops = {loop.var: loop for loop in ir.loops_of(schedule.program.body)}
    assert loops[pixels].kind is ir.LoopKind.VECTORIZE and read.indices[-1] == ir.Var("ax1")
    assert loops[filters].kind is ir.LoopKind.SERIAL
    text = generate(schedule.program, TARGET).source
    assert len(re.findall("    transpose_float32x8\\(", text)) == 2  # of the image, and of these
    assert_equivalent(program, schedule, targets=("interpreter", "c"))


@pytest.mark.parametrize(
    "program",
    [
        W.conv2d(1, 4, 7, 9, 16, 3, padding=1),  # fewer channels than lanes
        W.conv2d(1, 16, 7, 9, 8, 3, padding=1),  # all filters in one vector
        W.conv2d(1, 16, 7, 9, 16, 1),  # a pixel is no window
        W.conv2d(1, 16, 7, 9, 16, 3, padding=1, groups=2),  # channels of a group: no plain index
        W.depthwise_conv2d(1, 16, 7, 9, 3, padding=1),
        W.matmul(64, 64, 64),
    ],
)
def test_images_that_stay_as_they_are(program):
    assert not by_channels(mt.lower(program))
