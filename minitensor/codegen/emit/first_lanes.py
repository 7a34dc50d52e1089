"""Vectors in registers of whose first lanes alone something is computed, as what remains of a row.

An array stands for them in the program (see the pass name_registers), and in a text it would be

    store_float32x8(part, sum);
    store_6_float32x8(part, load_6_float32x8(part) + load_6_float32x8(&A[208]));
    sum = load_float32x8(part);

A processor that loads what two stores have written waits until both are done. So the vector stays
where it is, and only those lanes are replaced:

    sum = first_6_float32x8(sum + load_6_float32x8(&A[208]), sum);

Not here: fewer lanes than fill more than half of a vector. They are computed in a shorter one.
"""

from __future__ import annotations

from typing import Any

from minitensor import ir
from minitensor.codegen.emit import vectors
from minitensor.codegen.emit.c_types import int_twin, whole
from minitensor.codegen.emit.helpers import Definition, Helpers, function
from minitensor.codegen.emit.instructions import with_instruction


def in_registers(stmt: ir.Alloc) -> ir.Stmt | None:
    """The uses of arrays that stand for vectors, as uses of these: a store into one has a value of
    fewer lanes than it, and loads have as few. None for any other array.
    """
    arrays: list[ir.Buffer] = []
    body: ir.Stmt = stmt
    while isinstance(body, ir.Alloc) and len(body.buffer.shape) == 1:
        arrays.append(body.buffer)
        body = body.body
    if not arrays:
        return None
    stmts, values = _in_line(body)
    vectors_of: dict[str, str] = {}
    ends: dict[str, ir.Stmt] = {}
    for array, begin in zip(arrays, stmts):
        everything = (ir.Ramp(ir.Const(0), 1, array.shape[0]),)
        match begin:
            case ir.Store(array.name, at, ir.Load(vector, (), dtype)) if at == everything:
                if not dtype.is_float:
                    return None
                vectors_of[array.name] = vector
                ends[array.name] = ir.Store(vector, (), ir.Load(array.name, everything, dtype))
    if len(ends) < len(arrays) or stmts[-1] not in ends.values():
        return None
    used = [s for s in stmts[len(arrays) :] if s not in ends.values()]
    accesses = [
        node
        for stmt in used
        for node in ir.walk(stmt)
        if isinstance(node, (ir.Load, ir.Store)) and node.buffer in ends
    ]
    written = {access.buffer for access in accesses if isinstance(access, ir.Store)}
    back = [end for array, end in ends.items() if array in written]
    if not back or stmts[len(arrays) :] != [*used, *back]:
        return None
    lanes = {array.name: array.shape[0] for array in arrays}
    if not all(_is_of_first_lanes(access, lanes[access.buffer]) for access in accesses):
        return None

    def one(node: Any) -> Any:
        if isinstance(node, ir.Load) and node.buffer in vectors_of:
            return ir.Load(vectors_of[node.buffer], (), node.dtype)
        if isinstance(node, ir.Store) and node.buffer in vectors_of:
            return ir.Store(vectors_of[node.buffer], (), node.value)
        return node

    return ir.allocated(values, ir.rewrite(ir.sequence(*used), one))


def _in_line(stmt: ir.Stmt) -> tuple[list[ir.Stmt], list[ir.Buffer]]:
    """Statements that follow each other, and the variables that some of them have for themselves
    and those behind them.
    """
    found: list[ir.Stmt] = []
    values: list[ir.Buffer] = []
    while isinstance(stmt, ir.Seq) or (isinstance(stmt, ir.Alloc) and not stmt.buffer.shape):
        if isinstance(stmt, ir.Alloc):
            values.append(stmt.buffer)
            stmt = stmt.body
        else:
            found += stmt.stmts[:-1]
            stmt = stmt.stmts[-1]
    return [*found, stmt], values


def _is_of_first_lanes(access: ir.Load | ir.Store, lanes: int) -> bool:
    """Return whether the first lanes of a vector are meant, more than half of them."""
    dtype = access.dtype if isinstance(access, ir.Load) else access.value.dtype
    match access.indices:
        case (ir.Ramp(ir.Const(0), 1, count),):
            return dtype.lanes == count < lanes == whole(dtype).lanes
    return False


def first(helpers: Helpers, dtype: ir.DType, count: int) -> Definition:
    """The first `count` lanes of one vector, and the others of another."""
    kind, mask = helpers.vector(dtype), helpers.vector(int_twin(dtype))
    choice = helpers.need(vectors.select, whole(dtype))
    body = f"return {choice}(({mask}){{{', '.join(['-1'] * count)}}}, x, y);"
    name, text = function(kind, f"first_{count}_{kind}", f"{kind} x, {kind} y", body)
    return name, with_instruction(text, "first", whole(dtype), ("x", "y", str(2**count - 1)))
