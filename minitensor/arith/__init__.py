"""Layer 1: reasoning about index expressions.

In reading order: `interval` (what values), `linear` (sums), `rules` (the tables), `simplify`,
`prove`, `region` (which part of a buffer), `digits` (which iteration touched a place), `operands`
and `tensorized` (whether loops do what an intrinsic means). Every function answers for all values
within the given ranges; where it cannot tell it says so, and nobody may take that for a yes.
"""

# fmt: off
from minitensor.arith.digits import separates
from minitensor.arith.interval import EVERYTHING, Interval, Ranges, extent_range, interval_of
from minitensor.arith.linear import Linear, constant_form, linear_of
from minitensor.arith.operands import MismatchError, Operand
from minitensor.arith.prove import at_least_zero, facts_of, is_nonnegative, prove
from minitensor.arith.reduction import carries, init_nest, mixes, repeats
from minitensor.arith.region import (
    Box, Span, box_of, clipped_box, contains, span_of, swept, union_box, whole_axis,
)
from minitensor.arith.simplify import Simplifier, simplified_linear, simplify, size
from minitensor.arith.tensorized import match_intrinsic

__all__ = [
    "EVERYTHING", "Box", "Interval", "Linear", "MismatchError", "Operand", "Ranges", "Simplifier",
    "Span", "at_least_zero", "box_of", "carries", "clipped_box", "constant_form", "contains",
    "extent_range", "facts_of", "init_nest", "interval_of", "is_nonnegative", "linear_of",
    "match_intrinsic", "mixes", "prove", "repeats", "separates", "simplified_linear", "simplify",
    "size", "span_of", "swept", "union_box", "whole_axis",
]
