"""Classes of operators, the groups of well-known patterns, and the reasons against others."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.graph import Kind, Policy, kind_of_node, trace
from minitensor.graph.policies import FUNCTION, operations

X = ((1, 4, 8, 8), "float32")
W = np.ones((4, 4, 3, 3), "float32")
KINDS = {
    "elementwise": [ops.relu, lambda x: ops.add(x, x), lambda x: ops.mul(x, 2.0), ops.gelu],
    "broadcast": [
        lambda x: ops.broadcast_to(x, shape=(2, 3, 4)),
        lambda x: ops.add(x, ops.reduce_sum(x, axes=(2,), keepdims=True)),
    ],
    "injective": [
        ops.transpose,
        lambda x: ops.reshape(x, shape=(12,)),
        lambda x: ops.concat([x, x], axis=0),
        lambda x: ops.slice(x, starts=(1,), stops=(2,), axes=(1,)),
        lambda x: ops.pad(x, before=(0, 1, 0), after=(0, 0, 0)),
    ],
    "reduction": [
        ops.softmax,
        ops.layer_norm,
        ops.reduce_mean,
        lambda x: ops.max_pool(x, kernel=2),
    ],
    "product": [lambda x: ops.matmul(x, ops.transpose(x, axes=(0, 2, 1)))],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_class_follows_from_what_is_computed(kind):
    for function in KINDS[kind]:
        graph = trace(function, x=((1, 3, 4), "float32"))
        assert kind_of_node(graph, graph.nodes[-1]) is Kind[kind.upper()], function


def groups(graph, policy="tvm"):
    return [sorted(graph.by_name[name].operator for name in g) for g in graph.fuse(policy).kernels]


def test_what_follows_a_convolution_joins_it():
    def f(x, w):
        y = ops.conv2d(x, w, padding=1)
        return ops.relu(ops.add(ops.mul(y, 2.0), x))

    assert groups(trace(f, x=X, w=W)) == [["add", "conv2d", "mul", "relu"]]


def test_two_convolutions_are_two_kernels():
    def f(x, w):
        return ops.conv2d(ops.relu(ops.conv2d(x, w)), w)

    assert groups(trace(f, x=X, w=W)) == [["conv2d", "relu"], ["conv2d"]]


def test_a_residual_block():
    def f(x, w):
        y = ops.relu(ops.conv2d(x, w, padding=1))
        return ops.relu(ops.add(ops.conv2d(y, w, padding=1), x))

    assert groups(trace(f, x=X, w=W)) == [["conv2d", "relu"], ["add", "conv2d", "relu"]]


def test_a_chain_joins_the_softmax_that_reads_it():
    assert groups(trace(lambda x: ops.softmax(ops.mul(ops.relu(x), 0.5)), x=X)) == [
        ["mul", "relu", "softmax"]
    ]


def test_heads_of_attention_are_transposed_within_the_products():
    def f(x, w):
        heads = ops.transpose(ops.reshape(ops.matmul(x, w), shape=(1, 8, 2, 4)), axes=(0, 2, 1, 3))
        scores = ops.softmax(ops.matmul(heads, ops.transpose(heads, axes=(0, 1, 3, 2))))
        back = ops.transpose(ops.matmul(scores, heads), axes=(0, 2, 1, 3))
        return ops.reshape(back, shape=(1, 8, 8))

    graph = trace(f, x=((1, 8, 8), "float32"), w=np.ones((8, 8), "float32"))
    assert len(graph.fuse().kernels) == 4
    x = np.random.default_rng(0).integers(-1, 2, (1, 8, 8)).astype("float32")
    np.testing.assert_allclose(graph.fuse().interpret(x), graph.interpret(x), rtol=1e-5)


def test_equal_groups_are_equal_programs():
    def f(x, w, v):
        return ops.relu(ops.conv2d(ops.relu(ops.conv2d(x, w, padding=1)), v, padding=1))

    graph = trace(f, x=X, w=W, v=2 * W).fuse()
    one, two = (mt.graph.program_of(graph, group) for group in graph.kernels)
    assert one.program.spelled() == two.program.spelled()
    assert (one.constants, two.constants) == ({"w0": "w"}, {"w0": "v"})


class TestReasons:
    def graph(self):
        def f(x, w):
            y = ops.conv2d(x, w, padding=1)
            z = ops.relu(y)
            return ops.conv2d(z, w), ops.abs(z), ops.neg(y)

        return trace(f, x=X, w=W)

    def test_an_output(self):
        def f(x, w):
            y = ops.conv2d(x, w)
            return y, ops.relu(y)

        text = trace(f, x=X, w=W).explain("conv2d", "relu")
        assert "conv2d is an output of the graph, so it is stored in any case" in text

    def test_uses_that_never_meet(self):
        text = self.graph().explain("relu", "abs")
        assert "the uses of relu (conv2d2, abs) do not meet before the outputs" in text

    def test_no_use(self):
        assert "neg does not use the result of abs" in self.graph().explain("abs", "neg")

    def test_together(self):
        graph = trace(lambda x: ops.relu(ops.neg(x)), x=X)
        assert graph.explain("neg", "relu") == "neg and relu are one kernel: neg, relu"

    def test_a_product_behind_a_reduction(self):
        graph = trace(lambda x: ops.matmul(ops.softmax(x), x), x=((4, 4), "float32"))
        assert "softmax is a reduction operator" in graph.explain("softmax", "matmul")

    def test_a_kernel_with_a_product_is_not_called_one(self):
        def f(x, w):
            y = ops.relu(ops.matmul(ops.neg(ops.abs(x)), w))
            return ops.matmul(y, w)

        graph = trace(f, x=((4, 4), "float32"), w=np.ones((4, 4), "float32"))
        for text in (graph.explain("relu", "matmul2"), graph.explain("matmul", "matmul2")):
            assert "the kernel of relu has a product operator, and only what is elementwise" in text
            assert text.endswith("; matmul2 is a product operator")
        text = graph.explain("abs", "matmul")  # abs and neg are one kernel: neg says why
        assert text.endswith(
            "apart: matmul is a product operator, which would compute its operands again"
        )

    def test_what_lies_between(self):
        def shared(x):
            y = ops.exp(x)
            return ops.div(y, ops.reduce_sum(y, axes=(1,), keepdims=True))

        text = trace(shared, x=((4, 4), "float32")).explain("exp", "div")
        assert "reduce_sum lies between them, and reduce_sum is a reduction operator" in text

    def test_the_policy(self):
        graph = trace(lambda x: ops.relu(ops.neg(x)), x=X)
        assert 'the policy "none" fuses nothing' in graph.explain("neg", "relu", policy="none")


def test_a_policy_of_the_users_own():
    class NoRelu(Policy):
        def wants(self, graph, first, second):
            return "no relu" if any(name.startswith("relu") for name in second) else ""

    graph = trace(lambda x: ops.relu(ops.neg(ops.abs(x))), x=X)
    assert groups(graph, NoRelu()) == [["abs", "neg"], ["relu"]]
    assert "no relu" in graph.explain("neg", "relu", policy=NoRelu())
    with pytest.raises(
        mt.ArgumentError, match=r"expected one of 'tvm', 'none', 'pays', or an mt\.graph\.Policy"
    ):
        graph.fuse("all")


class TestWhatPays:
    def pooled(self, operator, size=64):
        def net(x):
            return ops.avg_pool(getattr(ops, operator)(x), kernel=3, stride=1)

        return mt.graph.trace(net, x=((1, 32, size, size), "float32"))

    def test_a_cheap_operator_is_done_again(self):
        assert len(self.pooled("relu").fuse("pays").kernels) == 1

    def test_a_function_is_not(self):
        net = self.pooled("sigmoid")
        assert len(net.fuse().kernels) == 1
        assert len(net.fuse("pays").kernels) == 2
        said = net.explain("sigmoid", "avg_pool", policy="pays")
        assert "does not pay" in said and "operations would be done again" in said

    def test_starting_a_kernel_costs_too(self):
        assert len(self.pooled("sigmoid", size=4).fuse("pays").kernels) == 1

    def test_what_is_read_once_always_pays(self):
        net = mt.graph.trace(
            lambda x, w: ops.tanh(ops.add(ops.matmul(x, w), 1.0)),
            x=((64, 64), "float32"),
            w=np.ones((64, 64), "f"),
        )
        assert len(net.fuse("pays").kernels) == 1

    def test_operations_by_hand(self):
        x = mt.placeholder((10,), name="x")
        k = mt.reduce_axis(3, name="k")
        e = mt.compute((10,), lambda i: mt.exp(x[i]), name="e")
        s = mt.compute((8,), lambda i: mt.sum(e[i + k] * 2.0, axis=k), name="s")
        # 24 reads of e, each an exp; 24 products
        assert operations(mt.lower([x, s])) == pytest.approx(24 * FUNCTION + 24)
