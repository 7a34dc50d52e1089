"""Facts: functions of programs and nodes that are computed once.

A program cannot change, nor can a node, so what was found out about one is kept with it. A step of
a schedule makes a new program of which most nests are the same objects as before; what is known of
these need not be found again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Subject:
    """An immutable object that facts are kept with; they are no part of it: not of its equality,
    its text, nor of a copy in another process.
    """

    __slots__ = ("_facts",)
    _facts: dict[Callable[..., Any], Any]


S = TypeVar("S", bound=Subject)


def fact(derive: Callable[[S], T]) -> Callable[[S], T]:
    """A function of a program or a node that is computed once: its value is kept with that."""

    @functools.wraps(derive)
    def derived(subject: S) -> T:
        try:
            known = subject._facts
        except AttributeError:
            known = {}
            object.__setattr__(subject, "_facts", known)
        if derive not in known:
            known[derive] = derive(subject)
        found: T = known[derive]
        return found

    return derived


def known_fact(derived: Callable[[S], T], subject: S) -> T | None:
    """The value of a fact if it has been asked for; else None."""
    known = getattr(subject, "_facts", None)
    return known.get(derived.__wrapped__) if known else None  # type: ignore[attr-defined]
