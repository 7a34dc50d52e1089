"""Transposed copies as they run: squares in registers, and what is left beside them."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import generate


def turned(rows, columns, dtype, lanes):
    """The transpose, a vector of rows at a time; at its end there are fewer."""
    A = mt.placeholder((rows, columns), dtype, name="A")
    B = mt.compute((columns, rows), lambda c, r: A[r, c], name="B")
    s = mt.Schedule(mt.lower([A, B]))
    c, r = s.get_loops("B")
    r_0, r_1 = s.split(r, [None, lanes])
    s.reorder(r_0, c, r_1)
    s.vectorize(r_1)
    return s


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (16, 24), (21, 19), (64, 5), (37, 100)])
def test_a_transpose_is_exact(bits, dtype, rows, columns):
    s = turned(rows, columns, dtype, bits // 32)
    kernel = mt.build(s, mt.Target("c", num_cores=1, vector_bits=bits))
    size = min(8, bits // 32)
    assert (f"transpose_{dtype}x{size}(" in kernel.source) is (columns >= size <= rows)
    a = np.random.default_rng(0).integers(-(2**31), 2**31, (rows, columns)).astype("int32")
    np.testing.assert_array_equal(kernel(a.view(dtype)).view("int32"), a.T)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8"])
def test_elements_of_other_sizes_are_gathered(dtype):
    kernel = mt.build(turned(16, 16, dtype, 8), mt.Target("c", num_cores=1, vector_bits=256))
    assert "transpose_" not in kernel.source
    a = np.random.default_rng(0).integers(-9, 9, (16, 16)).astype(dtype)
    np.testing.assert_array_equal(kernel(a), a.T)


def test_an_array_that_is_read_and_written_is_gathered():
    """A square is read whole before it is written."""
    A = mt.placeholder((16, 16), name="A")
    B = mt.compute((16, 16), lambda c, r: A[r, c] + 1.0, name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.vectorize("r")
    assert "transpose_" not in mt.build(s).source, "no copy alone"


def test_a_large_output_without_gaps_is_still_streamed():
    A = mt.placeholder((64, 1 << 17), name="A")
    B = mt.compute((8, 1 << 17, 8), lambda p, c, r: A[p * 8 + r, c], name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.vectorize("r")
    text = generate(s.program, mt.Target("c", num_cores=1, vector_bits=256)).source
    assert "stream_float32x8(" in text
    assert "transpose_" not in text


def test_products_pack_by_squares():
    A, B = mt.placeholder((13, 50), name="A"), mt.placeholder((29, 50), name="B")
    k = mt.reduce_axis(50, name="k")
    C = mt.compute((13, 29), lambda i, j: mt.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    copy = s.cache_read("C", "B", "global")
    j, k = s.get_loops(copy)
    j_0, j_1 = s.split(j, [None, 8])
    s.reorder(j_0, k, j_1)
    s.vectorize(j_1)
    kernel = mt.build(s, mt.Target("c", num_cores=1, vector_bits=256))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 50)).astype("float32") for n in (13, 29))
    np.testing.assert_array_equal(kernel(a, b), a @ b.T)
