"""Answers to calls that do not fit: in words, with what is written here in place of other systems'
keywords; never a bare TypeError.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from minitensor.errors import ArgumentError
from minitensor.phrasebook import unknown_argument

P = ParamSpec("P")
R = TypeVar("R")


def answered(function: Callable[P, R]) -> Callable[P, R]:
    """The function; a call that does not fit its signature raises ArgumentError.

    Nothing is looked at before a call has raised TypeError, and one from inside stays as it is.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            signature = inspect.signature(function)
            try:
                signature.bind(*args, **kwargs)
            except TypeError as failure:
                raise _misfit(function, signature, kwargs, failure) from None
            raise

    return call


def _misfit(
    function: Callable[..., object],
    signature: inspect.Signature,
    named: dict[str, object],
    failure: TypeError,
) -> ArgumentError:
    """The error for a call that does not fit."""
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2].rstrip("_")
    for keyword in named:
        if keyword not in signature.parameters:
            return unknown_argument(name, keyword, signature.parameters)
    shown = ", ".join(
        str(parameter.replace(annotation=inspect.Parameter.empty))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    )
    return ArgumentError(f"{name}(): {failure}; its parameters are ({shown})")
