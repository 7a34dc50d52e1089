"""Temporaries that are computed in the memory of the output that they become."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ir
from minitensor.codegen import PASSES, Target, generate, lowered, passes_without

TARGET = Target("c", num_cores=2, vector_bits=256)
ORDER = [name for name, _ in PASSES]
ROWS, COLUMNS = 6, 1500


def softmax(rows=ROWS, columns=COLUMNS, last=lambda e, s, i, j: e[i, j] / s[i]):
    X = mt.placeholder((rows, columns), name="X")
    a, b = (mt.reduce_axis((0, columns), name=n) for n in "ab")
    M = mt.compute((rows,), lambda i: mt.max(X[i, a], axis=a), name="M")
    E = mt.compute((rows, columns), lambda i, j: mt.exp(X[i, j] - M[i]), name="E")
    S = mt.compute((rows,), lambda i: mt.sum(E[i, b], axis=b), name="S")
    return [X, mt.compute((rows, columns), lambda i, j: last(E, S, i, j), name="Y")]


def temporaries(schedule):
    """The temporaries after the pass, of a size."""
    program = lowered(schedule.program, TARGET, PASSES[: ORDER.index("write_in_place") + 1], True)
    return {n.buffer.name for n in ir.walk(program.body) if isinstance(n, ir.Alloc)}


def test_a_softmax_is_computed_in_its_output():
    s = mt.Schedule(mt.lower(softmax()))
    assert temporaries(s) == {"M", "S"}
    s.compute_at("S", s.get_loops("Y")[0])
    s.compute_at("E", s.get_loops("Y")[0])
    assert temporaries(s) == {"M", "S"}


def test_rows_at_a_time_and_columns_in_tiles():
    s = mt.Schedule(mt.lower(softmax()))
    outer, _ = s.split(s.get_loops("Y")[0], [None, 2])
    s.compute_at("S", outer)
    s.compute_at("E", outer)
    s.split(s.get_loops("Y")[-1], [None, 100])
    assert temporaries(s) == {"M", "S"}
    s.reorder(*reversed(s.get_loops("Y")[-2:]))
    assert temporaries(s) == {"M", "S"}


@pytest.mark.parametrize(
    "last",
    [
        lambda e, s, i, j: e[i, COLUMNS - 1 - j] / s[i],
        lambda e, s, i, j: e[ROWS - 1 - i, j] / s[i],
        lambda e, s, i, j: e[i, j] + e[i, 0] + s[i],
        lambda e, s, i, j: e[i, j // 2] / s[i],
        lambda e, s, i, j: (e[i, j] / s[i]).astype("float64"),
        lambda e, s, i, j: mt.if_then_else(j < 7, e[i, j], e[i, j - 1]) / s[i],
    ],
)
def test_an_output_that_takes_other_elements_is_left(last):
    s = mt.Schedule(mt.lower(softmax(last=last)))
    assert "E" in temporaries(s)


@pytest.mark.parametrize("start", [0, 5])
def test_an_output_that_takes_a_part_is_left(start):
    X = mt.placeholder((ROWS, COLUMNS), name="X")
    b = mt.reduce_axis((0, COLUMNS), name="b")
    E = mt.compute((ROWS, COLUMNS), lambda i, j: mt.exp(X[i, j]), name="E")
    S = mt.compute((ROWS,), lambda i: mt.sum(E[i, b], axis=b), name="S")
    Y = mt.compute((ROWS, COLUMNS - 9), lambda i, j: E[i, j + start] / S[i], name="Y")
    s = mt.Schedule(mt.lower([X, Y]))
    assert "E" in temporaries(s)
    s.compute_at("S", s.get_loops("Y")[0])
    s.compute_at("E", s.get_loops("Y")[0])
    assert "E" in temporaries(s)


def test_a_transposed_output_is_left():
    X, Y = softmax()
    Z = mt.compute((COLUMNS, ROWS), lambda j, i: Y[i, j] * 2.0, name="Z")
    s = mt.Schedule(mt.lower([X, Z]))
    s.compute_inline("Y")
    assert "E" in temporaries(s)


def test_a_guarded_part_of_the_output_is_left():
    s = mt.Schedule(mt.lower(softmax()))
    s.split(s.get_loops("Y")[-1], [None, 64])
    assert "E" in temporaries(s)


def test_an_output_that_is_read_is_left():
    X, Y = softmax()
    r = mt.reduce_axis((0, COLUMNS), name="r")
    Z = mt.compute((ROWS,), lambda i: mt.sum(Y[i, r], axis=r), name="Z")
    assert "E" in temporaries(mt.Schedule(mt.lower([X, Y, Z])))


def test_a_temporary_that_is_read_for_another_output_too_is_left():
    X = mt.placeholder((ROWS, COLUMNS), name="X")
    E = mt.compute((ROWS, COLUMNS), lambda i, j: mt.exp(X[i, j]), name="E")
    Y = mt.compute((ROWS, COLUMNS), lambda i, j: E[i, j] * 2.0, name="Y")
    Z = mt.compute((ROWS, COLUMNS), lambda i, j: E[i, COLUMNS - 1 - j] * 3.0, name="Z")
    s = mt.Schedule(mt.lower([X, Y, Z]))
    found = temporaries(s)
    kernel = mt.build(s)
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("f")
    wanted = mt.build(s, passes=passes_without(["write_in_place"]))(x)
    for got, want in zip(kernel(x), wanted):
        assert np.array_equal(got, want)
    assert "E" in found


def test_a_result_that_is_accumulated_is_left():
    X = mt.placeholder((64, 64), name="X")
    k = mt.reduce_axis((0, 64), name="k")
    C = mt.compute((64, 64), lambda i, j: mt.sum(X[i, k] * X[k, j], axis=k), name="C")
    Y = mt.compute((64, 64), lambda i, j: mt.maximum(C[i, j], 0.0), name="Y")
    assert "C" in temporaries(mt.Schedule(mt.lower([X, Y])))


def test_what_a_loop_prefetches_is_left():
    s = mt.Schedule(mt.lower(softmax()))
    s.prefetch("E", s.get_loops("S")[-1], 2)
    assert "E" in temporaries(s)
    assert "prefetch_line(&E[" in generate(s.program, TARGET).source


def test_small_temporaries_are_left():
    assert "E" in temporaries(mt.Schedule(mt.lower(softmax(3, 100))))


def test_explain_names_the_memory():
    kernel = mt.build(mt.Schedule(mt.lower(softmax())))
    assert "in the memory of an output" in str(kernel.explain())


@st.composite
def scheduled(draw):
    """A chain over rows whose middle becomes the output, in a random schedule."""
    rows, columns = (
        draw(st.integers(1, 9)),
        draw(st.integers(1, 40)) * draw(st.sampled_from([1, 64])),
    )
    s = mt.Schedule(mt.lower(softmax(rows, columns)))
    for axis, factor in ((0, draw(st.integers(1, 4))), (-1, draw(st.integers(1, 70)))):
        if draw(st.booleans()):
            s.split(s.get_loops("Y")[axis], [None, factor])
    for block in ("S", "E", "M"):
        loops = s.get_loops("Y")
        where = draw(st.integers(-1, len(loops) - 1))
        try:
            if where >= 0:
                s.compute_at(block, loops[where])
        except mt.ScheduleError:
            pass
    for block in ("E", "Y", "S"):
        kind = draw(st.sampled_from(["none", "reorder", "vectorize", "parallel"]))
        loops = s.get_loops(block)
        try:
            if kind == "reorder" and len(loops) > 1:
                s.reorder(loops[-1], loops[-2])
            elif kind == "vectorize":
                s.vectorize(loops[-1])
            elif kind == "parallel":
                s.parallel(loops[0])
        except mt.ScheduleError:
            pass
    return s, rows, columns


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(scheduled(), st.integers(0, 2**32 - 1))
def test_random_schedules_give_what_they_give_without_the_pass(case, seed):
    s, rows, columns = case
    x = np.random.default_rng(seed).standard_normal((rows, columns)).astype("f")
    got = mt.build(s)(x)
    assert np.array_equal(got, mt.build(s, passes=passes_without(["write_in_place"]))(x))
