"""Intrinsics for tests: small, with bodies in plain C that rely on no stride they need not."""

import minitensor as mt


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
