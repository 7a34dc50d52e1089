"""Policies: the part of a round that a sketch gets, and the odds of mutations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

# fmt: off
from minitensor.errors import unexpected
from minitensor.search.policies.bandits import (
    UCB, EpsilonGreedy, Halving, SketchPolicy, Thompson, apportioned, checked_shares,
)
from minitensor.search.policies.gradient import PolicyGradient
from minitensor.search.policies.history import Arm, History, Made, arms_of
from minitensor.search.policies.mutation import Learned, MutationPolicy, checked_weights

# fmt: on
Policy = TypeVar("Policy")

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


def policy(argument: str, given: Any, known: Mapping[str, Policy | None], call: str) -> Any:
    """The policy of a name, or an object that is one. Raises ArgumentError.

    call  the method that such an object has
    """
    if isinstance(given, str) and given in known:
        return known[given]
    method = call.split("(", maxsplit=1)[0]
    if isinstance(given, (str, type)) or not callable(getattr(given, method, None)):
        names = ", ".join(map(repr, known))
        raise unexpected(f"one of {names}, or an object with {call}", argument, given)
    return given


__all__ = [
    "MUTATION_POLICIES",
    "SKETCH_POLICIES",
    "UCB",
    "Arm",
    "EpsilonGreedy",
    "Halving",
    "History",
    "Learned",
    "Made",
    "MutationPolicy",
    "PolicyGradient",
    "SketchPolicy",
    "Thompson",
    "apportioned",
    "arms_of",
    "checked_shares",
    "checked_weights",
    "policy",
]
