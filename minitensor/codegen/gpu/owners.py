"""Temporaries of a kernel that outlive a nest of threads: who owns their elements?

Where each element is read by the thread that wrote it, each thread has a buffer of its own, without
the axes along which threads differ:

    T = empty(float32[64])                              T = empty(float32[8])
    for t in bind(8, …): for i: T[t*8 + i] = …    =>    for t: for i: T[i] = …
    for u in bind(8, …): for i: … = T[u*8 + i]          for t: for i: … = T[i]

Other buffers go to shared memory, and to device memory where that has no room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from minitensor import arith, ir
from minitensor.codegen.gpu.accesses import THREADS, Access, Accesses, Path, common_loops, is_unit
from minitensor.codegen.gpu.devices import MOST_LOCAL, Device
from minitensor.codegen.gpu.kernels import SHARED_ALIGNMENT, nbytes
from minitensor.codegen.gpu.vthreads import indexed, with_axes
from minitensor.codegen.remarks import missed

Indices: TypeAlias = tuple[ir.Expr, ...]

ADVICE: Final = "let each thread read what it wrote itself"


class Placer:
    """Decides for each temporary of a kernel where it is.

    shared   those of a block, in shared memory
    device   those of a block, in device memory: for want of room in shared memory
    private  the names of those that each thread has for itself
    """

    def __init__(self, outer: arith.Ranges, device: Device) -> None:
        self.outer = outer
        self.room = device.most_shared
        self.shared: list[ir.Buffer] = []
        self.device: list[ir.Buffer] = []
        self.private: set[str] = set()

    def place(self, kernel: ir.Stmt) -> ir.Stmt:
        """The statement of a kernel, without the allocations of what its threads share."""
        for node in ir.stmts_of(kernel):
            if isinstance(node, ir.Alloc) and node.buffer.scope is ir.Scope.SHARED:
                self.room -= _room_for(node.buffer)
        return self._statement(kernel, ())

    def _statement(self, stmt: ir.Stmt, path: Path) -> ir.Stmt:
        if isinstance(stmt, ir.For):
            return ir.with_body(stmt, self._statement(stmt.body, (*path, stmt)))
        if isinstance(stmt, ir.Alloc):
            return self._alloc(stmt.buffer, stmt.body, path)
        return ir.map_stmts(stmt, lambda child: self._statement(child, path))

    def _alloc(self, buffer: ir.Buffer, body: ir.Stmt, path: Path) -> ir.Stmt:
        """The allocation of a buffer that is each thread's own, or what it is around."""
        if buffer.scope is ir.Scope.SHARED:
            self.shared.append(buffer)
            return self._statement(body, path)
        whole = ir.Alloc(_in(ir.Scope.LOCAL, buffer), body)
        accesses = Accesses(self.outer, body)
        found = [a for a in accesses.below(body, path) if a.buffer == buffer.name]
        if is_unit(body) or is_owned(found, accesses, path):
            own = whole if is_unit(body) else without_threads(whole, found, accesses, path)
            if buffer.scope is not ir.Scope.GLOBAL or nbytes(own.buffer) <= MOST_LOCAL:
                self.private.add(buffer.name)
                return ir.Alloc(own.buffer, self._statement(own.body, path))
        threads = [loop for loop in path if loop.kind in THREADS]  # each of which has an instance
        wide = with_axes(buffer, tuple(loop.extent for loop in threads))
        body = indexed(body, buffer.name, tuple(ir.Var(loop.var) for loop in threads))
        if _room_for(wide) <= self.room:
            self.room -= _room_for(wide)
            self.shared.append(_in(ir.Scope.SHARED, wide))
            where, advice = "shared memory", f"{ADVICE}, or set_scope it to shared"
        else:
            self.device.append(_in(ir.Scope.GLOBAL, wide))
            where = "device memory, as shared memory has no room for it"
            advice = f"{ADVICE}, or compute it in smaller tiles"
        missed("owner", buffer.name, f"is in {where}: threads read what others wrote", advice)
        return self._statement(body, path)


def _room_for(buffer: ir.Buffer) -> int:
    return -(-nbytes(buffer) // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


def _in(scope: ir.Scope, buffer: ir.Buffer) -> ir.Buffer:
    """The buffer in a scope; one that is meant for registers stays there if it can be LOCAL."""
    if scope is ir.Scope.LOCAL and buffer.scope is ir.Scope.REGISTER:
        return buffer
    return ir.Buffer(buffer.name, buffer.shape, buffer.dtype, scope, buffer.alignment)


def is_owned(found: Sequence[Access], accesses: Accesses, around: Path) -> bool:
    """Tell whether each element is read only by the thread that wrote it.

    found   the accesses of a buffer
    around  the loops around its allocation
    """
    writes = [access for access in found if access.writes]
    reads = [access for access in found if not access.writes]
    depth = len(around)
    return not any(
        accesses.meet(a, b, common_loops(a.path, b.path, depth)) for a in writes for b in reads
    )


def without_threads(
    alloc: ir.Alloc, found: Sequence[Access], accesses: Accesses, around: Path
) -> ir.Alloc:
    """The allocation of what each thread owns, its axes cut where threads differ: an index
    high*(s*e) + t*s + low, with t a thread index of e values, becomes the indices high and low.
    """
    buffer = alloc.buffer
    if buffer.alignment or _is_operand(alloc.body, buffer.name):
        return alloc
    for axis, extent in enumerate(buffer.shape):
        digit = _digit([access.indices[axis] for access in found], found, accesses, around)
        if digit is not None:
            small, body = _cut(alloc, axis, -(-extent // (digit[0] * digit[1])), *digit)
            accesses = Accesses(accesses.outer, body)
            found = [a for a in accesses.below(body, around) if a.buffer == buffer.name]
            return without_threads(ir.Alloc(small, body), found, accesses, around)
    return alloc


def _digit(
    forms: Sequence[arith.Linear], found: Sequence[Access], accesses: Accesses, around: Path
) -> tuple[int, int] | None:
    """The stride and the number of values of a thread index, or of a digit of one, that all forms
    have as a digit.
    """
    for kind in THREADS:
        loops = [n for a in found for n in a.path[len(around) :] if n.kind is kind]
        if not loops:
            continue
        name, most = loops[0].var, max(loop.extent for loop in loops)
        for atom, stride in forms[0].terms.items():
            values = arith.interval_of(atom, {name: arith.extent_range(most)})
            if set(ir.free_vars(atom)) != {name} or values.lo != 0 or stride < 1:
                continue
            count = int(values.hi) + 1
            if all(
                form.terms.get(atom) == stride
                and _is_digit(form, stride, count, atom, access, accesses)
                for access, form in zip(found, forms)
            ):
                return stride, count
    return None


def _is_digit(
    form: arith.Linear, stride: int, count: int, atom: ir.Expr, access: Access, accesses: Accesses
) -> bool:
    inside = {n.var: arith.extent_range(n.extent) for n in access.path}
    digit = form.expr() // stride % count
    return arith.simplify(digit, {**accesses.outer, **inside}) == atom


def _cut(
    alloc: ir.Alloc, axis: int, high: int, stride: int, count: int
) -> tuple[ir.Buffer, ir.Stmt]:
    """The buffer and what accesses it with an axis of high * count * stride cut into two."""
    buffer = alloc.buffer

    def cut(indices: Indices) -> Indices:
        index = indices[axis]
        first = (index // (stride * count),) if high > 1 else ()
        last = (index % stride,) if stride > 1 else ()
        return (*indices[:axis], *first, *last, *indices[axis + 1 :])

    def one(node: ir.Node) -> ir.Node:
        match node:
            case ir.Load(name, indices, dtype) if name == buffer.name:
                return ir.Load(name, cut(indices), dtype)
            case ir.Store(name, indices, value) if name == buffer.name:
                return ir.Store(name, cut(indices), value)
        return node

    parts = [size for size in (high, stride) if size > 1]
    shape = (*buffer.shape[:axis], *parts, *buffer.shape[axis + 1 :])
    return ir.Buffer(buffer.name, shape, buffer.dtype, buffer.scope), ir.rewrite(alloc.body, one)


def _is_operand(stmt: ir.Stmt, buffer: str) -> bool:
    """Tell whether an intrinsic counts the axes of a buffer."""
    calls = (node for node in ir.stmts_of(stmt) if isinstance(node, ir.Tensorized))
    return any(operand.buffer == buffer for call in calls for operand in call.operands)
