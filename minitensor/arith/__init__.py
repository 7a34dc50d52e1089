"""Layer 1: reasoning about index expressions."""

from minitensor.arith.interval import EVERYTHING, Interval, Ranges, extent_range, interval_of
from minitensor.arith.linear import Linear, constant_form, linear_of
from minitensor.arith.simplify import Simplifier, simplified_linear, simplify, size

__all__ = [
    "EVERYTHING",
    "Interval",
    "Linear",
    "Ranges",
    "Simplifier",
    "constant_form",
    "extent_range",
    "interval_of",
    "linear_of",
    "simplified_linear",
    "simplify",
    "size",
]
