"""Tasks of lesson 15: fill in the functions, and run `minitensor course check 15`."""

import minitensor as mt


def meaning(lanes, group):
    """Return the program of an instruction, as mt.lower makes it. A manual describes it so:

        for each lane j: multiply `group` unsigned bytes of a by as many signed bytes of b, from
        element group * j on in both; add the products up, in 32 bits; add the sum to c[j]

    a and b have lanes * group elements, c has one for each lane; it begins at zero, as in a
    program every reduction does. One tensor is computed, as in every meaning.
    """
    raise NotImplementedError


def difference(body):
    """Return operands (a, b, b_stride0, c) on which a body differs from its meaning; else None.

    body(a, b, b_stride0, c) takes lists of numbers, and changes c. It is to do

        c[j] += sum of a[k] * b[j * b_stride0 + k] for k < 4                   for j < 4

    and to leave everything else as it was, for all a and b in -128 … 127, b_stride0 in 4 … 32, and
    c in -1000000 … 1000000. c may have more elements than four, and b more than it needs.
    """
    raise NotImplementedError


def tensorized(s, instruction):
    """Change the schedule of a product: all its multiply-adds are done by an instruction.

    s            of C[i, j] += A[i, k] * B[k, j] in float32, with the block C and the loops i, j, k
    instruction  what mt.intrinsics.matmul_f32 returns; instruction.axes has the extents of i, j, l,
                 which divide those of the product
    """
    raise NotImplementedError
