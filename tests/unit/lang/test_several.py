"""Several tensors from one mt.compute, and from one mt.update."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError, LoweringError
from minitensor.ir import IterKind
from minitensor.lang import definition_as_python
from minitensor.testing import evaluate_by_numpy
from tests.sent import imported

A = mt.placeholder((3, 4), "float32", name="A")
B = mt.placeholder((3, 4), "int32", name="B")
k = mt.reduce_axis(4, "k")


def run(program, *arrays):
    """The outputs, which the interpreter and numpy agree on."""
    found = mt.interpret(program, *arrays)
    outputs = list(found) if isinstance(found, tuple) else [found]
    for one, other in zip(outputs, evaluate_by_numpy(program, arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    return outputs


def made_again(program):
    """The program that its text makes."""
    return imported(f"import minitensor as mt\n{definition_as_python(program)}").program


def floats(*shape):
    return np.random.default_rng(len(shape)).integers(-8, 9, shape).astype("float32")


# ---- compute


def test_two_values():
    S, D = mt.compute((3, 4), lambda i, j: (A[i, j] + 1, B[i, j] * 2), name=("S", "D"))
    assert [(t.name, t.shape, t.dtype) for t in (S, D)] == [
        ("S", (3, 4), "float32"),
        ("D", (3, 4), "int32"),
    ]
    program = mt.lower([A, B, S, D])
    assert list(program.blocks) == ["S", "D"]
    a, b = floats(3, 4), floats(3, 4).astype("int32")
    s, d = run(program, a, b)
    np.testing.assert_array_equal(s, a + 1)
    np.testing.assert_array_equal(d, b * 2)
    assert made_again(program) == program


def test_one_name_is_numbered():
    made = mt.compute((3,), lambda i: [A[i, 0], i, 2.5], name="P")
    assert [(t.name, t.dtype) for t in made] == [
        ("P_0", "float32"),
        ("P_1", "int64"),
        ("P_2", "float32"),
    ]
    assert [t.name for t in mt.compute((), lambda: (1, 2))] == ["compute_0", "compute_1"]


def test_what_is_not_asked_for_is_not_computed():
    S, D = mt.compute((3, 4), lambda i, j: (A[i, j] + 1, B[i, j] * 2), name=("S", "D"))
    assert list(mt.lower([A, S]).blocks) == ["S"]
    assert list(mt.lower([B, D]).blocks) == ["D"]


def test_each_value_has_a_schedule_of_its_own():
    S, D = mt.compute((3, 4), lambda i, j: (A[i, j] + 1, A[i, j] * 2), name=("S", "D"))
    R = mt.compute((3, 4), lambda i, j: S[i, j] - D[i, j], name="R")
    s = mt.Schedule(mt.lower([A, R]))
    s.compute_inline("S")
    s.compute_at("D", s.get_loops("R")[0])
    a = floats(3, 4)
    np.testing.assert_array_equal(mt.interpret(s.program, a), a + 1 - a * 2)


def test_a_reduction_of_several_values_takes_names_too():
    both = mt.comm_reducer(lambda x, y: (x[0] + y[0], mt.maximum(x[1], y[1])), (0, -99), "both")
    S, M = mt.compute((3,), lambda i: both((B[i, k], B[i, k]), axis=k), name=("S", "M"))
    program = mt.lower([B, S, M])
    b = floats(3, 4).astype("int32")
    total, most = run(program, b)
    np.testing.assert_array_equal(total, b.sum(1))
    np.testing.assert_array_equal(most, b.max(1))
    assert made_again(program) == program


# ---- update


def test_all_values_are_computed_before_one_is_stored():
    F, G = mt.update(
        (),
        lambda F, G: (G[()], F[()] + G[()]),
        axis=k,
        init=(0, 1),
        dtype="int64",
        name=("F", "G"),
    )
    program = mt.lower([F, G])
    assert run(program) == [3, 5]
    assert [b.name for b in program.temporaries] == ["F_next"]
    assert made_again(program) == program


@pytest.mark.parametrize(
    ("function", "held"),
    [
        (lambda S, T, i: (S[i] + 1, T[i] + 1), []),
        (lambda S, T, i: (T[i] + 1, T[i] - 1), []),
        (lambda S, T, i: (S[i] + 1, S[i] - 1), ["S_next"]),
        (lambda S, T, i: (T[i], mt.if_then_else(i > 0, S[i - 1], 0.0)), []),
        (lambda S, T, i: (T[i], S[3 - i]), ["S_next"]),
    ],
)
def test_only_what_a_later_value_may_read_is_held(function, held):
    made = mt.update((4,), function, init=lambda i: (i, 2 * i), name=("S", "T"))
    program = mt.lower(made)
    assert [b.name for b in program.temporaries] == held
    assert made_again(program) == program


def test_a_cell_and_a_hidden_state():
    """A recurrence as an LSTM's, of integers: both states of a step are made from the last one."""
    X = mt.placeholder((5, 3), "int32", name="X")

    def step(C, H, t, n):
        c = mt.if_then_else(t > 0, C[t - 1, n], 1)
        h = mt.if_then_else(t > 0, H[t - 1, n], 2)
        return c * h + X[t, n], c - h

    C, H = mt.update((5, 3), step, dtype="int32", name=("C", "H"))
    program = mt.lower([X, C, H])
    assert [i.kind for i in program.blocks["C"].iters] == [IterKind.ORDERED, IterKind.SPATIAL]
    assert not program.temporaries
    x = floats(5, 3).astype("int32")
    c, h = np.full(3, 1, "int32"), np.full(3, 2, "int32")
    rows = []
    for row in x:
        c, h = c * h + row, c - h
        rows.append((c, h))
    np.testing.assert_array_equal(run(program, x), np.swapaxes(rows, 0, 1))
    assert made_again(program) == program


def test_an_index_is_ordered_if_any_value_reads_another_place():
    S, _ = mt.update(
        (4, 4),
        lambda S, T, i, j: (S[i, j], mt.if_then_else(j > 0, S[i, j - 1], 0.0)),
        init=0.0,
        name=("S", "T"),
    )
    program = mt.lower([S])
    assert [i.kind for i in program.blocks["S"].iters] == [IterKind.SPATIAL, IterKind.ORDERED]
    assert [b.name for b in program.temporaries] == ["T"], "all are computed if one is needed"


def test_the_number_of_tensors_is_that_of_names_or_dtypes():
    for options in ({"name": ("U_0", "U_1")}, {"dtype": ("int8", "int8"), "name": "U"}):
        made = mt.update((2,), lambda S, T, i: (i, 1), **{"dtype": "int8", **options})
        assert [(t.name, t.dtype) for t in made] == [("U_0", "int8"), ("U_1", "int8")]


@pytest.mark.parametrize("init", [3, (3, 3), [3, 3.0], lambda i: 3, lambda i: (3, i - i + 3)])
def test_what_an_init_of_several_may_be(init):
    made = mt.update((2,), lambda S, T, i: (T[i], S[i] + 1), init=init, name=("S", "T"))
    np.testing.assert_array_equal(run(mt.lower(made)), [[3, 3], [4, 4]])


def test_over_nothing_elements_hold_their_init():
    none = mt.reduce_axis(0, "none")
    made = mt.update((2,), lambda S, T, i: (T[i], S[i]), axis=none, init=(1, 2), name=("S", "T"))
    program = mt.lower(made)
    assert not program.temporaries
    np.testing.assert_array_equal(run(program), [[1, 1], [2, 2]])
    assert made_again(program) == program


def test_a_swap_in_threads_and_vectors():
    """The interpreter finds no race in what is held."""
    S, T = mt.update(
        (16,), lambda S, T, i: (T[i] + 1, S[i]), axis=k, init=lambda i: (i, -i), name=("S", "T")
    )
    program = mt.lower([S, T])
    wanted = run(program)
    s = mt.Schedule(program)
    outer, inner = s.split("i", [None, 8])
    s.reorder(outer, "k", inner)
    s.parallel(outer)
    s.vectorize(inner)
    np.testing.assert_array_equal(mt.interpret(s.program), wanted)


# ---- what is refused

PAIR = {"name": ("S", "T")}
REFUSED = {
    "a tuple of one name": (
        lambda: mt.compute((3,), lambda i: 1.0, name=("S",)),
        "expected a string of at most 10000 characters, but got name=('S',)",
    ),
    "two names of one value": (
        lambda: mt.compute((3,), lambda i: 1.0, name=("S", "T")),
        "expected a string of at most 10000 characters, but got name=('S', 'T')",
    ),
    "two names of three values": (
        lambda: mt.compute((3,), lambda i: (1, 2, 3), name=("S", "T")),
        "expected one name, or 3: one for each value, but got name=('S', 'T')",
    ),
    "names that are none": (
        lambda: mt.compute((3,), lambda i: (1, 2), name=("S", 3)),
        "expected a string of at most 10000 characters, but got name=3",
    ),
    "names of an argmax": (
        lambda: mt.compute((3,), lambda i: mt.argmax(A[i, k], axis=k), name=("S", "T")),
        "expected a string of at most 10000 characters, but got name=('S', 'T')",
    ),
    "a reduction beside a value": (
        lambda: mt.compute((3,), lambda i: (A[i, 0], mt.sum(A[i, k], axis=k)), name=("S", "T")),
        "a reduction (sum) must be the whole expression of its tensor: give it an mt.compute",
    ),
    "an axis out of place": (
        lambda: mt.compute((3,), lambda i: (A[i, 0], A[i, k]), name=("S", "T")),
        "k is neither an index of T nor a reduction axis",
    ),
    "a tuple of a tuple": (
        lambda: mt.compute((3,), lambda i: (1.0, (2.0, 3.0)), name=("S", "T")),
        "the function of T returned tuple",
    ),
    "one value for two tensors": (
        lambda: mt.update((3,), lambda S, T, i: 1.0, **PAIR),
        "expected one value for each of S, T, but got 1",
    ),
    "two values for one tensor": (
        lambda: mt.update((3,), lambda S, i: (1.0, 2.0), name="S"),
        "expected one value for each of S, but got 2; name=(...) with as many names",
    ),
    "one parameter for two tensors": (
        lambda: mt.update((3,), lambda S, i: (1.0, 2.0), **PAIR),
        "expected a function of 2 tensors and 1 indices",
    ),
    "two dtypes of three names": (
        lambda: mt.update((3,), lambda *a: 1, dtype=("int8", "int8"), name=("S", "T", "U")),
        "expected one dtype, or 3: one for each name, but got dtype=('int8', 'int8')",
    ),
    "three inits": (
        lambda: mt.update((3,), lambda S, T, i: (S[i], T[i]), init=(1, 2, 3), **PAIR),
        "expected one value for each of S, T, but got 3",
    ),
    "an init that is a tensor": (
        lambda: mt.update((3,), lambda S, T, i: (S[i], T[i]), init=(1, A), **PAIR),
        "the function of T returned Tensor",
    ),
    "no init of what the other reads": (
        lambda: mt.update((3,), lambda S, T, i: (1.0, S[i]), **PAIR),
        "the first visit of S, T reads S before anything was written",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(make, message):
    with pytest.raises(ArgumentError) as caught:
        make()
    assert message in caught.value.message


def test_an_access_out_of_bounds_names_its_tensor():
    made = mt.compute((4,), lambda i: (A[0, i], A[i, 0]), name=("S", "T"))
    with pytest.raises(LoweringError, match=r"T: .* is out of bounds: index 0 goes from 0 to 3"):
        mt.lower([A, *made])
