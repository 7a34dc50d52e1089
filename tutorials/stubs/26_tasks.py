"""Tasks of lesson 26: fill in the functions, and run `minitensor course check 26`."""


def tokens(steps):
    """Return the fewest tokens that order a stream: a list of pairs of numbers, of the instruction
    that pushes and of the one that pops.

    steps  the instructions in the order of the program, from 0: tuples of a queue ("load",
           "execute" or "store"), a list of the buffers that it reads, and of those that it writes

    A queue is in order. Two instructions of different queues need an order if one of them writes
    what the other reads or writes. A token is for such a pair, goes forwards, and is left out if
    the others and the order of the queues imply it.
    """
    raise NotImplementedError


def missing(steps, tokens):
    """Return two instructions that need an order and that nothing orders, as a pair of numbers with
    the earlier one first; None if there are none.

    steps   as in `tokens`
    tokens  pairs of numbers, as `tokens` returns them; one of them may be missing
    """
    raise NotImplementedError


def cycles(steps, tokens, lengths):
    """Return the cycle in which the last instruction ends.

    steps    as in `tokens`
    tokens   as `tokens` returns them
    lengths  the cycles of each instruction

    An instruction begins, from cycle 0 on, when the one before it in its queue is done, and all
    whose tokens it pops.
    """
    raise NotImplementedError


def tile(m, n, k, bandwidth):
    """Return the tile of a product of int8, and the virtual threads: (rows, columns, terms,
    threads).

    m, n, k    the product is of (m, k) by (k, n)
    bandwidth  bytes that DRAM moves in a cycle; otherwise the machine is the usual one,
               `mt.accelerator.Machine(dram_bytes_per_cycle=bandwidth)`

    The tile divides the product, its columns and terms are multiples of 16, the threads divide the
    number of tiles of rows, and the tiles of all threads fit: rows x terms bytes in 32 KiB, terms x
    columns in 32 KiB, 5 x rows x columns in 128 KiB (sums, and what is made of them). The simulated
    cycles are at most 1.1 of those of the best tile that is known.
    """
    raise NotImplementedError
