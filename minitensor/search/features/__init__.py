"""Features of programs: the numbers that the cost model learns from (docs/features.md).

    rows = extract_features(schedule)                  of one program, from its text
    Structure(schedule).features(decisions, marks)     of thousands that differ in tile sizes only

Read in this order: `names` (the columns), `forms` (index expressions of many candidates),
`statement` (what a block does), `nest`, `memory`, `rows` (the features), `extract`; then
`spans`, `steps` (what each primitive does to extents) and `structure`.
"""

from minitensor.arith import BatchError
from minitensor.search.features.extract import extract_features
from minitensor.search.features.names import FEATURE_NAMES
from minitensor.search.features.nest import Marks
from minitensor.search.features.structure import Structure

__all__ = ["FEATURE_NAMES", "BatchError", "Marks", "Structure", "extract_features"]
