"""Operands of an intrinsic: one access of a block matched with one of the meaning.

With i_1 the loop that is the axis i, k_1 the one that is k, and other loops around them,

    A[i_0*4 + i_1, k_0*8 + k_1]   is   A[i, k]   from A[i_0*4, k_0*8] on
    P[k_0, k_1, i_0, i_1]         is   A[k, i]   from P[k_0, 0, i_0, 0] on, along axes 1 and 3

The axes of the buffer that the loops of the nest move must be those of the operand, in order and at
the same pace; the other axes are fixed. `tensorized` puts the operands together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from minitensor import ir
from minitensor.arith.interval import Ranges, extent_range
from minitensor.arith.linear import Linear, constant_form
from minitensor.arith.prove import is_nonnegative
from minitensor.arith.simplify import Simplifier, simplified_linear

Reason: TypeAlias = Literal[
    "nest", "guard", "init", "statement", "dtype", "extent", "index", "alias", "stride", "vector"
]
"""A mismatch of a loop nest with the intrinsic."""


class MismatchError(Exception):
    """A loop nest does not compute what the intrinsic means.

    reason  what differs
    detail  in words
    block   the name of the block in it, None if there is none
    part    the expression in the block that differs
    depth   how much agreed before: of several attempts the one that got furthest is reported
    """

    def __init__(
        self, reason: Reason, detail: str, block: str | None = None, part: ir.Expr | None = None
    ) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.block, self.part = reason, detail, block, part
        self.depth = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand in a buffer: its first element, and for each of its axes that of the buffer along
    which it runs (None for one of which only the first element is touched).
    """

    first: ir.Load
    axes: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """The indices of an access in two parts: terms in the loops of the nest, and the rest."""

    moving: tuple[Linear, ...]
    fixed: tuple[Linear, ...]


@dataclass
class Accesses:
    """Compares the accesses of a block with those of a meaning.

    outer    the loops around the nest
    nest     the loops of the nest
    to_loop  which of them each axis of the meaning is, as far as that is known
    """

    program: ir.Program
    block: ir.Block
    outer: Sequence[ir.For]
    nest: Sequence[ir.For]
    intrinsic: ir.Intrinsic
    to_loop: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inner = frozenset(loop.var for loop in self.nest)
        ranges = {loop.var: extent_range(loop.extent) for loop in (*self.outer, *self.nest)}
        bindings = {i.var: Simplifier(ranges).linear(i.binding) for i in self.block.iters}
        self.simplifier = Simplifier(ranges, bindings)
        self.domain: Ranges = {i.var: extent_range(i.extent) for i in self.block.iters}
        self.meant = Simplifier({n: extent_range(e) for n, e in self.intrinsic.axes.items()})

    def fail(self, reason: Reason, detail: str, part: ir.Expr | None = None) -> MismatchError:
        """The error for something in the block; the caller raises it."""
        return MismatchError(reason, detail, self.block.name, part)

    def operand(self, mine: ir.Load, meant: ir.Load) -> Operand:
        """The operand that `meant` is, if `mine` moves as it does."""
        address = self.address(mine)
        wanted = self.forms(meant)
        moving = [(axis, form) for axis, form in enumerate(address.moving) if form.terms]
        named = [(axis, form) for axis, form in enumerate(wanted) if form.terms]
        for (axis, mine_form), (_, form) in zip(moving, named):
            if mine_form != form:
                raise self.fail(
                    "index",
                    f"{self.differs(mine, meant)}: axis {axis} differs, "
                    f"{ir.print_expr(mine_form.expr())} where the intrinsic has "
                    f"{ir.print_expr(form.expr())}",
                    mine,
                )
        if len(moving) != len(named):
            raise self.fail(
                "index",
                f"{self.differs(mine, meant)}: these loops move {len(moving)} of its axes, "
                f"of the operand {len(named)}",
                mine,
            )
        axes: list[int | None] = [None] * len(wanted)
        for (axis, _), (own, _) in zip(moving, named):
            axes[own] = axis
        first = ir.Load(mine.buffer, tuple(form.expr() for form in address.fixed), mine.dtype)
        return Operand(first, tuple(axes))

    def forms(self, meant: ir.Load) -> list[Linear]:
        """The indices of an operand in the meaning, in the loops that are its axes."""
        found = []
        for index in meant.indices:
            total = constant_form(0)
            for axis, step in self.meant.linear(index).terms.items():
                assert isinstance(axis, ir.Var)
                loop = ir.Var(self.to_loop.get(axis.name, axis.name))
                total = total.plus(Linear({loop: step}))
            found.append(total)
        return found

    def address(self, mine: ir.Load) -> Address:
        """The indices of an access, taken apart; refused if that cannot be done exactly."""
        moving, fixed = [], []
        shape = self.program.buffers[mine.buffer].shape
        for axis, (index, extent) in enumerate(zip(mine.indices, shape)):
            where = f"{ir.print_expr(self.in_loops(mine))}: axis {axis}"
            if ir.loads(index):
                raise self.fail("index", f"{where} depends on data", mine)
            form = self.simplifier.linear(index)
            part = form.part(lambda atom, _: isinstance(atom, ir.Var) and atom.name in self.inner)
            rest = form.minus(part)
            if rest.mentions_any(self.inner):
                raise self.fail("index", f"{where} is no sum of multiples of these loops", mine)
            inside = simplified_linear(index, self.domain)
            if not (
                is_nonnegative(inside, self.domain)
                and is_nonnegative(inside.times(-1).shifted(extent - 1), self.domain)
            ):
                raise self.fail("index", f"{where} may leave the buffer", mine)
            moving.append(part)
            fixed.append(rest)
        return Address(tuple(moving), tuple(fixed))

    def in_loops(self, expr: ir.Expr) -> ir.Expr:
        """An expression of the block in terms of the loops, for a message."""

        def one(node: Any) -> Any:
            if isinstance(node, ir.Load) and not any(map(ir.loads, node.indices)):
                indices = tuple(self.simplifier.linear(i).expr() for i in node.indices)
                return ir.Load(node.buffer, indices, node.dtype)
            return ir.map_children(node, one)

        found: ir.Expr = one(expr)
        return found

    def differs(self, mine: ir.Load, meant: ir.Load) -> str:
        """An access beside that of the intrinsic which corresponds to it."""
        verb = "written" if meant.buffer == self.intrinsic.output else "read"
        a, b = ("", "") if mine.dtype == meant.dtype else (f"{mine.dtype} ", f"{meant.dtype} ")
        access = ir.print_expr(self.in_loops(mine))
        text = f"{a}{access} is {verb} where the intrinsic has {b}{ir.print_expr(meant)}"
        if mine.dtype == meant.dtype and self.to_loop:
            pairs = [f"{ir.print_name(x)} is {ir.print_name(y)}" for x, y in self.to_loop.items()]
            text += f" ({', '.join(pairs)})"
        return text
