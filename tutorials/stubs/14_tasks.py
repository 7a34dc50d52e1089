"""Tasks of lesson 14: fill in the functions, and run `minitensor course check 14`."""

import numpy as np

import minitensor as mt


def check(transform):
    """Return True if `transform`, a function from a program to a program, keeps results.

    False if it does not, for some program and some inputs; choose them. They should have: extents
    that no tile size divides; differences; neighbours such as A[i + 1]; a square array; sums, and
    maxima of negative numbers; updates in order (mt.update); float32. An ExecutionError of the
    interpreter says that a program is wrong too. A right transformation may change the order of a
    sum.
    """
    raise NotImplementedError


def arrays(program, seed):
    """Return a list with an array for each of `program.inputs`, of its shape and dtype.

    `ir.numpy_dtype(buffer.dtype)` is the dtype for numpy. The arrays should see faults: the same
    program with a mistake in it should give other results. Sums and products of the elements are
    exact, in any order. The same seed gives the same arrays, another seed gives others.
    """
    raise NotImplementedError


def smaller(case, fails):
    """Return a smaller list that fails: without any one of its elements it does not fail any more.

    case   a list of integers of 0 or more, for which fails(case) is True
    fails  a function of such a list; a list that fails still does with more, or larger, elements

    Nor does the list fail with any one element less by 1. At most 20,000 calls of `fails`.
    """
    raise NotImplementedError
