"""The declaration behind a nest that an intrinsic computes, and the strides that it relies on.

The C text of an intrinsic is in `emit.intrinsics`.
"""

from __future__ import annotations

from minitensor import ir
from minitensor.errors import LoweringError


def declared(key: str) -> ir.Intrinsic:
    """The intrinsic with that key. Raises LoweringError if this process has not declared it."""
    found = ir.known_intrinsic(key)
    if found is None:
        raise LoweringError(
            f"this process has not declared the intrinsic {ir.print_name(key)} (see mt.intrinsic)"
        )
    return found


def relied_on(stmt: ir.Tensorized, buffer: str) -> int | None:
    """The first axis of a buffer whose stride the intrinsic relies on; None if there is none.

    That stride comes from the extents of the axes behind it.
    """
    found = []
    for operand, axes, strides in zip(stmt.operands, stmt.axes, declared(stmt.intrinsic).strides):
        if operand.buffer == buffer:
            found += [a for a, s in zip(axes, strides) if a is not None and s is not None]
    return min(found, default=None)


def operand_strides(stmt: ir.Tensorized, position: int, buffer: ir.Buffer) -> list[int]:
    """The strides of one operand in its buffer, as it is laid out in the end."""
    wanted = declared(stmt.intrinsic).strides[position]
    there = ir.strides_of(buffer)
    found = []
    for axis, relied in zip(stmt.axes[position], wanted):
        stride = (relied or 0) if axis is None else there[axis]
        if relied not in (None, stride):
            raise LoweringError(
                f"{ir.print_name(stmt.intrinsic)} relies on stride {relied}, but "
                f"{ir.print_name(buffer.name)} has {stride}"
            )
        found.append(stride)
    return found


def holds_intrinsic(stmt: ir.Stmt) -> bool:
    """Tell whether an intrinsic does a part of a statement."""
    return any(isinstance(node, ir.Tensorized) for node in ir.stmts_of(stmt))


def fragments_in(stmt: ir.Stmt) -> set[str]:
    """The buffers that the registers of warps hold. Raises LoweringError for one that statements
    access without an intrinsic.
    """
    calls = [node for node in ir.stmts_of(stmt) if isinstance(node, ir.Tensorized)]
    found: set[str] = set()
    for call in calls:
        intrinsic = declared(call.intrinsic)
        for meant, operand in zip(intrinsic.operands, call.operands):
            if meant.name in intrinsic.fragments:
                found.add(operand.buffer)
    for name in found & _touched_alone(stmt):
        raise LoweringError(
            f"{ir.print_name(name)} is divided among the threads of a warp, but accessed without "
            "an intrinsic; tensorize all that reads and writes it"
        )
    return found


def _touched_alone(stmt: ir.Stmt) -> set[str]:
    """The buffers that a statement accesses outside of intrinsics."""
    if isinstance(stmt, ir.Tensorized):
        return set()
    found = {stmt.buffer} if isinstance(stmt, ir.Store) else set()
    for child in ir.children(stmt):
        if isinstance(child, ir.Expr):
            found |= {load.buffer for load in ir.loads(child)}
        else:
            found |= _touched_alone(child)  # type: ignore[arg-type]
    return found
