"""Each rule of `optimize` on the graph that it is for."""

import math

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.errors import VerifyError
from minitensor.graph import RULES, Rule, Var, call, rules, trace
from minitensor.graph.meaning import by_interpreter

RNG = np.random.default_rng(0)


def small(*shape):
    return RNG.integers(-2, 3, shape).astype("float32")


def norm(x, w, bias, gamma, beta, mean, variance):
    return ops.batch_norm(ops.conv2d(x, w, bias), gamma, beta, mean, variance)


def transposed_norm(x, w, gamma, beta, mean, variance):
    return ops.batch_norm(ops.conv_transpose2d(x, w, stride=2), gamma, beta, mean, variance)


def grouped_norm(x, w, gamma, beta, mean, variance):
    y = ops.conv_transpose1d(x, w, groups=2)
    return ops.batch_norm(y, gamma, beta, mean, variance)


def written_out_norm(x, gamma, beta):
    off = ops.sub(x, ops.reduce_mean(x, axes=(-1,), keepdims=True))
    variance = ops.reduce_mean(ops.power(off, 2.0), axes=(-1,), keepdims=True)
    return ops.add(ops.mul(ops.div(off, ops.sqrt(ops.add(variance, 1e-5))), gamma), beta)


def gelu(x):
    one = ops.add(ops.erf(ops.div(x, math.sqrt(2))), 1.0)
    return ops.mul(ops.mul(x, one), 0.5)


def gelu_by_tanh(x):
    sum_ = ops.add(x, ops.mul(ops.power(x, 3.0), 0.044715))
    return ops.mul(ops.mul(x, 0.5), ops.add(ops.tanh(ops.mul(sum_, math.sqrt(2 / math.pi))), 1.0))


IMAGE, WEIGHT = ((1, 2, 4, 4), "float32"), small(3, 2, 2, 2)
STATISTICS = {
    "gamma": small(3),
    "beta": small(3),
    "mean": small(3),
    "variance": np.full(3, 2.0, "f"),
}
ROWS = ((2, 6), "float32")
CASES = {
    "norm into convolution": (
        norm,
        {"x": IMAGE, "w": WEIGHT, "bias": small(3), **STATISTICS},
        ["conv2d"],
    ),
    "norm into a transposed one": (
        transposed_norm,
        {"x": IMAGE, "w": small(2, 3, 2, 2), **STATISTICS},
        ["conv_transpose2d"],
    ),
    "norm into a transposed one of groups": (
        grouped_norm,
        {
            "x": ((1, 4, 5), "float32"),
            "w": small(4, 3, 2),
            **{name: np.concatenate([one, one + 1]) for name, one in STATISTICS.items()},
        },
        ["conv_transpose1d"],
    ),
    "layer norm": (
        written_out_norm,
        {"x": ROWS, "gamma": small(6), "beta": small(6)},
        ["layer_norm"],
    ),
    "gelu": (gelu, {"x": ROWS}, ["gelu"]),
    "gelu by tanh": (gelu_by_tanh, {"x": ROWS}, ["gelu"]),
    "silu": (lambda x: ops.mul(ops.sigmoid(x), x), {"x": ROWS}, ["silu"]),
    "identity": (lambda x: ops.relu(ops.identity(x)), {"x": ROWS}, ["relu"]),
    "an output keeps its name": (lambda x: ops.identity(ops.relu(x)), {"x": ROWS}, ["relu"]),
    "an input that is returned": (lambda x: ops.identity(x), {"x": ROWS}, ["identity"]),
    "cast": (lambda x: ops.relu(ops.cast(x, dtype="float32")), {"x": ROWS}, ["relu"]),
    "transposes": (lambda x: ops.relu(ops.transpose(ops.transpose(x))), {"x": ROWS}, ["relu"]),
    "two transposes": (
        lambda x: ops.transpose(ops.transpose(x, axes=(1, 2, 0)), axes=(0, 2, 1)),
        {"x": ((2, 3, 4), "float32")},
        ["transpose"],
    ),
    "reshapes": (
        lambda x: ops.relu(ops.reshape(ops.reshape(x, shape=(3, 4)), shape=(2, 6))),
        {"x": ROWS},
        ["relu"],
    ),
    "a transpose of units": (
        lambda x: ops.transpose(x, axes=(1, 0, 2)),
        {"x": ((1, 3, 4), "float32")},
        ["reshape"],
    ),
    "constants": (
        lambda x, w: ops.add(x, ops.relu(ops.transpose(w))),
        {"x": ROWS, "w": small(6, 2)},
        ["add"],
    ),
    "plus zeros": (
        lambda x, w: ops.relu(ops.add(x, w)),
        {"x": ROWS, "w": np.zeros((2, 6), "f")},
        ["relu"],
    ),
    "zeros that make it larger stay": (
        lambda x, w: ops.add(x, w),
        {"x": ROWS, "w": np.zeros((3, 2, 6), "f")},
        ["add"],
    ),
    "a sigmoid that others read stays": (
        lambda x: (ops.mul(x, ops.sigmoid(x)), ops.sigmoid(x)),
        {"x": ROWS},
        ["sigmoid", "silu"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_on_the_graph_that_it_is_for(name):
    function, examples, left = CASES[name]
    graph = trace(function, **examples)
    after = graph.optimize()
    after.verify()
    assert sorted(node.operator for node in after.nodes) == left
    assert after.outputs == graph.outputs
    arrays = [small(*value.shape) for value in graph.inputs]
    got, wanted = after.interpret(*arrays), graph.interpret(*arrays)
    for one, two in zip(got, wanted) if isinstance(wanted, tuple) else [(got, wanted)]:
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_a_node_that_is_read_elsewhere_is_not_computed_twice():
    def f(x):
        inner = ops.sigmoid(x)
        return ops.mul(x, inner), ops.relu(inner)

    after = trace(f, x=ROWS).optimize()
    assert sorted(n.operator for n in after.nodes) == ["mul", "relu", "sigmoid"]


def test_a_rule_of_the_users_own():
    double = Rule("double", call("add", Var("x"), Var("x")), lambda m, made: made.mul(m.x, 2.0))
    after = trace(lambda x: ops.add(x, x), x=ROWS).optimize([double, *RULES])
    assert [node.operator for node in after.nodes] == ["mul"]


class TestFaultsOfRules:
    def test_another_shape(self):
        wrong = Rule("wrong", call("relu", Var("x")), lambda m, made: made.reduce_sum(m.x))
        with pytest.raises(
            VerifyError, match=r"the rule 'wrong' puts float32\[\] in the place of relu"
        ):
            trace(ops.relu, x=ROWS).optimize([wrong])

    def test_an_operator_that_refuses(self):
        wrong = Rule("wrong", call("relu", Var("x")), lambda m, made: made.softmax(m.x, axis=9))
        with pytest.raises(
            mt.ArgumentError, match=r"the rule 'wrong' at relu: .*ops.softmax: axis"
        ):
            trace(ops.relu, x=ROWS).optimize([wrong])

    def test_rules_that_never_end(self):
        there = Rule("there", call("relu", Var("x")), lambda m, made: made.abs(m.x))
        back = Rule("back", call("abs", Var("x")), lambda m, made: made.relu(m.x))
        with pytest.raises(VerifyError, match=r"\(there, back\) still apply after 100 rounds"):
            trace(ops.relu, x=ROWS).optimize([there, back])

    def test_no_rules(self):
        with pytest.raises(mt.ArgumentError, match=r"expected a list of mt\.graph\.Rule"):
            trace(ops.relu, x=ROWS).optimize(["silu"])
        with pytest.raises(mt.ArgumentError, match=r"the name of an operator of mt\.ops"):
            call("rleu")


@pytest.mark.parametrize("compiler", [True, False])
def test_long_programs_are_folded_by_machine_code(monkeypatch, compiler):
    ran = []

    def interpreted(program, arrays):
        ran.append(program)
        return by_interpreter(program, arrays)

    def missing():
        raise mt.CompileError("no compiler")

    monkeypatch.setattr(rules, "by_interpreter", interpreted)
    monkeypatch.setattr(rules, "INTERPRETED", 100)
    if not compiler:
        monkeypatch.setattr(rules, "find_toolchain", missing)
    a, b = (np.arange(64, dtype="f").reshape(8, 8) % n for n in (5, 7))
    net = mt.graph.trace(
        lambda x, a, b: ops.add(x, ops.matmul(a, b)), x=((8, 8), "float32"), a=a, b=b
    ).optimize()
    assert [node.operator for node in net.nodes] == ["add"]
    (folded,) = net.constants.values()
    np.testing.assert_array_equal(folded, a @ b)
    assert bool(ran) != compiler
