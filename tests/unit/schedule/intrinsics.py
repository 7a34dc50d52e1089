"""Intrinsics for tests: small, with bodies in plain C that rely on no stride they need not.

And schedules in which one has, or could have, its loops.
"""

import minitensor as mt
from tests.unit.schedule.programs import chain, scale


def product(m=4, n=4, k=3, dtype="float32", name="product", reducer=mt.sum, **options):
    """c[i, j] += a[i, l] * b[l, j]"""
    a = mt.placeholder((m, k), dtype, name="a")
    b = mt.placeholder((k, n), dtype, name="b")
    l = mt.reduce_axis(k, name="l")
    c = mt.compute((m, n), lambda i, j: reducer(a[i, l] * b[l, j], axis=l), name="c")
    body = f"""
    for (int i = 0; i < {m}; ++i)
        for (int j = 0; j < {n}; ++j)
            for (int l = 0; l < {k}; ++l)
                c[i * c_stride0 + j * c_stride1] +=
                    a[i * a_stride0 + l * a_stride1] * b[l * b_stride0 + j * b_stride1];
"""
    return mt.intrinsic(name, [a, b, c], body, **options)


def twice(n=4, dtype="float32", **options):
    """y[i] = x[i] * 2"""
    x = mt.placeholder((n,), dtype, name="x")
    y = mt.compute((n,), lambda i: x[i] * 2, name="y")
    body = f"for (int i = 0; i < {n}; ++i) y[i * y_stride0] = x[i * x_stride0] * 2;"
    return mt.intrinsic("twice", [x, y], body, **options)


def copy2d(m=4, n=4, **options):
    """y[i, j] = x[i, j]"""
    x = mt.placeholder((m, n), name="x")
    y = mt.compute((m, n), lambda i, j: x[i, j], name="y")
    body = f"""
    for (int i = 0; i < {m}; ++i)
        for (int j = 0; j < {n}; ++j)
            y[i * y_stride0 + j * y_stride1] = x[i * x_stride0 + j * x_stride1];
"""
    return mt.intrinsic("copy2d", [x, y], body, **options)


def row(n=4, m=3, reducer=mt.sum, **options):
    """y[i] += x[i, l]"""
    x = mt.placeholder((n, m), name="x")
    l = mt.reduce_axis(m, name="l")
    y = mt.compute((n,), lambda i: reducer(x[i, l], axis=l), name="y")
    body = f"""
    for (int i = 0; i < {n}; ++i)
        for (int l = 0; l < {m}; ++l)
            y[i * y_stride0] += x[i * x_stride0 + l * x_stride1];
"""
    return mt.intrinsic("row", [x, y], body, **options)


def tiled(m=8, n=8, k=6, dtype="float32", tile=(4, 4, 3), program=None):
    """A product of matrices in tiles, its init taken out: loops i_1, j_1, k_1 for an intrinsic."""
    A = mt.placeholder((m, k), dtype, name="A")
    B = mt.placeholder((k, n), dtype, name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = mt.Schedule(program or mt.lower([A, B, C]))
    outer, inner = [], []
    for loop, factor in zip(s.get_loops("C"), tile):
        o, i = s.split(loop, [None, factor])
        outer.append(o)
        inner.append(i)
    s.reorder(*outer, *inner)
    s.decompose_reduction("C", outer[2])
    return s


def done():
    """A product of matrices whose tiles an intrinsic does."""
    s = tiled()
    s.tensorize("i_1", product())
    return s


def uneven():
    """Two intrinsics of four elements each, over ten."""
    s = mt.Schedule(scale(40))
    s.split("i", [10, 4])
    s.tensorize("i_1", twice())
    return s


def elementwise(block):
    """A chain of two blocks, one of which an intrinsic does."""

    def make():
        s = mt.Schedule(chain(4))
        s.tensorize(s.get_loops(block)[0], of_block(s, block))
        return s

    return make


def of_block(s, block):
    """An intrinsic that means what an elementwise block of four steps does."""
    value = s.program.blocks[block].body.value
    x = mt.placeholder((4,), name="x")
    symbol = {"+": lambda i: x[i] + value.b.value, "*": lambda i: x[i] * value.b.value}[value.op]
    y = mt.compute((4,), symbol, name="y")
    return mt.intrinsic(f"elementwise_{block}", [x, y], ";")
