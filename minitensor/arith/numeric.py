"""Numbers of one program or of many: an int, or one int64 for each candidate of a batch.

Sums, spans and boxes (`linear`, `region`) are written once for both. Where all candidates agree a
number stays an int, so that nothing is computed more than once; a condition is a bool, or a mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
Num: TypeAlias = Any
"""An int, or an int64 array (candidates,). Not written as a union: for one program numbers
are ints."""
Truth: TypeAlias = "bool | npt.NDArray[np.bool_]"


def product(a: Num, b: Num) -> Num:
    """a * b, as an int where that is known."""
    if type(a) is int and a in (0, 1):
        return b if a else 0
    if type(b) is int and b in (0, 1):
        return a if b else 0
    return a * b


def product_of(numbers: Iterable[Num]) -> Num:
    """The product of some numbers; 1 for none."""
    found: Num = 1
    for number in numbers:
        found = product(found, number)
    return found


def is_zero(a: Num) -> bool:
    """Return whether a number is known to be 0 for all candidates."""
    return type(a) is int and a == 0


def lesser(a: Num, b: Num) -> Num:
    """The least of two numbers."""
    return min(a, b) if type(a) is int and type(b) is int else np.minimum(a, b)


def greater(a: Num, b: Num) -> Num:
    """The greatest of two numbers."""
    return max(a, b) if type(a) is int and type(b) is int else np.maximum(a, b)


def magnitude(a: Num) -> Num:
    """The number without its sign."""
    return abs(a) if type(a) is int else np.abs(a)


def same(a: Num, b: Num) -> bool:
    """Return whether two numbers are equal for all candidates."""
    return a is b or bool(np.all(np.equal(a, b)))


def chosen(where: Truth, a: Num, b: Num) -> Num:
    """The one where a condition holds, else the other."""
    if np.ndim(where) == 0:
        return a if where else b
    return np.where(where, a, b)


def as_number(truth: Truth) -> Num:
    """1 where a condition holds, else 0."""
    return int(truth) if isinstance(truth, bool) else np.asarray(truth).astype(np.int64)


def ceil_div(a: Num, b: Num) -> Num:
    """The least integer that is at least a / b, for b > 0."""
    return -(-a // b)
