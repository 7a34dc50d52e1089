"""Tasks of lesson 27: fill in the functions, and run `minitensor course check 27`."""


def grouped(b, lanes, group):
    """Return a matrix in the order in which an instruction reads it: nested lists, in which element
    [j_0][k_0][j_1][k_1] is b[k_0 * group + k_1][j_0 * lanes + j_1], and 0 beyond the ends of b.

    b      k rows of n numbers each, as a list of lists
    lanes  the extent of j_1; as many j_0 as it takes
    group  the extent of k_1; as many k_0 as it takes
    """
    raise NotImplementedError


def assign(instruction, product):
    """Return the loops of a product that an instruction can do, as {axis of the instruction: loop
    of the product}; None if there are none.

    Both are dictionaries of operands: two factors, and then the result, each with the loops that
    index it. Such as

        instruction  {"a": ("k",), "b": ("j", "k"), "c": ("j",)}
        product      {"A": ("i", "k"), "B": ("k", "j"), "C": ("i", "j")}

    The factors of the instruction may be those of the product in either order. An axis and its loop
    index the same operands, and no others; two axes have two loops. Where several loops fit, any
    will do.
    """
    raise NotImplementedError


def signed(dot, a, b):
    """Return the sum of a[k] * b[k] for k < 4, of bytes with signs (-128 … 127), by an instruction
    that takes a without a sign.

    dot(x, y)  the sum of x[k] * y[k] for k < 4, of x in 0 … 255 and y in -128 … 127; anything else
               is a ValueError. It is called once or twice
    a, b       lists of four numbers
    """
    raise NotImplementedError


def tensorized(s, instruction):
    """Change the schedule of a product: all its multiply-adds are done by an instruction.

    s            of C[i, j] += int32(A[i, k]) * int32(B[k, j]), A uint8 and B int8, with the block C
                 and the loops i, j, k, of extents that nothing has to divide
    instruction  mt.intrinsics.dot("uint8", "int8", lanes): c[j] += a[k] * b[j, k], of 4 neighbours
                 along k; instruction.axes["j"] is the number of lanes
    """
    raise NotImplementedError
