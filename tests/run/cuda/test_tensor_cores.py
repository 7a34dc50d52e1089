"""Products by tensor cores: `tensorize` with the intrinsics of a warp."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import LoweringError, MinitensorError


def product(m, n, k, dtype, warps=(2, 2), tiles=(2, 2), depth=32, store=True, lanes=32):
    """A schedule of a product with float32 sums in the registers of warps."""
    a = mt.placeholder((m, k), dtype, name="A")
    b = mt.placeholder((k, n), dtype, name="B")
    r = mt.reduce_axis(k, name="k")
    term = lambda i, j: a[i, r].astype("float32") * b[r, j].astype("float32")
    c = mt.compute((m, n), lambda i, j: mt.sum(term(i, j), axis=r), name="C")
    s = mt.Schedule(mt.lower([a, b, c], name="product"))
    out = s.cache_write("C", "register")
    s.transform_layout("C_register", lambda i, j: (i // 16, j // 8, i % 16, j % 8))
    i, j, r = s.get_loops("C")
    i_0, i_1, i_2, i_3 = s.split(i, [None, warps[0], tiles[0], 16])
    j_0, j_1, j_2, j_3 = s.split(j, [None, warps[1], tiles[1], 8])
    k_0, k_1, k_2 = s.split(r, [None, depth // 16, 16])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2, i_3, j_3, k_2)
    s.reverse_compute_at(out, j_0)
    for buffer in ("A", "B"):
        fetch = s.cache_read("C", buffer, "shared")
        s.compute_at(fetch, k_0)
        fused = s.fuse(*s.get_loops(fetch)[-2:])
        _, z, y, x, v = s.split(fused, [None, *warps, lanes, 8])
        for loop, axis in ((z, "z"), (y, "y"), (x, "x")):
            s.bind(loop, f"threadIdx.{axis}")
        s.vectorize(v)
    init = s.decompose_reduction("C", k_0)
    s.tensorize(s.get_loops(init)[-2], mt.intrinsics.mma_fill())
    s.tensorize(i_3, mt.intrinsics.mma_m16n8k16(dtype))
    rows, columns = s.get_loops(out)[-2:]
    o_1, o_2, o_3 = s.split(rows, [None, tiles[0], 16])
    p_1, p_2, p_3 = s.split(columns, [None, tiles[1], 8])
    s.reorder(o_1, p_1, o_2, p_2, o_3, p_3)
    if store:
        s.tensorize(o_3, mt.intrinsics.mma_store())
    begin = s.get_loops(init)
    for row, column in ((begin[2], begin[3]), (i_1, j_1), (o_1, p_1)):
        s.bind(row, "threadIdx.z")
        s.bind(column, "threadIdx.y")
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    return s


def given(m, n, k, dtype):
    rng = np.random.default_rng(0)
    values = [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n))]
    arrays = [v.astype(np.float16) for v in values]
    if dtype == "bfloat16":
        arrays = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in values]
    return arrays, values[0] @ values[1]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_product_is_exact_and_clean(dtype):
    s = product(64, 64, 64, dtype, tiles=(1, 2))
    arrays, expected = given(64, 64, 64, dtype)
    kernel = mt.build(s, target="cuda-emulator", check=True)
    assert kernel.faults(*arrays) == []
    np.testing.assert_array_equal(kernel(*arrays), expected)
    assert "float C_register[8];" in kernel.source


@pytest.mark.slow
def test_the_interpreter_and_c_do_the_same():
    s = product(32, 32, 32, "float16", warps=(1, 2))
    arrays, expected = given(32, 32, 32, "float16")
    np.testing.assert_array_equal(mt.interpret(s, *arrays), expected)
    np.testing.assert_array_equal(mt.build(s, target="c")(*arrays), expected)


@pytest.mark.slow
def test_nvcc_makes_the_instructions(installed):
    kernel = mt.build(product(64, 64, 64, "bfloat16"), target="cuda")
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in kernel.ptx
    assert "ldmatrix.sync.aligned.m8n8.x4" in kernel.ptx
    (resources,) = kernel.resources.values()
    assert resources.spills == resources.stack == 0


def test_registers_of_a_warp_are_accessed_by_intrinsics_alone():
    with pytest.raises(LoweringError, match="C_register is divided among the threads of a warp"):
        mt.build(product(64, 64, 64, "float16", store=False), target="cuda-emulator")


def test_a_warp_has_32_threads_along_x():
    with pytest.raises(LoweringError, match="blocks have 16 threads along x"):
        mt.build(product(64, 64, 64, "float16", lanes=16), target="cuda-emulator")


def test_an_intrinsic_of_a_cpu_is_refused():
    a = mt.placeholder((64,), name="A")
    x = mt.placeholder((8,), name="x")
    y = mt.compute((8,), lambda i: x[i] * 2.0, name="y")
    twice = mt.intrinsic(
        "twice", [x, y], "for (int i = 0; i < 8; ++i) y[i * y_stride0] = x[i * x_stride0] * 2.0f;"
    )
    s = mt.Schedule(mt.lower([a, mt.compute((64,), lambda i: a[i] * 2.0, name="B")]))
    outer, inner = s.split("i", [None, 8])
    s.tensorize(inner, twice)
    s.bind(outer, "blockIdx.x")
    with pytest.raises(LoweringError, match="twice is one of a CPU, and stands in a kernel of a G"):
        mt.build(s, target="cuda-emulator")


@pytest.mark.parametrize(
    "wrong",
    [{"cuda": 3}, {"cuda": "a\0b"}, {"fragments": "c"}, {"fragments": ["q"]}, {"fragments": ["y"]}],
)
def test_a_declaration_that_is_wrong(wrong):
    x = mt.placeholder((8,), name="x")
    y = mt.compute((8,), lambda i: x[i] * 2.0, name="y")
    with pytest.raises(MinitensorError):
        mt.intrinsic("wrong", [x, y], "y[0] = x[0];", **{"cuda": "y[0] = x[0];", **wrong})


@pytest.mark.parametrize("squares", [(0, 1), (1, 9), (1.5, 1), ("2", 2)])
def test_so_many_squares_an_intrinsic_has_not(squares):
    for made in (mt.intrinsics.mma_fill, mt.intrinsics.mma_store):
        with pytest.raises(MinitensorError, match=r"rows|columns"):
            made(*squares)
    with pytest.raises(MinitensorError, match=r"rows|columns"):
        mt.intrinsics.mma_m16n8k16("float16", *squares)


@pytest.mark.slow
@pytest.mark.parametrize("squares", [(2, 3), (3, 2)])
def test_several_squares_load_what_they_share_once(squares):
    m, n = 16 * squares[0], 8 * squares[1]
    a, b = mt.placeholder((m, 16), "float16", "A"), mt.placeholder((16, n), "float16", "B")
    r = mt.reduce_axis(16, name="k")
    term = lambda i, j: a[i, r].astype("float32") * b[r, j].astype("float32")
    c = mt.compute((m, n), lambda i, j: mt.sum(term(i, j), axis=r), name="C")
    s = mt.Schedule(mt.lower([a, b, c], name="squares"))
    out = s.cache_write("C", "register")
    outer = s.add_unit_loop(s.get_loops("C")[0])
    s.bind(outer, "blockIdx.x")
    s.reverse_compute_at(out, outer)
    for buffer in ("A", "B"):
        fetch = s.cache_read("C", buffer, "shared")
        s.compute_at(fetch, outer)
        fused = s.fuse(*s.get_loops(fetch)[-2:])
        s.bind(s.split(fused, [None, 32])[1], "threadIdx.x")
    init = s.decompose_reduction("C", s.get_loops("C")[1])
    s.tensorize(s.get_loops(init)[-2], mt.intrinsics.mma_fill(*squares))
    s.tensorize(s.get_loops("C")[1], mt.intrinsics.mma_m16n8k16("float16", *squares))
    s.tensorize(s.get_loops(out)[-2], mt.intrinsics.mma_store(*squares))
    arrays, expected = given(m, n, 16, "float16")
    kernel = mt.build(s, target="cuda-emulator", check=True)
    assert kernel.faults(*arrays) == []
    np.testing.assert_array_equal(kernel(*arrays), expected)
    np.testing.assert_array_equal(mt.build(s, target="c")(*arrays), expected)


def test_a_gpu_that_is_too_old_for_these_products():
    s = product(64, 64, 64, "float16")
    match = r"mma_m16n8k16 needs a GPU of compute capability 8.0 or later, and t4 is of 7.5"
    with pytest.raises(mt.LoweringError, match=match):
        mt.build(s, target=mt.Target("cuda-emulator", device="t4"))
