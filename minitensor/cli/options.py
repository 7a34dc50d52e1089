"""A parser that drops nothing of what was typed: an option that is given twice adds up or is
refused. Plain argparse keeps the last and says nothing.

An option of several values (`action="add"`, with a type that returns a dict or a tuple) adds them
up; one of a single value is refused the second time; a switch may be repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from minitensor.errors import shown

_GIVEN: Final = "given"
"""The attribute of a namespace that holds the options that were typed, by `dest`."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose options, and those of its commands, follow this module's rule."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)
        self.register("action", "add", _Added)

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with 2; m=64 n=64 as two words is a common mistake."""
        left = message.partition("unrecognized arguments: ")[2].split()
        if any("=" in word and not word.startswith("-") for word in left):
            message += "; several values of an option are one word: --size m=64,n=64"
        super().error(message)


class _Once(argparse.Action):
    """Stores a value; refuses another for the same option."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None:  # words without an option come at once
            given = vars(namespace).setdefault(_GIVEN, {})
            if self.dest in given:
                first = shown(given[self.dest])
                raise argparse.ArgumentError(self, f"given twice: {first}, then {shown(values)}")
            given[self.dest] = values
        setattr(namespace, self.dest, values)


class _Added(argparse.Action):
    """Adds the values of a repeated option up; refuses two values for one name of a dict."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: dict[str, Any] | Sequence[Any] | str | None,
        option_string: str | None = None,
    ) -> None:
        given = vars(namespace).setdefault(_GIVEN, {})
        earlier = given.get(self.dest)
        if isinstance(values, dict):
            for name in (name for name in values if name in (earlier or {})):
                text = f"{name} is given twice: {earlier[name]}, then {values[name]}"
                raise argparse.ArgumentError(self, text)
            given[self.dest] = {**(earlier or {}), **values}
        else:
            assert isinstance(values, tuple)
            given[self.dest] = tuple(dict.fromkeys((earlier or ()) + values))
        setattr(namespace, self.dest, given[self.dest])
