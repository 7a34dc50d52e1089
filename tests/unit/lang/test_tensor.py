"""Tensors: what placeholders, computes and updates know, and the values they stand for."""

import functools
import operator

import numpy as np
import pytest

import minitensor.lang as mt
from minitensor.errors import ArgumentError, ExecutionError, LoweringError
from minitensor.ir import USER_DTYPES, IterKind, interpret, numpy_dtype

F = np.float32


def run(tensors, *arrays):
    """The outputs of the program; the only one by itself."""
    outputs, _ = interpret(mt.lower(tensors), [np.asarray(a) for a in arrays])
    return outputs[0] if len(outputs) == 1 else outputs


def floats(*shape):
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(F)


def kinds(tensor, *inputs):
    """The kinds of the iters of the tensor's block, in order."""
    program = mt.lower([*inputs, tensor])
    return [i.kind.value for i in program.blocks[tensor.name].iters]


# ---- placeholders


@pytest.mark.parametrize("dtype", USER_DTYPES)
def test_a_placeholder_is_what_was_given(dtype):
    A = mt.placeholder((2, 3), dtype, name="A")
    assert (A.name, A.shape, A.dtype, A.ndim, A.stage) == ("A", (2, 3), dtype, 2, None)
    assert repr(A) == f"Tensor(A: {dtype}[2, 3])"


@pytest.mark.parametrize(
    ("shape", "held"),
    [
        ((), ()),
        (5, (5,)),
        ([2, 3], (2, 3)),
        ((np.int64(2), np.int32(3)), (2, 3)),
        ((0, 3), (0, 3)),
        (np.int64(4), (4,)),
    ],
)
def test_shapes(shape, held):
    A = mt.placeholder(shape)
    assert A.shape == held
    assert all(type(n) is int for n in A.shape)


def test_defaults():
    assert mt.placeholder((2,)).dtype == "float32"
    assert mt.placeholder((2,)).name == "placeholder"
    assert mt.placeholder((2,), name="").name == "placeholder"
    assert mt.compute((2,), lambda i: 1.0).name == "compute"
    assert mt.reduce_axis(3).axis.extent == 3


def test_a_tensors_own_dtype_can_be_given_on():
    A = mt.placeholder((2,), "int8")
    assert mt.placeholder((2,), A.dtype).dtype == "int8"
    assert A[0].astype(A.dtype).dtype == "int8"


# ---- compute


@pytest.mark.parametrize(
    ("result", "dtype", "value"),
    [
        (lambda i: 1, "int64", 1),
        (lambda i: 1.5, "float32", 1.5),
        (lambda i: True, "bool", True),
        (lambda i: i, "int64", [0, 1, 2]),
        (lambda i: i * 2 + 1, "int64", [1, 3, 5]),
        (lambda i: i < 1, "bool", [True, False, False]),
        (lambda i: i / 2, "float32", [0, 0.5, 1]),
        (lambda i: np.float32(2.5), "float32", 2.5),
        (lambda i: np.int8(3), "int64", 3),
    ],
)
def test_what_compute_may_return_and_its_type(result, dtype, value):
    C = mt.compute((3,), result)
    assert C.dtype == dtype
    c = run([C])
    assert c.dtype == dtype
    np.testing.assert_array_equal(c, np.broadcast_to(value, 3))


def test_a_bool_of_numpy_may_be_returned():
    C = mt.compute((3,), lambda i: np.True_)
    np.testing.assert_array_equal(run([C]), [True] * 3)


def test_loops_are_named_after_the_parameters():
    C = mt.compute((2, 3, 4), lambda batch, y, x: batch + y + x, name="C")
    assert [i.var for i in mt.lower([C]).blocks["C"].iters] == ["batch", "y", "x"]


def test_variable_parameters_are_numbered():
    C = mt.compute((2, 3), lambda *axis: axis[0] + axis[1], name="C")
    assert [i.var for i in mt.lower([C]).blocks["C"].iters] == ["axis0", "axis1"]
    D = mt.compute((2, 3, 4), lambda n, *rest: n + rest[0] + rest[1], name="D")
    assert mt.lower([D]).blocks["D"].iters[0].var == "n"
    np.testing.assert_array_equal(run([D]), np.indices((2, 3, 4)).sum(0))


def test_other_callables():
    class Sum:
        def __call__(self, i, j):
            return i + j

    def with_default(i, j, scale=10):
        return (i + j) * scale

    wanted = np.add.outer(np.arange(2), np.arange(3))
    np.testing.assert_array_equal(run([mt.compute((2, 3), Sum())]), wanted)
    np.testing.assert_array_equal(run([mt.compute((2, 3), operator.add)]), wanted)
    np.testing.assert_array_equal(run([mt.compute((2, 3), with_default)]), wanted * 10)
    curried = functools.partial(lambda k, i, j: i + j + k, 5)
    np.testing.assert_array_equal(run([mt.compute((2, 3), curried)]), wanted + 5)


def test_an_error_of_the_users_function_is_the_users():
    def broken(i):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mt.compute((2,), broken)


def test_indexing_needs_integers_of_any_kind():
    A = mt.placeholder((4,), "float32", name="A")
    idx = mt.placeholder((3,), "uint8", name="idx")
    a, where = floats(4), np.array([3, 0, 2], np.uint8)
    np.testing.assert_array_equal(
        run([A, idx, mt.compute((3,), lambda i: A[idx[i]])], a, where), a[where]
    )
    np.testing.assert_array_equal(
        run([A, mt.compute((3,), lambda i: A[(i * 1.0).astype("int32") + 1])], a), a[1:]
    )
    assert run([A, mt.compute((), lambda: A[np.int64(2)])], a) == a[2]


# ---- zero and one


@pytest.mark.parametrize("dtype", USER_DTYPES)
def test_zero_dimensional_tensors(dtype):
    A = mt.placeholder((), dtype, name="A")
    C = mt.compute((), lambda: mt.maximum(A[()], 1), name="C")
    one = np.array(0x3F80 if dtype == "bfloat16" else 1, numpy_dtype(A.dtype))
    c = run([A, C], one)
    assert np.shape(c) == ()
    assert c == one


def test_a_scalar_read_everywhere():
    s = mt.placeholder((), "float32", name="s")
    A = mt.placeholder((3,), "float32", name="A")
    C = mt.compute((3,), lambda i: A[i] * s[()])
    np.testing.assert_array_equal(run([s, A, C], F(2), floats(3)), floats(3) * 2)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1, 1)])
def test_extents_of_zero_and_one(shape):
    A = mt.placeholder(shape, "float32", name="A")
    C = mt.compute(shape, lambda *i: A[i] + 1.0)
    a = np.ones(shape, F)
    c = run([A, C], a)
    assert c.shape == shape
    np.testing.assert_array_equal(c, a + 1)


def test_many_axes():
    A = mt.placeholder((1, 2) * 4, "float32", name="A")
    C = mt.compute((1, 2) * 4, lambda *i: A[i] * 2)
    a = floats(*(1, 2) * 4)
    np.testing.assert_array_equal(run([A, C], a), a * 2)


# ---- accesses


@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((5,), lambda i: (i, i)),
        ((5, 5), lambda i, j: (j, i)),
        ((5, 5), lambda i, j: (4 - i, j)),
        ((3, 2), lambda i, j: (2 * i, 2 * j + 1)),
        ((4, 5), lambda i, j: (i + 1, j)),
        ((10, 5), lambda i, j: (i // 2, j)),
        ((7, 5), lambda i, j: (i % 3, j)),
        ((25,), lambda i: (i // 5, i % 5)),
        ((3, 3), lambda i, j: (i + j, 4 - i)),
        ((5, 5), lambda i, j: (abs(i - 2), j)),
        ((5, 5), lambda i, j: ((i * i) % 5, j)),
        ((5, 5), lambda i, j: ((i + 3) % 5, j)),
        ((2, 2, 2), lambda i, j, k: (i + 2 * j, 4 - k)),
    ],
)
def test_accesses_by_index_expressions_against_numpy(shape, index):
    A = mt.placeholder((5, 5), "float32", name="A")
    C = mt.compute(shape, lambda *i: A[index(*i)])
    np.testing.assert_array_equal(
        run([A, C], floats(5, 5)), floats(5, 5)[index(*np.indices(shape))]
    )


def test_accesses_by_constants_minima_and_selections_against_numpy():
    A = mt.placeholder((5, 5), "float32", name="A")
    a, (i, j) = floats(5, 5), np.indices((5, 5))
    for index, where in [
        (lambda i, j: A[0, 3], (0, 3)),
        (lambda i, j: A[mt.minimum(i, 2), j], (np.minimum(i, 2), j)),
        (lambda i, j: A[i, mt.maximum(j - 2, 0)], (i, np.maximum(j - 2, 0))),
        (lambda i, j: A[mt.select(i < j, i, j), j], (np.where(i < j, i, j), j)),
    ]:
        c = run([A, mt.compute((5, 5), index)], a)
        np.testing.assert_array_equal(c, np.broadcast_to(a[where], (5, 5)))


@pytest.mark.parametrize(
    ("index", "reference", "shape"),
    [
        (lambda i, j: (i * 5) % 7, lambda i, j: (i * 5) % 7, (3, 1)),
        (lambda i, j: i // (j + 1), lambda i, j: i // (j + 1), (5, 4)),
        (lambda i, j: i % (j + 1), lambda i, j: i % (j + 1), (2, 9)),
        (lambda i, j: (i * 4 + j) % 6, lambda i, j: (i * 4 + j) % 6, (5, 2)),
        (
            lambda i, j: mt.minimum(i // (j + 1), 3),
            lambda i, j: np.minimum(i // (j + 1), 3),
            (9, 4),
        ),
    ],
    ids=["i * 5 % 7", "i // (j + 1)", "i % (j + 1)", "(i * 4 + j) % 6", "min(i // (j + 1), 3)"],
)
def test_accesses_in_bounds_whose_bounds_are_hard_to_see(index, reference, shape):
    """An index is refused only if it certainly leaves the buffer."""
    i, j = np.indices(shape)
    where = reference(i, j)
    A = mt.placeholder((int(where.max()) + 1,), "float32", name="A")
    a = floats(*A.shape)
    C = mt.compute(shape, lambda i, j: A[index(i, j)])
    np.testing.assert_array_equal(run([A, C], a), a[where])


def test_data_dependent_accesses():
    B = mt.placeholder((4,), "float32", name="B")
    idx = mt.placeholder((6,), "int32", name="idx")
    C = mt.compute((6,), lambda i: B[idx[i]], name="C")
    b, where = floats(4), np.array([3, 0, 0, 2, 1, 3], np.int32)
    np.testing.assert_array_equal(run([B, idx, C], b, where), b[where])
    for bad in (-1, 4, 2**31 - 1):
        where[2] = bad
        with pytest.raises(ExecutionError, match=rf"B\[{bad}\] is outside B") as caught:
            run([B, idx, C], b, where)
        assert caught.value.kind == "out of bounds"


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint8"])
def test_data_of_every_integer_type_can_be_an_index(dtype):
    B = mt.placeholder((4,), "float32", name="B")
    idx = mt.placeholder((3,), dtype, name="idx")
    C = mt.compute((3,), lambda i: B[idx[i]])
    where = np.array([3, 1, 0], dtype)
    np.testing.assert_array_equal(run([B, idx, C], floats(4), where), floats(4)[where])
    with pytest.raises(ExecutionError, match="is outside B"):
        run([B, idx, C], floats(4), np.array([np.iinfo(dtype).max, 0, 0], dtype))


def test_arithmetic_on_data_indices():
    B = mt.placeholder((9,), "float32", name="B")
    idx = mt.placeholder((4,), "int64", name="idx")
    C = mt.compute((4,), lambda i: B[(idx[i] + 1) * 2 % 9 + i - i])
    where = np.array([0, 5, 7, 8])
    np.testing.assert_array_equal(
        run([B, idx, C], floats(9), where), floats(9)[(where + 1) * 2 % 9]
    )


@pytest.mark.parametrize(
    "condition",
    [
        lambda i: mt.logical_and(i >= 1, i < 6),
        lambda i: mt.logical_not(mt.logical_or(i < 1, i >= 6)),
        lambda i: (i >= 1) & (i < 6),
        lambda i: mt.logical_and(i >= 1, i <= 5, True),
        lambda i: (i - 1) * (i - 5) <= 0,
    ],
)
def test_padding(condition):
    A = mt.placeholder((5,), "float32", name="A")
    C = mt.compute((7,), lambda i: mt.if_then_else(condition(i), A[i - 1], 0.0))
    np.testing.assert_array_equal(run([A, C], floats(5)), np.pad(floats(5), 1))


def test_padding_the_other_way_round():
    A = mt.placeholder((5,), "float32", name="A")
    C = mt.compute((7,), lambda i: mt.if_then_else(mt.logical_not(i < 5), 0.0, A[i]))
    np.testing.assert_array_equal(run([A, C], floats(5)), np.pad(floats(5), (0, 2)))


def test_padding_in_two_dimensions():
    A = mt.placeholder((3, 4), "float32", name="A")
    inside = lambda y, x: mt.logical_and(y >= 1, y < 4, x >= 2, x < 6)
    C = mt.compute((5, 8), lambda y, x: mt.if_then_else(inside(y, x), A[y - 1, x - 2], -1.0))
    wanted = np.pad(floats(3, 4), ((1, 1), (2, 2)), constant_values=-1)
    np.testing.assert_array_equal(run([A, C], floats(3, 4)), wanted)


def test_a_wrong_guard_is_found_when_it_runs():
    A = mt.placeholder((5,), "float32", name="A")
    C = mt.compute((7,), lambda i: mt.if_then_else(i < 7, A[i], 0.0))
    with pytest.raises(LoweringError, match="is out of bounds: index 0 goes from 0 to 6"):
        mt.lower([A, C])  # the condition is provably true
    idx = mt.placeholder((7,), "int32", name="idx")
    C = mt.compute((7,), lambda i: mt.if_then_else(idx[i] < 7, A[i], 0.0))
    program = mt.lower([A, idx, C])
    with pytest.raises(ExecutionError, match=r"A\[5\] is outside A"):
        interpret(program, [floats(5), np.arange(7, dtype=np.int32)])


# ---- update


def test_a_scan():
    A = mt.placeholder((6,), "float32", name="A")
    C = mt.update((6,), lambda C, i: mt.if_then_else(i > 0, C[i - 1], 0.0) + A[i], name="C")
    np.testing.assert_array_equal(run([A, C], floats(6)), np.cumsum(floats(6)))
    assert kinds(C, A) == ["ordered"]


def test_a_scan_of_rows():
    A = mt.placeholder((3, 5), "float32", name="A")
    C = mt.update(
        (3, 5), lambda C, i, j: mt.if_then_else(j > 0, C[i, j - 1], 0.0) + A[i, j], name="C"
    )
    np.testing.assert_array_equal(run([A, C], floats(3, 5)), np.cumsum(floats(3, 5), 1))
    assert kinds(C, A) == ["spatial", "ordered"]


def test_horner():
    A = mt.placeholder((3, 4), "float32", name="A")
    k = mt.reduce_axis(4, "k")
    B = mt.update((3,), lambda B, i: 2 * B[i] + A[i, k], axis=k, init=0.0, name="B")
    a = floats(3, 4)
    np.testing.assert_array_equal(run([A, B], a), [np.polyval(row, 2) for row in a])
    assert kinds(B, A) == ["spatial", "ordered"]


def test_an_init_that_depends_on_the_indices():
    A = mt.placeholder((3, 4), "float32", name="A")
    D = mt.placeholder((3,), "float32", name="D")
    k = mt.reduce_axis(4, "k")
    B = mt.update((3,), lambda B, i: B[i] / 2 + A[i, k], axis=k, init=lambda i: D[i] + 1, name="B")
    a, d = floats(3, 4), floats(3)
    b = d + 1
    for n in range(4):
        b = b / 2 + a[:, n]
    np.testing.assert_array_equal(run([A, D, B], a, d), b)


def test_a_stencil_in_time():
    steps, n = 5, 8
    U = mt.placeholder((n,), "float32", name="U")

    def step(C, t, x):
        inside = mt.logical_and(x > 0, x < n - 1)
        moved = mt.if_then_else(inside, C[t - 1, x - 1] + C[t - 1, x + 1], C[t - 1, x])
        return mt.if_then_else(t == 0, U[x], moved)

    C = mt.update((steps, n), step, name="C")
    u = floats(n)
    rows = [u]
    for _ in range(steps - 1):
        last = rows[-1]
        rows.append(np.concatenate([last[:1], last[:-2] + last[2:], last[-1:]]))
    np.testing.assert_array_equal(run([U, C], u), rows)
    assert kinds(C, U) == ["ordered", "ordered"]


def test_a_two_dimensional_stencil_in_time():
    steps, n = 3, 5
    U = mt.placeholder((n, n), "float32", name="U")

    def step(C, t, y, x):
        inner = mt.logical_and(y > 0, y < n - 1, x > 0, x < n - 1)
        around = C[t - 1, y - 1, x] + C[t - 1, y + 1, x] + C[t - 1, y, x - 1] + C[t - 1, y, x + 1]
        return mt.if_then_else(t == 0, U[y, x], mt.if_then_else(inner, around, 0.0))

    C = mt.update((steps, n, n), step, name="C")
    u = floats(n, n)
    rows = [u]
    for _ in range(steps - 1):
        last, new = rows[-1], np.zeros((n, n), F)
        new[1:-1, 1:-1] = last[:-2, 1:-1] + last[2:, 1:-1] + last[1:-1, :-2] + last[1:-1, 2:]
        rows.append(new)
    np.testing.assert_array_equal(run([U, C], u), rows)
    assert kinds(C, U) == ["ordered"] * 3


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda C, i, j: C[i, j] + 1, ["spatial", "spatial"]),
        (lambda C, i, j: mt.if_then_else(i > 0, C[i - 1, j], 0.0), ["ordered", "spatial"]),
        (lambda C, i, j: mt.if_then_else(j > 0, C[i, j - 1], 0.0), ["spatial", "ordered"]),
        (lambda C, i, j: mt.if_then_else(j > 0, C[i, 0], 0.0), ["spatial", "ordered"]),
        (lambda C, i, j: mt.if_then_else(i == j, 0.0, C[j, i]), ["ordered", "ordered"]),
        (lambda C, i, j: i + j, ["spatial", "spatial"]),
        (
            lambda C, i, j: mt.if_then_else(i > 0, C[i - 1, j], 0.0) + C[i, j],
            ["ordered", "spatial"],
        ),
    ],
)
def test_which_indices_of_an_update_are_ordered(function, wanted):
    C = mt.update((4, 4), function, init=0.0, name="C")
    assert kinds(C) == wanted


def test_the_axes_of_an_update_are_ordered_outermost_first():
    A = mt.placeholder((2, 3), "float32", name="A")
    k, r = mt.reduce_axis(2, "k"), mt.reduce_axis(3, "r")
    C = mt.update((1,), lambda C, i: C[i] * 3 + A[k, r], axis=[k, r], init=0.0, name="C")
    assert kinds(C, A) == ["spatial", "ordered", "ordered"]
    total = 0
    for one in floats(2, 3).ravel():
        total = total * 3 + one
    assert run([A, C], floats(2, 3))[0] == total


def test_an_update_of_an_ordered_index_with_init_has_a_block_for_it():
    C = mt.update(
        (4,), lambda C, i: C[i] + mt.if_then_else(i > 0, C[i - 1], 1.0), init=2.0, name="C"
    )
    program = mt.lower([C])
    assert list(program.blocks) == ["C_init", "C"]
    assert [i.kind for i in program.blocks["C_init"].iters] == [IterKind.SPATIAL]
    np.testing.assert_array_equal(run([C]), [3, 5, 7, 9])


def test_an_update_reads_what_was_initialised_before_its_turn():
    """Elements to the right are not updated yet."""
    C = mt.update(
        (4,), lambda C, i: C[i] + mt.if_then_else(i < 3, C[i + 1], 0.0), init=lambda i: i + 1.0
    )
    np.testing.assert_array_equal(run([C]), [3, 5, 7, 4])


def test_an_update_without_init_that_reads_too_early():
    k = mt.reduce_axis(3, "k")
    A = mt.placeholder((4, 3), name="A")
    for fupdate, axis in (
        (lambda C, i: C[i] + 1, ()),
        (lambda C, i: C[3 - i] + 1, ()),
        (lambda C, i: 2 * C[i] + A[i, k], k),
        (lambda C, i: mt.if_then_else(i < 2, C[i], 0.0), ()),
        (lambda C, i: mt.select(i > 0, C[i], 0.0), ()),
    ):
        with pytest.raises(ArgumentError, match="the first visit of C reads C before"):
            mt.update((4,), fupdate, axis=axis, name="C")
    with pytest.raises(ArgumentError, match="C is never written"):
        mt.update((4,), lambda C, i: i, axis=mt.reduce_axis(0, "k"), name="C")


def test_an_update_without_init_that_reads_what_may_be_unwritten():
    B = mt.placeholder((4,), name="B")
    C = mt.update((4,), lambda C, i: mt.if_then_else(B[i] > 0, C[i], 1.0), name="C")
    np.testing.assert_array_equal(run([B, C], np.zeros(4, "f")), [1, 1, 1, 1])
    with pytest.raises(ExecutionError, match=r"C\[0\] is read before written"):
        run([B, C], np.ones(4, "f"))


def test_an_update_of_nothing_needs_no_init():
    assert run([mt.update((0,), lambda C, i: C[i] + 1, name="C")]).shape == (0,)


def test_an_update_is_converted_to_its_dtype():
    for dtype in ("int8", "float64", "bool"):
        C = mt.update((3,), lambda C, i: i * 100, dtype=dtype)
        assert C.dtype == dtype
        np.testing.assert_array_equal(run([C]), (np.arange(3) * 100).astype(dtype))


def test_an_update_over_an_empty_axis_is_its_init():
    k = mt.reduce_axis(0, "k")
    C = mt.update((3,), lambda C, i: C[i] + k, axis=k, init=7.0)
    np.testing.assert_array_equal(run([C]), [7, 7, 7])
    D = mt.update((3,), lambda D, i: D[mt.maximum(i - 1, 0)] + k, axis=k, init=7.0)
    np.testing.assert_array_equal(run([D]), [7, 7, 7])


def test_an_update_in_zero_dimensions():
    A = mt.placeholder((4,), "float32", name="A")
    k = mt.reduce_axis(4, "k")
    C = mt.update((), lambda C: C[()] * 10 + A[k], axis=k, init=0.0)
    assert run([A, C], np.arange(1, 5, dtype=F)) == 1234


def test_an_update_takes_variable_parameters():
    C = mt.update((2, 3), lambda C, *i: i[0] * 10 + i[1], dtype="int64")
    np.testing.assert_array_equal(run([C]), [[0, 1, 2], [10, 11, 12]])
    D = mt.update((2, 3), lambda *all_of_it: all_of_it[1] * 10 + all_of_it[2], dtype="int64")
    np.testing.assert_array_equal(run([D]), [[0, 1, 2], [10, 11, 12]])


def test_an_update_between_other_stages():
    A = mt.placeholder((6,), "float32", name="A")
    B = mt.compute((6,), lambda i: A[i] + 1, name="B")
    C = mt.update((6,), lambda C, i: mt.if_then_else(i > 0, C[i - 1], 0.0) + B[i], name="C")
    D = mt.compute((6,), lambda i: C[5 - i] * 2, name="D")
    np.testing.assert_array_equal(run([A, D], floats(6)), np.cumsum(floats(6) + 1)[::-1] * 2)
