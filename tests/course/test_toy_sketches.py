"""The toy derivation of lesson 18 is the one of minitensor's rules "ansor"."""

import random

import pytest

import minitensor as mt
from minitensor.search import generate_sketches
from tutorials.judges.lesson_18 import KINDS, derived, program_of, toy

NAMES = {
    "always inline": "inline",
    "multi-level tiling": "tiling",
    "multi-level tiling with fusion": "fusion",
}


def history_of(sketch):
    """The rules of a sketch as the toy writes them."""
    found = []
    for step in sketch.history:
        detail = [x for x in step.what.split() if x in ("1", "2", "outer", "inner")]
        found.append((step.block, " ".join([NAMES.get(step.rule, step.rule), *detail])))
    return tuple(found)


@pytest.mark.parametrize("seed", range(40))
def test_toy_programs_have_the_sketches_of_their_programs(seed):
    draw = random.Random(seed)
    stages = toy(draw, draw.choices(KINDS, k=draw.randint(1, 4)))
    cores = draw.choice((1, 2, 8, 64))
    machine = mt.Target("c", num_cores=cores, vector_bits=256)
    found = generate_sketches(program_of(stages), machine, rules="ansor")
    assert sorted(map(history_of, found)) == sorted(derived(stages, cores))
