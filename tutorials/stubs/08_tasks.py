"""Tasks of lesson 8: fill in the functions, and run `minitensor course check 08`."""


def left_over(extent, bits, size):
    """Return how many iterations of a vectorized loop are done in scalars.

    Vectors have `bits` bits (those of 128 are the narrowest that are used). Elements are integers
    of `size` bits that are divided: no vector of them leaves out lanes.
    """
    raise NotImplementedError


def lanes(s):
    """Vectorize each stage of the program, so that full vectors do all that fills one."""
    raise NotImplementedError


def share(s, cores):
    """Make the outermost loop around B parallel, with nearly equal work for all cores."""
    raise NotImplementedError


def tile(s, rows):
    """Keep tiles of C of `rows` rows in registers, while the loop of the reduction runs."""
    raise NotImplementedError
