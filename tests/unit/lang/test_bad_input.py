"""Every way to get it wrong: an error of this package, with a message that helps."""

import math
from fractions import Fraction

import numpy as np
import pytest

import minitensor.lang as mt
from minitensor.errors import ArgumentError, LoweringError, MinitensorError
from tests.unit.ir.build import ends_within

A = mt.placeholder((4, 5), "float32", name="A")
B = mt.placeholder((4,), "float32", name="B")
N = mt.placeholder((4,), "int32", name="N")
P = mt.placeholder((4,), "bool", name="P")
S = mt.placeholder((), "float32", name="S")
k = mt.reduce_axis(5, "k")
C = mt.compute((4,), lambda i: B[i] + 1, name="C")


def refused(action, *parts, error=ArgumentError):
    """The action must raise this error, on one line of sane length, with these parts in it."""
    with pytest.raises(error) as caught:
        action()
    message = caught.value.message
    for part in parts:
        assert part in message, message
    assert "\n" not in message
    assert len(message) < 400
    assert " object at 0x" not in message, message
    return message


def rows(function):
    """A compute of four elements, as an action."""
    return lambda: mt.compute((4,), function, name="T")


# ---- indices


@pytest.mark.parametrize(
    ("action", "parts"),
    [
        (lambda: A[1], ["A has 2 axes (4, 5), but is indexed with 1: A[1]"]),
        (lambda: A[1, 2, 3], ["A has 2 axes (4, 5), but is indexed with 3: A[1, 2, 3]"]),
        (lambda: A[()], ["A has 2 axes", "indexed with 0"]),
        (lambda: S[0], ["S has 0 axes", "indexed with 1"]),
        (rows(lambda i: A[i]), ["A has 2 axes (4, 5), but is indexed with 1: A[i]"]),
    ],
    ids=["too few", "too many", "none", "of a scalar", "symbolic"],
)
def test_the_number_of_indices(action, parts):
    refused(action, *parts)


@pytest.mark.parametrize("index", [4, 100, -1, -4, np.int64(-1)])
def test_a_constant_index_out_of_range(index):
    refused(lambda: B[index], f"index 0 of B is {int(index)}, but the axis has extent 4", "wrap")
    refused(lambda: A[0, index - 1 if index < 0 else index + 1], "index 1 of A is")


def test_an_index_beyond_64_bits():
    refused(lambda: B[2**64], str(2**64))


@pytest.mark.parametrize(
    ("index", "part"),
    [
        (1.5, "=1.5 (float)"),
        (1.0, "=1.0 (float)"),
        (np.float32(1), "(float32)"),
        (slice(0, 2), "=slice(0, 2, None) (slice)"),
        (slice(None), "slice"),
        (None, "=None (NoneType)"),
        (Ellipsis, "Ellipsis"),
        ("0", "='0' (str)"),
        ([0], "=[0] (list)"),
        (np.array([0]), "ndarray"),
        (True, "True of type bool"),
    ],
    ids=str,
)
def test_an_index_that_is_no_integer(index, part):
    refused(lambda: B[index], "expected an integer", part, "B")


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda i: B[i * 1.5], ["index 0 of B", "of type float32"]),
        (lambda i: B[i / 2], ["index 0 of B", "of type float32"]),
        (lambda i: B[B[i]], ["index 0 of B", "of type float32"]),
        (lambda i: B[i < 2], ["index 0 of B", "i < 2 of type bool"]),
        (lambda i: A[i, P[i]], ["index 1 of A", "of type bool"]),
        (lambda i: A[i, B], ["index 1 of A", "the tensor B; index it: B[...]"]),
        (lambda i: A[mt.sum_(N[k], axis=k), i], ["a reduction (sum) must be the whole expression"]),
    ],
    ids=["float", "division", "float data", "condition", "bool data", "tensor", "reduction"],
)
def test_an_index_of_the_wrong_kind(function, parts):
    refused(rows(function), *parts)


# ---- tensors where scalars are meant

TENSOR_USES = {
    "B + 1": lambda i: B + 1,
    "1 + B": lambda i: 1 + B,
    "B + B": lambda i: B + B,
    "B[i] + B": lambda i: B[i] + B,
    "B * B[i]": lambda i: B * B[i],
    "-B": lambda i: -B,
    "abs(B)": lambda i: abs(B),
    "B / 2": lambda i: B / 2,
    "B // 2": lambda i: B // 2,
    "2 - B": lambda i: 2 - B,
    "B ** 2": lambda i: B**2,
    "B @ B": lambda i: B @ B,
    "B < 1": lambda i: B < 1,
    "B >= B": lambda i: B >= B,
    "B == 0": lambda i: B == 0,
    "B != 0": lambda i: B != 0,
    "exp(B)": lambda i: mt.exp(B),
    "maximum(B, 0)": lambda i: mt.maximum(B, 0),
    "select(B, 1, 0)": lambda i: mt.select(B, 1, 0),
    "select(i < 1, B, 0)": lambda i: mt.select(i < 1, B, 0),
    "logical_and(P, P)": lambda i: mt.logical_and(P, P),
    "sum(B)": lambda i: mt.sum_(B, axis=k),
    "B itself": lambda i: B,
    "B if B": lambda i: 1 if B else 0,
    "B and B": lambda i: B and B[i],
}


@pytest.mark.parametrize("use", TENSOR_USES.values(), ids=TENSOR_USES)
def test_a_tensor_without_indices(use):
    """`B == 0` and `if B` must not quietly be Python's."""
    message = refused(rows(use))
    assert "B" in message or "P" in message
    assert "index it" in message or "indices" in message or "Tensor(" in message


def test_tensors_can_be_compared_with_is_and_kept_in_sets_and_dicts():
    assert len({A, B, A}) == 2
    assert {A: 1}[A] == 1


# ---- Python's control flow on symbolic values


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda i: B[i] if i > 2 else 0.0, "2 < i"),
        (lambda i: B[i] if i else 0.0, "i"),
        (lambda i: 0 < i < 2, "0 < i"),
        (lambda i: (i > 0) and (i < 2), "0 < i"),
        (lambda i: (i > 0) or (i < 2), "0 < i"),
        (lambda i: not i > 0, "0 < i"),
        (lambda i: B[i] if B[i] > 0 else 0.0, "B[i]"),
        (lambda i: max(B[i], 0.0), "B[i] < 0.0"),
        (lambda i: i in (1, 2), "i == 1"),
        (lambda i: 1.0 if any([i > 0]) else 0.0, "0 < i"),
        (lambda i: 1.0 if k > 3 else 0.0, "3 < k"),
    ],
    ids=["if", "if number", "chain", "and", "or", "not", "if data", "max", "in", "any", "axis"],
)
def test_the_truth_of_a_symbolic_value(function, shown):
    refused(
        rows(function),
        f"{shown} has no truth value: it is symbolic",
        "mt.if_then_else or mt.select",
        "mt.logical_and",
        "chained comparisons",
    )


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda i: sum(B[i]), "B[i] is one value and cannot be iterated over"),
        (lambda i: next(iter(i)), "i is one value and cannot be iterated over"),
        (lambda i: sum(B), "Tensor(B: float32[4]) cannot be iterated over"),
        (lambda i: next(iter(A)), "Tensor(A: float32[4, 5]) cannot be iterated over"),
        (lambda i: max(*N), "Tensor(N: int32[4]) cannot be iterated over"),
    ],
)
def test_iterating(function, part):
    refused(rows(function), part)


@pytest.mark.parametrize(
    "function",
    [
        lambda i: float(B[i]),
        lambda i: int(N[i]),
        lambda i: math.exp(B[i]),
        lambda i: sum(range(i)),
        lambda i: [1.0, 2.0][i],
        lambda i: np.exp(B[i]),
        lambda i: round(B[i]),
    ],
    ids=["float", "int", "math", "range", "list", "numpy", "round"],
)
def test_what_needs_a_number_now_is_refused(function):
    """Python's own TypeError will do: it says what cannot be interpreted."""
    with pytest.raises((MinitensorError, TypeError)):
        rows(function)()


# ---- axes


def test_an_axis_outside_of_its_reduction():
    refused(
        rows(lambda i: A[i, k]),
        "k is neither an index of T nor a reduction axis given to its reduction: T = A[i, k]",
    )
    r = mt.reduce_axis(5, "r")
    refused(rows(lambda i: mt.sum_(A[i, k] * r, axis=k)), "r is neither an index of T")


def test_an_index_of_another_tensor():
    kept = []
    mt.compute((4,), lambda outer: kept.append(outer) or outer, name="first")
    refused(rows(lambda i: B[kept[0]]), "outer is neither an index of T nor a reduction axis")
    refused(
        rows(lambda i: mt.compute((2,), lambda j: B[i], name="inner")[0]),
        "i is neither an index of inner",
    )


def test_a_free_variable():
    refused(rows(lambda i: B[i] + mt.var("n")), "n is neither an index of T nor a reduction axis")


@pytest.mark.parametrize(
    ("axis", "part"),
    [
        (None, "axis=None (NoneType)"),
        (1, "axis=1 (int)"),
        ("k", "axis='k' (str)"),
        ([k, 1], "axis=[k, 1] (list)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("reduction", [mt.sum_, mt.argmax])
def test_an_axis_that_is_none(reduction, axis, part):
    refused(rows(lambda i: reduction(A[i, k], axis=axis)), "expected mt.reduce_axis objects", part)


def test_an_index_given_as_axis():
    refused(
        rows(lambda i: mt.sum_(B[i], axis=i)),
        "expected mt.reduce_axis objects (an index of the tensor is not one), but got axis=i",
    )


def test_axes_given_twice_or_not_at_all():
    refused(
        rows(lambda i: mt.sum_(A[i, k], axis=[k, k])),
        "expected each reduction axis once, but got axis=[k, k]",
    )
    refused(rows(lambda i: mt.sum_(A[i, k], axis=[])), "expected at least one reduction axis")


@pytest.mark.parametrize(
    "dom", [-1, 1.5, True, None, "5", "ab", (0,), (0, 1, 2), (3, 1), (0, 2.0), (0, True), {0, 5}]
)
def test_domains_of_axes(dom):
    refused(lambda: mt.reduce_axis(dom), "expected an extent or a pair (start, stop)", "dom=")


# ---- reductions inside expressions

REDUCTIONS = {
    "r + 1": lambda r, i: r + 1,
    "1 + r": lambda r, i: 1 + r,
    "B[i] + r": lambda r, i: B[i] + r,
    "r * B[i]": lambda r, i: r * B[i],
    "r / 5": lambda r, i: r / 5,
    "B[i] / r": lambda r, i: B[i] / r,
    "r // 2": lambda r, i: r // 2,
    "2 ** r": lambda r, i: 2**r,
    "-r": lambda r, i: -r,
    "abs(r)": lambda r, i: abs(r),
    "r < 1": lambda r, i: r < 1,
    "B[i] < r": lambda r, i: B[i] < r,
    "r == 0": lambda r, i: r == 0,
    "r != 0": lambda r, i: r != 0,
    "B[i] == r": lambda r, i: B[i] == r,
    "r.astype": lambda r, i: r.astype("int8"),
    "exp(r)": lambda r, i: mt.exp(r),
    "maximum(r, 0)": lambda r, i: mt.maximum(r, 0),
    "maximum(0, r)": lambda r, i: mt.maximum(0, r),
    "select(i < 2, r, 0)": lambda r, i: mt.select(i < 2, r, 0),
    "select(r, 1, 0)": lambda r, i: mt.select(r, 1, 0),
    "logical_not(r)": lambda r, i: mt.logical_not(r),
    "sum(r)": lambda r, i: mt.sum_(r, axis=k),
    "if r": lambda r, i: 1 if r else 0,
}


@pytest.mark.parametrize("use", REDUCTIONS.values(), ids=REDUCTIONS)
def test_a_reduction_inside_an_expression(use):
    """`r == 0` must not quietly be Python's, which makes a tensor of False."""
    refused(
        rows(lambda i: use(mt.sum_(A[i, k], axis=k), i)),
        "a reduction (sum) must be the whole expression of its tensor: give it an mt.compute",
    )


def test_a_reduction_in_an_update():
    refused(
        lambda: mt.update((4,), lambda C, i: mt.sum_(A[i, k], axis=k), name="U"),
        "a reduction (sum) must be the whole expression of its tensor: give it an mt.compute",
    )
    refused(
        lambda: mt.update((4,), lambda C, i: C[i], init=mt.sum_(B[k], axis=k), name="U"),
        "a reduction (sum) must be the whole expression of its tensor: give it an mt.compute",
    )


# ---- dtypes and shapes


@pytest.mark.parametrize("dtype", ["float", "f4", "FLOAT32", "index", "float32x4", "", None, 3])
def test_dtypes_that_do_not_exist(dtype):
    for action in (
        lambda: mt.placeholder((2,), dtype),
        lambda: B[0].astype(dtype),
        lambda: mt.update((2,), lambda C, i: 1.0, dtype=dtype),
    ):
        refused(action, "expected one of float64, float32,", "bool, but got dtype=")


def test_the_type_of_loop_indices_is_not_for_data():
    """`i.dtype` is "index"; as a string it is refused, and so it must be as what i.dtype gives."""
    kept = []
    mt.compute((2,), lambda i: kept.append(i.dtype) or 1.0)
    refused(lambda: mt.placeholder((2,), kept[0]), "expected one of float64")


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ((-1,), "expected extents that are integers >= 0, but got shape=(-1,)"),
        (-1, "expected extents that are integers >= 0, but got shape=-1"),
        ((2, -3), "expected extents that are integers >= 0"),
        ((1.5,), "expected extents that are integers >= 0"),
        ((2.0,), "expected extents that are integers >= 0"),
        (2.5, "expected a tuple of extents, but got shape=2.5"),
        ((True,), "expected extents that are integers >= 0"),
        (True, "expected extents that are integers >= 0"),
        ("ab", "expected a tuple of extents, but got shape='ab'"),
        (("a",), "expected extents that are integers >= 0"),
        (None, "expected a tuple of extents, but got shape=None"),
        ((2, None), "expected extents that are integers >= 0"),
        ({2, 3}, "expected a tuple of extents"),
        (b"ab", "expected"),
        (2**41, "expected at most 2**40 elements"),
        ((2**21, 2**21), "expected at most 2**40 elements"),
        ((10**30,), "expected at most 2**40 elements"),
        ((0, 2**50), "expected at most 2**40 elements"),
        ([math.nan], "expected extents that are integers >= 0"),
    ],
    ids=str,
)
def test_shapes(shape, part):
    for action in (
        lambda: mt.placeholder(shape),
        lambda: mt.compute(shape, lambda *i: 1.0),
        lambda: mt.update(shape, lambda C, *i: 1.0),
    ):
        refused(action, part)


def test_more_axes_than_numpy_has():
    with pytest.raises(MinitensorError):
        mt.lower([mt.compute((1,) * 100, lambda *i: 1.0)])


# ---- functions of compute and update


@pytest.mark.parametrize(
    ("shape", "function", "part"),
    [
        ((4, 5), lambda i: 1.0, "a function of 2 indices", ),
        ((4,), lambda i, j: 1.0, "a function of 1 indices"),
        ((4,), lambda: 1.0, "a function of 1 indices"),
        ((), lambda i: 1.0, "a function of 0 indices"),
        ((4,), lambda i, j, *rest: 1.0, "a function of 1 indices"),
    ],
)  # fmt: skip
def test_the_number_of_parameters(shape, function, part):
    refused(lambda: mt.compute(shape, function), f"expected {part}", "but got one of")


@pytest.mark.parametrize("function", [lambda C: 1.0, lambda C, i, j: 1.0, lambda: 1.0])
def test_the_number_of_parameters_of_an_update(function):
    refused(lambda: mt.update((4,), function), "expected a function", "but got one of")


def test_a_forgotten_parameter_of_an_update_is_named():
    message = refused(lambda: mt.update((4,), lambda i: 1.0))
    assert "the tensor" in message, message


def test_parameters_that_must_be_named():
    refused(lambda: mt.compute((4,), lambda i, *, scale: i), "scale")


@pytest.mark.parametrize("function", [None, 3, "i", B, (lambda i: i,)])
def test_what_is_no_function(function):
    refused(
        lambda: mt.compute((4,), function), "expected a function of the indices, but got fcompute="
    )


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (None, ["the function of T returned NoneType"]),
        ("1", ["the function of T returned str"]),
        (1j, ["the function of T returned complex"]),
        (np.zeros(3), ["the function of T returned ndarray"]),
        (lambda: 1.0, ["the function of T returned function"]),
        (B, ["the function of T returned Tensor", "index it: B[...]"]),
        ((1.0, None), ["the function of T_1 returned NoneType"]),
        ((1.0, B), ["the function of T_1 returned Tensor", "index it: B[...]"]),
        ([1.0], ["a tuple of at least 2 for as many tensors, but got one of 1; return the value"]),
        ((), ["a tuple of at least 2 for as many tensors, but got one of 0"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_function_may_not_return(result, parts):
    refused(rows(lambda i: result), *parts)


@pytest.mark.parametrize("result", [None, "1", B], ids=str)
def test_what_an_update_may_not_return(result):
    refused(lambda: mt.update((4,), lambda C, i: result, name="U"), "the function of U returned")


def test_an_init_that_is_none():
    refused(lambda: mt.update((4,), lambda C, i: C[i], init="0", name="U"), "U returned str")
    refused(lambda: mt.update((4,), lambda C, i: C[i], init=lambda i: None, name="U"), "NoneType")
    refused(lambda: mt.update((4,), lambda C, i: C[i], init=B, name="U"), "Tensor")


@pytest.mark.parametrize("init", [lambda: 0.0, lambda i, j: 0.0])
def test_an_init_of_the_wrong_number_of_indices(init):
    refused(lambda: mt.update((4,), lambda C, i: C[i], init=init, name="U"), "1 indices")


def test_an_init_that_reads_the_tensor_itself():
    kept = []

    def step(C, i):
        kept.append(C)
        return C[i]

    refused(
        lambda: mt.update((4,), step, init=lambda i: kept[0][i], name="U"),
        "the init of U reads what is updated; write it without",
    )


def test_axes_in_an_init():
    refused(
        lambda: mt.update((4,), lambda C, i: C[i] + k, axis=k, init=lambda i: B[i] + k, name="U"),
        "k is neither an index of U",
    )


def test_axes_of_an_update():
    refused(lambda: mt.update((4,), lambda C, i: C[i], axis=3), "expected mt.reduce_axis objects")
    refused(lambda: mt.update((4,), lambda C, i: C[i] + k), "k is neither an index")


# ---- operators and functions


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda i: B[i] // 2, ["// is for integers, but got float32", "mt.floor"]),
        (lambda i: B[i] % 2, ["% is for integers, but got float32"]),
        (lambda i: N[i] // 0, ["divides by zero"]),
        (lambda i: i % 0, ["i % 0 divides by zero"]),
        (lambda i: 5 // (i * 0 + 0.5), ["// is for integers"]),
        (lambda i: -P[i], ["expected a number to negate, but got the bool"]),
        (lambda i: mt.abs_(P[i]), ["expected a number, but got x="]),
        (lambda i: B[i] & 1, ["& is for two integers or two conditions, but got", "float32"]),
        (lambda i: P[i] | N[i], ["| is for two integers or two conditions"]),
        (lambda i: N[i] ^ P[i], ["^ is for two integers or two conditions"]),
        (lambda i: N[i] << B[i], ["a whole number of places, but got places="]),
        (lambda i: B[i] + None, ["expected a number or a symbolic value, but got operand=None"]),
        (lambda i: B[i] + "1", ["but got operand='1' (str)"]),
        (lambda i: B[i] + [1], ["but got operand=[1] (list)"]),
        (lambda i: B[i] + np.ones(3), ["(ndarray)"]),
        (lambda i: np.ones(3) + B[i], ["(ndarray)"]),
        (lambda i: B[i] + 1j, ["operand=1j (complex)"]),
        (lambda i: B[i] == None, ["operand=None"]),  # noqa: E711
        (lambda i: mt.exp("x"), ["operand='x' (str)"]),
        (lambda i: mt.exp(None), ["operand=None (NoneType)"]),
        (lambda i: mt.maximum(B[i], "x"), ["operand='x' (str)"]),
        (lambda i: mt.select("x", 1, 0), ["operand='x' (str)"]),
        (lambda i: mt.logical_and(True, "x"), ["operand='x' (str)"]),
        (lambda i: mt.sum_("x", axis=k), ["expected a symbolic value, but got expr='x' (str)"]),
        (lambda i: mt.sum_(None, axis=k), ["expected a symbolic value, but got expr=None"]),
    ],
)
def test_operands(function, parts):
    refused(rows(function), *parts)


# ---- names


@pytest.mark.parametrize("name", [3, 1.5, b"x", ["x"], ("x",), object])
def test_names_that_are_no_strings(name):
    for action in (
        lambda: mt.placeholder((2,), name=name),
        lambda: mt.compute((2,), lambda i: 1.0, name=name),
        lambda: mt.update((2,), lambda C, i: 1.0, name=name),
        lambda: mt.reduce_axis(3, name),
        lambda: mt.lower([C, B], name=name),
    ):
        refused(action, "expected a string of at most 10000 characters, but got name=")


# ---- lower


@pytest.mark.parametrize(
    ("tensors", "error", "parts"),
    [
        ([A, B], LoweringError, ["nothing to compute: every tensor listed is a placeholder"]),
        ([C], LoweringError, ["the placeholder B is needed, but is not among the tensors given"]),
        ([B, B, C], LoweringError, ["B is listed twice among the tensors"]),
        ([B, C, C], LoweringError, ["C is listed twice among the tensors"]),
        ([B, C, None], ArgumentError, ["expected tensors, but got tensors=None"]),
        ([B, C, np.ones(4)], ArgumentError, ["expected tensors", "ndarray"]),
        ([B, "C"], ArgumentError, ["expected tensors, but got tensors='C' (str)"]),
        ([[B, C]], ArgumentError, ["expected tensors, but got a tuple of them", "one by one"]),
        (None, ArgumentError, ["expected a list of tensors, but got tensors=None"]),
        (3, ArgumentError, ["expected a list of tensors, but got tensors=3"]),
        ("BC", ArgumentError, ["expected a list of tensors, but got tensors='BC'"]),
        ({"B": B}, ArgumentError, ["expected a list of tensors"]),
    ],
    ids=str,
)
def test_lists_of_tensors(tensors, error, parts):
    refused(lambda: mt.lower(tensors), *parts, error=error)


def test_an_empty_list_of_tensors():
    message = refused(lambda: mt.lower([]), "nothing to compute", error=LoweringError)
    assert "every tensor listed is a placeholder" not in message, "none is listed"


def test_tensors_that_need_each_other():
    """The tensor that `update` hands out may be read by a tensor that the update reads."""

    def step(U, i):
        D = mt.compute((4,), lambda j: U[j] + 1, name="D")
        return D[i]

    U = mt.update((4,), step, init=0.0, name="U")
    assert ends_within(0.5, lambda: refused(lambda: mt.lower([U]), error=LoweringError))


def test_errors_are_of_the_family_and_of_pythons():
    error = ArgumentError("x")
    assert isinstance(error, MinitensorError)
    assert isinstance(error, (ValueError, TypeError))
    with pytest.raises(ValueError, match="expected extents"):
        mt.placeholder(-1)
    with pytest.raises(TypeError, match="expected a string"):
        mt.placeholder((2,), name=3)


HUGE = Fraction(10**400)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mt.const(float("nan"), "int32"),
        lambda: mt.const(float("inf"), "uint8"),
        lambda: mt.const(2.5, "int32"),
        lambda: mt.const(HUGE, "float64"),
        lambda: B[0] + HUGE,
        lambda: mt.comm_reducer(lambda x, y: x + y, 10**400)(A[0, k], axis=k),
        lambda: mt.comm_reducer(lambda x, y: x + y, lambda: 0)(A[0, k], axis=k),
        lambda: mt.comm_reducer(lambda x, y: (), ())((), axis=k),
    ],
    ids=str.split("nan inf half huge operand identity arity nothing"),
)
def test_numbers_that_no_type_holds(call):
    refused(call, "expected")
