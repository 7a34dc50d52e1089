"""Definitions in front of an emitted function: types, and small functions.

A helper is a Python function that returns its name in the text and its definition. The emitter of a
call requests it (`helpers.need(vectors.load, dtype)`) and gets the name. Only requested helpers are
defined, each after those that it requests itself. `scalars` and `vectors` have them. What one
language of the C family writes differently from another in expressions and in these definitions is
its `Dialect`; `c` and `cuda` have the two that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from minitensor import ir
from minitensor.codegen.emit.c_types import element_type, whole
from minitensor.codegen.emit.lines import broken

FUNCTION: Final = "static inline"
"""The words in front of a function, for which a dialect may have others."""

Definition: TypeAlias = tuple[str, str]
"""A name, and the text that defines it."""
Helper: TypeAlias = "Callable[..., Definition]"
"""A function of the `Helpers` of a text, and of what it is about, that defines a small function."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The choices of one language of the family.

    function     the words in front of a small function
    packed       the narrow floats that are bits in memory, each with its conversions: from its bits
                 to float, and back
    halved       the conversion of a double to float16, in one step: a format of the operand
    widened      float16 to float, or float to double, exactly: given the first type
    product      a product that is not fused with a sum: given the type that it is computed in
    popcount     the function that counts the bits of a number of 64
    check_index  an index where it is inside its axis; else 0, and the number of the check is kept
    writer       makes the `functions.Writer` of what is defined in the IR's terms
    """

    function: str
    packed: Mapping[str, tuple[Helper, Helper]]
    halved: str
    widened: Helper
    product: Helper
    popcount: str
    check_index: Helper
    writer: Callable[[Helpers], Any]

    def element_type(self, dtype: ir.DType) -> str:
        """The type of an element in memory."""
        return f"uint{dtype.bits}_t" if dtype.scalar in self.packed else element_type(dtype)


class Helpers:
    """The types and functions that one text needs.

    dialect  the language of the text
    texts    their definitions by name, in the order in which they must come
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.texts: dict[str, str] = {}
        self._names: dict[object, str] = {}

    def need(self, helper: Callable[..., Definition], /, *about: Any) -> str:
        """The name of a helper; `helper(self, *about)` defines it where that has not been done.

        A vector of some lanes is what the first lanes of a whole one hold: helpers are about those.
        """
        about = tuple(whole(one) if isinstance(one, ir.DType) else one for one in about)
        key = helper, about
        if key not in self._names:
            name, text = helper(self, *about)
            lines = [part for line in text.split("\n") for part in broken(line)]
            self._names[key] = self.need_text(name, "\n".join(lines))
        return self._names[key]

    def need_text(self, name: str, text: str) -> str:
        """The name of what a text defines, which stays as it is but for the words in front."""
        if text.startswith(FUNCTION):
            text = self.dialect.function + text.removeprefix(FUNCTION)
        self.texts.setdefault(name, text)
        return name

    def vector(self, dtype: ir.DType) -> str:
        """The name of a vector type."""
        return self.need(_vector_type, dtype)


def function(result: str, name: str, params: str, *body: str) -> Definition:
    """The definition of a function, with one line of its body in each text."""
    lines = "".join(f"{line}\n" if line.startswith("#") else f"    {line}\n" for line in body)
    return name, f"{FUNCTION} {result} {name}({params}) {{\n{lines}}}"


def _vector_type(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The vector, and the same at any address."""
    scalar = ir.DType.of("int64") if dtype.scalar == ir.INDEX else dtype.scalar
    name, kind = str(scalar.with_lanes(dtype.lanes)), element_type(scalar)
    size, align = dtype.bits // 8 * dtype.lanes, dtype.bits // 8
    unaligned = f"vector_size({size}), aligned({align}), may_alias"
    return name, (
        f"typedef {kind} {name} __attribute__((vector_size({size})));\n"
        f"typedef {kind} {name}_u __attribute__(({unaligned}));"
    )
