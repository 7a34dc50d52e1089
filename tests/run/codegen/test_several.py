"""Updates of several tensors in C: systems solved side by side, a swap in registers."""

import numpy as np

import minitensor as mt
from minitensor import ir


def thomas(n, m):
    """m tridiagonal systems of n equations (Thomas): lower, diagonal, upper, right-hand side."""
    L, D, U, R = (mt.placeholder((n, m), "float64", name=name) for name in "LDUR")

    def forward(c, d, i, j):
        before = mt.if_then_else(i > 0, c[i - 1, j], 0.0)
        known = mt.if_then_else(i > 0, d[i - 1, j], 0.0)
        pivot = D[i, j] - L[i, j] * before
        return U[i, j] / pivot, (R[i, j] - L[i, j] * known) / pivot

    c, d = mt.update((n, m), forward, dtype="float64", name=("c", "d"))

    def backward(y, i, j):
        return d[n - 1 - i, j] - c[n - 1 - i, j] * mt.if_then_else(i > 0, y[i - 1, j], 0.0)

    y = mt.update((n, m), backward, dtype="float64", name="y")
    x = mt.compute((n, m), lambda i, j: y[n - 1 - i, j], name="x")
    return mt.lower([L, D, U, R, x])


def test_tridiagonal_systems():
    n, m = 9, 24
    program = thomas(n, m)
    s = mt.Schedule(program)
    for block in ("c", "y"):
        i, j = s.get_loops(block)
        outer, inner = s.split(j, [None, 8])
        s.reorder(outer, i, inner)
        s.parallel(outer)
        s.vectorize(inner)
    random = np.random.default_rng(0)
    low, high, right = random.normal(size=(3, n, m))
    diagonal = 4 + random.random((n, m))
    plain, fast = mt.build(program), mt.build(s)
    found = fast(low, diagonal, high, right)
    np.testing.assert_array_equal(found, plain(low, diagonal, high, right))
    for j in range(m):
        matrix = np.diag(diagonal[:, j]) + np.diag(low[1:, j], -1) + np.diag(high[:-1, j], 1)
        wanted = np.linalg.solve(matrix, right[:, j])
        np.testing.assert_allclose(found[:, j], wanted, rtol=1e-12, atol=1e-13)


def test_what_is_held_needs_no_memory():
    k = mt.reduce_axis(5, "k")
    S, T = mt.update(
        (16,),
        lambda S, T, i: (S[i] + T[i], S[i]),
        axis=k,
        init=(1, 0),
        dtype="int32",
        name=("S", "T"),
    )
    s = mt.Schedule(mt.lower([S, T]))
    outer, inner = s.split("i", [None, 8])
    s.reorder(outer, "k", inner)
    s.vectorize(inner)
    kernel = mt.build(s)
    assert "    int32x8 S_next" in kernel.source
    for found, wanted in zip(kernel(), (8, 5), strict=True):
        np.testing.assert_array_equal(found, np.full(16, wanted, "int32"))


def test_a_program_of_plain_statements_is_built_as_it_is():
    kind, i = ir.DType.of("float32"), ir.Var("i")
    given, result = ir.Buffer("A", (4,), kind), ir.Buffer("B", (4,), kind)
    body = ir.For("i", 4, ir.Store("B", (i,), ir.Load("A", (i,), kind)))
    program = ir.Program("plain", (given, result), (), body)
    values = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(mt.build(program)(values), values)
