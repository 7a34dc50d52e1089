"""The policies of a strategy: by name or as objects, and taught by other searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from minitensor.errors import ArgumentError
from minitensor.search.evolution import Evolution
from minitensor.search.policies import (
    MUTATION_POLICIES,
    SKETCH_POLICIES,
    History,
    MutationPolicy,
    SketchPolicy,
)
from minitensor.search.strategy import Strategy, named


def with_policies(
    strategy: Strategy, sketches: str | SketchPolicy, mutations: str | MutationPolicy
) -> Strategy:
    """A strategy with policies by name or as objects; "uniform" and "fixed" leave it as it is.

    Raises ArgumentError for what is no policy, and for a strategy that has none.
    """
    for name, given, known, call in (
        ("sketch_policy", sketches, SKETCH_POLICIES, "shares(history, rng)"),
        ("mutation_policy", mutations, MUTATION_POLICIES, "weights(parents, history, rng)"),
    ):
        value = named(name, given, known, call)
        if value is None:
            continue
        if not isinstance(strategy, Evolution):
            raise ArgumentError(f"{name}= is a part of evolution, and the strategy is another one")
        strategy = replace(strategy, **{name: value})
    return strategy


def taught(strategy: Strategy, others: Callable[[], Sequence[History]]) -> Strategy:
    """A strategy whose policies learn from searches for other programs, those that can.

    others  the histories of these searches; called if there is such a policy
    """
    policies = ("sketch_policy", "mutation_policy")
    asked = [name for name in policies if hasattr(getattr(strategy, name, None), "pretrained")]
    if not asked or not isinstance(strategy, Evolution):
        return strategy
    known = others()
    return replace(strategy, **{n: getattr(strategy, n).pretrained(known) for n in asked})
