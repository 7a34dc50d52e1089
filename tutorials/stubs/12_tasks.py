"""Tasks of lesson 12: fill in the functions, and run `minitensor course check 12`."""


def order(s, strides):
    """Reorder the loops i, j and k of a product: all strides of the innermost one are 0 or 1.

    s        a schedule of C += A B; each of the matrices may be stored transposed
    strides  of each loop, the stride of each matrix in elements: {"i": {"A": 20, "B": 0, …}, …}
    """
    raise NotImplementedError


def registers(rows, columns, lanes):
    """Return the number of vector registers for a tile of C: sums, a row of B, an element of A.

    The element of A is spread over one register. A vector that is only partly used counts.
    """
    raise NotImplementedError


def best_register_tile(registers, lanes):
    """Return (rows, columns) of a tile that fits into so many registers (3 or more).

    No tile that fits may have fewer loads for each multiply-add: with v vectors in a row these are
    (rows + v) / (rows * v). The columns are a multiple of the lanes.
    """
    raise NotImplementedError


def register_tile(s, rows, columns):
    """Hold tiles of C, of rows x columns, in vector registers while k runs.

    s  a schedule of a product with the block C and the loops i, j and k; sizes need not divide
    """
    raise NotImplementedError
