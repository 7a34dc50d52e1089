"""Every named operator against numpy and scipy, unscheduled, in the interpreter."""

import inspect
from fractions import Fraction

import numpy as np
import pytest
from scipy import signal

from minitensor.errors import ArgumentError
from minitensor.ir import For, Program, blocks_of, interpret, walk
from minitensor.lang import lower, workloads
from minitensor.lang.workloads import WORKLOADS
from minitensor.lang.workloads.winograd import TRANSFORMS
from tests import references
from tests.references import REFERENCES, assert_matches, inputs


def program_of(name: str, **options) -> Program:
    return lower(WORKLOADS[name].function(**options), name=name)


def run(name: str, *arrays, **options):
    """The output of an operator for the given arrays."""
    (output,), _ = interpret(program_of(name, **options), arrays)
    return output


def check(name: str, **options) -> None:
    """Run an operator on small integers and compare it with its reference."""
    program = program_of(name, **options)
    arrays = inputs(program)
    (output,), _ = interpret(program, arrays)
    assert_matches(name, output, REFERENCES[name](*arrays, **options))


# ---- the registry


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_small_size_computes_what_the_reference_says(name):
    check(name, **WORKLOADS[name].small)


@pytest.mark.parametrize("name", WORKLOADS)
def test_benchmark_size_lowers(name):
    program = program_of(name, **WORKLOADS[name].benchmark)
    assert program.name == name
    assert len(program.outputs) == 1


def test_registry_has_every_operator_under_its_name():
    functions = {n for n, f in vars(workloads).items() if inspect.isfunction(f)}
    named = {w.function.__name__ for w in WORKLOADS.values() if w.name == w.function.__name__}
    assert functions == named
    assert set(REFERENCES) == set(WORKLOADS)
    assert all(key == w.name for key, w in WORKLOADS.items())


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda w: w.name)
def test_registry_describes_each_in_one_line(workload):
    assert 0 < len(workload.description) <= 70
    assert "\n" not in workload.description
    assert not workload.description.endswith(".")


@pytest.mark.parametrize("name", sorted(set(workloads.__all__) - {"WORKLOADS", "Workload"}))
def test_docstring_gives_formula_and_types(name):
    text = getattr(workloads, name).__doc__
    summary, blank, *rest = text.splitlines()
    assert summary.endswith(".")
    assert not blank
    assert any(line.startswith("        ") for line in rest), "no formula"
    assert "dtype" in text or "conv2d" in text


# ---- products


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (7, 5, 11), (1, 13, 3), (8, 1, 2)])
@pytest.mark.parametrize("name", ["matmul", "matmul_bias_relu"])
def test_matmul(name, m, n, k):
    check(name, m=m, n=n, k=k)


@pytest.mark.parametrize("b, m, n, k", [(1, 3, 5, 7), (3, 4, 1, 2), (2, 1, 3, 1)])
def test_batch_matmul(b, m, n, k):
    check("batch_matmul", b=b, m=m, n=n, k=k)


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint16", "int64", "float16", "float64"])
def test_matmul_of_other_types(dtype):
    check("matmul", m=5, n=3, k=7, dtype=dtype)
    check("matmul_bias_relu", m=2, n=3, k=5, dtype=dtype)


@pytest.mark.parametrize(
    "dtype, out_dtype", [("int8", "int32"), ("uint8", "int32"), ("float16", "float32")]
)
def test_products_are_formed_in_the_wider_type(dtype, out_dtype):
    options = {"m": 2, "n": 2, "k": 9, "dtype": dtype, "out_dtype": out_dtype}
    a, b = (np.full(shape, 100, dtype) for shape in ((2, 9), (9, 2)))
    result = run("matmul", a, b, **options)
    assert result.dtype == out_dtype
    assert (result == 90_000).all()
    check("matmul_bias_relu", **options)


@pytest.mark.parametrize("b, length, heads, dim", [(1, 3, 1, 5), (2, 5, 3, 2), (1, 1, 2, 1)])
@pytest.mark.parametrize("name", ["transpose_batch_matmul", "transpose_batch_matmul_softmax"])
def test_attention(name, b, length, heads, dim):
    check(name, b=b, length=length, heads=heads, dim=dim)


# ---- convolutions

CONV_OPTIONS = [
    {"kernel": 1},
    {"kernel": 3, "padding": 1},
    {"kernel": 3, "padding": 2, "stride": 2},
    {"kernel": 2, "stride": 2},
    {"kernel": 3, "padding": 2, "dilation": 2},
    {"kernel": 3, "padding": 1, "stride": 2, "dilation": 2},
    {"kernel": 2, "padding": 1, "stride": 3},
]


@pytest.mark.parametrize("options", CONV_OPTIONS, ids=str)
@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_conv1d(layout, options):
    check("conv1d", n=2, c=3, w=11, f=4, layout=layout, **options)


@pytest.mark.parametrize("options", CONV_OPTIONS, ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d(layout, options):
    check("conv2d", n=1, c=2, h=7, w=5, f=3, layout=layout, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", CONV_OPTIONS[2:5], ids=str)
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_conv3d(layout, options):
    check("conv3d", n=1, c=2, d=3, h=4, w=5, f=2, layout=layout, **options)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d_with_different_numbers_for_each_axis(layout):
    options = {"kernel": (3, 1), "stride": (1, 2), "padding": (2, 0), "dilation": (2, 1)}
    check("conv2d", n=2, c=2, h=5, w=7, f=3, layout=layout, **options)
    check("depthwise_conv2d", n=2, c=2, h=5, w=7, layout=layout, **options)


def test_conv2d_of_extents_one():
    check("conv2d", n=1, c=1, h=1, w=1, f=1, kernel=1)
    check("conv2d", n=1, c=1, h=1, w=5, f=1, kernel=(1, 3))
    check("conv2d", n=1, c=1, h=1, w=1, f=2, kernel=3, padding=1)


@pytest.mark.parametrize("c, f, groups", [(4, 6, 2), (6, 3, 3), (4, 4, 4), (3, 6, 3)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_grouped_conv2d(layout, c, f, groups):
    options = {"kernel": 3, "padding": 1, "stride": 2, "groups": groups, "layout": layout}
    check("conv2d", n=1, c=c, h=5, w=4, f=f, **options)


def test_grouped_conv1d_and_conv3d():
    check("conv1d", n=1, c=4, w=7, f=6, kernel=3, groups=2, layout="NWC")
    check("conv3d", n=1, c=4, d=2, h=3, w=3, f=2, kernel=2, groups=2)


@pytest.mark.parametrize("options", CONV_OPTIONS, ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depthwise_conv2d(layout, options):
    check("depthwise_conv2d", n=2, c=3, h=7, w=5, layout=layout, **options)


def test_depthwise_conv2d_takes_the_operands_of_a_grouped_conv2d():
    options = {"n": 1, "c": 3, "h": 5, "w": 4, "kernel": 3, "padding": 1}
    depthwise = program_of("depthwise_conv2d", **options)
    arrays = inputs(depthwise)
    grouped = run("conv2d", *arrays, f=3, groups=3, **options)
    np.testing.assert_array_equal(interpret(depthwise, arrays)[0][0], grouped)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", ["conv2d_bias_relu", "conv2d_bias_bn_relu"])
def test_fused_convolutions(name, layout):
    check(name, n=1, c=2, h=5, w=4, f=3, kernel=3, stride=2, padding=1, layout=layout)
    check(name, n=2, c=2, h=3, w=3, f=2, kernel=1, groups=2, layout=layout)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float64"])
def test_convolutions_of_other_types(dtype):
    size = {"n": 1, "c": 2, "h": 4, "w": 3, "kernel": 3, "padding": 1, "dtype": dtype}
    check("conv2d", f=2, **size)
    check("conv2d_bias_bn_relu", f=2, **size)
    check("conv2d_transpose", f=2, **size)
    check("depthwise_conv2d", **size)
    check("capsule_conv2d", f=1, capsule=2, **size)


def test_convolutions_sum_in_the_wider_type():
    size = {"n": 1, "c": 2, "h": 4, "w": 3, "kernel": 3, "dtype": "int8", "out_dtype": "int32"}
    data, weight = np.full((1, 2, 4, 3), 127, "int8"), np.full((1, 2, 3, 3), -128, "int8")
    assert (run("conv2d", data, weight, f=1, **size) == -127 * 128 * 18).all()
    check("conv2d_transpose", f=2, **size)
    check("depthwise_conv2d", padding=1, **size)
    check("capsule_conv2d", f=1, capsule=2, **size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": 4, "stride": 2, "padding": 1},
        {"kernel": 3},
        {"kernel": 3, "stride": 2, "padding": 1, "output_padding": 1},
        {"kernel": 2, "stride": 3},
        {"kernel": 5, "stride": 3, "padding": 2, "output_padding": 2},
        {"kernel": 1, "stride": 2, "output_padding": 1},
        {"kernel": (3, 2), "stride": (1, 3), "padding": (2, 0), "output_padding": (0, 1)},
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d_transpose(layout, options):
    check("conv2d_transpose", n=1, c=2, h=3, w=4, f=3, layout=layout, **options)


@pytest.mark.parametrize("kernel, stride, padding", [(3, 1, 1), (4, 2, 1), (3, 2, 0), (2, 3, 0)])
def test_conv2d_transpose_is_the_adjoint_of_conv2d(kernel, stride, padding):
    window = {"kernel": kernel, "stride": stride, "padding": padding}
    forward = program_of("conv2d", n=1, c=2, h=8, w=5, f=3, **window)
    x, weight = inputs(forward)
    (y,), _ = interpret(forward, [x, weight])
    _, _, h, w = y.shape
    remainder = [(size + 2 * padding - kernel) % stride for size in (8, 5)]
    back = program_of(
        "conv2d_transpose", n=1, c=3, h=h, w=w, f=2, output_padding=remainder, **window
    )
    z = np.asarray(np.random.default_rng(1).integers(-4, 5, y.shape), "float32")
    (gradient,), _ = interpret(back, [z, weight])
    assert (y * z).sum() == (x * gradient).sum()


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": 1},
        {"kernel": 3, "padding": 1, "stride": 2},
        {"kernel": (1, 2), "padding": (0, 1)},
    ],
    ids=str,
)
@pytest.mark.parametrize("capsule", [1, 2, 4])
def test_capsule_conv2d(capsule, options):
    check("capsule_conv2d", n=1, c=2, h=3, w=4, f=1, capsule=capsule, **options)


# ---- winograd


@pytest.mark.slow
@pytest.mark.parametrize("tile", TRANSFORMS)
@pytest.mark.parametrize(
    "n, c, h, w, f, padding",
    [
        (1, 1, 4, 4, 1, 0),
        (2, 2, 5, 7, 3, 1),
        (1, 3, 6, 3, 2, 0),
        (1, 2, 8, 6, 1, (0, 1)),
        (1, 1, 1, 1, 1, 1),
    ],
)
def test_conv2d_winograd(tile, n, c, h, w, f, padding):
    check("conv2d_winograd", n=n, c=c, h=h, w=w, f=f, padding=padding, tile=tile)


def test_conv2d_winograd_with_tiles_of_two_is_exact():
    options = {"n": 1, "c": 2, "h": 5, "w": 4, "f": 2, "padding": 1}
    program = program_of("conv2d_winograd", tile=2, **options)
    arrays = inputs(program)
    (output,), _ = interpret(program, arrays)
    np.testing.assert_array_equal(output, references.conv(*arrays, padding=1))


def test_conv2d_winograd_in_float64():
    program = program_of("conv2d_winograd", n=1, c=1, h=6, w=6, f=1, dtype="float64")
    arrays = inputs(program)
    (output,), _ = interpret(program, arrays)
    np.testing.assert_allclose(output, references.conv(*arrays), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tile", TRANSFORMS)
def test_winograd_transforms_are_an_identity(tile):
    """A^T ((G g) . (B^T d)) = the correlation of d with g, for every basis vector g and d."""
    g, bt, at = (
        [[Fraction(x).limit_denominator(24) for x in row] for row in m] for m in TRANSFORMS[tile]
    )
    for y in range(tile):
        for r in range(3):
            for i in range(tile + 2):
                value = sum(at[y][p] * g[p][r] * bt[p][i] for p in range(tile + 2))
                assert value == (i == y + r)


@pytest.mark.parametrize("tile, products", [(2, 16 * 4), (4, 36)])
def test_winograd_needs_fewer_products(tile, products):
    program = program_of("conv2d_winograd", n=1, c=3, h=6, w=6, f=2, tile=tile)
    _, counts = interpret(program, inputs(program))
    assert counts.loads["V"] == products * 3 * 2 < 4 * 4 * 9 * 3 * 2


# ---- pooling

POOL_OPTIONS = [
    {"kernel": 2},
    {"kernel": 3, "stride": 2, "padding": 1},
    {"kernel": 3, "stride": 1, "padding": 1},
    {"kernel": (1, 4), "stride": (2, 3), "padding": (0, 2)},
    {"kernel": (7, 5)},
]


@pytest.mark.parametrize("options", POOL_OPTIONS, ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_pooling(name, layout, options):
    check(name, n=2, c=2, h=7, w=5, layout=layout, **options)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float64"]
)
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_pooling_of_other_types(name, dtype):
    check(name, n=1, c=1, h=4, w=5, kernel=3, stride=2, padding=1, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_padding_is_never_the_maximum(dtype):
    data = np.full((1, 1, 3, 3), -100, dtype)
    pooled = run("max_pool2d", data, n=1, c=1, h=3, w=3, kernel=2, stride=2, padding=1, dtype=dtype)
    assert (pooled == -100).all()


def test_padding_does_not_count_in_the_mean():
    data = np.full((1, 1, 3, 3), 5, "float32")
    pooled = run("avg_pool2d", data, n=1, c=1, h=3, w=3, kernel=3, stride=1, padding=1)
    assert (pooled == 5).all()


def test_means_of_narrow_integers_do_not_wrap():
    data = np.full((1, 1, 4, 4), 120, "int8")
    size = {"n": 1, "c": 1, "h": 4, "w": 4, "dtype": "int8"}
    assert (run("avg_pool2d", data, kernel=4, **size) == 120).all()
    assert (run("global_avg_pool2d", data, **size) == 120).all()


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_global_avg_pool2d(layout, dtype):
    check("global_avg_pool2d", n=2, c=3, h=3, w=1, layout=layout, dtype=dtype)


# ---- rows


@pytest.mark.parametrize("m, n", [(1, 1), (3, 11), (5, 1), (1, 7)])
@pytest.mark.parametrize(
    "name",
    ["softmax", "layer_norm", "row_sum", "full_sum", "argmax", "transpose_add", "cumsum"],
)
def test_operators_on_matrices(name, m, n):
    check(name, m=m, n=n)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "float64", "float16"])
@pytest.mark.parametrize("name", ["row_sum", "full_sum", "argmax", "transpose_add", "cumsum"])
def test_operators_on_matrices_of_other_types(name, dtype):
    check(name, m=3, n=5, dtype=dtype)


@pytest.mark.parametrize("b, m, n", [(1, 1, 1), (3, 5, 2), (1, 7, 11)])
def test_matrix_norm(b, m, n):
    check("matrix_norm", b=b, m=m, n=n)


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_rows_in_float64(name):
    program = program_of(name, m=3, n=5, dtype="float64")
    arrays = inputs(program)
    (output,), _ = interpret(program, arrays)
    np.testing.assert_allclose(output, REFERENCES[name](*arrays), rtol=1e-13, atol=1e-15)


def test_softmax_does_not_overflow():
    row = np.array([[1000, 1000, -1000], [-5000, -5000, -5000]], "float32")
    result = run("softmax", row, m=2, n=3)
    np.testing.assert_array_equal(result[0], np.array([0.5, 0.5, 0], "float32"))
    np.testing.assert_allclose(result[1], 1 / 3, rtol=1e-6)


def test_layer_norm_does_not_cancel_where_the_mean_is_large():
    row = np.array([[10_000, 10_001, 10_002, 10_003]], "float32")
    ones, zeros = np.ones(4, "float32"), np.zeros(4, "float32")
    result = run("layer_norm", row, ones, zeros, m=1, n=4)
    np.testing.assert_allclose(result, references.layer_norm(row, ones, zeros), rtol=1e-5)


def test_layer_norm_of_a_constant_row_is_beta():
    row, gamma = np.full((1, 4), 3, "float32"), np.full(4, 2, "float32")
    beta = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(run("layer_norm", row, gamma, beta, m=1, n=4)[0], beta)
    check("layer_norm", m=2, n=5, eps=0.5)


def test_argmax_is_the_first_of_equals_and_the_first_nan():
    nan = np.nan
    rows = np.array([[1, 3, 3], [-2, -2, -5], [7, nan, nan]], "float32")
    result = run("argmax", rows, m=3, n=3)
    assert result.dtype == "int64"
    assert result.tolist() == [1, 0, 1]


# ---- elements


@pytest.mark.parametrize("shape", [1, 17, (3, 5), [2, 1, 3], (2, 2, 2, 2, 2)])
def test_elementwise_chain(shape):
    check("elementwise_chain", shape=shape)
    check("elementwise_chain", shape=shape, dtype="float64")


@pytest.mark.parametrize("h, w", [(3, 3), (4, 7), (11, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_stencil2d(h, w, dtype):
    check("stencil2d", h=h, w=w, dtype=dtype)


# ---- what schedules rely on


def blocks(name: str, **options) -> dict[str, list[str]]:
    """The blocks of an operator, each with the loops around it."""
    body = program_of(name, **options).body
    return {
        block.name: [n.var for n in walk(body) if isinstance(n, For) and block in walk(n)]
        for block in blocks_of(body)
    }


@pytest.mark.parametrize(
    "name, options, block, loops",
    [
        ("matmul", {}, "C", "i j k"),
        ("batch_matmul", {}, "C", "b i j k"),
        ("conv1d", {}, "conv", "n f x rc rx"),
        ("conv2d", {}, "conv", "n f y x rc ry rx"),
        ("conv2d_nhwc", {}, "conv", "n y x f ry rx rc"),
        ("conv3d", {}, "conv", "n f z y x rc rz ry rx"),
        ("conv2d", {}, "pad", "pad_n pad_c pad_y pad_x"),
        ("conv2d_bias_relu", {}, "conv", "n f y x rc ry rx"),
        ("depthwise_conv2d", {}, "conv", "n c y x ry rx"),
        ("conv2d_transpose", {}, "conv", "n f y x rc ry rx"),
        ("capsule_conv2d", {}, "conv", "n y x i j f ry rx rk rc"),
        ("max_pool2d", {}, "max_pool", "n c y x ry rx"),
        ("softmax", {}, "row_max", "i k"),
        ("elementwise_chain", {}, "scaled", "i"),
        ("elementwise_chain", {"shape": (2, 3)}, "scaled", "i0 i1"),
        ("stencil2d", {}, "blur_y", "y x"),
        ("cumsum", {}, "B", "i j"),
    ],
)
def test_blocks_and_loops_have_the_names_people_expect(name, options, block, loops):
    assert blocks(name, **{**WORKLOADS[name].small, **options})[block] == loops.split()


@pytest.mark.parametrize(
    "name, stages",
    [
        ("softmax", "row_max exps row_sum softmax"),
        ("layer_norm", "row_sum mean squares scale D"),
        ("matrix_norm", "C D"),
        ("conv2d_bias_bn_relu", "pad conv bias_add batch_norm relu"),
        ("conv2d_winograd", "weight_rows U pad data_rows V M tile_rows tiles conv"),
        ("elementwise_chain", "scaled shifted product lowered F"),
        ("transpose_batch_matmul", "query_t key_t C"),
        ("stencil2d", "blur_y blur_x"),
    ],
)
def test_stages(name, stages):
    assert list(blocks(name, **WORKLOADS[name].small)) == stages.split()


@pytest.mark.parametrize(
    "name", ["conv1d", "conv2d", "conv3d", "depthwise_conv2d", "max_pool2d", "capsule_conv2d"]
)
def test_there_is_no_padding_stage_without_padding(name):
    assert "pad" not in blocks(name, **{**WORKLOADS[name].small, "padding": 0})


def test_inputs_come_first_in_the_order_of_the_call():
    program = program_of("conv2d_bias_bn_relu", **WORKLOADS["conv2d_bias_bn_relu"].small)
    names = [b.name for b in program.params]
    assert names == ["data", "weight", "bias", "scale", "offset", "relu"]


# ---- what is refused

CONV = {"n": 1, "c": 4, "h": 5, "w": 5, "f": 6, "kernel": 3}
POOL = {"n": 1, "c": 4, "h": 5, "w": 5, "kernel": 2}
TRANSPOSE = {"n": 1, "c": 2, "h": 2, "w": 2, "f": 2, "kernel": 3}
WINOGRAD = {"n": 1, "c": 2, "h": 4, "w": 4, "f": 2}


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("matmul", {"m": 0, "n": 2, "k": 2}, "expected an integer >= 1, but got m=0 (int)"),
        ("matmul", {"m": 2, "n": 2.0, "k": 2}, "expected an integer >= 1, but got n=2.0 (float)"),
        ("matmul", {"m": 2, "n": 2, "k": True}, "expected an integer >= 1, but got k=True (bool)"),
        (
            "matmul",
            {"m": 2, "n": 2, "k": 2, "dtype": "bool"},
            "expected a type of numbers, but got dtype='bool' (str)",
        ),
        ("matmul", {"m": 2, "n": 2, "k": 2, "dtype": "float"}, "expected one of float64"),
        ("matmul", {"m": 2, "n": 2, "k": 2, "out_dtype": "bool"}, "but got out_dtype='bool'"),
        ("batch_matmul", {"b": -1, "m": 2, "n": 2, "k": 2}, "but got b=-1 (int)"),
        ("transpose_batch_matmul", {"b": 1, "length": 0, "heads": 1, "dim": 1}, "length=0"),
        (
            "transpose_batch_matmul_softmax",
            {"b": 1, "length": 1, "heads": 1, "dim": 1, "dtype": "int32"},
            "expected a floating-point type, but got dtype='int32'",
        ),
        ("conv2d", {**CONV, "n": 0}, "expected an integer >= 1, but got n=0 (int)"),
        ("conv2d", {**CONV, "h": 0}, "expected an integer >= 1, but got h=0 (int)"),
        (
            "conv2d",
            {**CONV, "kernel": 0},
            "expected an integer >= 1, or 2 of them, but got kernel=0 (int)",
        ),
        ("conv2d", {**CONV, "kernel": (3, -1)}, "but got kernel=(3, -1) (tuple)"),
        ("conv2d", {**CONV, "kernel": (3, 3, 3)}, "or 2 of them, but got kernel=(3, 3, 3)"),
        ("conv2d", {**CONV, "kernel": "3"}, "but got kernel='3' (str)"),
        ("conv2d", {**CONV, "stride": 0}, "expected an integer >= 1, or 2 of them, but got stride"),
        ("conv2d", {**CONV, "padding": -1}, "expected an integer >= 0, or 2 of them, but got padd"),
        ("conv2d", {**CONV, "padding": 1.0}, "but got padding=1.0 (float)"),
        ("conv2d", {**CONV, "dilation": 0}, "but got dilation=0 (int)"),
        ("conv1d", {"n": 1, "c": 1, "w": 5, "f": 1, "kernel": 0}, "integer >= 1, but got kernel=0"),
        (
            "conv2d",
            {**CONV, "groups": 4},
            "expected a number of groups that divides c=4 and f=6, but got groups=4 (int)",
        ),
        ("conv2d", {**CONV, "groups": 0}, "expected an integer >= 1, but got groups=0 (int)"),
        (
            "conv2d",
            {**CONV, "layout": "CHWN"},
            'expected "NCHW" or "NHWC", but got layout=\'CHWN\' (str)',
        ),
        ("conv3d", {**CONV, "d": 3, "layout": "NCHW"}, 'expected "NCDHW" or "NDHWC"'),
        ("conv2d", {**CONV, "layout": ["NCHW"]}, "but got layout=['NCHW'] (list)"),
        (
            "conv2d",
            {**CONV, "w": 2},
            "expected an output of at least 1 along w, but the window spans 3 (kernel 3, dilation "
            "1) and the padded input has 2 (w=2, padding 0): make w or padding larger, or kernel "
            "or dilation smaller",
        ),
        ("conv2d", {**CONV, "dilation": 3}, "along h, but the window spans 7"),
        ("depthwise_conv2d", {"n": 1, "c": 0, "h": 5, "w": 5, "kernel": 3}, "but got c=0"),
        ("conv2d_transpose", {**TRANSPOSE, "padding": 3}, "padding smaller than the kernel"),
        ("conv2d_transpose", {**TRANSPOSE, "output_padding": 1}, "smaller than the stride"),
        (
            "conv2d_transpose",
            {**TRANSPOSE, "padding": 2},
            "expected an output of at least 1 along h, but it would be 0: make h, kernel or "
            "output_padding larger, or padding smaller",
        ),
        ("conv2d_transpose", {**TRANSPOSE, "layout": "NCW"}, 'expected "NCHW" or "NHWC"'),
        ("capsule_conv2d", {**CONV, "capsule": 0}, "but got capsule=0"),
        ("conv2d_winograd", {**WINOGRAD, "tile": 3}, "expected 2 or 4, but got tile=3 (int)"),
        ("conv2d_winograd", {**WINOGRAD, "tile": [2]}, "expected 2 or 4, but got tile=[2] (list)"),
        ("conv2d_winograd", {**WINOGRAD, "tile": 2.0}, "expected 2 or 4, but got tile=2.0 (float)"),
        ("conv2d_winograd", {**WINOGRAD, "h": 2}, "expected an output of at least 1 along h"),
        ("conv2d_winograd", {**WINOGRAD, "dtype": "int32"}, "expected a floating-point type"),
        (
            "max_pool2d",
            {**POOL, "padding": 2},
            "expected padding of at most half the kernel, so that no window is all padding, but "
            "got padding=2 and kernel=2",
        ),
        ("max_pool2d", {**POOL, "kernel": (2, 3), "padding": (1, 2)}, "at most half the kernel"),
        ("avg_pool2d", {**POOL, "kernel": 6}, "expected an output of at least 1 along h"),
        ("avg_pool2d", {**POOL, "dtype": "bool"}, "expected a type of numbers"),
        ("global_avg_pool2d", {"n": 1, "c": 1, "h": 0, "w": 1}, "but got h=0"),
        ("softmax", {"m": 2, "n": 0}, "but got n=0"),
        ("softmax", {"m": 2, "n": 2, "dtype": "int32"}, "expected a floating-point type"),
        ("layer_norm", {"m": 2, "n": 2, "eps": -1.0}, "expected a finite number >= 0, but got eps"),
        ("layer_norm", {"m": 2, "n": 2, "eps": float("nan")}, "but got eps=nan (float)"),
        ("layer_norm", {"m": 2, "n": 2, "eps": "1e-5"}, "but got eps='1e-5' (str)"),
        ("matrix_norm", {"b": 1, "m": 1, "n": "2"}, "but got n='2' (str)"),
        ("elementwise_chain", {"shape": 0}, "but got shape[0]=0 (int)"),
        ("elementwise_chain", {"shape": (2, -1)}, "but got shape[1]=-1 (int)"),
        ("elementwise_chain", {"shape": ()}, "expected an integer >= 1, or several"),
        ("elementwise_chain", {"shape": 2.5}, "expected an integer >= 1, or several"),
        ("stencil2d", {"h": 3, "w": 2}, "along w, but the blur takes off 2 and w=2"),
        ("cumsum", {"m": 1, "n": 1, "dtype": "bool"}, "expected a type of numbers"),
    ],
    ids=str,
)
def test_arguments_that_can_never_be_right(name, options, message):
    with pytest.raises(ArgumentError) as caught:
        WORKLOADS[name].function(**options)
    assert message in str(caught.value)


def test_numpy_integers_are_integers():
    size = {k: np.int64(v) for k, v in CONV.items()}
    assert [t.shape for t in workloads.conv2d(**size)] == [
        t.shape for t in workloads.conv2d(**CONV)
    ]


# ---- the references themselves


def test_reference_of_conv_is_the_correlation_of_scipy():
    rng = np.random.default_rng(0)
    data = rng.integers(-4, 5, (2, 3, 6, 7)).astype("float32")
    weight = rng.integers(-4, 5, (4, 3, 3, 2)).astype("float32")
    expected = [
        [sum(signal.correlate2d(x[c], w[c], "valid") for c in range(3)) for w in weight]
        for x in data
    ]
    np.testing.assert_array_equal(references.conv(data, weight), expected)


def test_inputs_are_small_integers_of_the_right_type_and_repeatable():
    program = program_of("matmul", m=30, n=30, k=30, dtype="uint8")
    a, b = inputs(program)
    assert a.dtype == b.dtype == np.uint8
    assert set(np.unique(a)) == set(range(5))
    again, _ = inputs(program)
    np.testing.assert_array_equal(a, again)
    assert not np.array_equal(a, inputs(program, seed=1)[0])
