"""Features of programs: the numbers that the cost model learns from (docs/features.md).

    rows = extract_features(schedule)                  of one program, from its text
    Structure(schedule).features(decisions, marks)     of thousands that differ in tile sizes only

Read in this order: `names` (the columns), `statement` (a block as far as tile sizes do not change
it), `nest`, `memory`, `rows` (the features), `structure` (of many candidates, and many plans, at
once).
"""

from minitensor.arith import BatchError
from minitensor.search.features.rows import extract_features
from minitensor.search.features.names import FEATURE_NAMES
from minitensor.search.features.nest import Marks
from minitensor.search.features.structure import Job, Structure, features_of

__all__ = [
    "FEATURE_NAMES", "BatchError", "Job", "Marks", "Structure", "extract_features", "features_of",
]  # fmt: skip
