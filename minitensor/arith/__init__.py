"""Layer 1: reasoning about index expressions.

In reading order: `interval` (ranges of values), `numeric` and `linear` (sums, of one program or
of a batch), `rules` (tables), `simplify`, `prove`, `region` (boxes), `injectivity` (does an element
determine the iteration?), `preimage` (which iterations reach a box?), `sweep` (what do all
iterations together take up?), `operands` and `tensorized` (do loops compute what an intrinsic
means?), `prefetch` (what does an iteration read, in cache lines?), then `operation` and `quotients`
(index expressions of a batch). Every function answers for all values within the given ranges;
unknown is no.
"""

# fmt: off
from minitensor.arith.injectivity import separates
from minitensor.arith.interval import EVERYTHING, Interval, Ranges, extent_range, interval_of
from minitensor.arith.linear import Linear, constant_form, linear_of
from minitensor.arith.numeric import (
    Integers, Num, Truth, as_number, ceil_div, chosen, greater, is_zero, lesser, magnitude, product,
    product_of, same,
)
from minitensor.arith.operation import (
    Operation, alike, at, is_inside_operation, opened, operation, operations, replaced, variable,
    variables,
)
from minitensor.arith.operands import MismatchError, Operand
from minitensor.arith.prefetch import (
    PrefetchError, box_read, note_of, other_notes, prefetches, require_prefetch, steps_of,
)
from minitensor.arith.preimage import preimage
from minitensor.arith.prove import at_least_zero, facts_of, is_nonnegative, prove, undivided
from minitensor.arith.quotients import BatchError
from minitensor.arith.reduction import carries, comes_late, init_nest, mixes, repeats, starts
from minitensor.arith.region import (
    Box, Span, batch_box, box_of, clipped_box, contains, span_of, union, union_box, whole_axis,
)
from minitensor.arith.simplify import Simplifier, simplified_linear, simplify, size
from minitensor.arith.sweep import swept
from minitensor.arith.tensorized import match_intrinsic

__all__ = [
    "EVERYTHING", "BatchError", "Box", "Integers", "Interval", "Linear", "MismatchError", "Num",
    "Operand", "Operation", "PrefetchError", "Ranges", "Simplifier", "Span", "Truth", "alike",
    "as_number", "at", "at_least_zero", "batch_box", "box_of", "box_read", "carries", "ceil_div",
    "chosen", "clipped_box", "comes_late", "constant_form", "contains", "extent_range", "facts_of",
    "greater", "init_nest", "interval_of", "is_inside_operation", "is_nonnegative", "is_zero",
    "lesser", "linear_of", "magnitude", "match_intrinsic", "mixes", "note_of", "opened",
    "operation", "operations", "other_notes", "prefetches", "preimage", "product", "product_of",
    "prove", "repeats", "replaced", "require_prefetch", "same", "separates", "simplified_linear",
    "simplify", "size", "span_of", "starts", "steps_of", "swept", "undivided", "union", "union_box",
    "variable", "variables", "whole_axis",
]
