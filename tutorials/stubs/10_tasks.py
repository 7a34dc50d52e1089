"""Tasks of lesson 10: fill in the functions, and run `minitensor course check 10`."""


def misses(addresses, line, lines):
    """Return the number of misses in a cache of `lines` lines of `line` bytes, empty at first.

    `addresses` are bytes, in the order of access. A full cache gives up the least recently used
    line.
    """
    raise NotImplementedError


def best_tile(n, cache_bytes, itemsize):
    """Return the largest T that divides n, such that three tiles of T x T fit into a cache.

    At least tiles of one element fit.
    """
    raise NotImplementedError


def pack(s, width):
    """Change the schedule of C = A B: B is copied once, into panels of `width` columns.

    The element of row k and column j lies at ((j // width) * K + k) * width + j % width, for K rows
    of B, and the nest of C reads the panels from the first address to the last.
    """
    raise NotImplementedError
