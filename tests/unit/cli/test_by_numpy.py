"""Definitions by numpy, beside the reference that goes element by element."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.cli import by_numpy
from minitensor.cli.errors import CommandError
from minitensor.lang.workloads import WORKLOADS
from minitensor.search import difference, random_inputs
from minitensor.testing import evaluate_by_numpy

REFUSED = ("argmax", "cumsum")


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name not in REFUSED])
def test_every_operator_is_computed_again_and_again(name):
    program = mt.lower(WORKLOADS[name].function(**WORKLOADS[name].small))
    inputs = random_inputs(program, seed=0)
    call = by_numpy.ByNumpy(program, inputs)
    expected = evaluate_by_numpy(program, inputs)
    for _ in range(2):
        call()
        for buffer, got, right in zip(program.outputs, call.outputs, expected):
            assert difference(buffer, got, right) is None


@pytest.mark.parametrize("name", REFUSED)
def test_stages_that_are_no_expressions_of_arrays(name):
    program = mt.lower(WORKLOADS[name].function(**WORKLOADS[name].small))
    with pytest.raises(CommandError, match="no expression of whole arrays"):
        by_numpy.ByNumpy(program, random_inputs(program, seed=0))()


def test_bfloat16_is_refused():
    program = mt.lower(mt.workloads.matmul(2, 3, 4, dtype="bfloat16"))
    with pytest.raises(CommandError, match="bfloat16"):
        by_numpy.ByNumpy(program, [])


def test_arrays_that_are_too_large(monkeypatch):
    monkeypatch.setattr(by_numpy, "LARGEST", 10)
    A = mt.placeholder((4, 4), name="A")
    k = mt.reduce_axis((0, 4), name="k")
    B = mt.compute((4,), lambda i: mt.max(A[i, k], axis=k), name="B")
    with pytest.raises(CommandError, match=r"B would take an array of \(4, 4\)"):
        by_numpy.ByNumpy(mt.lower([A, B]), [np.ones((4, 4), "float32")])()


def test_reversed_strided_and_diagonal_reads():
    A = mt.placeholder((9,), name="A")
    B = mt.placeholder((5, 5), name="B")
    C = mt.compute((4,), lambda i: A[8 - 2 * i] * B[i, i] + B[4 - i, 2], name="C")
    a, b = np.arange(9, dtype="f"), np.arange(25, dtype="f").reshape(5, 5)
    call = by_numpy.ByNumpy(mt.lower([A, B, C]), [a, b])
    call()
    at = np.arange(4)
    np.testing.assert_array_equal(call.outputs[0], a[8 - 2 * at] * b[at, at] + b[4 - at, 2])
