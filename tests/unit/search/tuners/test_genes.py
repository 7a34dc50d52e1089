"""Choices as a row: read, changed and crossed, within a sketch and between sketches."""

import random
from itertools import pairwise

import pytest

import minitensor as mt
from minitensor.search.space import Space
from minitensor.search.tuners import genes
from tests.unit.search.tune.made import TARGET, product
from tests.unit.search.tuners.made import SPACE, drawn

MOVING = Space.of(mt.lower(mt.workloads.conv2d_bias_relu(1, 16, 14, 14, 16, 3, padding=1)), TARGET)
SPACES = pytest.mark.parametrize("space", [SPACE, MOVING], ids=["product", "conv"])


@SPACES
def test_a_row_is_the_candidate_again(space):
    for candidate in drawn(40, space=space):
        row = genes.choices(candidate)
        assert genes.chosen(space, candidate, row) == candidate
        assert len(row) == len(genes.meanings(space, candidate.sketch))
        for number, choice in enumerate(row):
            assert choice in genes.options(space, candidate, number)


@SPACES
def test_another_draw_of_one_choice_is_a_candidate(space):
    rng = random.Random(0)
    for candidate in drawn(40, space=space):
        for number, before in enumerate(genes.choices(candidate)):
            after = genes.redrawn(space, candidate, number, rng)
            space.check(after)
            row = genes.choices(after)
            differs = [n for n, (a, b) in enumerate(zip(genes.choices(candidate), row)) if a != b]
            moved = len(candidate.values) <= number < len(candidate.values + candidate.locations)
            assert differs in ([], [number]) or (moved and differs[0] == number), before


def test_places_that_do_not_exist_become_the_outermost():
    sketch = next(n for n, blocks in enumerate(MOVING.movable) if blocks)
    candidate = drawn(1, space=MOVING, sketch=sketch)[0]
    number = len(candidate.values)
    moved = genes.changed(MOVING, candidate, number, "no such loop")
    assert moved.locations[0] == MOVING.possible_locations(sketch, ())[0]
    MOVING.check(moved)


def test_a_crossover_has_the_first_genes_of_one_and_the_last_of_the_other():
    a, b = drawn(2, sketch=0)
    one, other = genes.choices(a), genes.choices(b)
    for point in range(len(one) + 1):
        child = genes.crossed(SPACE, a, b, point)
        assert genes.choices(child) == (*one[:point], *other[point:])
    assert genes.crossed(SPACE, a, b, 0) == b and genes.crossed(SPACE, a, b, len(one)) == a


@SPACES
def test_between_sketches_a_child_takes_what_is_a_choice_in_both(space):
    taken = 0
    candidates = drawn(60, seed=1, space=space)
    for a, b in pairwise(candidates):
        child = genes.crossed(space, a, b, 0)
        space.check(child)
        assert child.sketch == a.sketch
        theirs = dict(zip(genes.meanings(space, b.sketch), genes.choices(b)))
        names = genes.meanings(space, a.sketch)
        for name, own, choice in zip(names, genes.choices(a), genes.choices(child)):
            if isinstance(choice, str):
                continue  # a place, which may not exist in the child
            assert choice == theirs.get(name, own)
            taken += a.sketch != b.sketch and choice == theirs.get(name) != own
    assert taken > 10


def test_a_child_comes_from_both():
    a, b = drawn(2)
    a, b = (mt.search.Candidate(**{**fields(c), "origin": (k,)}) for c, k in ((a, "a"), (b, "b")))
    assert genes.crossed(SPACE, a, b, 1).origin == ("a", "b")
    assert genes.redrawn(SPACE, a, 0, random.Random(0)).origin == ("a",)


def fields(candidate):
    return {name: getattr(candidate, name) for name in candidate.__dataclass_fields__}


def test_a_candidate_without_choices():
    space = Space.of_template(product(8), TARGET, lambda s: s.unroll("k"))
    (only,) = drawn(1, space=space)
    assert genes.choices(only) == () and genes.crossed(space, only, only, 0) == only
