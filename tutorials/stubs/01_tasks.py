"""Tasks of lesson 1: fill in the functions, and run `minitensor course check 01`."""

import minitensor as mt


def define(n):
    """Return the program of R[i] = 3 * A[i + 1] - A[i] - A[i + 2], for n elements of float32.

    Its input is A, of n + 2 elements, its output R.
    """
    raise NotImplementedError


def recompute(s):
    """Change the schedule of a blur so that there is no array P: Q reads A."""
    raise NotImplementedError


def tiles(s, size):
    """Change the schedule of a blur: for each tile of `size` elements of Q, what it needs of P."""
    raise NotImplementedError
