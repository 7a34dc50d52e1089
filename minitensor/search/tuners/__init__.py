"""Strategies by name: evolution, and those of other systems to compare it with (docs/tuners.md).

evolution    `search.evolution`: Ansor's
no-model     evolution by random scores
random       candidates drawn at random, none twice (AutoTVM's RandomTuner)
grid         candidates in the order of an enumeration (AutoTVM's GridSearchTuner)
genetic      generations of measured candidates (AutoTVM's GATuner)
annealing    simulated annealing on the scores of a model (AutoTVM's XGBTuner)
flextensor   steps from measured candidates, directions chosen by Q-learning (FlexTensor's)
beam         decisions made one after the other (Ansor's ablation)

Read in this order: `simple` (random, grid), `genes` (a candidate as a row of choices), `genetic`,
`annealing`, `flextensor`, `beam`.
"""

from typing import Final

from minitensor.search.evolution import Evolution, NoModel
from minitensor.search.strategy import Strategy
from minitensor.search.tuners.annealing import Annealing
from minitensor.search.tuners.beam import Beam
from minitensor.search.tuners.flextensor import FlexTensor
from minitensor.search.tuners.genetic import Genetic
from minitensor.search.tuners.simple import Grid, Random

__all__ = ["STRATEGIES", "Annealing", "Beam", "FlexTensor", "Genetic", "Grid", "Random"]

STRATEGIES: Final[dict[str, Strategy]] = {
    "evolution": Evolution(),
    "no-model": NoModel(),
    "random": Random(),
    "grid": Grid(),
    "genetic": Genetic(),
    "annealing": Annealing(),
    "flextensor": FlexTensor(),
    "beam": Beam(),
}
"""The strategies that `mt.tune` takes by name."""
