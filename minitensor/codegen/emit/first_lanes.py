"""Vectors in registers of which some lanes are used alone: what remains of a row, and the ends of
sums, where halves of a vector are added.

An array stands for them in the program (see the pass name_registers), and in a text it would be

    store_float32x8(part, sum);
    store_6_float32x8(part, load_6_float32x8(part) + load_6_float32x8(&A[208]));
    sum = load_float32x8(part);

A processor that loads what two stores have written waits until both are done, and after one store
it waits for some cycles too. So the vector stays where it is. Its first lanes are replaced, and
others are taken out of it:

    sum = first_6_float32x8(sum + load_6_float32x8(&A[208]), sum);
    half = lanes_0_4_float32x8(sum) + lanes_4_4_float32x8(sum);

Not here: vectors of which other lanes than the first are replaced.
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
    fewer lanes than it, and a load of some lanes has the first of them as its index. None for any
    other array.
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
                vectors_of[array.name] = vector
                ends[array.name] = ir.Store(vector, (), ir.Load(array.name, everything, dtype))
    if len(ends) < len(arrays):
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
    if stmts[len(arrays) :] != [*used, *back]:
        return None
    lanes = {array.name: array.shape[0] for array in arrays}
    if not all(_is_in_vector(access, lanes[access.buffer]) for access in accesses):
        return None

    def one(node: Any) -> Any:
        if isinstance(node, ir.Load) and node.buffer in vectors_of:
            return ir.Load(vectors_of[node.buffer], (ir.Const(_begin(node)),), node.dtype)
        if isinstance(node, ir.Store) and node.buffer in vectors_of:
            at = (ir.Const(_begin(node)),) if node.value.dtype.lanes == 1 else ()
            return ir.Store(vectors_of[node.buffer], at, node.value)
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


def _is_in_vector(access: ir.Load | ir.Store, lanes: int) -> bool:
    """Return whether lanes of a vector of `lanes` are meant that can be taken out of it, or
    replaced.
    """
    dtype = access.dtype if isinstance(access, ir.Load) else access.value.dtype
    begin = _begin(access)
    if begin < 0 or whole(dtype.with_lanes(lanes)).lanes != lanes:
        return False
    if isinstance(access, ir.Store) and dtype.lanes > 1:
        return begin == 0 and dtype.lanes < lanes
    return begin + whole(dtype).lanes <= lanes


def _begin(access: ir.Load | ir.Store) -> int:
    """The first lane of an access; -1 if it depends on loops, or lanes do not follow it."""
    match access.indices:
        case (ir.Const(first),) | (ir.Ramp(ir.Const(first), 1),):
            return int(first)
    return -1


def first(helpers: Helpers, dtype: ir.DType, count: int) -> Definition:
    """The first `count` lanes of one vector, which may be shorter, and the others of another."""
    short, kind = helpers.vector(dtype.with_lanes(count)), helpers.vector(dtype)
    mask, wide = helpers.vector(int_twin(dtype)), "x"
    if short != kind:
        more = [*range(whole(dtype.with_lanes(count)).lanes)]
        more += [-1] * (dtype.lanes - len(more))
        wide = f"__builtin_shufflevector(x, x, {', '.join(map(str, more))})"
    choice = helpers.need(vectors.select, dtype)
    body = f"return {choice}(({mask}){{{', '.join(['-1'] * count)}}}, {wide}, y);"
    name, text = function(kind, f"first_{count}_{kind}", f"{short} x, {kind} y", body)
    text = with_instruction(text, "first", dtype, (wide, "y", str(2**count - 1)))
    if short == kind:
        return name, text
    head, *lines, end = text.split("\n")
    each = f"    for (int i = 0; i < {count}; ++i) y[i] = x[i];\n    return y;"
    return name, "\n".join(
        [head, "#if !defined(__clang__) && __GNUC__ < 12", each, "#else", *lines, "#endif", end]
    )
