"""Graphs whose products multiply halves: what is rounded, what is not, and what is refused."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.graph.precision import NARROWED
from minitensor.ir import from_bfloat16, to_bfloat16

ROUND = {
    "bf16": lambda x: from_bfloat16(to_bfloat16(x)),
    "f16": lambda x: x.astype("float16").astype("float32"),
}
SHAPES = {
    "conv1d": ((2, 3, 9), (4, 3, 3)),
    "conv2d": ((1, 3, 5, 4), (4, 3, 3, 2)),
    "conv3d": ((1, 2, 3, 3, 4), (3, 2, 2, 2, 2)),
    "conv_transpose1d": ((1, 3, 5), (3, 2, 3)),
    "conv_transpose2d": ((1, 3, 4, 3), (3, 2, 3, 3)),
    "conv_transpose3d": ((1, 3, 2, 2, 3), (3, 2, 2, 2, 2)),
    "matmul": ((2, 5, 6), (6, 4)),
    "gemm": ((5, 6), (6, 4)),
}


def reals(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("f")


def products_in(graph):
    return [node for node in graph.nodes if node.attribute("out_dtype") == "float32"]


def casts_in(graph):
    return [node for node in graph.nodes if node.operator == "cast"]


def test_every_product_is_tried():
    assert set(SHAPES) == set(NARROWED)


@pytest.mark.parametrize("precision", ROUND)
@pytest.mark.parametrize("operator", SHAPES)
def test_a_product_is_that_of_rounded_operands(operator, precision):
    shape, other = SHAPES[operator]
    product = getattr(ops, operator)
    x, w = reals(shape), reals(other, 1)
    graph = mt.graph.trace(lambda x, w: product(x, w), x=(shape, "float32"), w=w)
    made = graph.in_precision(precision)
    made.verify()
    (node,) = products_in(made)
    assert node.operator == operator and node.result.dtype == "float32"
    assert len(casts_in(made)) == 1  # of x: the weights are rounded already
    (weights,) = made.constant_values.values()
    assert str(weights.dtype) == {"bf16": "bfloat16", "f16": "float16"}[precision]
    found = mt.interpret(made, x)
    wide = mt.graph.trace(lambda x, w: product(x, w), x=(shape, "float32"), w=ROUND[precision](w))
    np.testing.assert_array_equal(found, mt.interpret(wide, ROUND[precision](x)))
    assert not np.array_equal(found, mt.interpret(graph, x))


def test_sums_are_float32():
    """The sum of 301 ones is no bfloat16."""
    w = np.ones((301, 1), "f")
    graph = mt.graph.trace(lambda x, w: ops.matmul(x, w), x=((1, 301), "float32"), w=w)
    assert ROUND["bf16"](np.array([301.0], "f")) != 301
    assert mt.interpret(graph.in_precision("bf16"), np.ones((1, 301), "f")) == 301


def test_a_value_is_rounded_once_for_all_products():
    def heads(x, q, k):
        return ops.matmul(ops.matmul(x, q), ops.transpose(ops.matmul(x, k), axes=(1, 0)))

    graph = mt.graph.trace(heads, x=((4, 6), "float32"), q=reals((6, 3)), k=reals((6, 3), 1))
    made = graph.in_precision("bf16")
    assert len(products_in(made)) == 3
    assert len(casts_in(made)) == 3  # x, and both operands of the last
    assert {array.dtype for array in made.constants.values()} == {np.dtype("uint16")}


def test_batch_norm_is_in_the_weights_before_they_are_rounded():
    def layer(x, w, g, b, m, v):
        return ops.batch_norm(ops.conv2d(x, w), g, b, m, v)

    four = {name: np.abs(reals((4,), n)) + 0.5 for n, name in enumerate("gbmv")}
    graph = mt.graph.trace(layer, x=((1, 3, 5, 5), "float32"), w=reals((4, 3, 2, 2)), **four)
    made = graph.in_precision("bf16")
    assert [node.operator for node in made.nodes] == ["cast", "conv2d"]
    assert made.optimize().equals(made)


def test_what_has_nothing_to_gain_stays():
    def network(x, w, b, n):
        return ops.conv2d(x, w, groups=4), ops.matmul_integer(b, n)

    graph = mt.graph.trace(
        network,
        x=((1, 4, 5, 5), "float32"),
        w=reals((4, 1, 3, 3)),
        b=((3, 4), "uint8"),
        n=np.ones((4, 2), "int8"),
    )
    assert graph.in_precision("bf16").equals(graph.optimize())


@pytest.mark.parametrize("precision", ["f32", "float32"])
def test_float32_is_the_graph_itself(precision):
    graph = mt.graph.trace(lambda x, w: ops.matmul(x, w), x=((2, 3), "float32"), w=reals((3, 2)))
    assert graph.in_precision(precision).equals(graph.optimize())


def test_what_is_refused():
    graph = mt.graph.trace(lambda x, w: ops.matmul(x, w), x=((2, 3), "float32"), w=reals((3, 2)))
    for precision in ("half", 16, None, "int8"):
        with pytest.raises(mt.ArgumentError, match='expected "bf16", "f16" or "f32"'):
            graph.in_precision(precision)
    with pytest.raises(mt.ArgumentError, match=r"without groups: graph.in_precision\(…\).fuse"):
        mt.build(graph.fuse(), precision="bf16")
    large = graph.replace(constants={"w": np.full((3, 2), 1e5, "f")})
    with pytest.raises(mt.ArgumentError, match=r"the constant w has numbers up to .*65504"):
        large.in_precision("f16")
    assert large.in_precision("bf16").constants
    program = mt.lower(mt.workloads.matmul(4, 4, 4))
    with pytest.raises(mt.ArgumentError, match="precision= are for a graph"):
        mt.build(program, precision="bf16")
    with pytest.raises(mt.ArgumentError, match="precision= is for graphs"):
        mt.tune(program, precision="bf16")


def test_an_infinite_weight_stays_infinite():
    w = np.array([[np.inf], [1.0]], "f")
    graph = mt.graph.trace(lambda x, w: ops.matmul(x, w), x=((1, 2), "float32"), w=w)
    for precision in ROUND:
        assert mt.interpret(graph.in_precision(precision), np.ones((1, 2), "f")) == np.inf


def test_dtypes_of_products_by_hand():
    a = mt.placeholder((2, 3), "bfloat16", name="a")
    b = mt.placeholder((3, 4), "bfloat16", name="b")
    assert ops.matmul(a, b).dtype == "bfloat16"
    assert ops.matmul(a, b, out_dtype="float32").dtype == "float32"
    for wrong, message in (
        ("float33", "float33"),
        ("bool", "of numbers, but got out_dtype='bool'"),
    ):
        with pytest.raises(mt.ArgumentError, match=message):
            ops.matmul(a, b, out_dtype=wrong)
