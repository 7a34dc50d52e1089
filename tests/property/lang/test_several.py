"""Recurrences of several tensors: each step is made from the values of the step before."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import minitensor as mt


@st.composite
def recurrences(draw):
    """Matrices of small integers, a step each, and how far back along an axis a value looks."""
    count = draw(st.integers(2, 4))
    rows = st.lists(st.integers(-2, 2), min_size=count, max_size=count)
    matrix = draw(st.lists(rows, min_size=count, max_size=count))
    return np.array(matrix), draw(st.integers(0, 2)), draw(st.integers(1, 4))


@settings(max_examples=60, deadline=None)
@given(recurrences())
def test_a_linear_recurrence(case):
    """x[i] <- M x[i - back] + i, over an axis: numpy keeps the old vector whole."""
    matrix, back, steps = case
    count, length = len(matrix), 4
    k = mt.reduce_axis(steps, "k")

    def step(*given):
        tensors, i = given[:count], given[count]
        old = [mt.if_then_else(i >= back, t[i - back], 1) for t in tensors]
        return [sum((int(m) * x for m, x in zip(row, old)), i + 0) for row in matrix]

    names = [f"x{n}" for n in range(count)]
    made = mt.update((length,), step, axis=k, init=tuple(range(count)), dtype="int64", name=names)
    wanted = np.tile(np.arange(count)[:, None], (1, length))
    for i in range(length):
        for _ in range(steps):
            old = wanted[:, i - back] if i >= back else np.ones(count, int)
            wanted[:, i] = matrix @ old + i
    np.testing.assert_array_equal(mt.interpret(mt.lower(made)), wanted)
