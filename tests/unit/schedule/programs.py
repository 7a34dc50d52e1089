"""Small programs to schedule. A, B, C … are tensors in the order of the computation.

Each function gives the lowered program; those with `_s` behind their name nothing but a Schedule of
it. Values stay small integers, so that every order of a sum gives the same float.
"""

import minitensor as mt


def scale(n=20):
    """C[i] = A[i] * 2"""
    A = mt.placeholder((n,), name="A")
    C = mt.compute((n,), lambda i: A[i] * 2, name="C")
    return mt.lower([A, C])


def grid(n=4, m=8):
    """C[i, j] = A[i, j] * 2"""
    A = mt.placeholder((n, m), name="A")
    C = mt.compute((n, m), lambda i, j: A[i, j] * 2, name="C")
    return mt.lower([A, C])


def cube(n=2, m=3, k=4):
    """C[i, j, k] = A[i, j, k] * 2"""
    A = mt.placeholder((n, m, k), name="A")
    C = mt.compute((n, m, k), lambda i, j, k: A[i, j, k] * 2, name="C")
    return mt.lower([A, C])


def chain(n=8):
    """B[i] = A[i] * 2; C[j] = B[j] + 1"""
    A = mt.placeholder((n,), name="A")
    B = mt.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = mt.compute((n,), lambda j: B[j] + 1.0, name="C")
    return mt.lower([A, C])


def chain2d(n=4, m=8, outputs=""):
    """B[i, j] = A[i, j] * 2; C[x, y] = B[x, y] + 1"""
    A = mt.placeholder((n, m), name="A")
    B = mt.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    C = mt.compute((n, m), lambda x, y: B[x, y] + 1.0, name="C")
    return mt.lower([A, B, C] if "B" in outputs else [A, C])


def three(n=8):
    """B = A * 2; C = B + 1; D = C - A: loops i, j, x"""
    A = mt.placeholder((n,), name="A")
    B = mt.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = mt.compute((n,), lambda j: B[j] + 1.0, name="C")
    D = mt.compute((n,), lambda x: C[x] - A[x], name="D")
    return mt.lower([A, D])


def fork(n=8):
    """P has two readers, Q and R, and S adds them: loops i, j, x, y"""
    A = mt.placeholder((n,), name="A")
    P = mt.compute((n,), lambda i: A[i] * 2.0, name="P")
    Q = mt.compute((n,), lambda j: P[j] + 1.0, name="Q")
    R = mt.compute((n,), lambda x: P[x] - 1.0, name="R")
    S = mt.compute((n,), lambda y: Q[y] * R[y], name="S")
    return mt.lower([A, S])


def stencil(n=8, halo=2):
    """P[i] = A[i] * 2; C[y] = P[y] + P[y + halo]"""
    A = mt.placeholder((n + halo,), name="A")
    P = mt.compute((n + halo,), lambda i: A[i] * 2.0, name="P")
    C = mt.compute((n,), lambda y: P[y] + P[y + halo], name="C")
    return mt.lower([A, C])


def rowsum(n=4, m=6):
    """C[i] = sum over k of A[i, k]"""
    A = mt.placeholder((n, m), name="A")
    k = mt.reduce_axis(m, name="k")
    C = mt.compute((n,), lambda i: mt.sum(A[i, k], axis=k), name="C")
    return mt.lower([A, C])


def total(n=20):
    """S[()] = sum over k of A[k]"""
    A = mt.placeholder((n,), name="A")
    k = mt.reduce_axis(n, name="k")
    S = mt.compute((), lambda: mt.sum(A[k], axis=k), name="S")
    return mt.lower([A, S])


def matmul(n=4, m=5, k=6):
    """C[i, j] = sum over k of A[i, k] * B[k, j]"""
    A = mt.placeholder((n, k), name="A")
    B = mt.placeholder((k, m), name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute((n, m), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    return mt.lower([A, B, C])


def matmul_relu(n=4, m=5, k=6):
    """C is a matrix product, D[x, y] = max(C[x, y], 0)"""
    A = mt.placeholder((n, k), name="A")
    B = mt.placeholder((k, m), name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute((n, m), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = mt.compute((n, m), lambda x, y: mt.maximum(C[x, y], 0.0), name="D")
    return mt.lower([A, B, D])


def fed_rowsum(n=4, m=6):
    """P[i, j] = A[i, j] * 2; C[x] = sum over k of P[x, k]"""
    A = mt.placeholder((n, m), name="A")
    P = mt.compute((n, m), lambda i, j: A[i, j] * 2.0, name="P")
    k = mt.reduce_axis(m, name="k")
    C = mt.compute((n,), lambda x: mt.sum(P[x, k], axis=k), name="C")
    return mt.lower([A, C])


def normalised(n=4, m=6):
    """M[i] = max over k of A[i, k]; D[x, y] = A[x, y] - M[x]"""
    A = mt.placeholder((n, m), name="A")
    k = mt.reduce_axis(m, name="k")
    M = mt.compute((n,), lambda i: mt.max(A[i, k], axis=k), name="M")
    D = mt.compute((n, m), lambda x, y: A[x, y] - M[x], name="D")
    return mt.lower([A, D])


def quotients(n=4, m=6):
    """S[i] = 4.0 if A[i, 0] is positive, else 0.5; D[x, y] = A[x, y] / S[x]"""
    A = mt.placeholder((n, m), name="A")
    S = mt.compute((n,), lambda i: mt.if_then_else(A[i, 0] > 0, 4.0, 0.5), name="S")
    D = mt.compute((n, m), lambda x, y: A[x, y] / S[x], name="D")
    return mt.lower([A, D])


def argmax(n=4, m=6):
    """C[i] = argmax over k of A[i, k] (two buffers); D[x] = C[x] + 1"""
    A = mt.placeholder((n, m), name="A")
    k = mt.reduce_axis(m, name="k")
    C = mt.compute((n,), lambda i: mt.argmax(A[i, k], axis=k), name="C")
    D = mt.compute((n,), lambda x: C[x] + 1, name="D")
    return mt.lower([A, D])


def scan(n=8):
    """W[i] = W[i - 1] + A[i]: in order"""
    A = mt.placeholder((n,), name="A")
    W = mt.update((n,), lambda W, i: mt.if_then_else(i > 0, W[i - 1], 0.0) + A[i], name="W")
    return mt.lower([A, W])


def row_scans(n=4, m=5):
    """P = A + 1; W[x, y] = W[x, y - 1] + P[x, y]: y in order, x in any; D = W * 2"""
    A = mt.placeholder((n, m), name="A")
    P = mt.compute((n, m), lambda i, j: A[i, j] + 1.0, name="P")
    W = mt.update(
        (n, m), lambda W, x, y: mt.if_then_else(y > 0, W[x, y - 1], 0.0) + P[x, y], name="W"
    )
    D = mt.compute((n, m), lambda a, b: W[a, b] * 2.0, name="D")
    return mt.lower([A, D])


def horner(n=4, m=5):
    """W[i] = W[i] * 2 + A[i, k], k in order, from 0"""
    A = mt.placeholder((n, m), name="A")
    k = mt.reduce_axis(m, name="k")
    W = mt.update((n,), lambda W, i: W[i] * 2.0 + A[i, k], axis=k, init=0.0, name="W")
    return mt.lower([A, W])


def started_update(n=5, m=3):
    """P = A + 1; W starts at 0 (block W_init), then W[x, y] += W[x, y - 1] + P[x] in order"""
    A = mt.placeholder((n,), name="A")
    P = mt.compute((n,), lambda i: A[i] + 1.0, name="P")
    W = mt.update(
        (n, m),
        lambda W, x, y: W[x, y] + mt.if_then_else(y > 0, W[x, y - 1], 0.0) + P[x],
        init=0.0,
        name="W",
    )
    return mt.lower([A, W])


def gather(n=8, m=6):
    """I[i] = idx[i] % n; B[j] = A[j] * 2; C[x] = B[I[x]]"""
    A = mt.placeholder((n,), name="A")
    idx = mt.placeholder((m,), "int32", name="idx")
    I = mt.compute((m,), lambda i: idx[i] % n, name="I")
    B = mt.compute((n,), lambda j: A[j] * 2.0, name="B")
    C = mt.compute((m,), lambda x: B[I[x]], name="C")
    return mt.lower([A, idx, C])


def padded(n=8, pad=2):
    """B[i] = A[i] * 2; C[y] = B[y - pad], or 0 outside"""
    A = mt.placeholder((n,), name="A")
    B = mt.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = mt.compute(
        (n + 2 * pad,),
        lambda y: mt.if_then_else(mt.logical_and(y >= pad, y < n + pad), B[y - pad], 0.0),
        name="C",
    )
    return mt.lower([A, C])


def diagonal(n=5):
    """B[i, j] = A[i, j] * 2; C[y] = B[y, y]"""
    A = mt.placeholder((n, n), name="A")
    B = mt.compute((n, n), lambda i, j: A[i, j] * 2.0, name="B")
    C = mt.compute((n,), lambda y: B[y, y], name="C")
    return mt.lower([A, C])


def strided(n=5, step=2):
    """B[i] = A[i] * 2; C[y] = B[y * step]"""
    A = mt.placeholder((n * step,), name="A")
    B = mt.compute((n * step,), lambda i: A[i] * 2.0, name="B")
    C = mt.compute((n,), lambda y: B[y * step], name="C")
    return mt.lower([A, C])


def start(builder, *args, **kwargs):
    """A function that gives a fresh Schedule of the program, for tables of cases."""
    return lambda: mt.Schedule(builder(*args, **kwargs))


def after(builder, *steps):
    """A function that gives a Schedule of the program to which steps have been applied.

    steps  functions of the schedule
    """

    def prepare():
        s = mt.Schedule(builder())
        for step in steps:
            step(s)
        return s

    return prepare


def sparse_sum(n=8, taps=4, period=2, dtype="float32"):
    """C[y] = sum over k of A[y] * A[k], where y + k is a multiple of the period"""
    A = mt.placeholder((max(n, taps),), dtype, name="A")
    k = mt.reduce_axis(taps, name="k")

    def chosen(y):
        return mt.sum(mt.if_then_else((y + k) % period == 0, A[y] * A[k], 0), axis=k)

    C = mt.compute((n,), chosen, name="C")
    return mt.lower([A, C])


def spread_out(n=4, taps=3, period=2, outputs=""):
    """P[i] = A[i // 2] where i is even, else 0; C[y] = sum over k, r of P[y + k] * B[r, 2 - k]"""
    A, B = mt.placeholder((n,), name="A"), mt.placeholder((2, taps), name="B")
    wide = (n - 1) * period + 1
    P = mt.compute(
        (wide,), lambda i: mt.if_then_else(i % period == 0, A[i // period], 0.0), name="P"
    )
    r, k = mt.reduce_axis(2, name="r"), mt.reduce_axis(taps, name="k")

    def window(y):
        return mt.sum(P[y + k] * B[r, taps - 1 - k], axis=[r, k])

    C = mt.compute((wide - taps + 1,), window, name="C")
    return mt.lower([A, B, P, C] if "P" in outputs else [A, B, C])


def padded_sum(n=4, taps=3, rows=2, doubled=False):
    """P = A in a border of one zero; C[y] = sum over r, k of P[y + k] * B[r, k]; doubled: of
    P[y + k] * D[r, k], where D = B * 2
    """
    A, B = mt.placeholder((n,), name="A"), mt.placeholder((rows, taps), name="B")
    inside = (1, n + 1)

    def image(i):
        return mt.if_then_else(mt.logical_and(i >= inside[0], i < inside[1]), A[i - 1], 0.0)

    P = mt.compute((n + 2,), image, name="P")
    D = mt.compute((rows, taps), lambda d, e: B[d, e] * 2.0, name="D") if doubled else B
    r, k = mt.reduce_axis(rows, name="r"), mt.reduce_axis(taps, name="k")
    C = mt.compute((n + 3 - taps,), lambda y: mt.sum(P[y + k] * D[r, k], axis=[r, k]), name="C")
    return mt.lower([A, B, C])


def narrow_product(m=5, n=6, k=7, left="uint8", right="int8", total="int32"):
    """C[i, j] = sum over k of total(A[i, k]) * total(B[k, j]), of narrow numbers"""
    A, B = mt.placeholder((m, k), left, name="A"), mt.placeholder((k, n), right, name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute(
        (m, n), lambda i, j: mt.sum(A[i, r].astype(total) * B[r, j].astype(total), axis=r), name="C"
    )
    return mt.lower([A, B, C])


def copied_product(left="uint8", right="int8", total="int32"):
    """A schedule of `narrow_product` whose operands and result are copies"""
    s = mt.Schedule(narrow_product(left=left, right=right, total=total))
    s.cache_write("C", "global")
    for buffer in ("A", "B"):
        s.cache_read("C", buffer, "global")
    return s
