"""Numbers and pointers of which the compiler must not know where they come from."""

import numpy as np
import pytest

import minitensor as mt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "vectors", "bits", "hidden"),
    [(6, 2, 256, True), (4, 3, 256, True), (3, 3, 256, True), (4, 2, 256, False),
     (3, 4, 256, False), (12, 1, 256, False), (6, 4, 512, True), (6, 2, 512, False),
     (3, 1, 0, False)],
)  # fmt: skip
def test_a_tile_that_fills_the_registers_keeps_them(rows, vectors, bits, hidden):
    lanes = max(1, bits // 32)
    a, b = mt.placeholder((2 * rows, 8), name="A"), mt.placeholder((8, vectors * lanes), name="B")
    r = mt.reduce_axis(8, name="k")
    c = mt.compute((2 * rows, vectors * lanes), lambda i, j: mt.sum(a[i, r] * b[r, j], axis=r), "C")
    s = mt.Schedule(mt.lower([a, b, c]))
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [2, None])
    j_0, j_1 = s.split(j, [None, lanes])
    s.reorder(i_0, k, i_1, j_0, j_1)
    s.unroll(i_1)
    s.unroll(j_0)
    if bits:
        s.vectorize(j_1)
    kernel = mt.build(s, target=mt.Target("c", vector_bits=bits))
    assert ('__asm__("" : "+r"(A_row));' in kernel.source) == hidden
    given = [np.random.default_rng(0).integers(-4, 5, p.shape).astype("f") for p in (a, b)]
    np.testing.assert_array_equal(kernel(*given), given[0] @ given[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "bits", "hidden"), [(6, 256, True), (5, 256, False), (12, 512, False), (15, 512, True)]
)
def test_what_the_sums_of_a_full_tile_begin_with_is_loaded_for_each(rows, bits, hidden):
    lanes = bits // 32
    program = mt.lower(
        mt.workloads.conv2d(1, 3, 5, 2 * rows, 2 * lanes, kernel=3, padding=1, layout="NHWC")
    )
    s = mt.Schedule(program)
    s.compute_inline("pad")
    n, y, x, f, ry, rx, rc = s.get_loops("conv")
    s.skip_padding("conv", y)
    x_0, x_1 = s.split(x, [None, rows])
    f_0, f_1 = s.split(f, [None, lanes])
    s.reorder(n, y, x_0, ry, rx, rc, x_1, f_0, f_1)
    s.unroll(x_1)
    s.unroll(f_0)
    s.vectorize(f_1)
    kernel = mt.build(s, target=mt.Target("c", vector_bits=bits))
    assert ('__asm__("" : "+r"(conv_padding_sum_row));' in kernel.source) == hidden
    given = [np.random.default_rng(0).integers(-4, 5, p.shape).astype("f") for p in program.inputs]
    np.testing.assert_array_equal(kernel(*given), mt.interpret(program, *given))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_second_bound_of_a_clip_is_compared_in_any_case(dtype):
    x = mt.placeholder((10,), dtype, name="x")
    low, high = (mt.const(n, dtype) for n in (0, 6))
    y = mt.compute((10,), lambda i: mt.minimum(mt.maximum(x[i], low), high), name="y")
    z = mt.compute((10,), lambda i: mt.maximum(mt.minimum(x[i], high), low), name="z")
    kernel = mt.build(mt.lower([x, y, z]))
    kind = {"float32": "float", "float64": "double", "int32": "int32_t"}[dtype]
    for op in ("min", "max"):
        assert (f"{op}_{kind}_after(" in kernel.source) == (dtype != "int32")
    given = np.array([-1, 7, 3, 0, 6, 5, -9, 90, 1, 2], dtype)
    if dtype != "int32":
        given[4:8] = np.nan, -0.0, np.inf, -np.inf
    wanted = mt.interpret(mt.lower([x, y, z]), given)
    for one, other in zip(kernel(given), wanted, strict=True):
        np.testing.assert_array_equal(one.view(f"u{one.itemsize}"), other.view(f"u{one.itemsize}"))
    np.testing.assert_array_equal(wanted[0], np.minimum(np.maximum(given, 0), 6))
