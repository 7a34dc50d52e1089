"""What the provers say of random index expressions is so at every point that was tried.

`prove`, regions, intervals, matching and digits may all answer "don't know"; a yes is held here
against values that have nothing to do with how it was found.
"""

import functools
import itertools
import math
import random

import numpy as np
import pytest

from minitensor.arith import (
    Interval,
    Linear,
    Span,
    at_least_zero,
    clipped_box,
    contains,
    facts_of,
    interval_of,
    is_nonnegative,
    prove,
    separates,
    simplified_linear,
    span_of,
    swept,
    union_box,
)
from minitensor.arith.interval import binary_interval
from minitensor.arith.match import binds, dividends, matches
from minitensor.arith.rules import EXTREMUM, LOGIC, QUOTIENT, REMAINDER
from minitensor.ir import Binary, Const, Expr, Var, conjunction, evaluate, free_vars, substitute
from tests.index_values import value_of
from tests.parts import times
from tests.random_indices import (
    NAMES,
    Space,
    random_condition,
    random_expression,
    random_index,
    random_space,
)


@functools.cache
def _space(seed: int) -> Space:
    return random_space(random.Random(seed))


def space_of(seed: int) -> Space:
    return _space(seed % 150)


def form_value(form: Linear, points: dict[str, np.ndarray]) -> np.ndarray:
    return value_of(form.expr(), points)


# ---- prove


@pytest.mark.slow
def test_what_is_proven_is_so():
    known = refuted = helped = 0
    for seed in range(2000):
        rng = random.Random(seed)
        space = space_of(seed)
        condition = random_condition(rng, rng.choice((1, 2, 3)))
        given = [random_condition(rng, rng.choice((1, 2))) for _ in range(rng.choice((0, 1, 1, 2)))]
        answer = prove(condition, space.ranges, facts_of(given, space.ranges))
        holds = value_of(conjunction(given), space.points)
        values = value_of(condition, space.points)[holds]
        if answer is not None:
            assert (values == answer).all(), (seed, condition, given, space.ranges)
        known += answer is True
        refuted += answer is False
        helped += answer is not None and prove(condition, space.ranges) is None
    assert min(known, refuted) > 150
    assert helped > 12


def random_form(rng: random.Random) -> Linear:
    form = Linear({}, rng.randint(-12, 12))
    for name in rng.sample(NAMES, rng.randint(1, 3)):
        atom: Expr = Var(name)
        if rng.random() < 0.4:
            atom = Binary(rng.choice(("//", "%")), atom, Const(rng.choice((2, 3, 4))))
        form = form.plus(Linear({atom: 1}), rng.choice((-4, -2, -1, 1, 1, 2, 3)))
    return form


@pytest.mark.slow
def test_what_follows_from_facts_is_so():
    """Facts near what is asked: the same form with other factors and constants."""
    followed = 0
    for seed in range(4000):
        rng = random.Random(seed)
        space = space_of(seed)
        fact = random_form(rng)
        form = fact.times(rng.choice((1, 1, 2))).plus(random_form(rng), rng.choice((0, 0, 1)))
        form = form.shifted(rng.randint(-3, 6))
        if rng.random() < 0.4:
            c = rng.choice((2, 3, 4))
            form = Linear({Binary("//", fact.expr(), Const(c)): rng.choice((1, 2, -1))})
            form = form.shifted(rng.randint(-2, 2))
        if is_nonnegative(form, space.ranges, [fact]):
            meets = form_value(fact, space.points) >= 0
            assert (form_value(form, space.points)[meets] >= 0).all(), (seed, form, fact)
            followed += not is_nonnegative(form, space.ranges)
    assert followed > 300


def test_conditions_as_forms_say_the_same():
    said = 0
    for seed in range(1000):
        rng = random.Random(seed)
        space = space_of(seed)
        condition = random_condition(rng, 3)
        forms = at_least_zero(condition, space.ranges)
        if forms is None:
            continue
        said += 1
        holds = np.ones(len(space.points["i"]), bool)
        for form in forms:
            holds &= form_value(form, space.points) >= 0
        assert np.array_equal(holds, value_of(condition, space.points)), (seed, condition)
    assert said > 300


# ---- intervals

ENDS = (-6, -5, -2, -1, 0, 1, 2, 4, 6)
INTERVALS = [Interval(lo, hi) for lo in ENDS for hi in ENDS if lo <= hi]
FAR = 60
UNBOUNDED = [
    Interval(-math.inf, 3), Interval(-math.inf, -2), Interval(-math.inf, 0), Interval(2, math.inf),
    Interval(0, math.inf), Interval(-4, math.inf), Interval(-math.inf, math.inf),
]  # fmt: skip


def integers(interval: Interval) -> np.ndarray:
    return np.arange(max(-FAR, interval.lo), min(FAR, interval.hi) + 1).astype(np.int64)


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "min", "max"])
def test_the_interval_of_an_operation_holds_every_value(op):
    a, b = Var("a"), Var("b")
    exact = 0
    for x, y in itertools.product(INTERVALS + UNBOUNDED, repeat=2):
        found = binary_interval(op, x, y)
        xs, ys = np.meshgrid(integers(x), integers(y))
        values = value_of(Binary(op, a, b), {"a": xs.reshape(-1), "b": ys.reshape(-1)})
        assert found.lo <= values.min() <= values.max() <= found.hi, (x, y, found)
        if x.is_bounded and y.is_bounded:
            exact += found == (values.min(), values.max())
    least = {"//": 0.1, "%": 0.05}.get(op, 1.0)
    assert exact >= least * len(INTERVALS) ** 2


def test_the_interval_of_a_division_by_a_number_is_exact():
    for x in INTERVALS:
        for c in range(1, 9):
            quotients = integers(x) // c
            assert x.floor_div(c) == (quotients.min(), quotients.max())
            remainders = integers(x) % c
            found = x.floor_mod(c)
            assert found.lo <= remainders.min()
            assert remainders.max() <= found.hi
    assert Interval(9, 11).floor_mod(4) == (1, 3)


def test_the_interval_of_an_expression_holds_every_value():
    for seed in range(1500):
        rng = random.Random(seed)
        space = space_of(seed)
        expr = random_expression(rng, 4)
        values = value_of(expr, space.points)
        if len(values):
            low, high = interval_of(expr, space.ranges)
            assert low <= values.min() <= values.max() <= high, (seed, expr)


# ---- regions


@pytest.mark.slow
def test_a_span_holds_every_place():
    found = tight = 0
    for seed in range(2500):
        rng = random.Random(seed)
        space = space_of(seed)
        form = simplified_linear(random_index(rng, rng.choice((1, 2, 3))), space.ranges)
        inner = frozenset(rng.sample(NAMES, rng.randint(1, 3)))
        span = span_of(form, inner, space.ranges)
        if span is None:
            continue
        assert inner.isdisjoint(name for atom in span.low.terms for name in free_vars(atom))
        places = form_value(form, space.points) - form_value(span.low, space.points)
        if len(places):
            assert places.min() >= 0, (seed, form, inner)
            assert places.max() <= span.spread, (seed, form, inner)
            found += 1
            tight += (places.min(), places.max()) == (0, span.spread)
    assert found > 800
    assert tight > 0.3 * found


SHAPE = (12, 9)
RANGES = {"i": Interval(0, 3), "j": Interval(-1, 2), "k": Interval(0, 0)}
EVERYWHERE = [
    dict(zip(RANGES, place))
    for place in itertools.product(*(range(int(r.lo), int(r.hi) + 1) for r in RANGES.values()))
]


def random_box(rng: random.Random) -> tuple[Span, ...]:
    spans = []
    for _ in SHAPE:
        low = Linear({}, rng.randint(-3, 6))
        for name in rng.sample(sorted(RANGES), rng.choice((0, 0, 1, 1, 2))):
            low = low.plus(Linear({Var(name): rng.choice((1, 1, 2, 3, 4, -1, -2))}))
        spans.append(Span(low, rng.randint(0, 6)))
    return tuple(spans)


def places_of(box: tuple[Span, ...], values: dict[str, int]) -> set[tuple[int, ...]]:
    lows = [evaluate(span.low.expr(), values) for span in box]
    return {*itertools.product(*(range(low, low + s.extent) for low, s in zip(lows, box)))}


IN_SHAPE = {*itertools.product(*map(range, SHAPE))}


@pytest.mark.slow
def test_boxes_against_the_places_in_them():
    inside = whole = 0
    for seed in range(600):
        rng = random.Random(seed)
        a, b = random_box(rng), random_box(rng)
        if rng.random() < 0.5:  # the same but for constants
            b = tuple(Span(s.low.shifted(rng.randint(0, 2)), rng.randint(0, s.spread)) for s in a)
        union, clipped = union_box(a, b, SHAPE), clipped_box(a, SHAPE)
        within = contains(a, b, RANGES)
        inside += within
        every: set[tuple[int, ...]] = set()
        for values in EVERYWHERE:
            first, second = places_of(a, values), places_of(b, values)
            assert (first | second) & IN_SHAPE <= places_of(union, values)
            assert first & IN_SHAPE <= places_of(clipped, values)
            assert not within or second <= first, seed
            every |= first
        axes = swept(a, RANGES)
        if axes is not None:
            whole += 1
            assert {*itertools.product(*axes)} == every, seed
    assert inside > 75
    assert whole > 75


# ---- matching


@pytest.mark.slow
def test_a_match_of_a_division_is_the_dividend():
    found = 0
    patterns = [(rule.pattern.a, rule.pattern.b) for rule in (*QUOTIENT, *REMAINDER)]
    for seed in range(600):
        rng = random.Random(seed)
        space = space_of(seed)
        form = simplified_linear(random_index(rng, 3), space.ranges)
        divisor = rng.choice((2, 3, 4, 8, 12, -6))
        for dividend, by in patterns:
            bound = {by.name: Linear({}, divisor)} if isinstance(by, Var) else {}
            for bindings in dividends(dividend, form, divisor, bound):
                exprs = {name: value.expr() for name, value in bindings.items()}
                again = value_of(substitute(dividend, exprs), space.points)
                assert np.array_equal(again, form_value(form, space.points)), (seed, dividend)
                found += 1
    assert found > 2000


@pytest.mark.slow
def test_a_match_of_an_extremum_or_a_condition_is_the_expression():
    found = 0
    for seed in range(2000):
        rng = random.Random(seed)
        space = space_of(seed)
        expr = random_expression(rng, 3)
        for rule in LOGIC:
            bindings: dict[str, Expr] = {}
            if matches(rule.pattern, expr, bindings):
                again = substitute(rule.pattern, bindings)
                same = value_of(again, space.points) == value_of(expr, space.points)
                assert same.all(), (seed, rule.reading)
                found += 1
        if not isinstance(expr, Binary) or expr.op not in ("min", "max"):
            continue
        forms = [simplified_linear(side, space.ranges) for side in (expr.a, expr.b)]
        for rule in EXTREMUM:
            bound: dict[str, Linear] = {}
            if all(binds(p, f, bound) for p, f in zip((rule.pattern.a, rule.pattern.b), forms)):
                exprs = {name: form.expr() for name, form in bound.items()}
                for side, form in zip((rule.pattern.a, rule.pattern.b), forms):
                    again = value_of(substitute(side, exprs), space.points)
                    assert np.array_equal(again, form_value(form, space.points))
                found += 1
    assert found > 200


# ---- digits


def tells(name: str, a: np.ndarray, b: np.ndarray, values: np.ndarray, groups: np.ndarray) -> bool:
    """Whether within a group (equal values of what is fixed) equal columns of a and b mean equal
    values of the variable.
    """
    seen: dict[bytes, set[int]] = {}
    for place in range(len(values)):
        key = groups[:, place].tobytes() + a[:, place].tobytes()
        seen.setdefault(key, set()).add(int(values[place]))
    for place in range(len(values)):
        key = groups[:, place].tobytes() + b[:, place].tobytes()
        if seen.get(key, {int(values[place])}) != {int(values[place])}:
            return False
    return True


def random_access(rng: random.Random, names: list[str], extents: dict[str, int]) -> list[Expr]:
    """Indices of an access: sums with strides and offsets, their digits, clipped, or anything."""
    indices: list[Expr] = []
    for _ in range(rng.randint(1, 3)):
        form: Expr = Const(rng.choice((0, 0, 1, -2)))
        scale = rng.choice((1, 1, 2, -1))
        for name in rng.sample(names, rng.randint(1, len(names))):
            form = form + Var(name) * scale
            scale = rng.choice((scale * extents[name], scale * extents[name], scale, 2, -3))
        c, d = rng.choice((2, 3, 4, 6)), rng.choice((2, 3))
        shape = rng.randrange(10)
        if shape == 9:  # a number whose leading digit is that of one of its parts
            x, y = rng.choice(names), rng.choice(names)
            k, p = rng.choice((extents[y], max(1, extents[y] - 1))), rng.choice((1, 2))
            form = Var(x) * k + Var(y)
            indices += [Var(x) // p, form % (k * p * rng.choice((1, 1, 2)))]
        elif shape == 0:
            indices += [form // c, form % c]
        elif shape == 1:
            indices += [form // (c * d), form // d % c, form % d]
        elif shape == 2:
            indices.append(form // c * c + form % d)
        elif shape == 3:
            indices.append(Binary("min", form, Const(rng.randint(0, 6))))
        elif shape == 4:
            indices.append(rng.choice((form // c, form % c, form // c % d)))
        else:
            indices.append(form)
    return indices


@pytest.mark.slow
def test_digits_that_tell_an_iteration_do():
    yes, count = 0, times(2000, 4000)
    for seed in range(count):
        rng = random.Random(seed)
        names = list("wxyz")[: rng.randint(1, 4)]
        extents = {name: rng.choice((1, 2, 3, 4, 5)) for name in names}
        starts = {name: rng.choice((0, 0, 0, 1, -2)) for name in names}
        ranges = {n: Interval(starts[n], starts[n] + extents[n] - 1) for n in names}
        grid = np.meshgrid(*(np.arange(ranges[n].lo, ranges[n].hi + 1) for n in names))
        points = {name: axis.reshape(-1) for name, axis in zip(names, grid)}
        name = rng.choice(names)
        free = frozenset({name, *rng.sample(names, rng.randint(0, len(names)))})
        a = random_access(rng, names, extents)
        b = a
        if rng.random() < 0.4:
            b = [e + rng.choice((0, 0, 1, -1, Var(rng.choice(names)))) for e in a]
        elif rng.random() < 0.2:
            b = random_access(rng, names, extents)
        left, right = ([simplified_linear(e, ranges) for e in side] for side in (a, b))
        if separates(name, left, right, free, ranges):
            yes += 1
            count = min(len(a), len(b))
            columns = [np.array([value_of(e, points) for e in side[:count]]) for side in (a, b)]
            fixed = [n for n in names if n not in free]
            groups = np.array([points[n] for n in fixed] or [np.zeros_like(points[name])])
            assert tells(name, *columns, points[name], groups), (seed, name, a, b, ranges, free)
    assert yes > count // 5
