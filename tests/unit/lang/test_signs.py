"""Signs of values: exp leaves out overflow where its argument is never positive, nowhere else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor import arith
from minitensor.lang.signs import Signs
from tests.parts import examples

N = 6


def over(reduce, value, extent=N):
    """A tensor that reduces `value(i, k)` over k."""
    k = mt.reduce_axis(extent, name="k")
    return mt.compute((N,), lambda i: reduce(value(i, k), axis=k), name="M")


def row_max(A):
    return over(mt.max, lambda i, k: A[i, k])


def squares(A):
    return mt.compute((N, N), lambda i, j: A[i, j] * A[i, j], name="M")


def masked(A, i, j):
    return mt.select(j < i, A[i, j], -1e9)


NEVER_POSITIVE = {
    "less the maximum of its row": (row_max, lambda A, M, i, j: A[i, j] - M[i]),
    "less the maximum of its column": (
        lambda A: over(mt.max, lambda i, k: A[k, i]),
        lambda A, M, i, j: A[i, j] - M[j],
    ),
    "less the maximum, both scaled": (
        lambda A: over(mt.max, lambda i, k: A[i, k] * 0.3),
        lambda A, M, i, j: A[i, j] * 0.3 - M[i],
    ),
    "less the maximum, both masked": (
        lambda A: over(mt.max, lambda i, k: masked(A, i, k)),
        lambda A, M, i, j: masked(A, i, j) - M[i],
    ),
    "a difference scaled": (row_max, lambda A, M, i, j: (A[i, j] - M[i]) / 3.0 * 2.0),
    "the minimum less its values": (
        lambda A: over(mt.min, lambda i, k: A[i, k]),
        lambda A, M, i, j: M[i] - A[i, j],
    ),
    "one value of them": (row_max, lambda A, M, i, j: A[i, j // 2 + 1] - M[i]),
    "less the larger of two": (
        squares,
        lambda A, M, i, j: A[i, j] - mt.maximum(M[i, j], A[i, j]),
    ),
    "a square negated": (squares, lambda A, M, i, j: -(A[i, j] * A[i, j])),
    "an even power negated": (squares, lambda A, M, i, j: A[i, j] ** 2 / -2.0),
    "a stage of squares negated": (squares, lambda A, M, i, j: M[i, j] * -0.5),
    "a sum of squares negated": (
        lambda A: over(mt.sum, lambda i, k: A[i, k] * A[i, k]),
        lambda A, M, i, j: -M[i] - abs(A[i, j]),
    ),
    "cut at 0": (squares, lambda A, M, i, j: mt.minimum(A[i, j], 0.0)),
}
MAY_BE_POSITIVE = {
    "anything": (squares, lambda A, M, i, j: A[i, j]),
    "the maximum less its values": (row_max, lambda A, M, i, j: M[i] - A[i, j]),
    "less the maximum of another row": (row_max, lambda A, M, i, j: A[i, j] - M[j]),
    "less the maximum of fewer": (
        lambda A: over(mt.max, lambda i, k: A[i, k], N - 1),
        lambda A, M, i, j: A[i, j] - M[i],
    ),
    "less the maximum of every second": (
        lambda A: over(mt.max, lambda i, k: A[i, k * 2], N // 2),
        lambda A, M, i, j: A[i, j] - M[i],
    ),
    "less the maximum of the diagonal": (
        lambda A: over(mt.max, lambda i, k: A[k, k]),
        lambda A, M, i, j: A[i, j] - M[i],
    ),
    "less the maximum of other values": (
        lambda A: over(mt.max, lambda i, k: A[i, k] * 0.3),
        lambda A, M, i, j: A[i, j] - M[i],
    ),
    "less a mean": (
        lambda A: over(mt.sum, lambda i, k: A[i, k] / N),
        lambda A, M, i, j: A[i, j] - M[i],
    ),
    "less a running maximum": (
        lambda A: mt.update((N, N), lambda X, i, j: mt.maximum(X[i, j], A[i, j]), init=0.0),
        lambda A, M, i, j: A[i, j] - M[i, j],
    ),
    "a difference scaled below 0": (row_max, lambda A, M, i, j: (A[i, j] - M[i]) * -2.0),
    "a quotient by what may be -0": (squares, lambda A, M, i, j: -1.0 / abs(A[i, j])),
    "a difference of squares": (squares, lambda A, M, i, j: M[i, j] - abs(A[i, j])),
}


def text(case, dtype="float32"):
    made, value = case
    A = mt.placeholder((N, N), dtype, name="A")
    M = made(A)
    return str(mt.lower([A, mt.compute((N, N), lambda i, j: mt.exp(value(A, M, i, j)))]))


@pytest.mark.parametrize("name", NEVER_POSITIVE)
def test_exp_leaves_out_overflow(name):
    assert "exp_nonpositive(" in text(NEVER_POSITIVE[name])


@pytest.mark.parametrize("name", MAY_BE_POSITIVE)
def test_exp_expects_every_number(name):
    assert " exp(" in text(MAY_BE_POSITIVE[name])


@pytest.mark.parametrize(
    "value",
    [
        lambda A, M, i, j: A[i, j * 2 // 2] - M[i],
        lambda A, M, i, j: -(A[i, j] * A[i, j + 0]),
    ],
)
def test_indices_are_simplified_first_as_in_the_definition_as_python(value):
    """Else the text would make another program."""
    assert "exp_nonpositive(" in text((row_max, value))


def test_integers_may_wrap_around():
    assert " exp(" in text((squares, lambda A, M, i, j: -(A[i, j] * A[i, j])), "int32")


def test_the_maximum_over_positions_is_none_over_numbers_that_wrap_around():
    A, k = mt.placeholder((N,), "uint8", name="A"), mt.reduce_axis(256, name="k")
    M = mt.compute((), lambda: mt.max((k - k - k).astype("float32"), axis=k), name="M")
    E = mt.compute((N,), lambda i: mt.exp((A[i] - A[i] - A[i]).astype("float32") - M[()]))
    assert " exp(" in str(mt.lower([A, E]))


def test_what_is_of_another_form_costs_nothing(monkeypatch):
    """The values of a maximum may be a long expression, which many others are compared with."""
    A = mt.placeholder((N, N), name="A")
    M = over(mt.max, lambda i, k: mt.tanh(A[i, k]) * 2.0)
    E = mt.compute((N, N), lambda i, j: mt.exp(A[i, j] - M[i] - M[i]))
    monkeypatch.setattr(Signs.__module__ + ".ir.substitute", None)
    assert " exp(" in str(mt.lower([A, E]))


def test_the_maximum_over_nothing_is_below_everything():
    case = (
        lambda A: over(mt.max, lambda i, k: A[i, k] * A[i, k], 0),
        lambda A, M, i, j: -M[i],
    )
    assert " exp(" in text(case)


# ---- what is said of a sign holds

VALUES = [0.0, -0.0, 1.5, -2.0, 1e-45, -1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan]
BINARY = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "max": mt.maximum,
    "min": mt.minimum,
    "select": lambda x, y: mt.select(x < y, x, y),
}
UNARY = {
    "-": lambda x: -x,
    "abs": abs,
    "sqrt": mt.sqrt,
    "exp": mt.exp,
    "square": lambda x: x * x,
    "narrow": lambda x: x.astype("float16").astype("float32"),
    "tanh": mt.tanh,
}


OPERATIONS = {**BINARY, **{f"unary {name}": lambda x, _, f=f: f(x) for name, f in UNARY.items()}}
RECIPES = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=4,
)


def followed(recipe, *leaves):
    """The leaves, and what a recipe makes of them: each step takes two of those made so far."""
    made = [*leaves]
    for name, a, b in recipe:
        made.append(OPERATIONS[name](made[a % len(made)], made[b % len(made)]))
    return made


@pytest.mark.slow
@examples(100, 2000)
@given(st.sampled_from([mt.max, mt.min, mt.sum, mt.prod]), RECIPES, RECIPES)
def test_a_sign_holds_for_every_value(reduce, inner, outer):
    """Of expressions of values and of the reductions of their rows."""
    A = mt.placeholder((len(VALUES), len(VALUES)), name="A")
    half, k = mt.const(-0.5, "float32"), mt.reduce_axis(len(VALUES), name="k")

    def value(i, j):
        return followed(inner, A[i, j], half)[-1]

    M = mt.compute(A.shape[:1], lambda i: reduce(value(i, k), axis=k), name="M")

    def values(i, j):
        return followed(outer, value(i, j), abs(A[i, j]), M[i], value(j, i), M[j], half)

    results = [
        mt.compute(A.shape, lambda i, j, n=n: values(i, j)[n], name="E")
        for n in range(6 + len(outer))
    ]
    column = np.array(VALUES, "f")[:, None] * np.ones(len(VALUES), "f")
    program = mt.lower([A, *results])
    extents = {name: {i.var: i.extent for i in b.iters} for name, b in program.blocks.items()}
    signs, update = Signs(), program.blocks["M"].body
    i, k = extents["M"]
    signs.learn(["M"], update.values, {i: len(VALUES)}, {k: len(VALUES)}, update.reducer)
    for given_values in (column, column.T.copy()):
        with np.errstate(all="ignore"):
            computed = mt.interpret(program, given_values)
        for output, got in zip(program.outputs, computed):
            ranges = {n: arith.extent_range(e) for n, e in extents[output.name].items()}
            sign = signs.of(program.blocks[output.name].body.value, ranges)
            assert not sign.at_most_0 or not (got > 0).any()
            assert not sign.at_least_0 or not (got < 0).any()
