"""The arguments of fitting and predicting, checked. Each function raises ArgumentError."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from minitensor.errors import unexpected
from minitensor.search.gbt.grow import MOST_ROWS

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_COLUMNS: Final = 1 << 16
MOST_PROGRAMS: Final = 1 << 24
LARGEST_WEIGHT: Final = 1e6


def features(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """A table (rows, columns) of real numbers of any type; NaN and infinities are allowed."""
    table = _array("features", values, "biuf", 2)
    if table.shape[1] > MOST_COLUMNS:
        raise unexpected(f"at most {MOST_COLUMNS} columns", "shape", table.shape)
    return table


def programs(values: npt.ArrayLike, rows: int, count: int | None) -> Integers:
    """For each row (rows,) the number of its program, below `count` if that is given."""
    owners = _array("programs", values, "iu", 1)
    if len(owners) != rows:
        raise unexpected(f"a program for each of {rows} rows", "programs", owners.shape)
    if count is not None and not 0 <= _integer("count", count) <= MOST_PROGRAMS:
        raise unexpected(f"a number of programs, at most {MOST_PROGRAMS}", "count", count)
    below = MOST_PROGRAMS if count is None else count
    if rows and not (owners.min() >= 0 and owners.max() < below):
        raise unexpected(
            f"numbers of programs from 0 to {below - 1}",
            "programs",
            [int(owners.min()), "...", int(owners.max())],
        )
    return owners.astype(np.int64)


def training(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A table of features, if it is not too long to learn from."""
    if len(table) > MOST_ROWS:
        raise unexpected(f"at most {MOST_ROWS} rows", "shape", table.shape)
    return table


def labels(values: npt.ArrayLike) -> Doubles:
    """Real numbers (programs,), of any value."""
    found = _array("labels", values, "biuf", 1)
    with np.errstate(over="ignore"):  # of a longer type: too large is infinite
        return found.astype(np.float64)


def groups(values: npt.ArrayLike | None, count: int) -> Integers:
    """For each program (programs,) the number of its group, from 0; all in one if None."""
    if values is None:
        return np.zeros(count, np.int64)
    found = _array("groups", values, "biuU", 1)
    if len(found) != count:
        raise unexpected(f"a group for each of {count} programs", "groups", found.shape)
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.int64)


def weights(values: npt.ArrayLike | None, count: int) -> Doubles:
    """For each program (programs,) a weight; all 1 if None."""
    if values is None:
        return np.ones(count)
    found = _array("weights", values, "biuf", 1)
    if len(found) != count:
        raise unexpected(f"a weight for each of {count} programs", "weights", found.shape)
    if not ((found >= 0) & (found <= LARGEST_WEIGHT)).all():
        raise unexpected(f"weights from 0 to {LARGEST_WEIGHT:g}", "weights", found)
    return found.astype(np.float64)


def integer(name: str, value: object, least: int, most: int) -> None:
    """Check that it is an integer in a range."""
    if not least <= _integer(name, value) <= most:
        raise unexpected(f"an integer from {least} to {most}", name, value)


def number(name: str, value: object, least: float, most: float) -> None:
    """Check that it is a real number in a range."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type,operator]
        raise unexpected(f"a number from {least:g} to {most:g}", name, value)


def _integer(name: str, value: object) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise unexpected("an integer", name, value)
    return int(value)


def _array(name: str, values: npt.ArrayLike, kinds: str, axes: int) -> npt.NDArray[Any]:
    expected = f"{'numbers' if 'f' in kinds else 'integers'} in {axes} axes"
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError, Warning):  # old numpy warns of ragged lists
        raise unexpected(expected, name, values) from None
    empty = array.size == 0 and array.dtype == np.float64  # what an empty list becomes
    if array.ndim != axes or (array.dtype.kind not in kinds and not empty):
        raise unexpected(expected, name, f"{array.dtype}{array.shape}")
    return array
