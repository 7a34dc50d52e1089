"""Reductions against numpy, and the reducers that are refused."""

import itertools
import math

import numpy as np
import pytest

import minitensor.lang as mt
from minitensor.errors import ArgumentError
from minitensor.ir import IterKind, evaluate, interpret

F = np.float32
INT64_MAX = np.iinfo(np.int64).max


def run(tensors, *arrays):
    outputs, _ = interpret(mt.lower(tensors), [np.asarray(a) for a in arrays])
    return outputs[0] if len(outputs) == 1 else outputs


def small(*shape, dtype="float32", seed=0):
    """Integers whose sums every type holds."""
    low = 0 if dtype.startswith(("uint", "bool")) else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(dtype)


def reduce_rows(reduction, a, extent=None):
    """The reduction of each row of a two-dimensional array."""
    rows, columns = a.shape
    A = mt.placeholder((rows, columns), a.dtype.name, name="A")
    k = mt.reduce_axis(columns if extent is None else extent, "k")
    return run([A, mt.compute((rows,), lambda i: reduction(A[i, k], axis=k), name="C")], a)


SIMPLE = [
    (mt.sum_, lambda a: a.sum(1, dtype=a.dtype if a.dtype != bool else np.int64)),
    (mt.prod, lambda a: a.prod(1, dtype=a.dtype if a.dtype != bool else np.int64)),
    (mt.max_, lambda a: a.max(1)),
    (mt.min_, lambda a: a.min(1)),
    (mt.all_, lambda a: a.all(1)),
    (mt.any_, lambda a: a.any(1)),
    (mt.argmax, lambda a: a.argmax(1)),
    (mt.argmin, lambda a: a.argmin(1)),
]
NAMES = ["sum", "prod", "max", "min", "all", "any", "argmax", "argmin"]
DTYPES = [
    "float64", "float32", "float16", "int64", "int32", "int16", "int8",
    "uint64", "uint32", "uint16", "uint8", "bool",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("reduction", "reference"), SIMPLE, ids=NAMES)
def test_against_numpy(reduction, reference, dtype):
    a = small(4, 5, dtype=dtype)
    got = reduce_rows(reduction, a)
    np.testing.assert_array_equal(got, reference(a))


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize("reduction", [r for r, _ in SIMPLE], ids=NAMES)
def test_the_type_of_a_reduction(reduction, dtype):
    A, k = mt.placeholder((3, 5), dtype, name="A"), mt.reduce_axis(5)
    C = mt.compute((3,), lambda i: reduction(A[i, k], axis=k))
    if reduction in (mt.argmax, mt.argmin):
        assert C.dtype == "int64"
    elif reduction in (mt.all_, mt.any_):
        assert C.dtype == "bool"
    else:
        assert C.dtype == ("int64" if dtype == "bool" else dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_sums_and_products_wrap(dtype):
    a = np.full((1, 5), np.iinfo(dtype).max, dtype)
    np.testing.assert_array_equal(reduce_rows(mt.sum_, a), a.sum(1, dtype=dtype))
    np.testing.assert_array_equal(reduce_rows(mt.prod, a), a.prod(1, dtype=dtype))


def test_a_reduction_of_indices_is_int64():
    k = mt.reduce_axis(5)
    C = mt.compute((3,), lambda i: mt.sum_(i * k, axis=k))
    assert C.dtype == "int64"
    np.testing.assert_array_equal(run([C]), np.arange(3) * 10)


def test_a_reduction_of_a_number_counts():
    k = mt.reduce_axis(5)
    assert run([mt.compute((), lambda: mt.sum_(1, axis=k))]) == 5
    assert run([mt.compute((), lambda: mt.sum_(0.5, axis=k))]) == 2.5
    assert run([mt.compute((), lambda: mt.sum_(k > 2, axis=k))]) == 2


# ---- over nothing


@pytest.mark.parametrize(
    ("reduction", "value"),
    [
        (mt.sum_, 0),
        (mt.prod, 1),
        (mt.max_, -math.inf),
        (mt.min_, math.inf),
        (mt.all_, True),
        (mt.any_, False),
        (mt.argmax, INT64_MAX),
        (mt.argmin, INT64_MAX),
    ],
    ids=NAMES,
)
def test_over_nothing_it_is_the_identity(reduction, value):
    got = reduce_rows(reduction, np.zeros((3, 0), F))
    np.testing.assert_array_equal(got, [value] * 3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_extrema_of_integers_over_nothing(dtype):
    nothing = np.zeros((2, 0), dtype)
    np.testing.assert_array_equal(reduce_rows(mt.max_, nothing), [np.iinfo(dtype).min] * 2)
    np.testing.assert_array_equal(reduce_rows(mt.min_, nothing), [np.iinfo(dtype).max] * 2)


def test_over_two_axes_of_which_one_is_empty():
    A = mt.placeholder((3, 4, 0), "float32", name="A")
    k, r = mt.reduce_axis(4, "k"), mt.reduce_axis(0, "r")
    C = mt.compute((3,), lambda i: mt.sum_(A[i, k, r], axis=[k, r]))
    np.testing.assert_array_equal(run([A, C], np.zeros((3, 4, 0), F)), [0, 0, 0])


@pytest.mark.parametrize(("reduction", "reference"), SIMPLE, ids=NAMES)
def test_over_one_element_and_for_no_row(reduction, reference):
    np.testing.assert_array_equal(reduce_rows(reduction, small(3, 1)), reference(small(3, 1)))
    assert reduce_rows(reduction, small(0, 3)).shape == (0,)


# ---- axes


@pytest.mark.parametrize("order", [list, tuple, reversed])
def test_over_several_axes(order):
    a = small(2, 3, 4)
    A = mt.placeholder(a.shape, name="A")
    k, r = mt.reduce_axis(3, "k"), mt.reduce_axis(4, "r")
    axes = order((k, r)) if order is not reversed else [r, k]
    C = mt.compute((2,), lambda i: mt.sum_(A[i, k, r], axis=axes))
    np.testing.assert_array_equal(run([A, C], a), a.sum((1, 2)))
    first = mt.reduce_axis(2)
    D = mt.compute((3, 4), lambda i, j: mt.max_(A[first, i, j], axis=first))
    np.testing.assert_array_equal(run([A, D], a), a.max(0))


def test_all_the_way_to_a_scalar():
    a = small(3, 4)
    A = mt.placeholder(a.shape, name="A")
    k, r = mt.reduce_axis(3), mt.reduce_axis(4)
    C = mt.compute((), lambda: mt.sum_(A[k, r], axis=[k, r]))
    c = run([A, C], a)
    assert c.shape == ()
    assert c == a.sum()


@pytest.mark.parametrize("dom", [(2, 6), (0, 8), (3, 3), (7, 8), [1, 4]])
def test_axes_that_do_not_start_at_zero(dom):
    a = small(8)
    A, k = mt.placeholder((8,), name="A"), mt.reduce_axis(dom)
    C = mt.compute((), lambda: mt.sum_(A[k] * k, axis=k))
    start, stop = dom
    assert run([A, C], a) == (a[start:stop] * np.arange(start, stop)).sum()


def test_an_axis_from_below_zero():
    a = small(8)
    A, k = mt.placeholder((8,), name="A"), mt.reduce_axis((-1, 2), "k")
    C = mt.compute((6,), lambda i: mt.sum_(A[i + 1 + k], axis=k))
    np.testing.assert_array_equal(run([A, C], a), np.convolve(a, [1, 1, 1], "valid"))


def test_one_axis_may_serve_two_tensors():
    a = small(3, 4)
    A, k = mt.placeholder((3, 4), name="A"), mt.reduce_axis(4, "k")
    B = mt.compute((3,), lambda i: mt.sum_(A[i, k], axis=k), name="B")
    C = mt.compute((3,), lambda i: mt.max_(A[i, k] - B[i], axis=k), name="C")
    b, c = run([A, B, C], a)
    np.testing.assert_array_equal(b, a.sum(1))
    np.testing.assert_array_equal(c, (a - a.sum(1)[:, None]).max(1))


def test_loops_and_iters_of_a_reduction():
    A, k = mt.placeholder((3, 4), name="A"), mt.reduce_axis(4, "depth")
    C = mt.compute((3,), lambda row: mt.sum_(A[row, k], axis=k), name="C")
    iters = mt.lower([A, C]).blocks["C"].iters
    assert [(i.var, i.extent, i.kind) for i in iters] == [
        ("row", 3, IterKind.SPATIAL),
        ("depth", 4, IterKind.REDUCE),
    ]


# ---- argmax and argmin

ARGUMENTS = [(mt.argmax, np.argmax), (mt.argmin, np.argmin)]


@pytest.mark.parametrize(("reduction", "reference"), ARGUMENTS, ids=["argmax", "argmin"])
@pytest.mark.parametrize(
    "row",
    [
        [1, 3, 3, 2],
        [3, 3, 3, 3],
        [0, 0, -1, -1],
        [1, np.nan, 5, np.nan],
        [np.nan, 1, 2, 3],
        [1, 2, 3, np.nan],
        [np.nan] * 4,
        [np.inf, np.inf, 1, np.inf],
        [-np.inf] * 4,
        [np.inf] * 4,
        [0.0, -0.0, 0.0, -0.0],
    ],
    ids=str,
)
def test_ties_nan_and_infinities(reduction, reference, row):
    a = np.array([row], F)
    assert reduce_rows(reduction, a)[0] == reference(a[0])


@pytest.mark.parametrize(("reduction", "reference"), ARGUMENTS, ids=["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_positions_of_the_ends_of_integer_types(reduction, reference, dtype):
    info = np.iinfo(dtype)
    for row in itertools.product([info.min, 0, info.max], repeat=3):
        a = np.array([row], dtype)
        assert reduce_rows(reduction, a)[0] == reference(a[0]), row


@pytest.mark.parametrize(("reduction", "reference"), ARGUMENTS, ids=["argmax", "argmin"])
def test_positions_over_two_axes_count_in_row_major_order(reduction, reference):
    a = small(2, 3, 4)
    a[1, 1, 2] = np.nan
    A = mt.placeholder(a.shape, name="A")
    k, r = mt.reduce_axis(3, "k"), mt.reduce_axis(4, "r")
    C = mt.compute((2,), lambda i: reduction(A[i, k, r], axis=[k, r]))
    np.testing.assert_array_equal(run([A, C], a), reference(a.reshape(2, -1), 1))


def test_positions_count_from_the_start_of_the_axis():
    a = small(8, seed=3)
    A, k = mt.placeholder((8,), name="A"), mt.reduce_axis((3, 8))
    C = mt.compute((), lambda: mt.argmax(A[k], axis=k))
    assert run([A, C], a) == a[3:].argmax()


def test_positions_do_not_depend_on_the_order_of_visits():
    """The combination is associative and commutative, ties and NaN included."""
    A, k = mt.placeholder((4,), name="A"), mt.reduce_axis(4)
    reducer = mt.compute((), lambda: mt.argmax(A[k], axis=k)).stage.reducer

    def combine(a, b):
        names = [v.name for v in reducer.lhs + reducer.rhs]
        values = dict(zip(names, (*a, *b)))
        return tuple(evaluate(result, values) for result in reducer.results)

    row = [1.0, np.nan, 3.0, 3.0, np.nan, -np.inf]
    pairs = [(np.int64(n), F(x)) for n, x in enumerate(row)]
    for order in itertools.permutations(range(len(row)), 4):
        chosen = [row[n] for n in sorted(order)]
        wanted = sorted(order)[int(np.argmax(chosen))]
        left = pairs[order[0]]
        for n in order[1:]:
            left = combine(left, pairs[n])
        tree = combine(
            combine(pairs[order[0]], pairs[order[1]]), combine(pairs[order[2]], pairs[order[3]])
        )
        assert left[0] == tree[0] == wanted, [row[n] for n in order]


def test_max_and_min_propagate_nan():
    a = np.array([[1, np.nan, 2], [np.nan, 1, 2], [1, 2, np.nan]], F)
    for reduction in (mt.max_, mt.min_):
        assert np.isnan(reduce_rows(reduction, a)).all()


def test_all_and_any_of_numbers():
    a = np.array([[1, 0.5, -1], [1, 0, 1], [0, 0, -0.0], [np.nan, 0, 1]], F)
    np.testing.assert_array_equal(reduce_rows(mt.all_, a), a.astype(bool).all(1))
    np.testing.assert_array_equal(reduce_rows(mt.any_, a), a.astype(bool).any(1))


# ---- comm_reducer


def reduced(reducer, a, *extra, dtype="float32"):
    A, k = mt.placeholder((len(a),), dtype, name="A"), mt.reduce_axis(len(a))
    return run([A, mt.compute((), lambda: reducer(A[k], axis=k))], np.asarray(a, dtype))


def test_a_reducer_of_ones_own():
    either = mt.comm_reducer(lambda x, y: x + y - x * y, 0, name="either")
    assert reduced(either, [0.5, 0.5, 0.25]) == 0.8125
    with pytest.raises(ArgumentError, match=r"largest is not commutative: \(1.0, -1.0\) gives"):
        reduced(mt.comm_reducer(lambda x, y: mt.select(abs(x) < abs(y), y, x), 0, "largest"), [1])


def test_the_softmax_of_a_row_in_one_pass():
    def combine(x, y):
        top = mt.maximum(x[0], y[0])
        return top, x[1] * mt.exp(x[0] - top) + y[1] * mt.exp(y[0] - top)

    a = small(3, 6)
    A, k = mt.placeholder((3, 6), name="A"), mt.reduce_axis(6)
    online = mt.comm_reducer(combine, (-math.inf, 0.0), name="online")
    top, total = mt.compute((3,), lambda i: online((A[i, k], 1.0), axis=k), name="S")
    got = run([A, top, total], a)
    np.testing.assert_array_equal(got[0], a.max(1))
    np.testing.assert_allclose(got[1], np.exp(a - a.max(1)[:, None]).sum(1), rtol=1e-5)


def test_addition_modulo_two_is_none_on_all_integers():
    parity = mt.comm_reducer(lambda x, y: (x + y) % 2, 0, name="parity")
    with pytest.raises(ArgumentError, match="the identity of parity is none"):
        reduced(parity, [1, 1, 1], dtype="int32")


def test_an_identity_may_depend_on_the_type():
    def lowest(dtype):
        return dtype.min_value if dtype.is_integer else -math.inf

    largest = mt.comm_reducer(mt.maximum, lowest, name="largest")
    assert reduced(largest, [-5, -3, -4]) == -3
    assert reduced(largest, [-5, -3, -4], dtype="int8") == -3
    assert reduced(largest, [], dtype="int8") == -128


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
def test_an_identity_may_be_the_end_of_an_integer_type(dtype):
    info = np.iinfo(dtype)
    values = [info.max - 1, info.max - 2]
    assert reduced(mt.comm_reducer(mt.minimum, info.max), values, dtype=dtype) == info.max - 2
    assert reduced(mt.comm_reducer(mt.maximum, int(info.min)), values, dtype=dtype) == info.max - 1
    assert reduced(mt.comm_reducer(mt.maximum, float(info.min)), [], dtype=dtype) == info.min
    assert reduced(mt.comm_reducer(mt.minimum, int(info.max)), [], dtype=dtype) == info.max


def test_a_reducer_of_pairs_gives_two_tensors():
    a, b = small(3, 4), small(3, 4, seed=1)
    A, B = mt.placeholder((3, 4), name="A"), mt.placeholder((3, 4), name="B")
    k = mt.reduce_axis(4)
    both = mt.comm_reducer(
        lambda x, y: (x[0] + y[0], mt.maximum(x[1], y[1])), (0, -math.inf), name="both"
    )
    total, largest = mt.compute((3,), lambda i: both((A[i, k], B[i, k]), axis=k), name="C")
    assert (total.name, largest.name) == ("C_0", "C_1")
    got = run([A, B, total, largest], a, b)
    np.testing.assert_array_equal(got[0], a.sum(1))
    np.testing.assert_array_equal(got[1], b.max(1))
    np.testing.assert_array_equal(run([A, B, largest], a, b), b.max(1))  # the other is a temporary


def test_pairs_of_different_types():
    a = small(6)
    A, k = mt.placeholder((6,), name="A"), mt.reduce_axis(6)
    both = mt.comm_reducer(lambda x, y: (x[0] + y[0], x[1] + y[1]), (0, 0))
    count, total = mt.compute((), lambda: both(((A[k] > 0).astype("int32"), A[k]), axis=k))
    assert (count.dtype, total.dtype) == ("int32", "float32")
    got = run([A, count, total], a)
    assert (got[0], got[1]) == ((a > 0).sum(), a.sum())


def test_mean_and_spread_by_welford():
    """A reducer whose parts depend on each other: count, mean, sum of squared distances."""

    def combine(x, y):
        n = x[0] + y[0]
        delta = y[1] - x[1]
        whole = mt.select(n == 0, 1.0, n)
        return n, x[1] + delta * y[0] / whole, x[2] + y[2] + delta * delta * x[0] * y[0] / whole

    a = small(3, 8)
    A, k = mt.placeholder((3, 8), name="A"), mt.reduce_axis(8)
    welford = mt.comm_reducer(combine, (0.0, 0.0, 0.0), name="welford")
    parts = mt.compute((3,), lambda i: welford((1.0, A[i, k], 0.0), axis=k), name="W")
    n, mean, spread = run([A, *parts], a)
    np.testing.assert_array_equal(n, [8] * 3)
    np.testing.assert_allclose(mean, a.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(spread, a.var(1) * 8, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [1, 9, 10, 12])
def test_tuples_of_any_width(width):
    A, k = mt.placeholder((5,), name="A"), mt.reduce_axis(5)
    sums = mt.comm_reducer(
        lambda x, y: tuple(p + q for p, q in zip(x, y)), (0,) * width, name="sums"
    )
    tensors = mt.compute((), lambda: sums([A[k] * n for n in range(width)], axis=k))
    tensors = tensors if isinstance(tensors, tuple) else (tensors,)
    assert len(tensors) == width
    got = run([A, *tensors], np.arange(5, dtype=F))
    np.testing.assert_array_equal(got, np.arange(width) * 10 if width > 1 else 0)


@pytest.mark.parametrize(
    ("combine", "identity", "message"),
    [
        (lambda x, y: x - y, 0, "the identity of r is none: combining 0.0 with 1.0 gives -1.0"),
        (lambda x, y: x * y, 0, "the identity of r is none: combining 0.0 with 1.0 gives 0.0"),
        (lambda x, y: x + y, 1, "the identity of r is none: combining 1.0 with 0.0 gives 1.0"),
        (mt.maximum, 0, "the identity of r is none: combining 0.0 with -1.0"),
        (lambda x, y: (x + y) / 2, 0, "the identity of r is none"),
        (lambda x, y: y, 0, "the identity of r is none"),
        (
            lambda x, y: mt.select(x == 0, y, x),
            0,
            r"r is not commutative: \(1.0, 2.0\) gives 1.0, the other way round 2.0",
        ),
        (
            lambda x, y: x + y + x * x * y * y,
            0,
            "r is not associative: on 1.0, 2.0, 3.0 it gives .* or .*; mt.update is for what must",
        ),
    ],
)
def test_reducers_whose_laws_fail_are_refused(combine, identity, message):
    A, k = mt.placeholder((5,), name="A"), mt.reduce_axis(5)
    reducer = mt.comm_reducer(combine, identity, name="r")
    with pytest.raises(ArgumentError, match=message):
        mt.compute((), lambda: reducer(A[k], axis=k))


def test_a_pair_with_a_wrong_identity_is_refused():
    A, k = mt.placeholder((5,), name="A"), mt.reduce_axis(5)
    both = mt.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), (0, 0), name="r")
    with pytest.raises(ArgumentError, match=r"the identity of r is none: combining \(0.0, 0.0\)"):
        mt.compute((), lambda: both((A[k], A[k]), axis=k))


@pytest.mark.parametrize("identity", [-math.inf, math.inf, math.nan])
def test_an_identity_that_the_type_does_not_hold_is_refused(identity):
    A, k = mt.placeholder((5,), "int32", name="A"), mt.reduce_axis(5)
    reducer = mt.comm_reducer(mt.maximum, identity)
    with pytest.raises(ArgumentError, match="identity"):
        mt.compute((), lambda: reducer(A[k], axis=k))


@pytest.mark.parametrize(("identity", "dtype"), [(0.5, "int32"), (256, "uint8")])
def test_an_identity_that_would_be_cut_is_refused(identity, dtype):
    """0.5 would silently become 0, and 256 too."""
    A, k = mt.placeholder((5,), dtype, name="A"), mt.reduce_axis(5)
    reducer = mt.comm_reducer(lambda x, y: x + y, identity)
    with pytest.raises(ArgumentError, match="identity"):
        mt.compute((), lambda: reducer(A[k], axis=k))


@pytest.mark.parametrize(
    ("combine", "identity", "message"),
    [
        (lambda x, y: None, 0, r"expected a symbolic value, but got combine\(x, y\)=None"),
        (lambda x, y: (x, y), 0, r"expected a symbolic value, but got combine\(x, y\)="),
        (lambda x, y: x < y, 0, "combine of r gives bool for float32; convert with .astype"),
        (lambda x, y: x + y, None, "expected a number, but got identity=None"),
        (lambda x, y: x + y, "0", "expected a number, but got identity='0'"),
        (lambda x, y: x + y, (0, 0), "expected a number, but got identity="),
        (lambda x, y: x + y, 1j, "expected a number, but got identity=1j"),
        (lambda x, y: x + y + mt.var("z", "float32"), 0, "uses something other than its two"),
    ],
)
def test_reducers_of_the_wrong_kind_are_refused(combine, identity, message):
    A, k = mt.placeholder((5,), name="A"), mt.reduce_axis(5)
    reducer = mt.comm_reducer(combine, identity, name="r")
    with pytest.raises(ArgumentError, match=message):
        mt.compute((), lambda: reducer(A[k], axis=k))


def test_a_reducer_may_not_read_tensors_or_indices():
    A, k = mt.placeholder((5,), name="A"), mt.reduce_axis(5)
    for combine in (lambda x, y: x + y + A[0] * 0, lambda x, y: x + y + k * 0.0):
        reducer = mt.comm_reducer(combine, 0, name="r")
        with pytest.raises(ArgumentError, match="combine of r uses something other than its two"):
            reducer(A[k], axis=k)


def test_tuples_of_the_wrong_width_are_refused():
    A, k = mt.placeholder((5,), name="A"), mt.reduce_axis(5)
    for combine, identity, name in [
        (lambda x, y: (x[0],), (0, 0), "combine"),
        (lambda x, y: x[0] + y[0], (0, 0), "combine"),
        (lambda x, y: (x[0] + y[0], x[1] + y[1]), (0,), "identity"),
        (lambda x, y: (x[0] + y[0], x[1] + y[1]), 0, "identity"),
    ]:
        reducer = mt.comm_reducer(combine, identity)
        with pytest.raises(ArgumentError, match=f"expected 2 values, but got {name}="):
            reducer((A[k], A[k]), axis=k)


@pytest.mark.parametrize("combine", [lambda x: x, lambda x, y, z: x, lambda: 0])
def test_a_combination_of_other_than_two_values_is_refused(combine):
    A, k = mt.placeholder((5,), name="A"), mt.reduce_axis(5)
    with pytest.raises(ArgumentError, match="combine"):
        reducer = mt.comm_reducer(combine, 0)
        mt.compute((), lambda: reducer(A[k], axis=k))


@pytest.mark.parametrize("combine", [None, 3, "max"])
def test_what_cannot_be_called_is_refused(combine):
    with pytest.raises(ArgumentError, match="expected a function of two values, but got combine="):
        mt.comm_reducer(combine, 0)


@pytest.mark.parametrize("name", [None, "", 3])
def test_the_name_of_a_reducer(name):
    with pytest.raises(ArgumentError, match="expected a name, but got name="):
        mt.comm_reducer(lambda x, y: x + y, 0, name=name)


@pytest.mark.parametrize("name", ['a"; system("x', "*/", "\n", "x" * 5000, "sum"])
def test_any_name_of_a_reducer_will_do(name):
    reducer = mt.comm_reducer(mt.maximum, -math.inf, name=name)
    assert reduced(reducer, [1, 3, 2]) == 3
    A, k = mt.placeholder((3,), name="A"), mt.reduce_axis(3)
    text = str(mt.lower([A, mt.compute((), lambda: reducer(A[k], axis=k))]))
    assert len(text.splitlines()) == 5
    assert "+=" not in text
    assert len(text) < 500


# ---- the laws of reducers of several values


def pairs(combine, identity, name="pairs"):
    """A reduction of (position, value) pairs."""
    A, k = mt.placeholder((4, 4), name="A"), mt.reduce_axis(4, name="k")
    reduce = mt.comm_reducer(combine, identity, name)
    return mt.compute((4,), lambda i: reduce((k.astype("int64"), A[i, k]), axis=k))


def first_of_level(x, y):
    keep = mt.logical_or(x[1] > y[1], mt.logical_and(x[1] == y[1], x[0] < y[0]))
    return mt.select(keep, x[0], y[0]), mt.maximum(x[1], y[1])


def test_the_first_of_level_pairs_passes():
    assert len(pairs(first_of_level, (2**63 - 1, -math.inf))) == 2


def test_pairs_whose_order_decides_are_refused_with_an_example():
    either = lambda x, y: (mt.select(x[1] >= y[1], x[0], y[0]), mt.maximum(x[1], y[1]))
    example = r"pairs is not commutative: \(\(1, 1.0\), \(5, 1.0\)\) gives \(1, 1.0\), the other"
    with pytest.raises(ArgumentError, match=example):
        pairs(either, (2**63 - 1, -math.inf))


def test_pairs_that_depend_on_the_brackets_are_refused_with_an_example():
    apart = lambda x, y: (x[0] + y[0], x[1] + y[1] + mt.abs_(x[1] - y[1]) * x[1] * y[1])
    with pytest.raises(ArgumentError, match=r"not associative: on \(1, 1.0\), \(2, 2.0\)"):
        pairs(apart, (0, 0.0))


@pytest.mark.parametrize("identity", [(2**63 - 1, 0.0), (0, -math.inf)])
def test_a_pair_that_is_no_identity_is_refused(identity):
    if identity[0] == 0:  # the smaller position is kept: of it 0 is no identity
        least = lambda x, y: (mt.minimum(x[0], y[0]), mt.maximum(x[1], y[1]))
    else:
        least = first_of_level
    with pytest.raises(ArgumentError, match="the identity of pairs is none"):
        pairs(least, identity)


def test_a_count_may_be_a_divisor():
    def welford(x, y):
        count, apart = x[0] + y[0], y[1] - x[1]
        mean = (x[0] * x[1] + y[0] * y[1]) / count
        return count, mean, x[2] + y[2] + apart * apart * x[0] * y[0] / count

    A, k = mt.placeholder((4, 4), name="A"), mt.reduce_axis(4, name="k")
    reduce = mt.comm_reducer(welford, (0, 0, 0), "welford")
    one, none = mt.const(1, "float32"), mt.const(0, "float32")
    assert len(mt.compute((4,), lambda i: reduce((one, A[i, k], none), axis=k))) == 3


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    "identity",
    [lambda t: mt.const(0, t), lambda t: mt.const(0, dtype=t), mt.const(0, "int64"), 0],
)
def test_an_identity_may_be_a_constant_of_ours(identity, dtype):
    """`lambda t: mt.const(0, t)` is how TVM has it."""
    added = mt.comm_reducer(lambda x, y: x + y, identity, name="added")
    assert reduced(added, [1, 2, 3], dtype=dtype) == 6


def test_an_identity_is_no_expression():
    a = mt.placeholder((4,), name="a")
    with pytest.raises(ArgumentError, match=r"expected a number, but got identity=a\[0\] \(Sca"):
        reduced(mt.comm_reducer(lambda x, y: x + y, lambda t: a[0]), [1, 2])
    with pytest.raises(ArgumentError, match="the identity of reducer is none"):
        reduced(mt.comm_reducer(lambda x, y: x + y, lambda t: mt.const(1, t)), [1, 2])
