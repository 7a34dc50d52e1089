"""Every operator against the reference evaluator of the package onnx, on small arrays."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator

import minitensor as mt
from minitensor.graph.onnx import CONVERTERS
from minitensor.graph.onnx.fold import FOLDERS
from tests.unit.graph.onnx.models import single

rng = np.random.default_rng(0)


def f(*shape):
    return rng.uniform(-2, 2, shape).astype("float32")


def positive(*shape):
    return rng.uniform(0.5, 2, shape).astype("float32")


def i(*values):
    return np.array(values, "int64")


X = f(2, 3, 4)
IMAGE = f(1, 4, 5, 6)
YES, NO = np.array([True, False, True]), np.array([True, True, False])


def u(*shape):
    return rng.integers(0, 256, shape, "uint8")


def s(*shape):
    return rng.integers(-128, 128, shape, "int8")


SMALL, NONE, LOW = np.float32(0.0312), np.uint8(0), np.uint8(113)
EACH = positive(5)
BIAS = rng.integers(-2000, 2000, 5, "int32")
QUANTIZED = [
    ("QuantizeLinear", [X, SMALL], (1,), {}),
    ("QuantizeLinear", [X, SMALL, LOW], (1, 2), {}),
    ("QuantizeLinear", [X * 9, np.float32(0.1), np.int8(-3)], (1, 2), {}),
    ("QuantizeLinear", [X, positive(3), s(3)], (1, 2), {}),
    ("QuantizeLinear", [X, positive(4), np.zeros(4, "int8")], (1, 2), {"axis": -1}),
    ("MatMulInteger", [u(4, 6), s(6, 5)], (), {}),
    ("MatMulInteger", [u(4, 6), s(6, 5), LOW], (2,), {}),
    ("MatMulInteger", [u(4, 6), u(6, 5), LOW, np.uint8(7)], (2, 3), {}),
    ("MatMulInteger", [s(2, 4, 6), s(6, 5), np.int8(-9), s(5)], (1, 2, 3), {}),
    ("MatMulInteger", [u(4, 6), s(6, 5), LOW, np.int8(3)], (), {}),
    ("QLinearMatMul", [u(4, 6), SMALL, LOW, s(6, 5), SMALL, np.int8(0), SMALL * 3, LOW],
     (1, 2, 3, 4, 5, 6, 7), {}),
    ("QLinearMatMul", [s(4, 6), SMALL, np.int8(4), s(6, 5), EACH / 99, s(5), SMALL * 3, np.int8(1)],
     (1, 2, 3, 4, 5, 6, 7), {}),
    ("ConvInteger", [u(1, 4, 6, 7), s(5, 4, 3, 3), LOW], (1, 2), {"pads": [1, 1, 1, 1]}),
    ("ConvInteger", [u(1, 4, 6, 7), u(5, 4, 3, 3), LOW, np.uint8(3)], (1, 2, 3), {}),
    ("ConvInteger", [u(1, 4, 9), u(6, 2, 3), LOW], (1, 2), {"group": 2, "strides": [2]}),
    ("QLinearConv", [u(1, 4, 6, 7), SMALL, LOW, s(5, 4, 3, 3), EACH / 99, np.zeros(5, "int8"),
                     SMALL, LOW, BIAS], tuple(range(1, 9)), {"pads": [1, 1, 1, 1]}),
    ("QLinearConv", [s(1, 4, 6, 7), SMALL, np.int8(-7), s(5, 4, 2, 3), SMALL, np.int8(0),
                     SMALL * 5, np.int8(9)], tuple(range(1, 8)), {"strides": [2, 1]}),
]  # fmt: skip

CASES = [
    *QUANTIZED,
    *[(kind, [X], (), {}) for kind in ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity")],
    *[(kind, [X], (), {}) for kind in ("Neg", "Relu", "Sigmoid", "Sin", "Tanh", "Round")],
    *[(kind, [X], (), {}) for kind in ("HardSigmoid", "HardSwish", "LeakyRelu")],
    *[(kind, [X], (), {}) for kind in ("Softplus", "Softsign", "Elu", "Selu")],
    *[(kind, [positive(2, 3)], (), {}) for kind in ("Log", "Reciprocal", "Sqrt")],
    *[(kind, [X, f(3, 1)], (), {}) for kind in ("Add", "Sub", "Mul", "Max", "Min")],
    *[(kind, [X, np.float32(1.5)], (1,), {}) for kind in ("Add", "Sub", "Mul", "Div")],
    *[(kind, [X, f(4)], (), {}) for kind in ("Equal", "Greater", "Less")],
    *[(kind, [X, f(4)], (), {}) for kind in ("GreaterOrEqual", "LessOrEqual")],
    *[(kind, [YES, NO], (), {}) for kind in ("And", "Or")],
    ("Not", [YES], (), {}),
    ("IsNaN", [np.array([1, np.nan, np.inf], "f")], (), {}),
    *[(kind, [X], (), {"axis": 1, "keepdims": 0}) for kind in ("ArgMax", "ArgMin")],
    ("ArgMax", [i(3, 5)], (), {}),
    ("CumSum", [X, np.int64(1)], (1,), {}),
    ("CumSum", [i(3, 1, 2), np.int64(-1)], (1,), {}),
    *[
        ("Einsum", [f(2, 3, 4), f(*shape)], (), {"equation": equation})
        for equation, shape in [
            ("bij,bjk->bik", (2, 4, 5)),
            ("bij , bkj -> bik", (2, 5, 4)),
            ("bij,jk->bik", (4, 5)),
            ("bij,jk->kbi", (4, 5)),
            ("bij,bij->", (2, 3, 4)),
            ("abc,cd->ad", (4, 5)),
            ("abc,de->abde", (5, 2)),
        ]
    ],
    ("Einsum", [f(2, 3, 4)], (), {"equation": "abc->ca"}),
    ("Div", [X, positive(3, 4)], (), {}),
    ("Pow", [positive(3), np.float32(2)], (1,), {}),
    ("Pow", [positive(3), np.float32(0.5)], (1,), {}),
    ("Pow", [positive(3), np.float32(1.7)], (1,), {}),
    ("Pow", [positive(3), f(3)], (), {}),
    ("Max", [X, f(4), f(1)], (), {}),
    ("Clip", [X, np.float32(-1), np.float32(1)], (1, 2), {}),
    ("Clip", [X, None, np.float32(0.5)], (2,), {}),
    ("Elu", [X], (), {"alpha": 0.7}),
    ("PRelu", [X, positive(3, 1)], (1,), {}),
    ("Where", [YES, f(2, 3), f(3)], (), {}),
    ("Cast", [X], (), {"to": 7}),
    ("Dropout", [X], (), {}),
    ("Transpose", [X], (), {"perm": [2, 0, 1]}),
    ("Transpose", [X], (), {}),
    ("Reshape", [X, i(0, -1)], (1,), {}),
    ("Reshape", [X, i(24)], (1,), {}),
    ("Flatten", [X], (), {"axis": 2}),
    ("Flatten", [X], (), {"axis": -1}),
    ("Squeeze", [f(1, 3, 1), i(0)], (1,), {}),
    ("Squeeze", [f(1, 3, 1)], (), {}),
    ("Unsqueeze", [X, i(0, -1)], (1,), {}),
    ("Slice", [X, i(1, 0), i(3, 2), i(2, 0), i(2, 1)], (1, 2, 3, 4), {}),
    ("Slice", [X, i(-2), i(2**62)], (1, 2), {}),
    ("Slice", [X, i(3), i(0), i(2), i(-1)], (1, 2, 3, 4), {}),
    ("Concat", [X, f(2, 1, 4)], (), {"axis": 1}),
    ("Expand", [f(3, 1), i(2, 1, 4)], (1,), {}),
    ("Tile", [X, i(1, 2, 3)], (1,), {}),
    ("Gather", [X, i(2, -1)], (), {"axis": 1}),
    ("GatherElements", [X, np.array([[[0, -1, 1, 0]], [[2, 0, -3, 1]]])], (), {"axis": 1}),
    ("Gather", [X, np.int64(1)], (1,), {"axis": 1}),
    ("DepthToSpace", [IMAGE], (), {"blocksize": 2}),
    ("DepthToSpace", [IMAGE], (), {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", [f(1, 2, 4, 6)], (), {"blocksize": 2}),
    ("Pad", [X, i(0, 1, 0, 2, 0, 1), np.float32(3)], (1, 2), {}),
    ("MatMul", [f(2, 3), f(3, 4)], (), {}),
    ("MatMul", [f(3), f(2, 3, 4)], (), {}),
    ("MatMul", [f(2, 2, 3), f(3)], (), {}),
    ("Gemm", [f(3, 2), f(4, 3), f(4)], (), {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("ReduceL1", [X], (), {"axes": [1]}),
    ("ReduceL2", [X], (), {"axes": [1, 2], "keepdims": 0}),
    ("ReduceLogSumExp", [X], (), {"axes": [2]}),
    ("ReduceMax", [X], (), {"axes": [0], "keepdims": 0}),
    ("ReduceMean", [X], (), {"axes": [-1]}),
    ("ReduceMin", [X], (), {}),
    ("ReduceSum", [X, i(1)], (1,), {}),
    ("ReduceSumSquare", [X], (), {"axes": [1]}),
    ("Softmax", [X], (), {"axis": 1}),
    ("LogSoftmax", [X], (), {}),
    ("LayerNormalization", [X, positive(4), f(4)], (1, 2), {}),
    ("LayerNormalization", [X, positive(3, 4), f(3, 4)], (1, 2), {"axis": 1}),
    ("InstanceNormalization", [IMAGE, positive(4), f(4)], (1, 2), {}),
    ("BatchNormalization", [IMAGE, positive(4), f(4), f(4), positive(4)], (1, 2, 3, 4), {}),
    ("GlobalAveragePool", [IMAGE], (), {}),
    ("GlobalMaxPool", [IMAGE], (), {}),
    ("Conv", [IMAGE, f(2, 4, 3, 3), f(2)], (1, 2), {"pads": [1, 0, 1, 1], "strides": [2, 1]}),
    ("Conv", [IMAGE, f(4, 1, 3, 2)], (1,), {"group": 4, "dilations": [2, 1]}),
    ("Conv", [f(1, 2, 7), f(3, 2, 3)], (1,), {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ("Conv", [f(1, 2, 6), f(3, 2, 4)], (1,), {"auto_pad": "SAME_LOWER"}),
    ("Conv", [f(1, 1, 3, 4, 4), f(2, 1, 2, 3, 3)], (1,), {}),
    ("ConvTranspose", [f(1, 2, 3, 3), f(2, 3, 3, 3), f(3)], (1, 2), {"strides": [2, 2]}),
    (
        "ConvTranspose",
        [f(1, 2, 3, 3), f(2, 3, 3, 3)],
        (1,),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    ("ConvTranspose", [f(1, 2, 3, 3), f(2, 3, 3, 2), f(3)], (1, 2), {"dilations": [2, 3]}),
    (
        "ConvTranspose",
        [f(1, 2, 2, 3, 2), f(2, 2, 2, 3, 3)],
        (1,),
        {"strides": [2, 1, 2], "pads": [0, 1, 1, 0, 1, 1], "output_padding": [1, 0, 1]},
    ),
    (
        "ConvTranspose",
        [f(1, 2, 3, 3), f(2, 3, 3, 3)],
        (1,),
        {"strides": [3, 2], "auto_pad": "SAME_UPPER", "output_padding": [2, 0]},
    ),
    ("MaxPool", [IMAGE], (), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}),
    ("MaxPool", [IMAGE], (), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", [IMAGE], (), {"kernel_shape": [2, 2]}),
    ("AveragePool", [IMAGE], (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    (
        "AveragePool",
        [IMAGE],
        (),
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    (
        "Resize",
        [IMAGE, None, np.array([1, 1, 2, 2], "float32")],
        (2,),
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    ("Resize", [IMAGE, None, None, i(1, 4, 8, 9)], (3,), {"mode": "linear"}),
    (
        "Resize",
        [IMAGE, None, None, i(1, 4, 8, 9)],
        (3,),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
]


def agree(made, arrays):
    inputs = {value.name: arrays[int(value.name[1:])] for value in made.graph.input}
    expected = ReferenceEvaluator(made).run(None, inputs)
    net = mt.graph.from_onnx(made)
    net.verify()
    found = mt.interpret(net, *inputs.values())
    for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "arrays", "constants", "attributes"),
    CASES,
    ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)],
)
def test_equals_the_reference(kind, arrays, constants, attributes):
    agree(single(kind, arrays, constants, **attributes), arrays)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "window", "attributes", "plain"),
    [
        ((4,), (5,), {"strides": [3]}, {"strides": [1, 3]}),
        ((4,), (5,), {"auto_pad": "VALID"}, {}),
        ((4,), (5,), {"strides": [3], "pads": [2, 0]}, {"strides": [1, 3], "pads": [0, 2, 0, 0]}),
        (
            (3, 3),
            (4, 3),
            {"strides": [2, 2], "output_shape": [7, 5]},
            {"strides": [2, 2], "pads": [1, 1, 0, 1]},
        ),
        (
            (3, 3),
            (4, 3),
            {"strides": [2, 2], "output_shape": [1, 3, 7, 6], "auto_pad": "SAME_UPPER"},
            {"strides": [2, 2], "pads": [0, 0, 1, 1]},
        ),
    ],
)
def test_transposed_convolutions_that_the_reference_does_not_know(shape, window, attributes, plain):
    x, w = f(1, 2, *shape), f(2, 3, *window)
    got = mt.build(mt.graph.from_onnx(single("ConvTranspose", [x, w], (1,), **attributes)))(x)
    images = [one.reshape(*one.shape[:2], *(1,) * (4 - one.ndim), *one.shape[2:]) for one in (x, w)]
    model = single("ConvTranspose", images, (1,), **plain)
    wanted = ReferenceEvaluator(model).run(None, {"i0": images[0]})[0]
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_with_padding_of_no_kind():
    model = single("ConvTranspose", [f(1, 2, 3), f(2, 3, 3)], (1,), auto_pad="SAME")
    with pytest.raises(mt.ArgumentError, match="ConvTranspose with auto_pad='SAME'"):
        mt.graph.from_onnx(model)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_a_transposed_convolution_are_convolutions(groups):
    x, w = f(1, 4, 3, 2), f(4, 3, 2, 3)
    model = single("ConvTranspose", [x, w], (1,), group=groups, strides=[2, 1])
    wanted = [
        ReferenceEvaluator(single("ConvTranspose", [a, b], (1,), strides=[2, 1])).run(
            None, {"i0": a}
        )
        for a, b in zip(np.split(x, groups, 1), np.split(w, groups))
    ]
    got = mt.build(mt.graph.from_onnx(model))(x)
    np.testing.assert_allclose(got, np.concatenate([y for (y,) in wanted], 1), rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_whose_result_is_too_large():
    model = single("ConvTranspose", [f(1, 2, 3), f(2, 3, 3)], (1,), strides=[2], output_shape=[9])
    with pytest.raises(mt.ArgumentError, match=r"result, 9, is larger than .* reach, 7"):
        mt.graph.from_onnx(model)


@pytest.mark.parametrize(
    ("kind", "arrays", "constants", "outputs", "opset", "attributes"),
    [
        ("Split", [X, i(1, 3)], (1,), 2, 17, {"axis": 2}),
        ("Split", [X], (), 2, 17, {"axis": 0}),
        ("Split", [X], (), 2, 18, {"axis": 1, "num_outputs": 2}),
        ("TopK", [X, np.array([3])], (1,), 2, 18, {}),
        ("TopK", [X, np.array([2])], (1,), 2, 18, {"axis": 0, "largest": 0, "sorted": 1}),
        ("DequantizeLinear", [u(2, 3), SMALL], (1,), 1, 21, {}),
        ("DequantizeLinear", [u(2, 3), SMALL, LOW], (1, 2), 1, 21, {}),
        ("DequantizeLinear", [s(2, 3, 4), positive(2), s(2)], (1, 2), 1, 21, {"axis": 0}),
        ("DequantizeLinear", [BIAS, SMALL], (1,), 1, 21, {}),
        ("Mish", [X], (), 1, 18, {}),
        ("Gelu", [X], (), 1, 20, {}),
        ("Gelu", [X], (), 1, 20, {"approximate": "tanh"}),
        ("GroupNormalization", [IMAGE, positive(4), f(4)], (1, 2), 1, 21, {"num_groups": 2}),
        ("ReduceMean", [X, i(1)], (1,), 1, 18, {}),
        ("Softmax", [X], (), 1, 11, {"axis": 1}),
        ("Clip", [X], (), 1, 9, {"min": -1.0, "max": 1.0}),
        ("Slice", [X], (), 1, 9, {"axes": [2], "starts": [1], "ends": [3]}),
        ("Upsample", [IMAGE, np.array([1, 1, 2, 3], "float32")], (1,), 1, 9, {}),
    ],
)
def test_of_other_versions_or_with_several_outputs(
    kind, arrays, constants, outputs, opset, attributes
):
    made = single(kind, arrays, constants, outputs, opset, **attributes)
    if kind in ("GroupNormalization", "Softmax", "Upsample"):  # the evaluator lacks these versions
        net = mt.graph.from_onnx(made)
        found = mt.interpret(net, arrays[0])
        if kind == "Upsample":
            expected = arrays[0].repeat(2, 2).repeat(3, 3)
        elif kind == "Softmax":
            e = np.exp(X - X.max(axis=(1, 2), keepdims=True))
            expected = e / e.sum(axis=(1, 2), keepdims=True)
        else:
            groups = IMAGE.reshape(1, 2, -1)
            mean, var = groups.mean(2, keepdims=True), groups.var(2, keepdims=True)
            apart = ((groups - mean) / np.sqrt(var + 1e-5)).reshape(IMAGE.shape)
            shape = (1, 4, 1, 1)
            expected = apart * arrays[1].reshape(shape) + arrays[2].reshape(shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    else:
        agree(made, arrays)


@pytest.mark.parametrize(
    ("kind", "arrays", "attributes"),
    [
        ("ConstantOfShape", [i(2, 3)], {}),
        ("CumSum", [X, np.int64(1)], {}),
        ("IsNaN", [np.array([1, np.nan], "f")], {}),
        ("ScatterND", [f(3, 4), np.array([[0, 1], [2, 3]]), f(2)], {}),
        ("ScatterND", [f(3, 4), np.array([[2], [0]]), f(2, 4)], {}),
        ("Range", [np.int64(0), np.int64(5), np.int64(2)], {}),
        ("NonZero", [np.array([[1, 0], [0, 2]])], {}),
        ("Mod", [i(5, -3), i(3, 2)], {}),
        ("GatherElements", [X, np.zeros((2, 1, 4), "int64")], {"axis": 1}),
        ("Trilu", [f(3, 3)], {"upper": 0}),
        ("Xor", [YES, NO], {}),
        ("Tile", [X, i(1, 2, 1)], {}),
        ("Div", [i(7, -7), i(2, 2)], {}),
        ("Concat", [i(1, 2), i(3)], {"axis": 0}),
        ("ReduceProd", [i(2, 3)], {"keepdims": 0}),
        ("Slice", [X, i(2), i(-(2**62)), i(2), i(-1)], {}),
        ("Where", [YES, f(3), f(3)], {}),
        ("Size", [X], {}),
    ],
)
def test_what_is_known_is_folded(kind, arrays, attributes):
    made = single(kind, arrays, range(len(arrays)), **attributes)
    (expected,) = ReferenceEvaluator(made).run(None, {})
    net = mt.graph.from_onnx(made)
    assert net.nodes == ()
    (found,) = net.constants.values()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_dynamic_quantisation():
    made = single("DynamicQuantizeLinear", [X], outputs=3)
    expected = ReferenceEvaluator(made).run(None, {"i0": X})
    found = mt.interpret(mt.graph.from_onnx(made), X)
    for mine, wanted in zip(found, expected):
        assert mine.dtype == wanted.dtype
        np.testing.assert_allclose(mine, wanted, rtol=1e-6)


def test_padding_that_cuts():
    net = mt.graph.from_onnx(single("Pad", [X, i(0, -1, 0, 0, 0, -2)], (1,)))
    np.testing.assert_array_equal(mt.interpret(net, X), X[:, 1:, :2])


def test_every_operator_is_tried():
    tried = {case[0] for case in CASES}
    tried |= {
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "Split",
        "TopK",
        "Gelu",
        "GroupNormalization",
        "Mish",
        "Upsample",
        *("GRU", "LSTM", "RNN"),  # see test_recurrent
    }
    assert CONVERTERS.keys() - tried == {"Constant", "Shape", "Size"}
    assert FOLDERS.keys() - CONVERTERS.keys() <= {
        *("ConstantOfShape", "Mod", "NonZero", "Range", "ReduceProd"),
        *("ScatterND", "Trilu", "Xor"),
    }
