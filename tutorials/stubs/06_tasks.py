"""Tasks of lesson 6: fill in the functions, and run `minitensor course check 06`."""


def digits(number, sizes):
    """Return the digits of a number as a list: one for each size, the leading one first.

    They are the values that nested loops of these extents have in their iteration `number`,
    counted from 0: digits(4, [2, 3]) is [1, 1], for 4 = 1*3 + 1.
    """
    raise NotImplementedError


def visits(n, factors, order):
    """Return the indices that a loop over range(n) visits after split and reorder, as a list.

    factors  of the split, outermost first; one of them may be None, and is inferred
    order    the new loops from the outermost to the innermost, as positions in `factors`:
             [1, 0] puts the second of two loops outside

    Indices from n on are guarded off.
    """
    raise NotImplementedError


def tile(s, height, width):
    """Change the schedule of C[i, j] = f(i, j): tiles of height x width elements.

    Its two loops may have other names than i and j: s.get_loops("C") gives both, outermost first.
    The tiles come row by row. Inside a tile the elements come column by column. Tiles at the
    bottom and at the right edge may be smaller.
    """
    raise NotImplementedError


def strips(s, width):
    """Change the schedule of C[i, j] = f(i, j): strips of `width` columns, from left to right.

    Inside a strip the elements come row by row. The last strip may be narrower. No condition is
    asked anywhere: there is no guard. The names of the loops are any, as in `tile`.
    """
    raise NotImplementedError
