"""`separates` against brute force: it may say "don't know", never a wrong yes."""

import itertools
import random

import pytest

from minitensor.arith import extent_range, separates, simplified_linear
from minitensor.ir import Const, Expr, Var, evaluate
from tests.parts import times


def brute_force(name, a, b, extents, free) -> bool:
    """Whether equal indices imply equal values of `name`, by trying everything."""
    fixed = [n for n in extents if n not in free]
    loose = [n for n in extents if n in free]
    for held in itertools.product(*[range(extents[n]) for n in fixed]):
        base = dict(zip(fixed, held))
        seen: dict[tuple[int, ...], set[int]] = {}
        points = list(itertools.product(*[range(extents[n]) for n in loose]))
        for point in points:
            values = {**base, **dict(zip(loose, point))}
            key = tuple(evaluate(e, values) for e in a)
            seen.setdefault(key, set()).add(values[name])
        for point in points:
            values = {**base, **dict(zip(loose, point))}
            key = tuple(evaluate(e, values) for e in b)
            if seen.get(key, {values[name]}) != {values[name]}:
                return False
    return True


def decide(name, a, b, extents, free) -> bool:
    ranges = {n: extent_range(e) for n, e in extents.items()}
    left = [simplified_linear(e, ranges) for e in a]
    right = [simplified_linear(e, ranges) for e in b]
    return separates(name, left, right, frozenset(free), ranges)


def random_index(rng: random.Random, names: list[str], extents: dict[str, int]) -> Expr:
    """Something that split, fuse, offsets and strides may have made."""
    chosen = rng.sample(names, rng.randint(1, len(names)))
    form: Expr = Const(rng.choice([0, 0, 0, 1, 2]))
    scale = 1
    for n in chosen:
        form = form + Var(n) * scale
        scale = rng.choice([scale * extents[n], scale * extents[n], scale, 2, 3])
    shape = rng.randrange(5)
    c = rng.choice([2, 3, 4, 6, 8])
    if shape == 0:
        return form // c
    if shape == 1:
        return form % c
    if shape == 2:
        return form // c % rng.choice([2, 3])
    return form


def test_separates_never_says_a_wrong_yes():
    yes = complete = 0
    for seed in range(count := times(1500, 3000)):
        rng = random.Random(seed)
        names = list("xyz")[: rng.randint(1, 3)]
        extents = {n: rng.choice([1, 2, 3, 4, 5]) for n in names}
        free = set(rng.sample(names, rng.randint(1, len(names)))) | {"x"}
        a = [random_index(rng, names, extents) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:  # the digits of one number, as fuse leaves them
            number = random_index(rng, names, extents)
            c = rng.choice([2, 3, 4])
            a = [number // c, number % c]
        elif rng.random() < 0.3:  # the leading digit simplified away: x//p is (x*k + y)//(p*k)
            k, c, d, p = rng.choice([2, 3, 5]), *(rng.choice([1, 2, 3, 4]) for _ in range(3))
            number = Var("x") * k + Var(names[-1])
            a = [Var("x") // p, number // c % d, number % c]
        b = a if rng.random() < 0.7 else [random_index(rng, names, extents) for _ in a]
        truth = brute_force("x", a, b, extents, free)
        answer = decide("x", a, b, extents, free)
        assert truth or not answer, (seed, a, b, extents, free)
        yes += answer
        complete += truth
    assert yes > count // 6
    assert yes > 0.5 * complete, (yes, complete)  # it is of use, too


def test_the_digits_of_every_number_that_fuse_and_split_make_are_recognised():
    for seed in range(times(300, 1500)):
        rng = random.Random(seed)
        sizes = [rng.randint(1, 9) for _ in range(rng.randint(2, 4))]
        part = rng.choice([2, 4, 5, 6, 8, 12, 16, 32, 64, 256])
        number, divisor, digits = Var("x") * part + Var("y"), 1, []
        for size in reversed(sizes):
            digits.append(number // divisor % size)
            divisor *= size
        digits[-1] = number // (divisor // sizes[0])
        extents = {"x": -(-divisor // part), "y": part}
        assert decide("y", digits, digits, extents, {"y"}), (sizes, part)
        assert decide("x", digits, digits, extents, {"x", "y"}), (sizes, part)


i_0, i_1, f, f_0, f_1, j = (Var(n) for n in ("i_0", "i_1", "f", "f_0", "f_1", "j"))


@pytest.mark.parametrize(
    ("name", "indices", "extents", "free"),
    [
        ("i_0", [i_0 * 8 + i_1], {"i_0": 4, "i_1": 8}, "i_0 i_1"),
        ("i_1", [i_0 * 8 + i_1], {"i_0": 4, "i_1": 8}, "i_0 i_1"),
        ("f", [f // 64, f % 64], {"f": 640}, "f"),
        ("f", [f // 32, f // 4 % 8, f % 4], {"f": 320}, "f"),
        ("f_0", [(f_0 * 24 + f_1) // 64, (f_0 * 24 + f_1) % 64], {"f_0": 27, "f_1": 24}, "f_0 f_1"),
        ("f_0", [(f_0 * 16 + f_1) // 64, (f_0 * 16 + f_1) % 64], {"f_0": 40, "f_1": 16}, "f_0 f_1"),
        *(
            (
                n,
                [f_0 // (42 // k), (f_0 * k + f_1) // 6 % 7, (f_0 * k + f_1) % 6],
                {"f_0": 168 // k, "f_1": k},
                free,
            )
            for k in (7, 14)
            for n, free in (("f_0", "f_0 f_1"), ("f_1", "f_1"))
        ),
        ("j", [i_0 * 8 + i_1, j], {"i_0": 4, "i_1": 9, "j": 5}, "i_0 i_1 j"),
        ("i_1", [i_0 * 4 + i_1], {"i_0": 4, "i_1": 9}, "i_1"),
    ],
)
def test_shapes_that_schedules_make_are_recognised(name, indices, extents, free):
    assert decide(name, indices, indices, extents, set(free.split()))


@pytest.mark.parametrize(
    ("name", "a", "b", "extents", "free"),
    [
        ("i_0", [i_0 * 8 + i_1], None, {"i_0": 4, "i_1": 9}, "i_0 i_1"),  # a halo
        ("f", [f // 64], None, {"f": 640}, "f"),  # a digit is missing
        ("f", [f], [f + 1], {"f": 640}, "f"),  # the neighbour
        ("j", [i_0], None, {"i_0": 4, "j": 3}, "j"),  # not in the index at all
    ],
)
def test_shapes_that_overlap_are_not(name, a, b, extents, free):
    assert not decide(name, a, b or a, extents, set(free.split()))
