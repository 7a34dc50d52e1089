"""Rewrites, fusion and memory plans of drawn graphs: what they compute stays the same."""

import itertools

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitensor.graph import RULES, Node, Value, plan_memory
from minitensor.graph.memory import Step
from tests.property.graph.drawn import graphs

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def outputs(graph, arrays):
    found = graph.interpret(*arrays)
    return found if isinstance(found, tuple) else (found,)


def equal(graph, other, arrays):
    for one, two in zip(outputs(graph, arrays), outputs(other, arrays), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


@given(graphs())
@settings(max_examples=60, suppress_health_check=SLOW)
def test_a_drawn_graph_is_well_formed(drawn):
    graph, _ = drawn
    graph.verify()
    assert graph.equals(graph.replace(name="other"))


@given(graphs())
@settings(max_examples=60, suppress_health_check=SLOW)
def test_rules_keep_what_is_computed(drawn):
    graph, arrays = drawn
    after = graph.optimize()
    after.verify()
    assert after.outputs == graph.outputs
    assert len(after.nodes) <= len(graph.nodes)
    equal(graph, after, arrays)
    assert after.optimize().equals(after)


@given(graphs())
@settings(max_examples=40, suppress_health_check=SLOW)
def test_each_rule_alone_keeps_what_is_computed(drawn):
    graph, arrays = drawn
    for rule in RULES:
        after = graph.optimize([rule])
        if not after.equals(graph.with_nodes(graph.nodes)):
            equal(graph, after, arrays)


@given(graphs())
@settings(max_examples=60, suppress_health_check=SLOW)
def test_groups_are_a_partition_that_can_run_and_compute_the_same(drawn):
    graph, arrays = drawn
    fused = graph.fuse()
    fused.verify()
    equal(graph, fused, arrays)
    assert len(fused.kernels) <= len(graph.nodes)
    assert len(graph.fuse("none").kernels) == len(graph.nodes)
    paying = graph.fuse("pays")
    paying.verify()
    assert len(paying.kernels) >= len(fused.kernels)
    names = [node.name for node in graph.nodes]
    for first, second in itertools.pairwise(names):
        together = any(first in group and second in group for group in fused.kernels)
        assert ("are one kernel" in fused.explain(first, second)) == together


@given(graphs())
@settings(max_examples=100, suppress_health_check=SLOW)
def test_no_two_values_that_are_alive_share_memory(drawn):
    graph, _ = drawn
    made = {node.name for node in graph.nodes}
    steps = [
        Step(node.name, tuple(n for n in node.inputs if n in made), (node.name,), {})
        for node in graph.nodes
    ]
    sizes = {node.name: node.result.nbytes for node in graph.nodes}
    plan = plan_memory(steps, sizes, graph.outputs)
    assert plan.overlaps() == []
    assert plan.lower_bound <= plan.arena <= plan.separate


@given(graphs(), st.sampled_from(["bf16", "f16"]))
@settings(max_examples=40, suppress_health_check=SLOW)
def test_products_of_halves_are_those_of_what_halves_hold(drawn, precision):
    """The obligation of `in_precision`: rounded to 16 bits and back, the operands give the same."""
    graph, arrays = drawn
    made = graph.in_precision(precision)
    made.verify()
    assert made.outputs == graph.outputs
    wide: list[Node] = []
    for node in made.nodes:
        if node.attribute("out_dtype") is None:
            wide.append(node)
            continue
        for operand in node.inputs:
            value = made.values[operand]
            if value.dtype != "float32" and all(one.name != f"{operand}_back" for one in wide):
                back = Value(f"{operand}_back", value.shape, node.result.dtype)
                wide.append(Node(back, "cast", ("x",), (operand,), (("dtype", "float32"),)))
        known = {one.name for one in wide}
        inputs = tuple(f"{n}_back" if f"{n}_back" in known else n for n in node.inputs)
        plain = tuple(pair for pair in node.attributes if pair[0] != "out_dtype")
        wide.append(node.replace(inputs=inputs, attributes=plain))
    other = made.with_nodes(wide)
    for one, two in zip(outputs(made, arrays), outputs(other, arrays), strict=True):
        np.testing.assert_array_equal(one, two)
