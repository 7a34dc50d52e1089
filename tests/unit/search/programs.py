"""Programs of networks and numerical kernels, written out, in sizes for the interpreter."""

import minitensor as mt

W = mt.workloads


def tensors(**shapes):
    """One placeholder for each name."""
    return [mt.placeholder(shape, name=name) for name, shape in shapes.items()]


def product(A, B, name):
    """A times B, with a reduction axis of its own."""
    k = mt.reduce_axis(A.shape[1], name=f"k_{name}")
    shape = (A.shape[0], B.shape[1])
    return mt.compute(shape, lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name=name)


def silu(x):
    return x * mt.sigmoid(x)


def swiglu():
    A, B, C = tensors(A=(6, 8), B=(8, 10), C=(8, 10))
    D, E = product(A, B, "D"), product(A, C, "E")
    return [A, B, C, mt.compute((6, 10), lambda i, j: silu(D[i, j]) * E[i, j], name="F")]


def gated():
    """A gate of a layer, between its result and its input."""
    A, B, C = tensors(A=(6, 8), B=(8, 8), C=(8, 8))
    D, E = product(A, B, "D"), product(A, C, "E")
    gate = mt.compute((6, 8), lambda i, j: mt.sigmoid(D[i, j]), name="gate")
    return [
        *(A, B, C),
        mt.compute(
            (6, 8), lambda i, j: gate[i, j] * E[i, j] + (1 - gate[i, j]) * A[i, j], name="F"
        ),
    ]


def attention(masked=False, n=6, d=4):
    """softmax(Q K^T) V; with a mask, positions attend to those before them only."""
    Q, K, V = tensors(Q=(n, d), K=(n, d), V=(n, d))
    k, l, m, o = (mt.reduce_axis(size, name=name) for size, name in zip((d, n, n, n), "klmo"))
    S = mt.compute((n, n), lambda i, j: mt.sum(Q[i, k] * K[j, k], axis=k), name="S")
    if masked:
        T = mt.compute((n, n), lambda i, j: mt.if_then_else(j <= i, S[i, j], -1e30), name="T")
    else:
        T = mt.compute((n, n), lambda i, j: S[i, j] * 0.5, name="T")
    top = mt.compute((n,), lambda i: mt.max(T[i, l], axis=l), name="top")
    E = mt.compute((n, n), lambda i, j: mt.exp(T[i, j] - top[i]), name="E")
    whole = mt.compute((n,), lambda i: mt.sum(E[i, m], axis=m), name="whole")
    P = mt.compute((n, n), lambda i, j: E[i, j] / whole[i], name="P")
    return [Q, K, V, mt.compute((n, d), lambda i, j: mt.sum(P[i, o] * V[o, j], axis=o), name="O")]


def qkv():
    """Three products of one operand, side by side in the result."""
    X, A, B, C = tensors(X=(5, 6), A=(6, 4), B=(6, 4), C=(6, 4))
    Q, K, V = product(X, A, "Q"), product(X, B, "K"), product(X, C, "V")

    def element(i, j):
        q, k, v = Q[i, j % 4], K[i, j % 4], V[i, j % 4]
        return mt.if_then_else(j < 4, q, mt.if_then_else(j < 8, k, v))

    return [X, A, B, C, mt.compute((5, 12), element, name="packed")]


def matvec(A, x, name, transposed=False):
    n, length = A.shape[::-1] if transposed else A.shape
    k = mt.reduce_axis(length, name=f"k_{name}")
    read = (lambda i: A[k, i]) if transposed else (lambda i: A[i, k])
    return mt.compute((n,), lambda i: mt.sum(read(i) * x[k], axis=k), name=name)


def gesummv(n=40):
    A, B, x = tensors(A=(n, n), B=(n, n), x=(n,))
    y, z = matvec(A, x, "y"), matvec(B, x, "z")
    return [A, B, x, mt.compute((n,), lambda i: 2 * y[i] + 3 * z[i], name="w")]


def mvt(n=40):
    A, x, y, z, w = tensors(A=(n, n), x=(n,), y=(n,), z=(n,), w=(n,))
    s, t = matvec(A, x, "s"), matvec(A, y, "t", transposed=True)
    first = mt.compute((n,), lambda i: z[i] + s[i], name="first")
    second = mt.compute((n,), lambda i: w[i] + t[i], name="second")
    return [A, x, y, z, w, first, second]


def atax(m=38, n=42):
    A, x = tensors(A=(m, n), x=(n,))
    return [A, x, matvec(A, matvec(A, x, "t"), "y", transposed=True)]


def bicg(m=38, n=42):
    A, p, r = tensors(A=(m, n), p=(n,), r=(m,))
    return [A, p, r, matvec(A, p, "q"), matvec(A, r, "s", transposed=True)]


def lstm_cell(steps=3, n=4, d=5):
    """The gates of all steps from the input, then the cell, step by step."""
    X, U, F = tensors(X=(steps, d), U=(d, 2 * n), F=(n,))
    gates = product(X, U, "gates")
    forget = mt.compute((steps, n), lambda t, i: mt.sigmoid(gates[t, i] + F[i]), name="forget")
    new = mt.compute((steps, n), lambda t, i: mt.tanh(gates[t, i + n]), name="new")
    cell = mt.update(
        (steps + 1, n),
        lambda C, t, i: mt.if_then_else(
            t > 0, forget[mt.maximum(t - 1, 0), i] * C[t - 1, i] + new[mt.maximum(t - 1, 0), i], 0.0
        ),
        init=0.0,
        name="cell",
    )
    return [X, U, F, mt.compute((steps, n), lambda t, i: mt.tanh(cell[t + 1, i]), name="hidden")]


def thomas(n=7):
    """Elimination and substitution of a tridiagonal system, whose diagonal is 4."""
    A, C, D = tensors(A=(n,), C=(n,), D=(n,))
    before = lambda i: mt.maximum(i - 1, 0)
    c = mt.update(
        (n,),
        lambda c, i: C[i] / (30 - mt.if_then_else(i > 0, A[i] * c[i - 1], 0.0)),
        init=0.0,
        name="c",
    )
    d = mt.update(
        (n,),
        lambda d, i: (
            (D[i] - mt.if_then_else(i > 0, A[i] * d[i - 1], 0.0))
            / (30 - mt.if_then_else(i > 0, A[i] * c[before(i)], 0.0))
        ),
        init=0.0,
        name="d",
    )
    back = mt.update(
        (n,),
        lambda x, i: d[n - 1 - i] - mt.if_then_else(i > 0, c[n - 1 - i] * x[i - 1], 0.0),
        init=0.0,
        name="back",
    )
    return [A, C, D, mt.compute((n,), lambda i: back[n - 1 - i], name="x")]


def nussinov(n=6):
    """The most pairs in a sequence: spans from short to long, of which each is cut everywhere."""
    S = mt.placeholder((n,), name="S")
    k = mt.reduce_axis(n, name="k")

    def element(T, length, i, k):
        j = mt.minimum(i + length, n - 1)
        cut = mt.minimum(k, length)
        left = mt.if_then_else(k < length, T[cut, i], 0.0)
        right = mt.if_then_else(
            mt.logical_and(k < length, i + k + 1 < n),
            T[mt.maximum(length - k - 1, 0), mt.minimum(i + k + 1, n - 1)],
            0.0,
        )
        pair = mt.if_then_else(S[i] + S[j] == 3, 1.0, 0.0)
        return mt.maximum(T[length, i], mt.maximum(left + right, pair))

    T = mt.update((n, n), lambda T, length, i: element(T, length, i, k), axis=k, init=0.0, name="T")
    return [S, mt.compute((n,), lambda i: T[n - 1 - i, i], name="best")]


def log_softmax(m=4, n=37):
    A = mt.placeholder((m, n), name="A")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((m,), lambda i: mt.max(A[i, k], axis=k), name="top")
    less = mt.compute((m, n), lambda i, j: A[i, j] - top[i], name="less")
    whole = mt.compute((m,), lambda i: mt.sum(mt.exp(less[i, l]), axis=l), name="whole")
    return [A, mt.compute((m, n), lambda i, j: less[i, j] - mt.log(whole[i]), name="B")]


def rms_norm_product(m=5, n=24, p=6):
    A, w, B = tensors(A=(m, n), w=(n,), B=(n, p))
    k = mt.reduce_axis(n, name="k")
    squares = mt.compute((m,), lambda i: mt.sum(A[i, k] * A[i, k], axis=k), name="squares")
    scale = mt.compute((m,), lambda i: mt.rsqrt(squares[i] / n + 1), name="scale")
    normed = mt.compute((m, n), lambda i, j: A[i, j] * scale[i] * w[j], name="normed")
    return [A, w, B, product(normed, B, "C")]


def column_sum(m=40, n=24):
    A = mt.placeholder((m, n), name="A")
    k = mt.reduce_axis(m, name="k")
    return [A, mt.compute((n,), lambda j: mt.sum(A[k, j], axis=k), name="B")]


def fed_reductions(m=3, n=36):
    """The maximum over rows of sums over columns, of each of some tables."""
    A = mt.placeholder((2, m, n), name="A")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(m, name="l")
    sums = mt.compute((2, m), lambda h, i: mt.sum(A[h, i, k], axis=k), name="sums")
    top = mt.compute((2,), lambda h: mt.max(sums[h, l], axis=l), name="top")
    less = mt.compute((2, m, n), lambda h, i, j: A[h, i, j] - top[h], name="less")
    return [A, mt.compute((2, m, n), lambda h, i, j: less[h, i, j] + sums[h, i], name="B")]


def batch_norm(n=3, c=4, w=20):
    """Mean and variance of each channel over images and pixels."""
    A = mt.placeholder((n, c, w), name="A")
    axes = [(mt.reduce_axis(n, name=f"n{r}"), mt.reduce_axis(w, name=f"w{r}")) for r in range(2)]
    (n0, w0), (n1, w1) = axes
    total = mt.compute((c,), lambda f: mt.sum(A[n0, f, w0], axis=[n0, w0]), name="total")
    mean = mt.compute((c,), lambda f: total[f] / (n * w), name="mean")
    less = mt.compute((n, c, w), lambda b, f, x: A[b, f, x] - mean[f], name="less")
    squares = mt.compute(
        (c,), lambda f: mt.sum(less[n1, f, w1] * less[n1, f, w1], axis=[n1, w1]), name="squares"
    )
    scale = mt.compute((c,), lambda f: mt.rsqrt(squares[f] / (n * w) + 1), name="scale")
    return [A, mt.compute((n, c, w), lambda b, f, x: less[b, f, x] * scale[f], name="B")]


def embedding(words=20, d=8, n=6, p=10):
    """Rows of a table, which data chooses, through a layer."""
    table, B = tensors(table=(words, d), B=(d, p))
    ids = mt.placeholder((n,), "int32", name="ids")
    E = mt.compute((n, d), lambda i, j: table[ids[i], j], name="E")
    return [table, ids, B, product(E, B, "C")]


def sparse_product(m=16, n=24, most=5):
    """A sparse matrix times a vector: of each row some elements, and the columns where they are."""
    values, x = tensors(values=(m, most), x=(n,))
    columns = mt.placeholder((m, most), "int32", name="columns")
    k = mt.reduce_axis(most, name="k")
    y = mt.compute((m,), lambda i: mt.sum(values[i, k] * x[columns[i, k]], axis=k), name="y")
    return [values, columns, x, y]


def cross_entropy(m=6, n=18):
    """The loss of each row: how unlikely its label is."""
    A, labels = mt.placeholder((m, n), name="A"), mt.placeholder((m,), "int64", name="labels")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((m,), lambda i: mt.max(A[i, k], axis=k), name="top")
    whole = mt.compute((m,), lambda i: mt.sum(mt.exp(A[i, l] - top[i]), axis=l), name="whole")
    loss = lambda i: mt.log(whole[i]) + top[i] - A[i, labels[i]]
    return [A, labels, mt.compute((m,), loss, name="loss")]


EXACT = {
    "qkv": qkv,
    "gesummv": gesummv,
    "mvt": mvt,
    "atax": atax,
    "bicg": bicg,
    "nussinov": nussinov,
    "fed reductions": fed_reductions,
    "column sum": column_sum,
    "embedding": embedding,
    "sparse product": sparse_product,
    "cumsum": lambda: W.cumsum(3, 17),
    "argmax": lambda: W.argmax(4, 40),
    "max-pool": lambda: W.max_pool2d(1, 2, 9, 18, 3, 2, 1),
    "grouped convolution": lambda: W.conv2d(1, 4, 4, 5, 8, 3, padding=1, groups=2),
    "transposed convolution": lambda: W.conv2d_transpose(1, 2, 3, 4, 2, 4, 2, 1),
    "dilated convolution": lambda: W.conv2d(1, 2, 5, 6, 3, 3, padding=2, dilation=2),
    "5x5 convolution": lambda: W.conv2d(1, 2, 4, 8, 2, 5, padding=2),
    "batch of convolutions": lambda: W.conv2d_bias_relu(4, 2, 4, 4, 4, 3, padding=1),
}
"""Small integers give exact results, in any order of summation."""

ROUNDED = {
    "swiglu": swiglu,
    "gated": gated,
    "attention": attention,
    "masked attention": lambda: attention(masked=True),
    "lstm cell": lstm_cell,
    "thomas": thomas,
    "avg-pool": lambda: W.avg_pool2d(1, 2, 9, 18, 3, 2, 1),
    "log-softmax": log_softmax,
    "cross entropy": cross_entropy,
    "layer norm": lambda: W.layer_norm(3, 37),
    "batch norm": batch_norm,
    "rms norm, product": rms_norm_product,
}
"""Sums of rounded values differ in the last bits."""


def product_by_axes(a, b, shape=(64, 64, 64)):
    """C[i, j] = sum over k of A * B, with the indices that a and b say, such as "ik" and "kj"."""
    extents = dict(zip("ijk", shape))
    A = mt.placeholder([extents[x] for x in a], name="A")
    B = mt.placeholder([extents[x] for x in b], name="B")
    k = mt.reduce_axis(extents["k"], name="k")

    def element(i, j):
        at = {"i": i, "j": j, "k": k}
        return mt.sum(A[tuple(at[x] for x in a)] * B[tuple(at[x] for x in b)], axis=k)

    return [A, B, mt.compute((extents["i"], extents["j"]), element, name="C")]
