"""Tasks of lesson 5: fill in the functions, and run `minitensor course check 05`."""

from minitensor import ir


def offset(shape, index):
    """Return the place of the element at `index` in a row-major array of `shape`."""
    raise NotImplementedError


def unflatten(shape, place):
    """Return the index, a tuple, of the element at `place` in a row-major array of `shape`."""
    raise NotImplementedError


def stored(value, bits, signed):
    """Return what an integer becomes in an integer type of so many bits, signed or not."""
    raise NotImplementedError


def emit(program):
    """Return the C text of the loops and stores of `program.body`; arrays are flat.

    Statements are ir.For, ir.Seq and ir.Store; values are ir.Load, ir.Const, ir.Var and ir.Binary
    with the operators + - *. `program.buffers` has the buffers, with their shapes, by name.
    """
    raise NotImplementedError
