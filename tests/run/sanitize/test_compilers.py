"""Faults of compilers that campaigns found in text that is right."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.sanitize import check_memory


def neighbours():
    """Each element with the two after it, guarded where there is none."""
    A = mt.placeholder((8,), "uint32", name="A")
    B = mt.placeholder((8,), "uint32", name="B")

    def after(i, far):
        return mt.if_then_else(i < 8 - far, B[i + far], mt.const(0, "uint32"))

    def least(i):
        larger = mt.select(B[i] < after(i, 1), B[i], after(i, 1))
        return mt.minimum(A[i], mt.select(larger == after(i, 2), larger, after(i, 2)))

    return mt.lower([A, B, mt.compute((8,), least, name="P")])


@pytest.mark.xfail(
    reason="gcc 12 makes a masked load with a constant mask a blend that reads the whole vector, "
    "where it has AVX-512: up to 28 bytes behind a buffer",
    strict=False,
)
def test_a_guarded_read_does_not_go_behind_its_buffer():
    arrays = [np.arange(8, dtype=np.uint32) for _ in range(2)]
    assert check_memory(neighbours(), *arrays, target=mt.Target("c", num_cores=1)) == []
