"""Sketches compute what the definition does, whatever is decided."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.search import generate_sketches
from minitensor.testing import assert_equivalent
from tests.parts import examples, some

W = mt.workloads


def sizes(**most):
    """Keyword arguments: each a size from 1 to so many."""
    return st.fixed_dictionaries({name: st.integers(1, n) for name, n in most.items()})


def transposed_matmul(m, n, k):
    """C = A transposed times B transposed: neither operand is side by side along C's rows."""
    A, B = mt.placeholder((k, m), name="A"), mt.placeholder((n, k), name="B")
    r = mt.reduce_axis(k, name="r")
    return [A, B, mt.compute((m, n), lambda i, j: mt.sum(A[r, i] * B[j, r], axis=r), name="C")]


def products_of_rows(m, k):
    """C = A times A transposed: one buffer is both operands."""
    A = mt.placeholder((m, k), name="A")
    r = mt.reduce_axis(k, name="r")
    return [A, mt.compute((m, m), lambda i, j: mt.sum(A[i, r] * A[j, r], axis=r), name="C")]


def turned(m, n, k):
    """A product written with its axes exchanged, and something after it."""
    A, B = mt.placeholder((m, k), name="A"), mt.placeholder((k, n), name="B")
    r = mt.reduce_axis(k, name="r")
    C = mt.compute((n, m), lambda j, i: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    return [A, B, mt.compute((n, m), lambda j, i: C[j, i] + 1, name="D")]


def chained(m, n, k):
    """E = (A B) C"""
    A, B, C = (mt.placeholder(s, name=x) for s, x in (((m, k), "A"), ((k, n), "B"), ((n, m), "C")))
    k, l = mt.reduce_axis(k, name="k"), mt.reduce_axis(n, name="l")
    D = mt.compute((m, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="D")
    E = mt.compute((m, m), lambda i, j: mt.sum(D[i, l] * C[l, j], axis=l), name="E")
    return [A, B, C, E]


def rows(reducer, m, n, k=1):
    """One reduction of each row, and of k more elements of each."""
    A = mt.placeholder((m, k, n), name="A")
    x, y = mt.reduce_axis(k, name="x"), mt.reduce_axis(n, name="y")
    return [A, mt.compute((m,), lambda i: reducer(A[i, x, y], axis=[x, y]), name="B")]


def columns(reducer, b, m, n):
    """One reduction of each column, of each of some matrices."""
    A = mt.placeholder((b, m, n), name="A")
    k = mt.reduce_axis(m, name="k")
    return [A, mt.compute((b, n), lambda h, j: reducer(A[h, k, j], axis=k), name="B")]


def everything(m, n):
    """One number of all."""
    A = mt.placeholder((m, n), name="A")
    i, j = mt.reduce_axis(m, name="i"), mt.reduce_axis(n, name="j")
    return [A, mt.compute((), lambda: mt.sum(A[i, j], axis=[i, j]), name="S")]


def vector_sum(n):
    """One number of one axis."""
    A = mt.placeholder((n,), name="A")
    i = mt.reduce_axis(n, name="i")
    return [A, mt.compute((), lambda: mt.sum(A[i], axis=i), name="S")]


def normalised(b, m, n):
    """Stages over the same rows, like those of a softmax, without rounding."""
    A = mt.placeholder((b, m, n), name="A")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((b, m), lambda h, i: mt.max(A[h, i, k], axis=k), name="top")
    less = mt.compute((b, m, n), lambda h, i, j: mt.abs(A[h, i, j] - top[h, i]), name="less")
    whole = mt.compute((b, m), lambda h, i: mt.sum(less[h, i, l], axis=l), name="whole")
    half = mt.compute((b, m), lambda h, i: mt.minimum(whole[h, i], 3) + top[h, i], name="half")
    return [A, mt.compute((b, m, n), lambda h, i, j: less[h, i, j] + half[h, i], name="D")]


def column_read(m, n, p):
    """An operand that is read down its columns."""
    A, B = mt.placeholder((p, n, m), name="A"), mt.placeholder((m, p, n), name="B")
    return [A, B, mt.compute((m, p, n), lambda i, h, j: A[h, j, i] + B[i, h, j], name="C")]


def pool(c, h, w, kernel, stride, padding):
    return W.max_pool2d(1, c, h + 2, w + 2, kernel, stride, min(padding, kernel // 2))


def depthwise(c, h, w, kernel, stride, padding):
    return W.depthwise_conv2d(1, c, h + 2, w + 2, kernel, stride, padding)


def winograd(c, h, w, f, padding, after):
    """Tiles of two, whose transforms are exact for small integers."""
    data, weight, conv = W.conv2d_winograd(1, c, h, w, f, padding, tile=2)
    if not after:
        return data, weight, conv
    return data, weight, mt.compute(conv.shape, lambda n, f, y, x: mt.maximum(conv[n, f, y, x], 1))


def convolution(f, c, h, w, kernel, stride, padding):
    return W.conv2d_bias_relu(1, c, h + 2, w + 2, f, kernel, stride, padding)


def in_groups(groups, f, c, h, w, kernel, stride, padding):
    return W.conv2d(1, c * groups, h + 2, w + 2, f * groups, kernel, stride, padding, groups=groups)


def bare_convolution(f, c, h, w, kernel, stride, padding):
    return W.conv2d(1, c, h + 2, w + 2, f, kernel, stride, padding)


_POOL = st.fixed_dictionaries(
    {
        "c": st.integers(1, 3),
        "h": st.integers(1, 5),
        "w": st.integers(1, 9),
        "kernel": st.integers(1, 3),
        "stride": st.integers(1, 2),
        "padding": st.integers(0, 1),
    }
)
_IMAGE = st.builds(lambda f, rest: {"f": f, **rest}, st.integers(1, 18), _POOL)

DEFINITIONS = {
    "matmul": (W.matmul, sizes(m=20, n=20, k=6)),
    "matmul_bias_relu": (W.matmul_bias_relu, sizes(m=20, n=20, k=6)),
    "batch_matmul": (W.batch_matmul, sizes(b=3, m=9, n=9, k=4)),
    "transposed": (transposed_matmul, sizes(m=18, n=18, k=5)),
    "rows of one": (products_of_rows, sizes(m=18, k=5)),
    "turned": (turned, sizes(m=12, n=18, k=5)),
    "chained": (chained, sizes(m=9, n=9, k=5)),
    "convolution": (convolution, _IMAGE),
    "bare convolution": (bare_convolution, _IMAGE),
    "convolution in groups": (
        in_groups,
        st.builds(lambda groups, rest: {"groups": groups, **rest}, st.integers(1, 3), _IMAGE),
    ),
    "depthwise": (depthwise, _POOL),
    "pool": (pool, _POOL),
    "sums of rows": (partial(rows, mt.sum), sizes(m=20, n=80, k=3)),
    "maxima of rows": (partial(rows, mt.max), sizes(m=20, n=80)),
    "sums of columns": (partial(columns, mt.sum), sizes(b=2, m=20, n=80)),
    "maxima of columns": (partial(columns, mt.max), sizes(b=2, m=20, n=80)),
    "everything": (everything, sizes(m=9, n=80)),
    "vector sum": (vector_sum, sizes(n=300)),
    "normalised": (normalised, sizes(b=2, m=3, n=80)),
    "winograd": (
        winograd,
        st.fixed_dictionaries(
            {
                "c": st.integers(1, 5),
                "h": st.integers(3, 7),
                "w": st.integers(3, 7),
                "f": st.integers(1, 9),
                "padding": st.integers(0, 1),
                "after": st.booleans(),
            }
        ),
    ),
    "column read": (column_read, sizes(m=20, n=20, p=2)),
}
TARGETS = st.builds(
    mt.Target,
    st.just("c"),
    num_cores=st.integers(1, 3),
    vector_bits=st.sampled_from([0, 128, 256, 512]),
)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", some(W.WORKLOADS, lambda n: n % 2))
def test_every_sketch_of_an_operator(name):
    workload = W.WORKLOADS[name]
    program = mt.lower(workload.function(**workload.small))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(b.shape).astype(b.dtype) for b in program.inputs]
    plain = mt.interpret(program, *arrays)
    target = mt.Target("c", num_cores=2, vector_bits=128)
    for seed, sketch in enumerate(generate_sketches(program, target)):
        found = mt.interpret(sketch.apply(seed=seed), *arrays)
        for ours, expected in zip(_listed(found), _listed(plain), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def _listed(outputs):
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", DEFINITIONS)
@examples(3, 20)
@given(data=st.data())
def test_whatever_is_decided_computes_the_same(name, data):
    function, arguments = DEFINITIONS[name]
    program = mt.lower(function(**data.draw(arguments)))
    sketches = generate_sketches(program, data.draw(TARGETS))
    assert 1 <= len(sketches) <= 24
    assert len({sketch.trace.to_json() for sketch in sketches}) == len(sketches)
    sketch = data.draw(st.sampled_from(sketches))
    schedule = sketch.apply(seed=data.draw(st.integers(0, 999)))
    assert_equivalent(program, schedule, ["interpreter"])
