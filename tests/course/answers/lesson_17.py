import itertools
import math

import minitensor as mt


def tiles(s, most):
    i, j, k = s.get_loops("C")
    rows = s.sample_tile(i, 2)
    columns = s.sample_tile(j, 2, filter=lambda factors: factors[1] % 4 == 0)
    s.require(rows[1] * columns[1] <= most, "small tiles")
    (i_0, i_1), (j_0, j_1) = s.split(i, rows), s.split(j, columns)
    s.reorder(i_0, j_0, k, i_1, j_1)


def tiles_by_perfect_factors(s, most):
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, s.sample_perfect_tile(i, n=2, max_innermost_factor=64))
    j_0, j_1 = s.split(j, s.sample_perfect_tile(j, n=2, max_innermost_factor=64))
    s.reorder(j_0, k, i_0, i_1, j_1)
    sizes = [loop.extent for loop in mt.ir.paths(s.program)["C"]]
    s.require(sizes[-1] % 4 == 0, "vectors")
    s.require(sizes[-1] * sizes[-2] <= most, "small tiles")
    s.vectorize(j_1)


def tiles_by_numbers(s, most):
    rows, columns = s.program.outputs[0].shape
    pairs = [
        f"{y} {x}"
        for y, x in itertools.product(range(1, rows + 1), range(4, columns + 1, 4))
        if rows % y == 0 and columns % x == 0 and y * x <= most
    ]
    y, x = map(int, s.sample_categorical(pairs).split())
    i_0, i_1 = s.split("i", [None, y])
    j_0, j_1 = s.split("j", [None, x])
    s.reorder(j_0, i_0, "k", i_1, j_1)


def tiles_each_after_the_other(s, most):
    i, j, k = s.get_loops("C")
    rows = s.sample_tile(i, 2)
    fits = lambda factors: factors[1] % 4 == 0 and factors[1] * rows[1] <= most
    columns = s.sample_tile(j, 2, filter=fits)
    (i_0, i_1), (j_0, j_1) = s.split(i, rows), s.split(j, columns)
    s.reorder(k, i_0, j_0, i_1, j_1)


def tiles_of_any_size(s, most):
    tiles(s, 1 << 20)


def tiles_of_less(s, most):
    tiles(s, most - 1)


def tiles_of_any_columns(s, most):
    i, j, k = s.get_loops("C")
    rows, columns = s.sample_tile(i, 2), s.sample_tile(j, 2)
    s.require(rows[1] * columns[1] <= most, "small tiles")
    (i_0, i_1), (j_0, j_1) = s.split(i, rows), s.split(j, columns)
    s.reorder(i_0, j_0, k, i_1, j_1)


def tiles_of_at_most_16(s, most):
    i, j, k = s.get_loops("C")
    rows = s.sample_perfect_tile(i, n=2)
    columns = s.sample_perfect_tile(j, n=2)
    s.require(rows[1] * columns[1] <= most and columns[1] % 4 == 0, "small tiles")
    (i_0, i_1), (j_0, j_1) = s.split(i, rows), s.split(j, columns)
    s.reorder(i_0, j_0, k, i_1, j_1)


def tiles_by_powers_of_two(s, most):
    i, j, k = s.get_loops("C")
    rows, columns = s.sample_tile(i, 2), s.sample_tile(j, 2, policy="power2")
    s.require(rows[1] * columns[1] <= most and columns[1] % 4 == 0, "small tiles")
    (i_0, i_1), (j_0, j_1) = s.split(i, rows), s.split(j, columns)
    s.reorder(i_0, j_0, k, i_1, j_1)


def tiles_in_place(s, most):
    i, j, _ = s.get_loops("C")
    rows, columns = s.sample_tile(i, 2), s.sample_tile(j, 2)
    s.require(rows[1] * columns[1] <= most and columns[1] % 4 == 0, "small tiles")
    s.split(i, rows)
    s.split(j, columns)


def tiles_that_are_fixed(s, most):
    i_0, i_1 = s.split("i", [None, 2])
    j_0, j_1 = s.split("j", [None, 4])
    s.reorder(i_0, j_0, "k", i_1, j_1)


def tiles_in_three_parts(s, most):
    i, j, k = s.get_loops("C")
    rows, columns = s.sample_tile(i, 3), s.sample_tile(j, 2)
    s.require(rows[2] * columns[1] <= most and columns[1] % 4 == 0, "small tiles")
    (i_0, i_1, i_2), (j_0, j_1) = s.split(i, rows), s.split(j, columns)
    s.reorder(i_0, i_1, j_0, k, i_2, j_1)


def factorizations(n, parts):
    if parts == 1:
        return [(n,)]
    return [
        (first, *rest)
        for first in range(1, n + 1)
        if n % first == 0
        for rest in factorizations(n // first, parts - 1)
    ]


def factorizations_by_trying(n, parts):
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    return {one for one in itertools.product(divisors, repeat=parts) if math.prod(one) == n}


def factorizations_by_primes(n, parts):
    found = {(1,) * parts}
    prime = 2
    while n > 1:
        while n % prime == 0:
            n //= prime
            found = {
                (*one[:place], one[place] * prime, *one[place + 1 :])
                for one in found
                for place in range(parts)
            }
        prime += 1
    return [list(one) for one in sorted(found)]


def factorizations_in_order(n, parts):
    return [one for one in factorizations(n, parts) if list(one) == sorted(one)]


def factorizations_with_repetitions(n, parts):
    found = [(1,) * parts]
    prime = 2
    while n > 1:
        while n % prime == 0:
            n //= prime
            found = [
                (*one[:place], one[place] * prime, *one[place + 1 :])
                for one in found
                for place in range(parts)
            ]
        prime += 1
    return found


def factorizations_without_ones(n, parts):
    return [one for one in factorizations(n, parts) if 1 not in one]


def factorizations_that_cover(n, parts):
    sizes = [d for d in range(1, n + 1) if n % d == 0]
    inner = itertools.product(sizes, repeat=parts - 1)
    return [(-(-n // math.prod(one)), *one) for one in inner if math.prod(one) <= n]


def one_generation(population, speeds, options, numbers):
    numbers = iter(numbers)

    def parent():
        at, total = next(numbers) * sum(speeds), 0
        for candidate, speed in zip(population, speeds):
            total += speed
            if total > at:
                return candidate
        raise AssertionError

    best = max(range(len(speeds)), key=lambda n: speeds[n])
    found = [population[best]]
    for _ in population[1:]:
        one, other = parent(), parent()
        point = int(next(numbers) * len(options))
        child = list(one[:point] + other[point:])
        for knob in range(len(options)):
            if next(numbers) < 0.125:
                child[knob] = int(next(numbers) * options[knob])
        found.append(tuple(child))
    return found


def one_generation_by_position(population, speeds, options, numbers):
    at = 0
    found = [list(population[speeds.index(max(speeds))])]

    def number():
        nonlocal at
        at += 1
        return numbers[at - 1]

    while len(found) < len(population):
        wheel = [n for n, speed in enumerate(speeds) for _ in range(speed)]
        one, other = (population[wheel[int(number() * len(wheel))]] for _ in range(2))
        point = int(number() * len(options))
        child = [one[k] if k < point else other[k] for k in range(len(options))]
        for k, many in enumerate(options):
            if number() < 1 / 8:
                child[k] = int(number() * many)
        found.append(child)
    return found


def one_generation_reversed(population, speeds, options, numbers):
    left = list(reversed(numbers))

    def parent():
        at = left.pop() * sum(speeds)
        return next(p for n, p in enumerate(population) if sum(speeds[: n + 1]) > at)

    def child():
        first = parent()
        second = parent()
        point = int(left.pop() * len(options))
        made = []
        for k, choice in enumerate([*first[:point], *second[point:]]):
            mutates = left.pop() < 1 / 8
            made.append(int(left.pop() * options[k]) if mutates else choice)
        return tuple(made)

    best = sorted(zip(speeds, range(0, -len(speeds), -1), population), reverse=True)[0][2]
    return (best, *(child() for _ in population[1:]))


def changed(numbers, speeds, population, options, *, strict=True, elite=True, extra=0, each=False):
    numbers = iter(numbers)

    def parent():
        at, total = next(numbers) * sum(speeds), 0
        for candidate, speed in zip(population, speeds):
            total += speed
            if total > at or (not strict and total == at):
                return candidate
        raise AssertionError

    found = [population[speeds.index(max(speeds))]] if elite else []
    while len(found) < len(population):
        one, other = parent(), parent()
        point = int(next(numbers) * (len(options) + extra))
        child = list(one[:point] + other[point:])
        for knob in range(len(options)):
            number = next(numbers)
            new = next(numbers) if each or number < 0.125 else 0.0
            if number < 0.125:
                child[knob] = int(new * options[knob])
        found.append(tuple(child))
    return found


def one_generation_at_the_border(population, speeds, options, numbers):
    return changed(numbers, speeds, population, options, strict=False)


def one_generation_without_the_fastest(population, speeds, options, numbers):
    return changed(numbers, speeds, population, options, elite=False)


def one_generation_with_another_point(population, speeds, options, numbers):
    return changed(numbers, speeds, population, options, extra=1)


def one_generation_that_uses_too_many(population, speeds, options, numbers):
    return changed(numbers, speeds, population, options, each=True)


def one_generation_of_parents(population, speeds, options, numbers):
    return population


RIGHT = {
    "tiles": [tiles, tiles_by_perfect_factors, tiles_by_numbers, tiles_each_after_the_other],
    "factorizations": [factorizations, factorizations_by_trying, factorizations_by_primes],
    "one_generation": [one_generation, one_generation_by_position, one_generation_reversed],
}
WRONG = {
    "tiles": [
        (tiles_of_any_size, "elements"),
        (tiles_of_less, "no candidate has tiles of"),
        (tiles_of_any_columns, "columns"),
        (tiles_of_at_most_16, "no candidate has tiles of 1 x"),
        (tiles_by_powers_of_two, "does not divide"),
        (tiles_in_place, "the inner ones of i and j have to be last"),
        (tiles_that_are_fixed, "no candidate has tiles of"),
        (tiles_in_three_parts, "i is cut into 3 loops"),
    ],
    "factorizations": [
        (factorizations_in_order, "lacks"),
        (factorizations_with_repetitions, "more than once"),
        (factorizations_without_ones, "lacks (1, 1, 1)"),
        (factorizations_that_cover, "which is none"),
    ],
    "one_generation": [
        (one_generation_at_the_border, "right is"),
        (one_generation_without_the_fastest, "right is"),
        (one_generation_with_another_point, "right is"),
        (one_generation_that_uses_too_many, "right is"),
        (one_generation_of_parents, "right is"),
    ],
}
