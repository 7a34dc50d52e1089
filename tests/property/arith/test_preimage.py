"""Preimages are those of brute force."""

import itertools
import random

import pytest

from minitensor.arith import Linear, Simplifier, Span, extent_range, linear_of, preimage, undivided
from minitensor.ir import Var, evaluate

NAMES = ("x", "y", "k")


def random_forms(rng, sizes):
    """Indices that programs have: sums in mixed radix, mirrored ones, digits of a number."""
    x, y, k = map(Var, NAMES)
    step, shift = rng.choice([1, 2, 3, 4]), rng.randint(-3, 3)
    number = rng.choice([x, x * sizes["y"] + y, (x * sizes["y"] + y) * sizes["k"] + k])
    first, second = rng.choice([2, 3, 4, 6]), rng.choice([2, 3])
    return rng.choice(
        [
            [x * step + k + shift],
            [shift - x * step - k, y],
            [x * step - k, y * 2 + shift],
            [number + shift],
            [number // first, number % first],
            [number // (first * second), number // first % second, number % first],
            [number // first + shift],
            [number % first, number // first],
            [x + y * step, k],
            [x, x + shift],
            [(x * step + k) // first, (x * step + k) % first],
        ]
    )


def random_low(rng):
    """The begin of a span: a multiple of t, or of digits of it."""
    t, tile = Var("t"), rng.choice([1, 2, 3, 4, 6])
    number = rng.choice([t, t, t // 2, t % 2, -t])
    return linear_of(number).times(tile).shifted(rng.choice([0, 0, 0, 1, 2]))


@pytest.mark.parametrize("seed", range(2))
def test_a_preimage_is_all_that_lies_in_the_box(seed):
    rng = random.Random(seed)
    known = parts = 0
    for _ in range(1500):
        sizes = {name: rng.randint(1, 4) for name in NAMES}
        ranges = {name: extent_range(size) for name, size in sizes.items()}
        outer = {"t": extent_range(rng.randint(1, 4))}
        simplifier = Simplifier(ranges)
        forms = [simplifier.linear(index) for index in random_forms(rng, sizes)]
        at = Simplifier(outer)
        box = [
            Span(at.linear(random_low(rng).expr()), rng.choice([0, 1, 2, 3, 5, 11])) for _ in forms
        ]
        found = preimage(forms, box, ranges, outer)
        if found is None:
            continue
        known += 1
        for t in range(int(outer["t"].hi) + 1):
            lows = [evaluate(span.low.expr(), {"t": t}) for span in box]
            begins = {name: evaluate(span.low.expr(), {"t": t}) for name, span in found.items()}
            for point in itertools.product(*(range(size) for size in sizes.values())):
                values = dict(zip(NAMES, point))
                places = [evaluate(form.expr(), values) for form in forms]
                met = all(0 <= p - a <= s.spread for p, a, s in zip(places, lows, box))
                taken = all(0 <= values[n] - begins[n] <= found[n].spread for n in found)
                assert met == taken, (forms, box, sizes, found, t, values)
                parts += taken
    assert known > 250
    assert parts > 1000


@pytest.mark.parametrize("seed", range(2))
def test_the_preimage_of_a_point_is_where_it_comes_from(seed):
    """As transform_layout lays elements out, with padding between them."""
    rng = random.Random(seed)
    i, j = Var("x"), Var("y")
    known = 0
    for _ in range(200):
        sizes = {"x": rng.randint(1, 9), "y": rng.randint(1, 9)}
        ranges = {name: extent_range(size) for name, size in sizes.items()}
        c, d = rng.choice([2, 3, 4]), rng.choice([2, 4])
        maps = [
            (j, i),
            (i // c, j, i % c),
            (i // (c * d), i // c % d, i % c, j),
            (i * sizes["y"] + j,),
            (i * 16 + j * 2,),
            (i // c, j // d, (i % c) * d + j % d),
            (i // c, sizes["y"] - 1 - j, i % c),
        ]
        simplifier = Simplifier(ranges)
        forms = [simplifier.linear(index) for index in rng.choice(maps)]
        places = [Var(f"a{n}") for n in range(len(forms))]
        point = [Span(Linear({place: 1}), 0) for place in places]
        found = preimage(forms, point, ranges, met=True)
        if found is None:
            continue
        known += 1
        for x, y in itertools.product(*map(range, sizes.values())):
            values = {"x": x, "y": y}
            there = {p.name: evaluate(f.expr(), values) for p, f in zip(places, forms)}
            for name, span in found.items():
                assert span.spread == 0
                assert evaluate(span.low.expr(), there) == values[name], (forms, found)
    assert known > 150


def test_what_a_fact_about_a_quotient_says_of_the_number():
    rng = random.Random(5)
    said = 0
    for _ in range(300):
        d, c = rng.choice([2, 3, 5]), rng.choice([-4, -2, -1, 1, 3])
        x, y = Var("x"), Var("y")
        fact = linear_of(x // d).times(c).plus(linear_of(y).times(rng.choice([0, 1, c, -2 * c])))
        fact = fact.shifted(rng.randint(-12, 12))
        ranges = {"x": extent_range(12), "y": extent_range(4)}
        for form in undivided([fact], ranges):
            said += 1
            for a, b in itertools.product(range(12), range(4)):
                values = {"x": a, "y": b}
                if evaluate(fact.expr(), values) >= 0:
                    assert evaluate(form.expr(), values) >= 0, (fact, form)
    assert said > 200
