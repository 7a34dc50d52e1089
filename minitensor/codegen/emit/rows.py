"""Row pointers: the part of an address that several accesses in a row have in common.

    C_0 += A[i * 8192 + k * 8] * b;          const float *A_row = &A[i * 8192 + k * 8];
    C_1 += A[i * 8192 + k * 8 + 1] * b;      C_0 += A_row[0] * b;
    C_2 += A[i * 8192 + k * 8 + 2] * b;      C_1 += A_row[1] * b;  …

A pointer points to an element that is accessed whatever conditions hold, so it stays in its array.

Numbers that are broadcast to a tile of registers are read again for each tap of a convolution, a
place further on. A compiler sees that, and keeps them in registers from tap to tap; where the tile
fills the registers already, it does so at the tile's cost. So there it is not to know: the pointer
passes through an empty instruction, behind which it might be any. So does one to what all rows of
such a tile begin with, which would be kept from tile to tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from minitensor import arith, ir
from minitensor.codegen.pressure import fills_registers, first_values

FEWEST: Final = 3
"""The accesses from which on they share a pointer."""

Key: TypeAlias = tuple[str, frozenset[tuple[ir.Expr, int]]]
"""A buffer, and the terms of a position in it that are not constant."""
Access: TypeAlias = "ir.Load | ir.Store"


@dataclass(frozen=True, slots=True)
class Row:
    """A group of accesses.

    key         of all of them
    start       the first that is accessed whatever conditions hold
    offset      the constant in the position of `start`
    is_written  whether one is a store
    is_hidden   whether the compiler is not to know where the pointer comes from
    """

    key: Key
    start: Access
    offset: int
    is_written: bool
    is_hidden: bool

    def declaration(self, kind: str, name: str, address: str) -> Iterator[str]:
        """The lines that make the pointer to elements of a type."""
        const = "" if self.is_written else "const "
        yield f"{const}{kind} *{name} = {address};"
        if self.is_hidden:
            yield f'__asm__("" : "+r"({name}));'


def key_of(buffer: str, position: arith.Linear) -> Key:
    """The group that an access belongs to."""
    return buffer, frozenset(position.terms.items())


def shared_rows(
    stmts: Sequence[ir.Store], position: Callable[[Access], arith.Linear | None], bits: int
) -> list[Row]:
    """The groups of accesses that get a pointer, in the order of the text.

    position  gives that of an access in its buffer; None where there is none
    bits      of a vector register
    """
    groups: dict[Key, list[tuple[Access, int, bool]]] = {}
    for stmt in stmts:
        for access, always in _accesses(stmt, True):
            form = position(access)
            if form is not None and _is_long(form):
                group = groups.setdefault(key_of(access.buffer, form), [])
                group.append((access, int(form.constant), always))
    rows, full, begun = [], fills_registers(stmts, bits), first_values(stmts, bits)
    for key, group in groups.items():
        certain = [(offset, n) for n, (_, offset, always) in enumerate(group) if always]
        begins = all(access in begun for access, _, _ in group)
        if certain and (begins or len(group) >= FEWEST):
            offset, first = min(certain)
            is_written = any(isinstance(access, ir.Store) for access, _, _ in group)
            is_hidden = begins or (full and not is_written)
            rows.append(Row(key, group[first][0], offset, is_written, is_hidden))
    return rows


def _is_long(position: arith.Linear) -> bool:
    """Tell whether a position is more than a variable and a constant, and stays what it is."""
    terms = position.terms
    return (len(terms) > 1 or any(c != 1 for c in terms.values())) and not any(
        isinstance(node, (ir.Load, ir.Call)) for atom in terms for node in ir.walk(atom)
    )


def _accesses(node: ir.Node, always: bool) -> Iterator[tuple[Access, bool]]:
    """The accesses below a node, each with whether it is made in any case."""
    if isinstance(node, ir.Lanes):
        return
    if isinstance(node, (ir.Load, ir.Store)):
        yield node, always
    for n, child in enumerate(ir.children(node)):
        chosen = n > 0 and (
            (isinstance(node, ir.Select) and node.lazy)
            or (isinstance(node, ir.Binary) and node.op in ("and", "or"))
        )
        yield from _accesses(child, always and not chosen)
