"""Searches without a compiler: costs are made up, everything else is real."""

import functools
from collections import Counter

import minitensor as mt
from minitensor.ir import loop_sites
from minitensor.runtime import Limits
from minitensor.search import STRATEGIES, GradientBoostedTrees, generate_sketches
from minitensor.search.evolution import Evolution, NoModel
from minitensor.search.ledger import Ledger
from minitensor.search.runner import Result, Status
from minitensor.search.space import Space
from minitensor.search.tune import Learner, Progress, Tuner, TuneResult
from minitensor.search.tuners import Annealing, Beam, FlexTensor, Genetic

TARGET = mt.Target("c", num_cores=2, vector_bits=256)
LIMITS = Limits(2, 256, peak=100.0, peak_core=50.0, read=10.0, copy=8.0, triad=9.0)
SMALL = {
    **STRATEGIES,
    "evolution": Evolution(32, 2),
    "no-model": NoModel(32, 2),
    "genetic": Genetic(10),
    "annealing": Annealing(16, 4),
    "flextensor": FlexTensor(warm_up=8, width=8, epochs=2, sweeps=2),
    "beam": Beam(8, 2),
}
"""All strategies, as small as a test needs them."""


class MadeUp:
    """Costs that depend on the loops of a program; every seventh candidate fails in one of two
    ways.
    """

    def __init__(self, fails=True):
        self.fails, self.count = fails, 0

    def measure(self, candidates, best=None):
        return map(self.one, candidates)

    def one(self, candidate):
        self.count += 1
        if self.fails and self.count % 7 == 0:
            kind = Status.BUILD if self.count % 2 else Status.WRONG
            return Result(kind, message=f"candidate {self.count} \x1b[31mis bad")
        sites = loop_sites(candidate.program)
        cost = sum(1 + site.loop.extent % 13 for site in sites.values())
        return Result(Status.OK, times=(cost * 1e-6,), calls=1)


def product(size=48):
    return mt.lower(mt.workloads.matmul(m=size, n=size, k=size), name="product")


@functools.cache
def found():
    """A search that is made once: what it finds, and every Progress of it."""
    return searched(product())


@functools.cache
def sketches_of(program):
    """Those of `Space.of`, derived once for all searches of a program."""
    return tuple(generate_sketches(program, TARGET))


def tuner_of(program, trials=40, fails=True, strategy="evolution", **given):
    """A search that has not begun."""
    space = Space(program, TARGET, sketches_of(program))
    learner = Learner(space, GradientBoostedTrees(n_trees=5))
    return Tuner(space, MadeUp(fails), SMALL[strategy], learner, trials, 8, **given)


def searched(program, trials=40, fails=True, strategy="evolution", records=()):
    """What a search finds, and every Progress of it."""
    told = []
    tuner = tuner_of(program, trials, fails, strategy, callback=told.append)
    tuner.resume(records)
    tuner.run()
    best = tuner.best
    result = TuneResult(
        program=program,
        schedule=best.trace.apply(program),
        seconds=best.seconds,
        tried=tuple(tuner.tried),
        target=TARGET,
        space=tuner.space,
        model=tuner.learner.model if tuner.learner.fitted else None,
        elapsed=20.0,
        time=Ledger(5.0, 2.0, 4.0, 3.0, 5.0, 1.0),
    )
    return result, told


def progress(**changed):
    """One in the middle of a search."""
    given = {
        "round": 3,
        "trials": 48,
        "wanted": 64,
        "failures": Counter({"wrong result": 1, "not built": 2}),
        "best": 1.25e-3,
        "correlation": 0.714,
        "elapsed": 31.4,
        "ledger": Ledger(6.4, 2.0, 12.0, 3.0, 7.0, 1.0),
        "latest": (),
    }
    return Progress(**{**given, **changed})
