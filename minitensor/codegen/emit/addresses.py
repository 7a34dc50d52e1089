"""Elements of buffers in the C family: names, positions and addresses.

An index is an expression: how it is written is the business of `expressions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from minitensor import arith, ir
from minitensor.codegen.emit.names import Names
from minitensor.codegen.emit.rows import Key, key_of
from minitensor.codegen.remarks import missed_gather


class Addresses(ABC):
    """Writes where elements are, with the buffers in scope."""

    def __init__(self, params: Sequence[ir.Buffer]) -> None:
        self.parameters: Mapping[str, ir.Buffer] = {b.name: b for b in params}
        self.buffers: dict[str, ir.Buffer] = dict(self.parameters)
        self.names = Names()
        self.rows: dict[Key, tuple[str, int]] = {}
        """The row pointers in scope, each with the constant of the position it points to."""
        self._positions: dict[tuple[str, tuple[ir.Expr, ...]], arith.Linear] = {}

    @abstractmethod
    def expr(self, expr: ir.Expr) -> str:
        """An expression as text."""

    def element(self, name: str, indices: tuple[ir.Expr, ...]) -> str:
        """An element as an lvalue; for a vector access, the first of them."""
        if self.is_variable(name):
            lane = "".join(f"[{self.expr(index)}]" for index in indices)
            return self.names.buffer(name) + lane
        array, position = self._place(name, indices)
        return f"{array}[{position}]"

    def address(self, name: str, indices: tuple[ir.Expr, ...]) -> str:
        """The address of an element; for a vector access, of the first of them."""
        if self.is_variable(name):
            return f"&{self.names.buffer(name)}"
        array, position = self._place(name, indices)
        return array if position == "0" else f"&{array}[{position}]"

    def _place(self, name: str, indices: tuple[ir.Expr, ...]) -> tuple[str, str]:
        """The array that an access is in, or a pointer into it, and the position there."""
        form = self.position(name, indices)
        row = self.rows.get(key_of(name, form)) if self.rows else None
        if row is not None:
            return row[0], str(form.constant - row[1])
        return self.names.buffer(name), self.expr(form.expr())

    def is_variable(self, name: str) -> bool:
        """Tell whether a buffer is a variable of the text, and no array."""
        return not self.buffers[name].shape and name not in self.parameters

    def distance(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> int:
        """The distance of neighbouring lanes of an access in elements; 0 for a scalar."""
        strides = zip(indices, ir.strides_of(buffer))
        return sum(i.stride * stride for i, stride in strides if isinstance(i, ir.Ramp))

    def step(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> int:
        """The distance of the lanes of a vector access, with a remark where they are apart."""
        distance = self.distance(buffer, indices)
        if distance != 1:
            missed_gather(buffer.name, distance)
        return distance

    def position(self, name: str, indices: tuple[ir.Expr, ...]) -> arith.Linear:
        """The position of an element in a buffer, counted in elements."""
        found = self._positions.get((name, indices))
        if found is None:
            found = arith.linear_of(ir.Const(0))
            for index, stride in zip(indices, ir.strides_of(self.buffers[name])):
                scalar = index.base if isinstance(index, ir.Ramp) else index
                found = found.plus(arith.linear_of(scalar), stride)
            self._positions[name, indices] = found
        return found
