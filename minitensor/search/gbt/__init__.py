"""Gradient-boosted trees in numpy alone: the default cost model (docs/cost_model.md).

Read in this order: `trees` (the class: fit, predict), `loss` (the direction in which scores should
move), `bins` (features as small numbers), `grow` (one tree), `tree` (a tree that is grown).
"""

from minitensor.search.gbt.tree import Tree
from minitensor.search.gbt.trees import OBJECTIVES, GradientBoostedTrees, Samples

__all__ = ["OBJECTIVES", "GradientBoostedTrees", "Samples", "Tree"]
