"""Programs and schedules drawn at random, and the oracles they are held against.

Read `choices` first: every generator asks it for numbers. Then `programs`, `steps` (schedules) and
`meanings` (intrinsics for them); then the oracles: `reference` (numpy) and `oracle`. A campaign is
`pair`, `batch`, `worker` and `process`, `shrink` and `reduce`, `script`, and `campaign`.

Needs numpy only. The strategies of `minitensor.testing` ask the same generators with Hypothesis.
"""

# fmt: off
from minitensor.fuzz.batch import Counts, check_alone
from minitensor.fuzz.campaign import Campaign, Found, State
from minitensor.fuzz.choices import Choices, Drawn, Recorded
from minitensor.fuzz.meanings import matching_intrinsic
from minitensor.fuzz.oracle import (
    assert_equivalent, compare, expected_outputs, numbers_of, small_arrays, small_values,
)
from minitensor.fuzz.pair import FailedError, Failure, Pair, draw_pair
from minitensor.fuzz.programs import DTYPES, EXTENTS, Limits, draw_program
from minitensor.fuzz.reference import apply_by_numpy, evaluate_by_numpy
from minitensor.fuzz.script import script_of
from minitensor.fuzz.shrink import shrink
from minitensor.fuzz.steps import PRIMITIVES, STEPS, BrokenPromiseError, draw_schedule
from minitensor.fuzz.written import with_script

__all__ = [
    "DTYPES", "EXTENTS", "PRIMITIVES", "STEPS", "BrokenPromiseError", "Campaign", "Choices",
    "Counts", "Drawn", "FailedError", "Failure", "Found", "Limits", "Pair", "Recorded", "State",
    "apply_by_numpy", "assert_equivalent", "check_alone", "compare", "draw_pair", "draw_program",
    "draw_schedule", "evaluate_by_numpy", "expected_outputs", "matching_intrinsic", "numbers_of",
    "script_of", "shrink", "small_arrays", "small_values", "with_script",
]
