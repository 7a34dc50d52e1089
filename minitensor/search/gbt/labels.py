"""What was measured, and what failed: labels as throughputs, and the order of candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


def failed(labels: npt.ArrayLike) -> Booleans:
    """Which labels are no measurements: NaN, infinite, zero or negative.

    A candidate has failed if it did not build, computed something else, or could not be timed; give
    it any such label, 0 by custom. A throughput is a positive number.
    """
    values = np.asarray(labels, np.float64)
    return ~(np.isfinite(values) & (values > 0))


def throughputs(labels: Doubles, groups: Integers) -> Doubles:
    """Labels (programs,) as parts of the best of their group: 0 to 1.

    A failed candidate has 0, which is below every measured one. `groups` are numbers from 0.
    """
    lost = failed(labels)
    values = np.where(lost, 0.0, labels)
    best = np.zeros(int(groups.max(initial=-1)) + 1)
    np.maximum.at(best, groups, values)
    parts = values / np.where(lost, 1.0, best[groups])
    least = np.finfo(np.float64).tiny  # what is measured is more than 0, however small
    return np.where(lost, 0.0, np.maximum(parts, least))


def summed(owners: Integers, values: Doubles, count: int) -> Doubles:
    """For each of `count` owners the sum of the values (rows,) that are its own."""
    sums: npt.NDArray[Any] = np.bincount(owners, values, count)
    return sums.astype(np.float64, copy=False)  # of no rows, bincount makes integers


def ranked(scores: npt.ArrayLike, failed: npt.ArrayLike | None = None) -> Integers:
    """The numbers of candidates by score (candidates,), the best first.

    Those known to have `failed` (candidates,) come last, whatever a model says of them. Among
    equals the first comes first; a score of NaN is below all others.
    """
    values = np.asarray(scores, np.float64)
    lost = np.zeros(values.shape, bool) if failed is None else np.asarray(failed, bool)
    descending = np.where(np.isnan(values), np.inf, -values)
    return np.lexsort((descending, lost))
