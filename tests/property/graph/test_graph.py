"""Rewrites, fusion and memory plans of drawn graphs: what they compute stays the same."""

import itertools

import numpy as np
from hypothesis import HealthCheck, given, settings

from minitensor.graph import RULES, plan_memory
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
