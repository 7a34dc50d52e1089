"""Tasks of lesson 31: fill in the functions, and run `minitensor course check 31`."""

import math


def band(curves):
    """Return the lowest, the median and the highest of curves at each trial, as three lists.

    They are as long as the longest curve; one that ended keeps its last value.
    """
    raise NotImplementedError


def trials_to(curves, target):
    """Return the median of the numbers of trials after which curves have reached a target.

    A number counts from 1; it is math.inf for a curve that never reaches it.
    """
    raise NotImplementedError


def sign_test(a, b):
    """Return how likely fair coins are at least as far from half and half as the pairs of a and b.

    Equal pairs are left out; with none left it is 1.
    """
    raise NotImplementedError
