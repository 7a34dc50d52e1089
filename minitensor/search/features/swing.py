"""The swing of an index: its way while one loop runs and all others stand at 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitensor import arith
from minitensor.arith import Linear, Num, Truth


@dataclass(frozen=True, slots=True)
class Swing:
    """The way of a form while one loop runs from 0 to its end, all others standing at 0.

    up, down  how far above and below where it started it comes: both at least 0
    step      how far its second value is from its first (0 for a loop of one iteration)
    moves     whether it moves at all; True if it does wherever the loop has several iterations
    """

    up: Num
    down: Num
    step: Num
    moves: Truth


def swing(form: Linear, name: str, last: Num) -> Swing | None:
    """The swing of a form with one loop; None if it does not depend on it.

    last  the last value of the loop's variable: its extent less 1, and at least 0

    A form that is linear in the loop is followed to its end. Any other is looked at where the
    variable is 1, 2, 4, 8, …, and at its end.
    """
    if any(name in arith.variables(arg) for a in arith.operations(form) for arg in a.args):
        return _sampled(form, name, last)
    coefficient = form.coefficient(name)
    if arith.is_zero(coefficient):
        return None
    reached = arith.product(coefficient, last)
    some = last > 0
    if isinstance(coefficient, int):
        up, down = (reached, 0) if coefficient > 0 else (0, -reached)
        return Swing(up, down, coefficient * some, True)
    step = coefficient * some
    if coefficient.size and coefficient.min() > 0:
        return Swing(reached, 0, step, True)
    up, down = np.maximum(reached, 0), np.maximum(-reached, 0)
    return Swing(up, down, step, reached != 0)


def _sampled(form: Linear, name: str, last: Num) -> Swing:
    ends = np.atleast_1d(np.asarray(last, np.int64))
    most = int(ends.max()) if ends.size else 0
    powers = 1 << np.arange(max(1, (most - 1).bit_length() + 1), dtype=np.int64)
    points = np.minimum(powers[:, None], ends)
    found = arith.at(form, name, points) - arith.at(form, name, 0)
    moved = np.broadcast_to(found, np.broadcast_shapes(np.shape(found), points.shape))
    up, down = np.maximum(moved.max(0), 0), np.maximum(-moved.min(0), 0)
    return Swing(up, down, moved[0], (up > 0) | (down > 0))
