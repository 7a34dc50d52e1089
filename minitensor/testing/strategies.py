"""Strategies for Hypothesis: the generators of `minitensor.fuzz`, asked by Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from minitensor.fuzz import (
    DTYPES,
    EXTENTS,
    PRIMITIVES,
    STEPS,
    BrokenPromiseError,
    Drawn,
    Limits,
    draw_program,
    draw_schedule,
    small_arrays,
    with_script,
)
from minitensor.ir import Program
from minitensor.lang import Scalar, maximum, minimum, select, var
from minitensor.schedule import Schedule


@st.composite
def programs(
    draw: DrawFn,
    max_stages: int = 4,
    dtypes: Sequence[str] = DTYPES,
    extents: Sequence[int] = EXTENTS,
    max_rank: int = 4,
    max_steps: int = 1024,
) -> Program:
    """A program of 1 to `max_stages` stages over 1 to 3 inputs, as `mt.lower` makes it.

    Stages are elementwise, reductions (sum, prod, max, min, any, all, argmax, argmin, ones of the
    user's; over one axis or two) or updates in order. They read inputs and earlier stages, several
    of them the same, at affine indices with offsets (padded), halos, strides, //, %, reversed,
    repeated (diagonals), clamped, or taken from data. Some extents are 0.

    dtypes     the types to draw from
    extents    the extents to draw from; 0 is drawn besides, rarely
    max_rank   the most axes of a tensor
    max_steps  the most steps of one stage, all its axes together: what the interpreter has to do
    """
    limits = Limits(max_stages, max_rank, tuple(dtypes), tuple(extents), max_steps)
    return draw_program(_choices(draw), limits)


@st.composite
def schedules(
    draw: DrawFn,
    program: Program,
    max_steps: int = STEPS,
    primitives: Sequence[str] = PRIMITIVES,
) -> Schedule:
    """A schedule after 1 to `max_steps` attempts at a primitive, with legal and illegal arguments.

    Arguments are drawn from what the program has at each step, so that most steps are plausible
    and a good part is legal. A refusal must be a ScheduleError that names a rule its primitive
    declares, and must leave the schedule as it was; for anything else AssertionError is raised,
    with a script that shows it.

    primitives  the names to draw from, each as often as it stands there
    """
    try:
        drawn = draw_schedule(_choices(draw), program, max_steps, primitives)
    except BrokenPromiseError as broken:
        arrays = "small_arrays(program, 0)"
        text = with_script(broken, program, broken.schedule, arrays, broken.call)
        raise AssertionError(text) from broken
    for attempt in drawn.attempts:
        ended = f"refused by {attempt.refused}" if attempt.refused else "accepted"
        event(f"{attempt.primitive} {ended}")
    return drawn.schedule


@st.composite
def arrays_for(draw: DrawFn, program: Program) -> list[np.ndarray]:
    """One array for each input of a program, of small integers; shrinks to a simple seed."""
    return small_arrays(program, draw(st.integers(0, 2**16 - 1)))


def index_expressions(
    names: Sequence[str] = ("i", "j", "k"), max_depth: int = 4
) -> SearchStrategy[Scalar]:
    """Index expressions over variables: + - * // % min max select, numbers of either sign."""
    leaves = st.one_of(
        st.sampled_from([var(name) for name in names]),
        st.integers(-40, 40).map(lambda n: var(names[0]) * 0 + n),
    )

    def grown(children: SearchStrategy[Scalar]) -> SearchStrategy[Scalar]:
        divisors = st.sampled_from([1, 2, 3, 4, 5, 8, 16, 64, -2, -3])
        return st.one_of(
            st.builds(lambda a, b: a + b, children, children),
            st.builds(lambda a, b: a - b, children, children),
            st.builds(lambda a, n: a * n, children, st.integers(-8, 8)),
            st.builds(lambda a, n: a // n, children, divisors),
            st.builds(lambda a, n: a % n, children, divisors),
            st.builds(minimum, children, children),
            st.builds(maximum, children, children),
            st.builds(lambda a, b, c: select(a < b, b, c), children, children, children),
        )

    return st.recursive(leaves, grown, max_leaves=2**max_depth)


def _choices(draw: DrawFn) -> Drawn:
    """Answers that Hypothesis gives. It is told of groups by a strategy for each: it leaves out one
    of a list by putting a later group of the same strategy in place of an earlier one, and knows no
    other way for what takes more than five questions.
    """
    return Drawn(
        lambda low, high: draw(st.integers(low, high)), lambda ask: draw(_grouped(lambda _: ask()))
    )


@st.composite
def _grouped(draw: DrawFn, ask: Callable[[DrawFn], None]) -> None:
    ask(draw)
