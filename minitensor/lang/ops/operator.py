"""Operators: functions of whole tensors whose calls are remembered.

A function under `@operator` takes tensors, and attributes that are plain data, and returns the
tensor that it computes, made of `compute` like any other. The result remembers the call (`Origin`),
so a graph can be read off the tensors that a function returns, and each call can be made again on
other tensors by name (`OPERATORS`). Of nested calls the outermost is remembered: a softmax is one
operator, whatever it is made of.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec

from minitensor.errors import ArgumentError, unexpected
from minitensor.lang.tensor import Origin, Tensor

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """A function of tensors, by its name.

    name      as in `mt.ops` and in graphs
    function  the function itself; its calls are remembered
    operands  the parameters that may be tensors, in order
    """

    name: str
    function: Callable[..., Tensor]
    operands: tuple[str, ...]

    def apply(
        self, operands: Sequence[str], inputs: Sequence[Tensor], attributes: Mapping[str, Any]
    ) -> Tensor:
        """The result on these tensors: the call that an `Origin` describes, made again."""
        arguments: dict[str, Any] = dict(attributes)
        for operand, tensor in zip(operands, inputs):
            if operand in arguments and isinstance(arguments[operand], list):
                arguments[operand].append(tensor)
            else:
                arguments[operand] = [tensor] if operand in _SEVERAL[self.name] else tensor
        return self.function(**arguments)


OPERATORS: Final[dict[str, Operator]] = {}
"""Every operator by name."""

_SEVERAL: Final[dict[str, frozenset[str]]] = {}
"""The operands of each operator that take a list of tensors."""


def operator(
    *operands: str, several: Sequence[str] = ()
) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """Register a function as an operator under its own name.

        @operator("x", "w", "bias")
        def conv2d(x, w, bias=None, *, stride=1): ...

    operands  the parameters that may be tensors. Where one is optional, or may be a number, what
              was given is an attribute if it is no tensor
    several   those that take a list of tensors

    The stage of the result is called as the operator, whatever made it. A call raises ArgumentError
    for what is no tensor where one is needed, and for an attribute that is no plain data.
    """

    def register(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
        name, signature = function.__name__, inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as failure:
                raise ArgumentError(
                    f"ops.{name}: {failure}; its signature is {name}{signature}"
                ) from None
            result = function(*args, **kwargs)
            result.name = result.reference.label = name
            result.origin = _origin(name, operands, several, bound.arguments)
            return result

        OPERATORS[name] = Operator(name, call, operands)
        _SEVERAL[name] = frozenset(several)
        return call

    return register


def _origin(
    name: str, operands: Sequence[str], several: Sequence[str], arguments: Mapping[str, Any]
) -> Origin:
    """The record of a call with these arguments."""
    names: list[str] = []
    inputs: list[Tensor] = []
    attributes: dict[str, Any] = {}
    for parameter, value in arguments.items():
        if parameter in several:
            names += [parameter] * len(value)
            inputs += value
        elif parameter in operands and isinstance(value, Tensor):
            names.append(parameter)
            inputs.append(value)
        else:
            attributes[parameter] = plain(f"{name}({parameter}=)", value)
    return Origin(name, tuple(names), tuple(inputs), attributes)


def plain(name: str, value: Any) -> Any:
    """An attribute as plain data: lists become tuples, numbers of numpy those of Python.

    Raises ArgumentError for anything else.
    """
    match value:
        case None | bool():
            return value
        case str():  # a DType is one
            return str(value)
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
        case tuple() | list():
            return tuple(plain(name, item) for item in value)
    raise unexpected("numbers, strings, and tuples of these", name, value)


def tensor(name: str, value: object) -> Tensor:
    """An operand that has to be a tensor. Raises ArgumentError for what is none."""
    if not isinstance(value, Tensor):
        hint = " (an array is an input: give it a placeholder)" if hasattr(value, "shape") else ""
        raise unexpected(f"a tensor{hint}", name, value)
    return value
