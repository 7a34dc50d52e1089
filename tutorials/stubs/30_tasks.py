"""Tasks of lesson 30: fill in the functions, and run `minitensor course check 30`."""

import numpy as np


def traffic(m, n, k, bm, bn):
    """Return the elements of A (m, k) and of B (k, n) that the blocks of a product load, as a pair.

    A block has a tile of C of bm x bn, loads each element that it needs once, and none outside.
    """
    raise NotImplementedError


def softmax_block(t, x, y):
    """Store the softmax of 8 rows of x in y; t.place is (block,), and there may be fewer rows.

    t.load("x", x, rows, columns) gives a tile for arrays of row and column numbers, zeros outside
    of x; t.store(y, rows, columns, tile) stores what is inside of y. Each element is loaded once.
    """
    raise NotImplementedError


def blocks(s, bm, bn, bk):
    """Change the schedule of C = A B into a program of blocks, whose tiles of C are bm x bn.

    One parallel loop has an iteration for each block; in it a loop over k in steps of bk loads a
    tile of A and one of B into temporaries, and multiplies these.
    """
    raise NotImplementedError
