"""The check of a candidate's result."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.search import FailureKind, measure, random_inputs, random_search
from minitensor.search.measure import Measurer, WrongResultError

INTERPRETER = Target("interpreter")


def doubled(dtype="float32", shape=(4,)):
    A = mt.placeholder(shape, dtype, name="A")
    B = mt.compute(shape, lambda *i: A[i] + A[i], name="B")
    return mt.lower([A, B], name="doubled")


class Fake:
    """A kernel that writes what it is told to; None writes nothing."""

    def __init__(self, values):
        self.values = values

    def __call__(self, a, b):
        if self.values is not None:
            b[...] = self.values

    def time(self, *arrays, **options):
        raise AssertionError("a wrong kernel is not timed")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8", "bfloat16"])
def test_right_results_are_timed(dtype):
    measurer = Measurer(doubled(dtype), INTERPRETER, None, 0)
    kernel = measurer.build(mt.Schedule(doubled(dtype)))
    assert measurer.seconds(kernel) > 0


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bfloat16", "bool"])
def test_a_kernel_that_writes_nothing_is_wrong(dtype):
    A = mt.placeholder((4,), dtype, name="A")
    program = mt.lower([A, mt.compute((4,), lambda i: A[i], name="B")])
    measurer = Measurer(program, INTERPRETER, None, 0)
    with pytest.raises(WrongResultError, match=r"B\[0\] is .* \(4 of 4 elements differ\)"):
        measurer.seconds(Fake(None))


@pytest.mark.parametrize(
    ("dtype", "off_by", "is_right"),
    [
        ("float32", 1e-6, True),
        ("float32", 1e-2, False),
        ("float64", 1e-6, False),
        ("float16", 1e-2, True),
        ("int32", 1, False),
    ],
)
def test_tolerance_suits_the_type(dtype, off_by, is_right):
    inputs = [np.array([1, 2, 3, 4], dtype)]
    measurer = Measurer(doubled(dtype), INTERPRETER, inputs, 0)
    measured = measurer.expected["B"].copy()
    measured[2] += np.asarray(off_by, dtype)
    measurer.results["B"][...] = measured
    (buffer,) = measurer.outputs
    wrong = measure.difference(buffer, measured, measurer.expected["B"])
    assert (wrong is None) is is_right
    if wrong:
        assert "B[2]" in wrong
        assert "1 of 4" in wrong


def test_nan_and_infinity_are_values_like_others():
    inputs = [np.array([np.nan, np.inf, -np.inf, 1.0], "float32")]
    measurer = Measurer(doubled(), INTERPRETER, inputs, 0)
    assert measurer.seconds(measurer.build(mt.Schedule(doubled()))) > 0
    with pytest.raises(WrongResultError, match=r"B\[0\] is 0.0"):
        measurer.seconds(Fake(np.array([0.0, np.inf, -np.inf, 2.0])))


def test_outputs_of_no_elements_and_of_no_axes():
    for program in (doubled(shape=(0,)), mt.lower(mt.workloads.full_sum(m=3, n=3))):
        measurer = Measurer(program, INTERPRETER, None, 0)
        assert measurer.seconds(measurer.build(mt.Schedule(program))) > 0


def test_inputs_must_fit():
    with pytest.raises(mt.ArgumentError, match="dtype float32"):
        Measurer(doubled(), INTERPRETER, [np.zeros(4)], 0)


def test_random_inputs():
    first, second = (random_inputs(doubled("uint8", (99,)), seed)[0] for seed in (0, 0))
    assert first.dtype == np.uint8
    assert first.max() == 4
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (mt.CompileError("gcc failed"), FailureKind.BUILD),
        (mt.LoweringError("too deep"), FailureKind.BUILD),
        (mt.ExecutionError("out of bounds", "out of bounds"), FailureKind.RUN),
        (WrongResultError("C[0] is 1"), FailureKind.WRONG),
    ],
)
def test_what_goes_wrong_later_is_recorded_too(monkeypatch, problem, kind):
    """The first candidate fails, the second works."""
    right = Measurer.build
    failed = []

    def build(self, schedule):
        if not failed:
            failed.append(schedule)
            raise problem
        return right(self, schedule)

    monkeypatch.setattr(Measurer, "build", build)
    result = random_search(
        doubled(),
        lambda s: s.split("i0", [None, s.sample_categorical([1, 2, 4])]),
        trials=2,
        target="interpreter",
    )
    first, second = result.trials
    assert (first.failure, first.reason) == (kind, problem.message)
    assert second.seconds == result.seconds
