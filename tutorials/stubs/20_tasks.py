"""Tasks of lesson 20: fill in the functions, and run `minitensor course check 20`."""

import math


def mutate(tile, rng):
    """Return a neighbour of a tile, as a tuple of the same length with the same product.

    A tile is a tuple of factors, from outside to inside: (4, 6, 1). One prime factor moves from one
    place to another: (2, 6, 2), (4, 2, 3), ... Each neighbour has to come up sooner or later. All
    that is drawn comes from `rng` (a random.Random). A tile of ones has no neighbour: return it.
    """
    raise NotImplementedError


def ucb(history, arms, window):
    """Return the arm that UCB1 takes next, a number from 0 to arms - 1.

    `history` is a list of (arm, reward), the newest last, and only its last `window` trials count.
    If an arm was not tried in them, return the first such arm. Else take the arm with the highest

        mean reward + sqrt(2 * ln(t) / n)

    where the arm was tried n times in the t trials that count. Of equal ones any will do.
    """
    raise NotImplementedError


def propose(history, options, rng):
    """Return the number of the option that is measured next.

    `options` is a list of names of programs, each a tuple of choices: (4, 6, 8, 16, 1).
    `history` is a list of (number, seconds) of what was measured, the newest last; `rng` is a
    random.Random. It is asked 40 times in a search, and only the fastest counts at the end.
    """
    raise NotImplementedError
