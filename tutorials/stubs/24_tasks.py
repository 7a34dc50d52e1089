"""Tasks of lesson 24: fill in the functions, and run `minitensor course check 24`."""


def lives(steps, kept):
    """Return a dictionary: for each value the first and the last step in which it is needed.

    steps  a list of pairs: the name of the value that a step computes, and the list of the names
           that it reads. Names that no step computes are inputs; they are not in the result
    kept   the names of values that are needed until the end: to the last step, whoever reads them

    Steps are counted from 0. The result of a step is needed in it, even if nobody reads it.
    """
    raise NotImplementedError


def plan(sizes, lives):
    """Return a dictionary: for each value its offset in one arena, an integer that is not negative.

    sizes  the bytes of each value, by name
    lives  for each value the first and the last step in which it is needed

    Two values whose lives have a step in common share no byte. The arena, up to the end of the
    value that ends highest, is as large as the most bytes that live in one step; in all cases here
    that is possible. No alignment is asked for.
    """
    raise NotImplementedError


def fault(steps, sizes, offsets):
    """Return the number of the first step that reads a value that was written over; None if there
    is none.

    steps    as in `lives`; what no step computes lies elsewhere, and is always right
    sizes    the bytes of each computed value, by name
    offsets  the offset of each in the arena

    A step reads all that it reads, and then writes its result. A value is written over if a later
    step has written to one of its bytes.
    """
    raise NotImplementedError


def place(shape, block, index):
    """Return where an element lies: the number of elements in front of it.

    shape  the extents (n, c, y, x) of an image
    block  0 for NCHW; the number of all channels for NHWC; else a divisor b of it, for NCHWbc, in
           which the axes are n, blocks of channels, y, x, and channels of a block
    index  the indices (n, c, y, x) of the element
    """
    raise NotImplementedError
