"""Values that judges look at: numbers of any kind, and their texts in messages."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from minitensor.errors import shown

from ..course.wire import Other

CLOSE: Final = 1e-6
"""Relative: how near a number has to be where the order of operations is free."""


def number(got: Any) -> float | None:
    """A finite number of any kind as a float; None for all else."""
    if isinstance(got, (bool, np.bool_)) or not isinstance(got, (int, float, np.number)):
        return None
    try:
        found = float(got)
    except (OverflowError, TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def near(got: Any, want: float) -> bool:
    """Test whether an answer is a number, and nearly the wanted one."""
    found = number(got)
    return found is not None and math.isclose(found, want, rel_tol=CLOSE)


def brief(got: Any) -> str:
    """An answer as a message shows it."""
    if got is None:
        return "None (is a `return` missing?)"
    return f"{got.text} (a {got.name})" if isinstance(got, Other) else shown(got)
