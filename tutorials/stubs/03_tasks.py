"""Tasks of lesson 3: fill in the functions, and run `minitensor course check 03`.

All expressions are trees of ir.Var, ir.Const, ir.Binary and ir.Select, of type index. The condition
of a Select is a comparison (an ir.Binary with < <= == or !=).
"""

from minitensor import ir


def size_and_depth(expr):
    """Return a pair: the number of nodes, and that of the nodes on the longest way down.

    A leaf alone gives (1, 1). A part that is used twice counts twice.
    """
    raise NotImplementedError


def evaluate(expr, variables):
    """Return the value of an expression, for values of its variables by name.

    Numbers are Python's integers, of any size. Division is floor division, and total.
    """
    raise NotImplementedError


def interval(expr, ranges):
    """Return (low, high): the value is never less than low, and never more than high.

    `ranges` has a pair (low, high) for each variable, both included. The operators are + - * // %,
    the last two always by a positive ir.Const. The condition of a Select may hold or not: it has
    the values of both sides.

    The bounds are the least and the greatest value where each variable occurs once and there is
    no %. The bounds of x % n are within 0 ... n-1.
    """
    raise NotImplementedError


def simplify(expr):
    """Return an expression of the same value, no larger, to which none of these rules applies.

    x + 0,  0 + x,  x - 0,  x * 1,  1 * x,  x // 1   ->  x
    x * 0,  0 * x,  x % 1                            ->  0
    a Binary of two constants                        ->  an ir.Const of its value
    a Select whose condition is a constant           ->  the side that it takes

    A comparison of two constants gives ir.TRUE or ir.FALSE.
    """
    raise NotImplementedError
