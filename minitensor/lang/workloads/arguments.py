"""Checks of arguments that all operators share, in one phrasing."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from minitensor.errors import is_integer, unexpected, whole
from minitensor.ir import DType
from minitensor.lang.scalar import Scalar
from minitensor.lang.tensor import Tensor

Tensors: TypeAlias = tuple[Tensor, ...]
"""The result of every operator: its inputs, then its outputs, in the order of the call."""

PerAxis: TypeAlias = int | Sequence[int]
"""One number for every spatial axis, or one for each."""


def check_sizes(**sizes: object) -> None:
    """Refuse extents that are not integers >= 1."""
    for name, value in sizes.items():
        whole(name, value, 1)


def per_axis(name: str, value: object, count: int, least: int) -> tuple[int, ...]:
    """`value` as one integer >= `least` for each of `count` spatial axes."""
    given = (value,) * count if isinstance(value, numbers.Integral) else value
    if (
        not isinstance(given, (tuple, list))
        or len(given) != count
        or not all(is_integer(v, least) for v in given)
    ):
        several = f", or {count} of them" if count > 1 else ""
        raise unexpected(f"an integer >= {least}{several}", name, value)
    return tuple(int(v) for v in given)


def number_dtype(dtype: object, name: str = "dtype") -> DType:
    """A type that has arithmetic: all but bool."""
    found = DType.of(dtype)
    if found.kind == "bool":
        raise unexpected("a type of numbers", name, dtype)
    return found


def float_dtype(dtype: object, name: str = "dtype") -> DType:
    """A floating-point type."""
    found = DType.of(dtype)
    if not found.is_float:
        raise unexpected("a floating-point type", name, dtype)
    return found


def result_dtype(dtype: object, out_dtype: object) -> tuple[DType, DType]:
    """The type of the operands and that of the products and their sum (None: the same)."""
    operand = number_dtype(dtype)
    return operand, operand if out_dtype is None else number_dtype(out_dtype, "out_dtype")


def labelled(labels: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of any number of indices with names for them, which the loops will bear."""

    def element(*indices: Scalar) -> Any:
        return function(*indices)

    element.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(label, inspect.Parameter.POSITIONAL_ONLY) for label in labels]
    )
    return element
