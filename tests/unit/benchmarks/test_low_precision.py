"""The benchmark of low precision: its rows, and a line of its table."""

import numpy as np
import pytest

import minitensor as mt
from benchmarks import low_precision
from benchmarks.low_precision import (
    arrays_of,
    compared,
    convolution,
    drawn,
    few_bits,
    measured,
    product,
)

pytestmark = pytest.mark.usefixtures("processes")


def test_rows_are_drawn_from_a_seed():
    assert [row.name for row in drawn(3)] == [row.name for row in drawn(3)]
    assert [row.name for row in drawn(3)] != [row.name for row in drawn(4)]
    assert [row.name.split()[0] for row in drawn(3)] == ["product"] * 3 + ["convolution"] * 3


@pytest.mark.parametrize("row", [product(3, 4, 5), convolution(2, 4, 3, 3)])
def test_bytes_and_floats_are_the_same_operator(row):
    (one,), (two,) = row.program.outputs, row.floats.outputs
    assert one.shape == two.shape
    arrays = arrays_of(row.program)
    floats = [array.astype("float32") for array in arrays]
    got = mt.interpret(row.program, *arrays)
    np.testing.assert_array_equal(got, mt.interpret(row.floats, *floats))


@pytest.mark.slow
def test_a_line_has_its_ratios(monkeypatch):
    monkeypatch.setattr(low_precision, "ROUNDS", 1)
    name, mine, floats, ratio, *others = measured(product(8, 16, 12), 2, 1)
    assert name == "product 8x16x12"
    assert float(ratio) == pytest.approx(float(floats) / float(mine), abs=1.0)
    assert len(others) == 3


@pytest.mark.slow
def test_lines_of_a_few_bits(monkeypatch):
    monkeypatch.setattr(low_precision, "ROUNDS", 1)
    for row in few_bits(16, 64):
        name, mine, others, ratio = compared(*row, 2, mt.Target("c", num_cores=1))
        assert name == row[0] and float(mine) > 0 and float(others) > 0 and float(ratio) > 0
