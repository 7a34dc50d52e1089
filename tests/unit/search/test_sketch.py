"""Sketches: how many there are, what they are, and rules of one's own."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError
from minitensor.search import DEFAULT_RULES, Rule, Verdict, generate_sketches
from minitensor.testing import assert_equivalent

W = mt.workloads


def chained(n=512):
    """E = (A B) C"""
    A, B, C = (mt.placeholder((n, n), name=name) for name in "ABC")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    D = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="D")
    E = mt.compute((n, n), lambda i, j: mt.sum(D[i, l] * C[l, j], axis=l), name="E")
    return [A, B, C, E]


def rows(reducer, m=10, n=1024):
    """One reduction of each row."""
    A = mt.placeholder((m, n), name="A")
    k = mt.reduce_axis(n, name="k")
    return [A, mt.compute((m,), lambda i: reducer(A[i, k], axis=k), name="B")]


def everything(n=128):
    """One number of all."""
    A = mt.placeholder((n, n), name="A")
    i, j = mt.reduce_axis(n, name="i"), mt.reduce_axis(n, name="j")
    return [A, mt.compute((), lambda: mt.sum(A[i, j] * A[i, j], axis=[i, j]), name="S")]


def normalized(m=64, n=64, k=64, centred=False):
    """A product with rows that are divided by their length, or by their deviation."""
    X, W = mt.placeholder((m, k), name="X"), mt.placeholder((k, n), name="W")
    r, q, mean = (mt.reduce_axis(k, name=name) for name in ("r", "q", "mean"))
    if centred:
        centre = mt.compute((m,), lambda i: mt.sum(X[i, mean], axis=mean), name="sums")
        average = mt.compute((m,), lambda i: centre[i] / float(k), name="average")
        square = mt.compute((m,), lambda i: mt.sum((X[i, r] - average[i]) ** 2, r), name="square")
        scaled = lambda i, j: (X[i, j] - average[i]) / mt.sqrt(square[i] / float(k) + 1e-5)
    else:
        square = mt.compute((m,), lambda i: mt.sum(X[i, r] * X[i, r], r), name="square")
        scaled = lambda i, j: X[i, j] / mt.sqrt(square[i] / float(k) + 1e-5)
    rows = mt.compute((m, k), scaled, name="rows")
    return [X, W, mt.compute((m, n), lambda i, j: mt.sum(rows[i, q] * W[q, j], q), name="C")]


def additive_attention(m=64, n=64, k=64):
    """Scores of pairs of rows: the sum of tangents."""
    Q, K = mt.placeholder((m, k), name="Q"), mt.placeholder((n, k), name="K")
    v, r = mt.placeholder((k,), name="v"), mt.reduce_axis(k, name="r")
    T = mt.compute((m, n, k), lambda i, j, d: mt.tanh(Q[i, d] + K[j, d]), name="T")
    return [Q, K, v, mt.compute((m, n), lambda i, j: mt.sum(T[i, j, r] * v[r], r), name="S")]


def constant(name, numbers):
    """A matrix of constants, chosen by its indices."""

    def element(i, j):
        value = mt.const(0.0, "float32")
        for (row, column), number in np.ndenumerate(numbers):
            value = mt.select((i == row) & (j == column), float(number), value)
        return value

    return mt.compute(numbers.shape, element, name=name)


def transformed(c=8, tiles=4, tile=2):
    """The products of Winograd's convolution between two transforms by constant matrices."""
    size = tile + 2
    numbers = np.arange(size * size).reshape(size, size) % 5 - 2
    D = mt.placeholder((size, size, c, tiles), name="D")
    K = mt.placeholder((size, size, c, c), name="K")
    B, A = constant("B", numbers), constant("A", numbers[:, :tile])
    a, b, d, e = (mt.reduce_axis(size, name=name) for name in "abde")
    r, shape = mt.reduce_axis(c, name="r"), (size, size, c, tiles)
    V = mt.compute(
        shape, lambda x, y, i, p: mt.sum(D[a, b, i, p] * B[a, x] * B[b, y], [a, b]), name="V"
    )
    M = mt.compute(shape, lambda x, y, o, p: mt.sum(K[x, y, o, r] * V[x, y, r, p], r), name="M")
    Y = mt.compute(
        (c, tiles, tile, tile),
        lambda o, p, x, y: mt.sum(M[d, e, o, p] * A[d, x] * A[e, y], [d, e]),
        name="Y",
    )
    return [D, K, Y]


ANSOR = {
    "rms norm, matmul": (normalized, 9),
    "layer norm, matmul": (lambda: normalized(centred=True), 27),
    "additive attention": (additive_attention, 3),
    "transforms by constants": (transformed, 3),
    "matmul 512": (lambda: W.matmul(512, 512, 512), 3),
    "two matmuls": (chained, 9),
    "conv2d + bias + bn + relu": (
        lambda: W.conv2d_bias_bn_relu(1, 512, 56, 56, 512, 3, padding=1),
        3,
    ),
    "max-pool 2x2": (lambda: W.max_pool2d(1, 512, 56, 56, 2, 1), 1),
    "min of rows": (lambda: rows(mt.min), 3),
    "softmax": (lambda: W.softmax(1, 1024), 9),
    "matmul 8x8x512": (lambda: W.matmul(8, 8, 512), 5),
    "sum of all": (everything, 3),
}
"""The counts of Ansor's own rules for four cores."""


def ansor(tensors):
    """The sketches of Ansor's own rules for four cores."""
    return generate_sketches(mt.lower(tensors), num_cores=4, rules="ansor")


@pytest.mark.parametrize("name", ANSOR)
def test_as_many_as_ansor_derives(name):
    tensors, count = ANSOR[name]
    found = ansor(tensors())
    assert len(found) == count
    assert len({sketch.trace.to_json() for sketch in found}) == count


@pytest.mark.slow
def test_constant_matrices_are_written_out():
    program = mt.lower(transformed(c=3, tiles=2))
    for sketch in generate_sketches(program, num_cores=2, rules="ansor"):
        text = sketch.explain()
        assert "x, y, d, e written out" in text
        assert "x, y, a, b written out" in text
        schedule = sketch.apply(seed=0)
        assert_equivalent(program, schedule, targets=["interpreter"])
    assert_equivalent(program, schedule, targets=[mt.Target("c", num_cores=2)])


def test_a_root_is_computed_once_where_a_reader_is_a_sum():
    found = generate_sketches(mt.lower(normalized()), num_cores=2)
    assert not any("rows  always inline" in sketch.explain() for sketch in found)


def test_a_pool_is_left_as_it_is():
    (sketch,) = ansor(W.max_pool2d(1, 512, 56, 56, 2, 1))
    assert len(sketch.trace) == 0
    assert all(step.rule == "skip" for step in sketch.history)


def test_the_structure_of_tiles():
    sketch = ansor(W.matmul(64, 64, 64))[0]
    assert set(sketch.trace.decisions.values()) == {None}
    s = sketch.apply(seed=1)
    loops = [name.rstrip("_0123456789") for name in s.get_loops("C")]
    assert "".join("R" if name == "k" else "S" for name in loops) == "SSSSRSSRSS"
    assert s.get_loops("C_local")[:2] == s.get_loops("C")[:2]
    assert s.get_loops("C_local")[2:4] != s.get_loops("C")[2:4]


SMALL = {
    "matmul": lambda: W.matmul(12, 8, 18),
    "chained": lambda: chained(6),
    "conv": lambda: W.conv2d_bias_bn_relu(1, 3, 6, 5, 4, 3, padding=1),
    "rows": lambda: rows(mt.max, 3, 20),
    "all": lambda: everything(6),
    "softmax": lambda: W.softmax(2, 12),
    "thin": lambda: W.matmul(2, 2, 32),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_whatever_is_decided_computes_the_same(name):
    program = mt.lower(SMALL[name]())
    for number, sketch in enumerate(generate_sketches(program, num_cores=2, rules="ansor")):
        schedule = sketch.apply(seed=number)
        if name != "softmax":
            assert_equivalent(program, schedule, ["interpreter"])
            continue
        rng = np.random.default_rng(number)
        arrays = [rng.standard_normal(b.shape).astype("f") for b in program.inputs]
        ours, plain = mt.interpret(schedule, *arrays), mt.interpret(program, *arrays)
        np.testing.assert_allclose(ours, plain, rtol=1e-5)


def test_explained():
    sketch = ansor(W.conv2d_bias_bn_relu(1, 8, 8, 8, 8, 3, padding=1))[0]
    lines = [line.split(maxsplit=1) for line in sketch.explain().splitlines()]
    rules = dict(lines)
    assert [line for line in rules.values() if line.startswith("always inline")]
    assert [v for v in rules.values() if "multi-level tiling with fusion  SSRSRS" in v]
    assert lines[0][1].startswith("skip")


def test_rules_of_ones_own_come_first():
    asked = []

    def judge(state, cores):
        asked.append((state.name, cores))
        return Verdict.APPLY_AND_STOP if state.name == "C" else Verdict.SKIP

    def split_once(state, cores):
        schedule = state.schedule.copy()
        schedule.split(schedule.get_loops("C")[0], [None, 4])
        return [state.after("mine", "rows by four", schedule)]

    mine = Rule("mine", judge, split_once)
    (sketch,) = generate_sketches(
        mt.lower(W.matmul(8, 8, 8)), num_cores=3, rules=[mine, *DEFAULT_RULES]
    )
    assert asked == [("C", 3)]
    assert len(sketch.trace) == 1
    assert sketch.explain() == "C  mine  rows by four"


def test_nonsense_is_refused():
    program = mt.lower(W.matmul(8, 8, 8))
    with pytest.raises(ArgumentError, match="expected one of 'default', 'ansor'"):
        generate_sketches(program, rules="best")
    with pytest.raises(ArgumentError, match="num_cores=0"):
        generate_sketches(program, num_cores=0)
    with pytest.raises(ArgumentError, match="expected a program"):
        generate_sketches([1])
    with pytest.raises(ArgumentError, match="one of 'c', 'cuda', 'cuda-emulator', for which"):
        generate_sketches(program, target="interpreter")
