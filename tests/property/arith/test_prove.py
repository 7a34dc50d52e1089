"""The provers against brute force: they may say "don't know", never anything wrong."""

import random

import numpy as np

from minitensor.arith import extent_range, facts_of, prove
from minitensor.ir import Const, Expr, Var, at_most, conjunction, less
from tests.index_values import value_of
from tests.parts import times

EXTENTS = {"x": 7, "y": 5}
RANGES = {name: extent_range(extent) for name, extent in EXTENTS.items()}
EVERYWHERE = dict(zip("xy", np.indices((7, 5)).reshape(2, -1)))
x, y = Var("x"), Var("y")


def random_form(rng: random.Random) -> Expr:
    form: Expr = Const(rng.randint(-6, 6))
    for var in rng.sample([x, y], rng.randint(1, 2)):
        form = form + var * rng.choice([-3, -2, -1, 1, 2, 3])
    if rng.random() < 0.6:
        divided = form // rng.choice([2, 3, 4])
        form = divided * rng.choice([-2, -1, 1, 2]) + rng.randint(-4, 4)
    return form


def test_prove_never_says_anything_wrong():
    known = useful = 0
    for seed in range(count := times(2000, 4000)):
        rng = random.Random(seed)
        compare = rng.choice([less, at_most])
        condition = compare(random_form(rng), random_form(rng))
        given = [
            rng.choice([less, at_most])(random_form(rng), random_form(rng))
            for _ in range(rng.randint(0, 2))
        ]
        values = value_of(condition, EVERYWHERE)[value_of(conjunction(given), EVERYWHERE)]
        answer = prove(condition, RANGES, facts_of(given, RANGES))
        if answer is not None:
            assert (values == answer).all(), (seed, condition)
        known += answer is not None
        useful += bool(given) and answer is not None and prove(condition, RANGES) is None
    assert known > count // 10
    assert useful > count // 67


def test_a_fact_about_a_number_bounds_its_quotients():
    facts = facts_of([at_most(2, x + y), less(x + y, 8)], RANGES)
    assert prove(at_most(0, (x + y) // 2 - 1), RANGES, facts) is True
    assert prove(less((x + y) // 2 - 1, 3), RANGES, facts) is True
    assert prove(less(2, (x + y) // -2 + 3), RANGES, facts) is False
    assert prove(less((x + y) // 2 - 1, 2), RANGES, facts) is None
