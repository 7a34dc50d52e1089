"""The cost model's learner: gradient-boosted trees, in numpy alone (docs/cost_model.md).

    model = Booster(trees=50).fit(features, programs, labels)
    order = ranked(model.predict(new_features, new_programs))

A program is several statements, each a row of features; the score of a program is the sum of its
statements'. Read in this order: `labels` (what was measured), `loss` (which way scores should
move), `bins` (features as small numbers), `grow` (one tree), `booster` (one tree after the other),
`tree`, `model` (what was learnt), `files`, `arguments`, `boosted` (the same, with the interface
that libraries of trees have).
"""

# fmt: off
from minitensor.search.gbt.boosted import GradientBoostedTrees
from minitensor.search.gbt.booster import LOSSES, Booster
from minitensor.search.gbt.labels import failed, ranked
from minitensor.search.gbt.model import Model
from minitensor.search.gbt.tree import Place, Tree

__all__ = [
    "LOSSES", "Booster", "GradientBoostedTrees", "Model", "Place", "Tree", "failed", "ranked",
]
