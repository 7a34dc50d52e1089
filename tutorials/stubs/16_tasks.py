"""Tasks of lesson 16: fill in the functions, and run `minitensor course check 16`."""

import minitensor as mt


def transposed(s):
    """Change the schedule of B[i, j] = A[j, i] into a kernel that is kind to memory.

    Each load of A and store to B asks for few sectors: 32 neighbours, or what is left of a row.
    No access to shared memory has a bank conflict. Rows and columns need not be multiples of 32.
    Elements have 2, 4 or 8 bytes (s.program.buffers["A"].dtype.bits // 8); a bank gives 4 a turn.

    s  with the block B and the loops i and j
    """
    raise NotImplementedError


def barriers(steps):
    """Return the places of the fewest barriers that leave no race, as a list of numbers.

    All threads of a block do all steps one after the other, again and again, in a loop. A barrier
    at place n is in front of steps[n]; the one at place 0 is met in each iteration, too.

    steps  a list of (reads, writes); reads[t] are the elements that thread t reads in that step,
           writes[t] those that it writes: lists of numbers

    Two accesses race if two threads touch an element, one of them writes, and no barrier is
    between. No step races with itself.
    """
    raise NotImplementedError


def row_reduction(s):
    """Change the schedule of a sum, maximum or minimum of rows: lanes of a warp share each row.

    32 threads or more combine what they have, and loads of A are coalesced. Rows are of any length.

    s  of S[i] with the block S and the loops i and k; A[i, k] is read
    """
    raise NotImplementedError


def tiled(s, sectors, turns):
    """Change the schedule of a product C[i, j] += A[i, k] * B[k, j]: it asks less of memory.

    The loads of A and B move at most so many sectors, as many as tiles of 32 x 32 elements of C
    need, and the loads of shared memory take at most so many turns of the banks, a few more than
    2 x 2 elements for each thread need. Sizes need not divide.

    s  with the block C and the loops i, j and k
    """
    raise NotImplementedError
