"""Tasks of lesson 4: fill in the functions, and run `minitensor course check 04`."""

import minitensor as mt
from minitensor import ir


def kinds(iters, target, own, combines):
    """Return the kind of each iter of a block: "spatial", "reduce" or "ordered", by its name.

    iters     their names, as ("i", "j", "k")
    target    the indices of the element that the block writes, as (ir.Var("i"), ir.Var("j")); the
              axes of a reduction are no indices of it
    own       the elements of the same tensor that its value reads: a list with such a tuple of
              indices for each, as [(ir.Var("i"), ir.Var("j") - 1)]
    combines  True if the value is combined with the element by a reducer, False if it is stored

    For these: {"i": "spatial", "j": "ordered", "k": ...}
    """
    raise NotImplementedError


def broken_laws(combine, identity, values):
    """Return the laws that a reducer breaks, as a set.

    "associative"  broken by some x, y, z of the values
    "commutative"  broken by some x, y of the values
    "identity"     broken by some x of the values: identity, on either side of x, is to give x

    combine   a function of two values that returns one
    identity  a value, perhaps none of `values`
    values    a list of numbers, or of tuples of numbers
    """
    raise NotImplementedError


def define_running_max(n):
    """Return the program of R[i] = the greatest of A[0], A[1] ... A[i], for n >= 1 elements.

    Its input is A, its output R, both of n elements of float32. No element of A is NaN.
    """
    raise NotImplementedError


def define_argmin_rows(m, n):
    """Return the program of the least element of each row, without mt.argmin and mt.argmax.

    Its input is A, of shape (m, n) and float32; n >= 1. Its outputs are P and V, in this order, of
    m elements: P[i] is the place of the least element of row i (the first one of several), as
    int64, V[i] is its value, as float32. No element of A is NaN, but some may be infinite.
    """
    raise NotImplementedError
