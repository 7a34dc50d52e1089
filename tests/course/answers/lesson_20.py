import math
import random

import numpy as np


def _primes(number):
    found, prime = [], 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return found


def mutate(tile, rng):
    moves = [
        (source, target, prime)
        for source, factor in enumerate(tile)
        for prime in sorted(set(_primes(factor)))
        for target in range(len(tile))
        if target != source
    ]
    if not moves:
        return tile
    source, target, prime = rng.choice(moves)
    made = list(tile)
    made[source] //= prime
    made[target] *= prime
    return tuple(made)


def mutate_by_drawing(tile, rng):
    if max(tile) == 1:
        return tile
    while True:
        source, target = rng.sample(range(len(tile)), 2)
        if tile[source] > 1:
            prime = rng.choice(_primes(tile[source]))
            scale = {source: lambda f: f // prime, target: lambda f: f * prime}
            return tuple(scale.get(n, int)(factor) for n, factor in enumerate(tile))


def mutate_in_numpy(tile, rng):
    made = np.array(tile)
    places = np.flatnonzero(made > 1).tolist()
    if not places:
        return tile
    source = rng.choice(places)
    target = rng.choice([n for n in range(len(made)) if n != source])
    divisors = [d for d in range(2, made[source] + 1) if made[source] % d == 0]
    prime = rng.choice([d for d in divisors if not any(d % e == 0 for e in divisors if e < d)])
    made[source] //= prime
    made[target] *= prime
    return tuple(made.tolist())


def mutate_a_divisor(tile, rng):
    if max(tile) == 1:
        return tile
    source = rng.choice([n for n, factor in enumerate(tile) if factor > 1])
    target = rng.choice([n for n in range(len(tile)) if n != source])
    divisor = rng.choice([d for d in range(2, tile[source] + 1) if tile[source] % d == 0])
    made = list(tile)
    made[source] //= divisor
    made[target] *= divisor
    return tuple(made)


def mutate_to_the_next(tile, rng):
    if max(tile) == 1:
        return tile
    source = rng.choice([n for n, factor in enumerate(tile) if factor > 1])
    made, prime = list(tile), rng.choice(_primes(tile[source]))
    made[source] //= prime
    made[(source + 1) % len(made)] *= prime
    return tuple(made)


def mutate_by_twos(tile, rng):
    even = [n for n, factor in enumerate(tile) if factor % 2 == 0]
    if not even:
        return tile
    source = rng.choice(even)
    target = rng.choice([n for n in range(len(tile)) if n != source])
    return tuple(f // 2 if n == source else f * 2 if n == target else f for n, f in enumerate(tile))


def mutate_to_anywhere(tile, rng):
    if max(tile) == 1:
        return tile
    source = rng.choice([n for n, factor in enumerate(tile) if factor > 1])
    made, prime = list(tile), rng.choice(_primes(tile[source]))
    made[source] //= prime
    made[rng.randrange(len(made))] *= prime
    return tuple(made)


def mutate_one_factor(tile, rng):
    made = list(tile)
    made[rng.randrange(len(made))] *= 2
    return tuple(made)


def mutate_a_list(tile, rng):
    return list(mutate(tile, rng))


def ucb(history, arms, window):
    last = history[-window:]
    counts, sums = [0] * arms, [0.0] * arms
    for arm, reward in last:
        counts[arm] += 1
        sums[arm] += reward
    if 0 in counts:
        return counts.index(0)
    bounds = [s / n + math.sqrt(2 * math.log(len(last)) / n) for s, n in zip(sums, counts)]
    return bounds.index(max(bounds))


def ucb_in_numpy(history, arms, window):
    last = history[max(0, len(history) - window) :]
    chosen = np.array([arm for arm, _ in last], int)
    rewards = np.array([reward for _, reward in last], float)
    counts = np.bincount(chosen, minlength=arms)
    if not counts.all():
        return np.argmin(counts > 0)
    means = np.bincount(chosen, rewards, arms) / counts
    return np.argmax(means + np.sqrt(2 * np.log(len(last)) / counts))


def ucb_from_the_end(history, arms, window):
    own = {arm: [] for arm in range(arms)}
    total = 0
    for arm, reward in reversed(history):
        if total == window:
            break
        own[arm].append(reward)
        total += 1
    for arm, rewards in own.items():
        if not rewards:
            return arm
    return max(
        own,
        key=lambda arm: (
            sum(own[arm]) / len(own[arm]) + (2 * math.log(total) / len(own[arm])) ** 0.5
        ),
    )


def ucb_of_everything(history, arms, window):
    return ucb(history, arms, len(history) + 1)


def ucb_greedy(history, arms, window):
    last = history[-window:]
    means = []
    for arm in range(arms):
        own = [reward for a, reward in last if a == arm]
        if not own:
            return arm
        means.append(sum(own) / len(own))
    return means.index(max(means))


def ucb_of_sums(history, arms, window):
    last = history[-window:]
    own = [[reward for a, reward in last if a == arm] for arm in range(arms)]
    if [] in own:
        return own.index([])
    return max(
        range(arms), key=lambda a: sum(own[a]) + math.sqrt(2 * math.log(len(last)) / len(own[a]))
    )


def ucb_without_untried(history, arms, window):
    last = history[-window:]
    found = {}
    for arm in {a for a, _ in last}:
        own = [reward for a, reward in last if a == arm]
        found[arm] = sum(own) / len(own) + math.sqrt(2 * math.log(len(last)) / len(own))
    return max(found, key=found.get) if found else 0


def _new(history, options, rng):
    tried = {number for number, _ in history}
    return rng.choice([number for number in range(len(options)) if number not in tried])


def propose(history, options, rng):
    if len(history) < 8 or rng.random() < 0.1:
        return _new(history, options, rng)
    tried = {number for number, _ in history}
    for number, _ in sorted(history, key=lambda pair: pair[1]):
        mine = options[number]
        near = [
            n
            for n, other in enumerate(options)
            if n not in tried and sum(a != b for a, b in zip(mine, other)) == 1
        ]
        if near:
            return rng.choice(near)
    return _new(history, options, rng)


def propose_by_mutation_and_crossover(history, options, rng):
    if len(history) < 10 or rng.random() < 0.1:
        return _new(history, options, rng)
    tried = {number for number, _ in history}
    parents = [options[n] for n, _ in sorted(history, key=lambda pair: pair[1])[:4]]
    places = {option: number for number, option in enumerate(options)}
    for _ in range(60):
        child, other = list(rng.choice(parents)), rng.choice(parents)
        if rng.random() < 0.2:
            child = [rng.choice(pair) for pair in zip(child, other)]
        else:
            at = rng.randrange(len(child))
            child[at] = rng.choice(options)[at]
        number = places.get(tuple(child))
        if number is not None and number not in tried:
            return number
    return _new(history, options, rng)


def propose_by_effects(history, options, rng):
    """The option whose choices were fast on average: a model of one number for each choice."""
    if len(history) < 14 or rng.random() < 0.15:
        return _new(history, options, rng)
    logs = np.log([seconds for _, seconds in history])
    logs -= logs.mean()
    score = np.zeros(len(options))
    for column in np.array(options).T:
        mine = column[[number for number, _ in history]]
        for value in np.unique(mine):
            own = logs[mine == value]
            score[column == value] += own.sum() / (len(own) + 1)
    score[[number for number, _ in history]] = np.inf
    return np.argmin(score)


def propose_at_random(history, options, rng):
    return _new(history, options, rng)


def propose_with_repetitions(history, options, rng):
    return rng.randrange(len(options))


def propose_in_order(history, options, rng):
    return len(history)


def propose_near_the_worst(history, options, rng):
    return propose([(n, -s) for n, s in history], options, rng)


def propose_the_best_again(history, options, rng):
    if len(history) < 8:
        return _new(history, options, rng)
    return min(history, key=lambda pair: pair[1])[0]


def propose_an_option(history, options, rng):
    return rng.choice(options)


def propose_near_the_first(history, options, rng):
    return propose(history[:8], options, random.Random(1)) if history else 0


RIGHT = {
    "mutate": [mutate, mutate_by_drawing, mutate_in_numpy],
    "ucb": [ucb, ucb_in_numpy, ucb_from_the_end],
    "propose": [propose, propose_by_mutation_and_crossover, propose_by_effects],
}
WRONG = {
    "mutate": [
        (mutate_a_divisor, "more than a prime factor moves"),
        (mutate_to_the_next, "never comes up"),
        (mutate_by_twos, "never comes up"),
        (mutate_to_anywhere, "which is the tile itself"),
        (mutate_one_factor, "whose product is not"),
        (mutate_a_list, "a tuple of"),
    ],
    "ucb": [
        (ucb_of_everything, "right is"),
        (ucb_greedy, "the bounds are"),
        (ucb_of_sums, "the bounds are"),
        (ucb_without_untried, "it was not tried"),
    ],
    "propose": [
        (propose_at_random, "mean regret"),
        (propose_with_repetitions, "mean regret"),
        (propose_in_order, "mean regret"),
        (propose_near_the_worst, "mean regret"),
        (propose_the_best_again, "again"),
        (propose_an_option, "the number of an option is wanted"),
        (propose_near_the_first, "again"),
    ],
}
