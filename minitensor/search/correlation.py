"""Spearman's rank correlation: do a model's scores put candidates in the order of their speeds?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's rank correlation of two lists of numbers (count,), from -1 to 1; infinities are
    the last. None if there are fewer than three, or one of the two is constant.
    """
    x, y = (_ranks(np.asarray(v, np.float64)) for v in (a, b))
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The rank of each value; equal ones share the mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: npt.NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks
