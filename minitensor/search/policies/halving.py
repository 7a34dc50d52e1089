"""Successive halving: after each rung, the worse half of the sketches is dropped."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from minitensor.search.policies.history import Arm, History


@dataclass(frozen=True)
class Halving:
    """Those that are left have equal shares; at the end of a rung the half with the fastest
    candidates is kept.

    rung  candidates for each sketch that is left, until the next halving

    Source: Karnin, Koren and Somekh, Almost optimal exploration in multi-armed bandits, ICML 2013;
    Jamieson and Talwalkar, AISTATS 2016.
    """

    rung: int = 8

    def shares(self, history: History, rng: random.Random) -> Sequence[float]:
        """See SketchPolicy."""
        left, end = list(history.arms), 0
        while len(left) > 1:
            end += self.rung * len(left)
            if end > len(history):
                break
            ranked = sorted(left, key=lambda arm: -_best_before(arm, end))
            left = ranked[: math.ceil(len(left) / 2)]
        return [float(arm in left) / len(left) for arm in history.arms]


def _best_before(arm: Arm, place: int) -> float:
    """The logarithm of the speed of the fastest of its candidates before a place."""
    return max((s for s, p in zip(arm.speeds, arm.places) if p < place), default=-math.inf)
