"""Kernel.bind: inputs given once, and what depends on them alone computed once."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import split_constants
from minitensor.ir import verify


def matmul(n=24):
    A = mt.placeholder((n, n), name="A")
    B = mt.placeholder((n, n), name="B")
    bias = mt.placeholder((n,), name="bias")
    k = mt.reduce_axis(n, name="k")
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = mt.compute((n, n), lambda i, j: C[i, j] + bias[j], name="D")
    return mt.lower([A, B, bias, D], name="dense")


def packed(n=24):
    s = mt.Schedule(matmul(n))
    name = s.cache_read("C", "B", "global")
    s.transform_layout(name, lambda k, j: (j // 8, k, j % 8))
    return s


def arrays(n=24):
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, shape).astype("f") for shape in ((n, n), (n, n), (n,))]


TARGETS = ["c", "interpreter"]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_packing_is_done_once(target):
    a, b, bias = arrays()
    kernel = mt.build(packed(), target)
    bound = kernel.bind(B=b)
    assert [p.name for p in bound.params] == ["A", "bias", "D"]
    assert {name: array.shape for name, array in bound.constants.items()} == {
        "B_global": (3, 24, 8)
    }
    assert "B[" not in bound.source
    assert np.array_equal(bound(a, bias), a @ b + bias)
    out = np.empty_like(a)
    assert bound(a, bias, out) is out
    assert np.array_equal(out, a @ b + bias)
    assert np.array_equal(kernel(a, b, bias), a @ b + bias)


@pytest.mark.parametrize("target", TARGETS)
def test_changing_the_array_later_changes_nothing(target):
    a, b, bias = arrays()
    expected = a @ b + bias
    bound = mt.build(packed(), target).bind(B=b, bias=bias)
    b[...] = 0
    bias[...] = 0
    assert np.array_equal(bound(a), expected)


@pytest.mark.slow
@pytest.mark.parametrize("order", [("A", "B", "bias"), ("bias", "B", "A"), ("B", "A", "bias")])
def test_binding_one_after_the_other(order):
    given = dict(zip(("A", "B", "bias"), arrays()))
    kernel = mt.build(packed())
    for name in order:
        kernel = kernel.bind(**{name: given[name]})
    assert [p.name for p in kernel.params] == ["D"]
    assert np.array_equal(kernel(), given["A"] @ given["B"] + given["bias"])
    assert kernel.time(repeat=2, min_repeat_ms=1).median > 0
    assert "ret" in kernel.assembly()


def test_binding_nothing_gives_the_same():
    given = arrays()
    kernel = mt.build(packed())
    assert np.array_equal(kernel.bind()(*given), kernel(*given))


def test_what_a_constant_decides_through_others():
    A = mt.placeholder((6,), name="A")
    w = mt.placeholder((6,), name="w")
    t = mt.compute((6,), lambda i: w[i] * 2, name="t")
    u = mt.compute((6,), lambda i: t[5 - i] + 1, name="u")
    C = mt.compute((6,), lambda i: A[i] * u[i] + t[i], name="C")
    program = mt.lower([A, w, C])
    early, late, kept = split_constants(program, ["w"])
    verify(early)
    verify(late)
    assert [b.name for b in kept] == ["t", "u"]
    assert [b.name for b in early.params] == ["w", "t", "u"]
    assert [b.name for b in late.params] == ["A", "C", "t", "u"]
    values = np.arange(6, dtype="f")
    bound = mt.build(program).bind(w=values)
    assert np.array_equal(bound(values), values * (2 * values[::-1] + 1) + 2 * values)


def test_what_also_depends_on_others_stays():
    A = mt.placeholder((6,), name="A")
    w = mt.placeholder((6,), name="w")
    t = mt.compute((6,), lambda i: w[i] * A[i], name="t")
    C = mt.compute((6,), lambda i: t[5 - i] + w[i], name="C")
    early, late, kept = split_constants(mt.lower([A, w, C]), ["w"])
    assert early is None
    assert kept == ()
    assert [b.name for b in late.params] == ["A", "w", "C"]


def test_an_output_of_constants_alone_is_still_computed():
    w = mt.placeholder((6,), name="w")
    C = mt.compute((6,), lambda i: w[i] + 1, name="C")
    values = np.arange(6, dtype="f")
    bound = mt.build(mt.lower([w, C])).bind(w=values)
    assert np.array_equal(bound(), values + 1)
    assert np.array_equal(bound(), values + 1)


def test_a_checked_index_still_fails():
    B = mt.placeholder((5,), name="B")
    where = mt.placeholder((3,), "int32", name="where")
    C = mt.compute((3,), lambda i: B[where[i]] + 1.0, name="C")
    bound = mt.build(mt.lower([B, where, C])).bind(B=np.arange(5, dtype="f"))
    assert np.array_equal(bound(np.array([4, 0, 2], "int32")), [5, 1, 3])
    with pytest.raises(mt.ExecutionError, match="outside"):
        bound(np.array([5, 0, 2], "int32"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constants", "message"),
    [
        (
            lambda a: {"Z": a},
            r"names of inputs \(A, B, bias\), but got Z, which is no param",
        ),
        (lambda a: {"D": a}, "but got D, which is an output"),
        (lambda a: {"B": a.astype("f8")}, "expected B of dtype float32"),
        (lambda a: {"B": a[:3]}, "expected B of shape"),
        (lambda a: {"B": None}, "expected B as an array"),
        (lambda a: {"B": a.T}, "C-contiguous"),
    ],
)
def test_what_cannot_be_bound(constants, message):
    a, b, bias = arrays()
    kernel = mt.build(packed())
    with pytest.raises(mt.ArgumentError, match=message):
        kernel.bind(**constants(a))
    assert np.array_equal(kernel(a, b, bias), a @ b + bias)


def test_a_bound_parameter_is_gone():
    a, b, bias = arrays()
    bound = mt.build(packed()).bind(B=b)
    with pytest.raises(mt.ArgumentError, match="expected 2 arrays"):
        bound(a, b, bias, a)
    with pytest.raises(mt.ArgumentError, match="got B, which is no parameter"):
        bound.bind(B=b)
