"""Tests of many cases of one kind: `make test` tries a part of them, `make whole` all."""

import re
import zlib
from collections.abc import Callable, Collection, Iterable

import pytest
from hypothesis import settings


class Extent:
    """The part of the tests that runs; tests/conftest.py sets it before they are collected."""

    whole = False


def examples(few: int, many: int, **others: object) -> settings:
    """Settings of a property test: the examples of `make test`, and those of `make whole`."""
    return settings(max_examples=many if Extent.whole else few, **others)


def times(few: int, many: int) -> int:
    """How often a test with its own random numbers tries something: in `make test`, and in
    `make whole`.
    """
    return many if Extent.whole else few


def some(cases: Iterable, chosen: Callable[[int], object]) -> list:
    """The cases as parameters of a test: those whose number is not chosen are for `make whole`.

    A case that is a tuple is several parameters.
    """
    return [
        case
        if chosen(number)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.whole)
        for number, case in enumerate(cases)
    ]


def of_each_kind(names: Collection[str]) -> list:
    """Names as parameters of a test: those that differ from an earlier one in numbers alone are for
    `make whole`.
    """
    kinds = [re.sub(r"\d+", "", name) for name in names]
    return some(names, lambda number: kinds[number] not in kinds[:number])


EVERY = 5
"""Of the cases of a test that is marked as `many`, `make test` tries every fifth. (An odd number:
of cases in rows of two or four, it does not meet the same column again and again.)
"""


def left_out(name: str, count: int) -> list[int]:
    """The numbers of those of a test's cases that are for `make whole`. Which are tried depends on
    the test's name: tests of the same cases do not all try the same.
    """
    first = zlib.crc32(name.encode()) % min(EVERY, count)
    return [number for number in range(count) if number % EVERY != first]
