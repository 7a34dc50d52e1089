"""Graphs of functions: names, text, structure, and what is refused."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.errors import VerifyError
from minitensor.graph import Node, Value, trace

WEIGHT = np.ones((4, 3, 3, 3), "float32")


def block(x, w, b):
    return ops.relu(ops.conv2d(x, w, b, padding=1))


def made():
    return trace(block, x=((1, 3, 8, 8), "float32"), w=WEIGHT, b=np.zeros(4, "float32"))


class TestGraph:
    def test_text(self):
        assert [line.split("  #")[0].rstrip() for line in made().lines()] == [
            "graph block(x: float32[1, 3, 8, 8]):",
            "    conv2d = conv2d(x, w=w, bias=b, padding=1)",
            "    relu = relu(conv2d)",
            "    return relu",
        ]

    def test_arrays_are_constants_that_nobody_changes(self):
        weight = WEIGHT.copy()
        graph = trace(block, x=((1, 3, 8, 8), "float32"), w=weight, b=np.zeros(4, "float32"))
        weight[...] = 7
        assert graph.constants["w"].max() == 1
        assert not graph.constants["w"].flags.writeable

    def test_equal_but_for_names(self):
        def other(image, w, b):
            return block(image, w, b)

        same = trace(other, image=((1, 3, 8, 8), "float32"), w=WEIGHT, b=np.zeros(4, "float32"))
        assert made().equals(same)
        assert not made().equals(
            trace(block, x=((1, 3, 9, 8), "float32"), w=WEIGHT, b=np.zeros(4, "float32"))
        )
        assert not made().equals(
            trace(block, x=((1, 3, 8, 8), "float32"), w=2 * WEIGHT, b=np.zeros(4, "float32"))
        )

    def test_the_interpreter_is_its_meaning(self):
        x = np.arange(12, dtype="float32").reshape(3, 4) - 5

        def both(x):
            y = ops.relu(x)
            return y, ops.transpose(y)

        one, two = mt.interpret(trace(both, x=((3, 4), "float32")), x)
        np.testing.assert_array_equal(one, np.maximum(x, 0))
        np.testing.assert_array_equal(two, np.maximum(x, 0).T)

    def test_a_value_that_is_returned_twice(self):
        graph = trace(lambda x: (ops.neg(x),) * 2, x=((2,), "float32"))
        assert len(graph.nodes) == 1
        one, two = graph.interpret(np.ones(2, "float32"))
        np.testing.assert_array_equal(one, two)


class TestRefused:
    def test_examples(self):
        with pytest.raises(mt.ArgumentError, match="expected a pair of a shape and a dtype"):
            trace(block, x=(1, 3, 8, 8))

    def test_a_function_of_other_names(self):
        with pytest.raises(mt.ArgumentError, match="does not take these examples: missing"):
            trace(block, x=((1, 3, 8, 8), "float32"))

    def test_no_tensor(self):
        with pytest.raises(mt.ArgumentError, match="expected a tensor, or several in a tuple"):
            trace(lambda x: 3, x=((2,), "float32"))

    def test_a_compute(self):
        def f(x):
            return mt.compute((2,), lambda i: x[i] + 1, name="C")

        with pytest.raises(mt.ArgumentError, match=r"C is an mt\.compute, and not .* mt\.ops"):
            trace(f, x=((2,), "float32"))

    def test_a_placeholder_from_elsewhere(self):
        other = mt.placeholder((2,), name="other")
        with pytest.raises(mt.ArgumentError, match="other is a placeholder of its own"):
            trace(lambda x: ops.add(x, other), x=((2,), "float32"))

    def test_arrays_to_interpret(self):
        with pytest.raises(mt.ArgumentError, match=r"takes 1 inputs \(x\), but got 0"):
            made().interpret()

    def test_the_name_of_no_node(self):
        with pytest.raises(mt.ArgumentError, match="the name of a node, such as conv2d, relu"):
            made().explain("conv2d", "rleu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": ()}, "returns nothing"),
        ({"outputs": ("gone",)}, "the output gone is computed by no node"),
        ({"groups": (("relu",), ("conv2d",))}, "the group of relu runs before conv2d"),
        ({"groups": (("relu",),)}, "do not have each node once"),
        ({"nodes": "turned"}, "relu reads conv2d, which is the result of a later node: a cycle"),
        ({"nodes": "twice"}, "two values are called relu"),
        ({"nodes": "shape"}, r"relu computes float32\[1, 4, 8, 8\], not float32\[1\]"),
        ({"nodes": "operator"}, "there is no operator 'rleu'"),
        (
            {"inputs": (Value("x", (1, 3, 0, 8), mt.ir.DType.of("float32")),)},
            "an extent is not >= 1",
        ),
    ],
)
def test_a_malformed_graph_is_named(changes, message):
    graph = made()
    conv, relu = graph.nodes
    nodes = {
        "turned": (relu, conv),
        "twice": (conv, relu, relu),
        "shape": (conv, relu.replace(result=Value("relu", (1,), relu.result.dtype))),
        "operator": (conv, Node(relu.result, "rleu", ("x",), ("conv2d",))),
    }
    changes = {k: nodes[v] if isinstance(v, str) else v for k, v in changes.items()}
    with pytest.raises(VerifyError, match=message):
        graph.replace(**changes).verify()
