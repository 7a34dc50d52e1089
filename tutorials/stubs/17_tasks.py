"""Tasks of lesson 17: fill in the functions, and run `minitensor course check 17`."""

import minitensor as mt


def tiles(s, most):
    """Make a template of the product C[i, j] = the sum of A[i, k] * B[k, j], of hidden sizes.

    Cut i and j into two loops each, by divisors of their extents. The two inner loops come last,
    that of i before that of j. A tile (the inner loops) has at most `most` elements, and its
    columns, along j, are a multiple of 4. All such tiles are candidates, and no others.
    """
    raise NotImplementedError


def factorizations(n, parts):
    """Return a list of all tuples of `parts` positive integers whose product is n, in any order.

    (2, 3) and (3, 2) are two of them.
    """
    raise NotImplementedError


def one_generation(population, speeds, options, numbers):
    """Return the next generation of a genetic algorithm: a list of tuples, as long as this one.

    population  the candidates: tuples with a choice for each knob, a position among its options
    speeds      how fast each candidate is: integers of 0 or more, not all of them 0
    options     the number of options of each knob
    numbers     numbers from [0, 1): the chances, in the order in which they are used; there are
                enough of them

    The first of the next generation is the fastest of this one (the first of several), unchanged.
    For each other one, these numbers are used one after the other:

    1. one for the first parent, and one for the second (which may be the same): the first position
       such that the sum of the speeds up to and with it is greater than number * sum(speeds);
    2. one for the point, int(number * knobs): the choices before it are those of the first parent,
       the others those of the second;
    3. for each knob in turn one, and if that is less than 1 / 8, the next number draws the choice
       anew: int(number * options of the knob).
    """
    raise NotImplementedError
