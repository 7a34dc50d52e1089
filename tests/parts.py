"""Tests of many cases of one kind: `make test` tries a part of them, `make whole` all."""

from collections.abc import Callable, Iterable

import pytest


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
