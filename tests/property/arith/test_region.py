"""Regions against brute force: every element touched is inside the box."""

import itertools
import random

from minitensor.arith import box_of, extent_range, simplified_linear
from minitensor.ir import Const, Expr, Var, evaluate
from tests.parts import times


def random_index(rng: random.Random, names: list[str]) -> Expr:
    form: Expr = Const(rng.randint(-3, 3))
    for n in names:
        if rng.random() < 0.7:
            form = form + Var(n) * rng.choice([1, 1, 2, 3, 4, 8, -1, -2])
    kind = rng.randrange(6)
    if kind == 0:
        return form // rng.choice([2, 3, 4, 8])
    if kind == 1:
        return form % rng.choice([2, 3, 4, 8])
    if kind == 2:
        return form // 2 % 4 + Var(rng.choice(names))
    return form


def test_boxes_hold_every_element_touched():
    exact = total = 0
    for seed in range(times(750, 1500)):
        rng = random.Random(seed)
        names = list("wxyz")[: rng.randint(1, 4)]
        extents = {n: rng.choice([1, 2, 3, 4, 8]) for n in names}
        ranges = {n: extent_range(e) for n, e in extents.items()}
        inner = frozenset(n for n in names if rng.random() < 0.6)
        index = random_index(rng, names)
        (span,) = box_of([simplified_linear(index, ranges)], [1000], inner, ranges)
        outer = [n for n in names if n not in inner]
        for held in itertools.product(*[range(extents[n]) for n in outer]):
            base = dict(zip(outer, held))
            low = evaluate(span.low.expr(), base)
            touched = [
                evaluate(index, {**base, **dict(zip(sorted(inner), point))})
                for point in itertools.product(*[range(extents[n]) for n in sorted(inner)])
            ]
            assert low <= min(touched)
            assert max(touched) <= low + span.spread
            total += 1
            exact += (min(touched), max(touched)) == (low, low + span.spread)
    assert exact > 0.8 * total, (exact, total)
