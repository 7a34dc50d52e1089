"""Random accesses: what is in bounds works and gives what numpy gives; what is not is refused."""

import random

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

import minitensor.lang as mt
from minitensor.errors import ExecutionError, LoweringError
from minitensor.ir import interpret

quick = settings(max_examples=300, deadline=None, derandomize=True)


class Index:
    """An index expression of i and j as a function, of symbols or of arrays."""

    def __init__(self, rng: random.Random, exotic: bool) -> None:
        self.factors = [rng.choice([0, 1, 1, 1, 2, 3, -1]) for _ in "ij"]
        self.offset = rng.choice([0, 0, 0, 1, 2, -1])
        self.ops = []
        while exotic and rng.random() < 0.6 and len(self.ops) < 3:
            self.ops.append(
                (rng.choice(["//", "%", "+j", "*", "min", "abs", "//j"]), rng.randint(1, 7))
            )

    def __call__(self, i, j, symbolic=False):
        value = i * self.factors[0] + j * self.factors[1] + self.offset
        for op, n in self.ops:
            match op:
                case "//":
                    value = value // n
                case "%":
                    value = value % n
                case "+j":
                    value = value + j * n
                case "*":
                    value = value * n
                case "//j":
                    value = value // (j + n)
                case "min":
                    value = mt.minimum(value, n) if symbolic else np.minimum(value, n)
                case "abs":
                    value = abs(value)
        return value


def case(rng: random.Random, exotic: bool):
    """The shape of C, the index of each axis of A, where they point, and the shape of A."""
    shape = rng.randint(1, 6), rng.randint(1, 6)
    indices = [Index(rng, exotic) for _ in range(rng.randint(1, 2))]
    where = [index(*np.indices(shape)) for index in indices]
    extents = []
    for places in where:
        fits = int(places.max()) + 1
        extents.append(max(1, fits + rng.choice([0, 0, 0, 1, 3, -1])))
    inside = all(p.min() >= 0 and p.max() < n for p, n in zip(where, extents))
    event("inside" if inside else "outside")
    return shape, indices, where, tuple(extents), inside


def access(shape, indices, extents, guard=None):
    A = mt.placeholder(extents, "int64", name="A")

    def element(i, j):
        value = A[tuple(index(i, j, symbolic=True) for index in indices)]
        return value if guard is None else mt.if_then_else(guard(i, j), value, -1)

    return [A, mt.compute(shape, element, name="C")]


def data(extents):
    return np.arange(np.prod(extents), dtype=np.int64).reshape(extents) + 100


@given(st.randoms(use_true_random=False))
@quick
def test_affine_accesses_are_decided_when_lowered(rng):
    shape, indices, where, extents, inside = case(rng, exotic=False)
    tensors = access(shape, indices, extents)
    if not inside:
        try:
            mt.lower(tensors)
        except LoweringError as error:
            assert "is out of bounds" in error.message
            return
        raise AssertionError(f"{tensors} was lowered, though it leaves A")
    (c,), counts = interpret(mt.lower(tensors), [data(extents)])
    np.testing.assert_array_equal(c, data(extents)[tuple(where)])
    assert counts.loads["A"] == c.size


@given(st.randoms(use_true_random=False))
@quick
def test_any_access_works_if_it_is_in_bounds_and_fails_if_not(rng):
    shape, indices, where, extents, inside = case(rng, exotic=True)
    tensors = access(shape, indices, extents)
    try:
        (c,), _ = interpret(mt.lower(tensors), [data(extents)])
    except (LoweringError, ExecutionError) as error:
        assert not inside, f"{error} for indices {[(x.factors, x.offset, x.ops) for x in indices]}"
        return
    assert inside
    np.testing.assert_array_equal(c, data(extents)[tuple(where)])


@given(st.randoms(use_true_random=False))
@quick
def test_guarded_accesses_work(rng):
    """The guard says exactly where the indices are in bounds; nothing may be refused."""
    shape, indices, where, extents, _ = case(rng, exotic=True)

    def guard(i, j):
        tests = []
        for index, extent in zip(indices, extents):
            at = index(i, j, symbolic=True)
            tests += [at >= 0, at < extent]
        return mt.logical_and(*tests)

    (c,), _ = interpret(mt.lower(access(shape, indices, extents, guard)), [data(extents)])
    inside = np.all([(p >= 0) & (p < n) for p, n in zip(where, extents)], axis=0)
    clipped = tuple(np.clip(p, 0, n - 1) for p, n in zip(where, extents))
    np.testing.assert_array_equal(c, np.where(inside, data(extents)[clipped], -1))


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_reductions_over_random_accesses(rng):
    """C[i] = sum over j of A[f(i, j)], where every access is in bounds."""
    shape = rng.randint(1, 5), rng.randint(1, 5)
    index = Index(rng, exotic=False)
    where = index(*np.indices(shape))
    start = rng.randint(-2, 2)
    low = int(where.min())
    A = mt.placeholder((int(where.max()) - low + 1,), "int64", name="A")
    k = mt.reduce_axis((start, start + shape[1]), "k")
    C = mt.compute((shape[0],), lambda i: mt.sum_(A[index(i, k - start) - low], axis=k), name="C")
    (c,), _ = interpret(mt.lower([A, C]), [data(A.shape)])
    np.testing.assert_array_equal(c, data(A.shape)[where - low].sum(1))
