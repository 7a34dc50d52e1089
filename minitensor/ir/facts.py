"""Facts: functions of programs and nodes that are computed once; and notes on them.

A program cannot change, nor can a node, so what was found out about one is kept with it. A step of
a schedule makes a new program of which most nests are the same objects as before; what is known of
these need not be found again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Subject:
    """An immutable object that facts and notes are kept with; they are no part of it: not of its
    equality, its text, nor of a copy in another process.
    """

    __slots__ = ("_facts", "_hash")
    _facts: dict[object, Any]
    _hash: int


S = TypeVar("S", bound=Subject)


def fact(derive: Callable[[S], T]) -> Callable[[S], T]:
    """A function of a program or a node that is computed once: its value is kept with that."""

    @functools.wraps(derive)
    def derived(subject: S) -> T:
        known = _facts_of(subject)
        if derive not in known:
            known[derive] = derive(subject)
        found: T = known[derive]
        return found

    return derived


class Note(Generic[T]):
    """A finding about nodes, kept with them until the next one: the circumstances in which a node
    was right, for example, so that it is not looked at in the same ones again.
    """

    def of(self, subject: Subject) -> T | None:
        """The note on a node; None if there is none."""
        known = getattr(subject, "_facts", None)
        return known.get(self) if known else None

    def keep(self, subject: Subject, found: T) -> None:
        """Make a note on a node, in the place of one that was there."""
        _facts_of(subject)[self] = found


def hash_once(kind: type[S]) -> None:
    """Let nodes of a class keep their hash: else that of a deep expression, which dictionaries ask
    for again and again, is computed from its leaves each time.
    """
    derive = kind.__hash__

    def hashed(node: S) -> int:
        try:
            return node._hash
        except AttributeError:
            object.__setattr__(node, "_hash", found := derive(node))
            return found

    kind.__hash__ = hashed  # type: ignore[method-assign, assignment]


def _facts_of(subject: Subject) -> dict[object, Any]:
    try:
        return subject._facts
    except AttributeError:
        known: dict[object, Any] = {}
        object.__setattr__(subject, "_facts", known)
        return known
