"""Policies: the part of a round that a sketch gets, and the odds of mutations."""

from __future__ import annotations

# fmt: off
from minitensor.search.policies.bandits import (
    UCB, EpsilonGreedy, Halving, SketchPolicy, Thompson, apportioned, checked_shares,
)
from minitensor.search.policies.gradient import PolicyGradient
from minitensor.search.policies.history import Arm, History, Made, arms_of
from minitensor.search.policies.mutation import Learned, MutationPolicy, checked_weights

# fmt: on

SKETCH_POLICIES: dict[str, SketchPolicy | None] = {
    "uniform": None,
    "epsilon_greedy": EpsilonGreedy(),
    "ucb": UCB(),
    "sw_ucb": UCB(recent=64),
    "thompson": Thompson(),
    "halving": Halving(),
    "policy_gradient": PolicyGradient(),
}
"""The sketch policies that `mt.tune` takes by name; None is the search's own choice."""

MUTATION_POLICIES: dict[str, MutationPolicy | None] = {
    "fixed": None,
    "learned": Learned(),
    "learned_trees": Learned(trees=True),
}
"""The mutation policies that `mt.tune` takes by name; None is the fixed odds of `Mutations`."""


__all__ = [
    "MUTATION_POLICIES", "SKETCH_POLICIES", "UCB", "Arm", "EpsilonGreedy", "Halving", "History",
    "Learned", "Made", "MutationPolicy", "PolicyGradient", "SketchPolicy", "Thompson",
    "apportioned", "arms_of", "checked_shares", "checked_weights",
]  # fmt: skip
