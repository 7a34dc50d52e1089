"""Values drawn at random: the arrays of a program, and index expressions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minitensor import ir, lang
from minitensor.testing.oracle import small_arrays


@st.composite
def arrays_for(draw: DrawFn, program: ir.Program) -> list[np.ndarray]:
    """One array for each input of a program, of small integers; shrinks to a simple seed."""
    return small_arrays(program, draw(st.integers(0, 2**16 - 1)))


def index_expressions(
    names: Sequence[str] = ("i", "j", "k"), max_depth: int = 4
) -> SearchStrategy[lang.Scalar]:
    """Index expressions over variables: + - * // % min max select, numbers of either sign."""
    leaves = st.one_of(
        st.sampled_from([lang.var(name) for name in names]),
        st.integers(-40, 40).map(lambda n: lang.var(names[0]) * 0 + n),
    )

    def grown(children: SearchStrategy[lang.Scalar]) -> SearchStrategy[lang.Scalar]:
        divisors = st.sampled_from([1, 2, 3, 4, 5, 8, 16, 64, -2, -3])
        return st.one_of(
            st.builds(lambda a, b: a + b, children, children),
            st.builds(lambda a, b: a - b, children, children),
            st.builds(lambda a, n: a * n, children, st.integers(-8, 8)),
            st.builds(lambda a, n: a // n, children, divisors),
            st.builds(lambda a, n: a % n, children, divisors),
            st.builds(lang.minimum, children, children),
            st.builds(lang.maximum, children, children),
            st.builds(lambda a, b, c: lang.select(a < b, b, c), children, children, children),
        )

    return st.recursive(leaves, grown, max_leaves=2**max_depth)
