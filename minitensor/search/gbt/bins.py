"""Features become small numbers: each column is cut at quantiles, and a value's bin is its code.

After this, training never looks at a feature's value again. Splitting "x <= cut" and splitting
"code <= b" send the same rows the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
LARGEST: Final = np.float32(np.finfo(np.float32).max)
MOST_BINS: Final = 255
"""Of a column's values; NaN has one more, and all codes fit in 8 bits."""

NARROWEST: Final = 16
"""Of groups: many narrow ones would cost more than some empty bins."""


@dataclass(frozen=True)
class Group:
    """Neighbouring columns of a `Binned` whose histograms are handled together.

    first, last  the columns are codes[first:last]
    width        bins that are kept of each, a power of two; those a column does not use stay empty
    missing      whether these columns have a bin for NaN
    """

    first: int
    last: int
    width: int
    missing: bool


@dataclass(frozen=True)
class Binned:
    """A table of features, binned. Columns that hold a single value are not in it.

    codes    uint8 (columns, rows): the bin of each value; a column's bins are in the order of its
             values, and a NaN has the bin behind all others
    origin   int64 (columns,): the number of each column in the table it was made of
    cuts     for each column its float32 cuts, ascending: code <= b means value <= cuts[b]
    groups   the columns in groups; within a group the columns are in the order of the table
    """

    codes: npt.NDArray[np.uint8]
    origin: npt.NDArray[np.int64]
    cuts: Sequence[Floats]
    groups: Sequence[Group]


def finite(features: npt.NDArray[Any]) -> Floats:
    """The same as float32, infinities and what is beyond float32 as the largest number of its sign.

    NaN stays. The result may share memory with what it is made of.
    """
    clipped: Floats = np.clip(features, -LARGEST, LARGEST).astype(np.float32, copy=False)
    return clipped


def binned(features: Floats, most: int) -> Binned:
    """Cut each column of (rows, columns) at quantiles into at most `most` bins, NaN's not counted.

    A column of no more values than that has a bin for each. Raises nothing: no rows, no columns.
    """
    columns = np.ascontiguousarray(features.T)
    ordered = np.sort(columns, axis=1)  # NaN comes last
    present = np.count_nonzero(ordered == ordered, axis=1)
    rows = columns.shape[1]
    found: list[tuple[int, bool, int, Floats]] = []
    for number, values in enumerate(ordered):
        cuts = cut(values[: present[number]], most)
        has_missing = bool(present[number] < rows)
        bins = len(cuts) + 1 + has_missing
        if present[number] and bins > 1:
            width = max(NARROWEST, 1 << (bins - 1).bit_length())
            found.append((width, has_missing, number, cuts))
    found.sort(key=lambda column: column[:3])
    codes = np.empty((len(found), rows), np.uint8)
    for code, (_, has_missing, number, cuts) in zip(codes, found):
        values = columns[number]
        code[:] = np.searchsorted(cuts, values, side="left")
        if has_missing:
            code[values != values] = len(cuts) + 1
    kinds = [column[:2] for column in found]
    groups = [
        Group(kinds.index(kind), kinds.index(kind) + kinds.count(kind), *kind)
        for kind in sorted(set(kinds))
    ]
    origin = np.array([number for _, _, number, _ in found], np.int64)
    return Binned(codes, origin, [cuts for *_, cuts in found], groups)


def cut(ordered: Floats, most: int) -> Floats:
    """Cuts that make at most `most` bins of about as many values each, ascending.

    `ordered` holds finite values in ascending order. A cut lies halfway between two values that are
    neighbours in it (or on the lower, where float32 has nothing between them): all values are on
    one side of it or the other, and each side has some.
    """
    if not len(ordered):
        return np.empty(0, np.float32)
    distinct = ordered[np.append(True, ordered[1:] > ordered[:-1])]
    if len(distinct) > most:
        ends = np.arange(1, most) * len(ordered) // most
        after = np.searchsorted(distinct, ordered[ends - 1], side="right")
        after = np.unique(np.minimum(after, len(distinct) - 1))  # the largest may be most of all
    else:
        after = np.arange(1, len(distinct))
    low, high = distinct[after - 1], distinct[after]
    middle: Floats = (low / 2 + high / 2).astype(np.float32)
    between: Floats = np.where((low <= middle) & (middle < high), middle, low)
    return between
