"""A space, and histories of it."""

import random

import numpy as np

from minitensor.schedule import Trace
from minitensor.search.records import OK
from minitensor.search.space import Space
from minitensor.search.strategy import Round
from minitensor.search.tried import Tried
from tests.unit.search.tune.made import TARGET, product

SPACE = Space.of(product(64), TARGET, "ansor")


def tried(candidates, seconds=None, first=1):
    """A history of candidates; infinite times are failures."""
    times = [1e-3] * len(candidates) if seconds is None else seconds
    return [
        Tried(n, Trace(()), c, OK if s < np.inf else "crashed", s)
        for n, (c, s) in enumerate(zip(candidates, times), first)
    ]


def drawn(count, seed=0, space=SPACE, sketch=None):
    """Different candidates at random."""
    rng, found = random.Random(seed), {}
    while len(found) < count:
        found.setdefault(space.draw(rng, sketch))
    return list(found)


def a_round(history, seed=0, count=8, score=None, space=SPACE):
    """A round after a history."""
    worked = sorted((t for t in history if t.status == OK), key=lambda t: t.seconds)
    best = [t.candidate for t in worked if t.candidate is not None]
    return Round(space, best, score, random.Random(seed), count, history)
