"""Pass: while threads compute with one tile in shared memory, the next one is copied.

    before  for k in range(n):  # pipeline = 2      after  S[0] = tile 0 of A
                barrier()                                  for k in range(n):
                S = tile k of A                                barrier()
                barrier()                                      if k + 1 < n: S[(k+1) % 2] = tile k+1
                compute with S                                 compute with S[k % 2]

The loop is one that a schedule annotates: s.annotate(k, "pipeline", 2). Its buffers get a second
half, and one of the two barriers of an iteration goes. What is copied into them as it is, in words
of 4, 8 or 16 bytes, is copied asynchronously (cp.async of the PTX ISA, compute capability 8.0): the
emitter finds the buffers in the annotation COPIES of the loop, and each barrier waits for copies.
"""

from __future__ import annotations

from typing import Final

from minitensor import arith, ir
from minitensor.codegen.gpu.devices import device_of
from minitensor.codegen.gpu.vthreads import indexed, with_axes
from minitensor.codegen.passes.simplify import simplified
from minitensor.codegen.remarks import became, missed
from minitensor.codegen.target import Target

NOTE: Final = "pipeline"
"""The annotation of a loop whose copies are to be pipelined; its value is the number of tiles."""
ASYNCHRONOUS: Final = 80
"""The compute capability from which GPUs copy asynchronously; older ones load and store."""
COPIES: Final = "copies"
"""The beginning of the annotations that name the buffers of a loop that is pipelined."""


def pipeline_copies(program: ir.Program, target: Target) -> ir.Program:
    """The program with pipelined loops where they are asked for and possible."""
    body = _statement(_unmarked(program.body), False)
    is_old = device_of(target).capability < ASYNCHRONOUS
    return program.replace(body=_unmarked(body) if is_old else body)


def _unmarked(stmt: ir.Stmt) -> ir.Stmt:
    """A statement without the annotations that only this pass may give."""
    stmt = ir.map_stmts(stmt, _unmarked)
    if not isinstance(stmt, ir.For):
        return stmt
    notes = tuple(note for note in stmt.annotations if not note[0].startswith(COPIES))
    return ir.For(stmt.var, stmt.extent, stmt.body, stmt.kind, notes)


def _statement(stmt: ir.Stmt, repeated: bool) -> ir.Stmt:
    """A statement; `repeated`: it stands in a loop of its kernel that is no thread's or block's."""
    if isinstance(stmt, ir.Alloc) and stmt.buffer.scope is ir.Scope.SHARED:
        return _allocated(stmt, repeated)
    if isinstance(stmt, ir.For):
        if NOTE in dict(stmt.annotations):
            missed("pipeline", stmt.var, "it stands in no kernel with shared memory")
        return ir.with_body(stmt, _statement(stmt.body, repeated or not stmt.kind.is_bound))
    return ir.map_stmts(stmt, lambda child: _statement(child, repeated))


def _allocated(stmt: ir.Stmt, repeated: bool) -> ir.Stmt:
    """Shared memory and the threads of a kernel that uses it."""
    buffers: dict[str, ir.Buffer] = {}
    body = stmt
    while isinstance(body, ir.Alloc) and body.buffer.scope is ir.Scope.SHARED:
        buffers[body.buffer.name] = body.buffer
        body = body.body
    pipeline = _Pipeline(buffers, body)
    body = pipeline.statement(body, repeated)
    return ir.allocated(pipeline.buffers.values(), body)


class _Pipeline:
    def __init__(self, buffers: dict[str, ir.Buffer], kernel: ir.Stmt) -> None:
        self.buffers, self.kernel = dict(buffers), kernel

    def statement(self, stmt: ir.Stmt, repeated: bool) -> ir.Stmt:
        if not isinstance(stmt, ir.For):
            return ir.map_stmts(stmt, lambda child: self.statement(child, repeated))
        if NOTE in dict(stmt.annotations):
            problem = self.problem(stmt)
            if not problem:
                return self.pipelined(stmt, repeated)
            missed("pipeline", stmt.var, problem)
        inner = repeated or not stmt.kind.is_bound
        return ir.with_body(stmt, self.statement(stmt.body, inner))

    def problem(self, loop: ir.For) -> str:
        """The reason for which copies are not pipelined in a loop; empty if they can be."""
        if dict(loop.annotations)[NOTE] != 2:
            return "a pipeline has 2 tiles: one that is copied, one that is computed with"
        parts = _parts(loop.body)
        if parts is None:
            return (
                "its body is not one group of copies into shared memory and one that uses them, "
                "with the threads meeting before each"
            )
        copies, uses = parts
        written = ir.stored_buffers(copies)
        if not written or not written <= self.buffers.keys():
            return "what stands before the use stores to more than shared memory"
        if written & (_loaded(copies) | ir.stored_buffers(uses)):
            return "what is copied is changed in place"
        if _loaded(copies) & ir.stored_buffers(uses):
            return "the next tile is copied from what the use of this one stores to"
        for name in written:
            if len(ir.accesses(self.kernel, name)) != len(ir.accesses(loop, name)):
                return f"{ir.print_name(name)} is used outside of the loop too"
        return ""

    def pipelined(self, loop: ir.For, repeated: bool) -> ir.Stmt:
        parts = _parts(loop.body)
        assert parts is not None
        copies, uses = parts
        names = sorted(ir.stored_buffers(copies))
        for name in names:
            self.buffers[name] = with_axes(self.buffers[name], (2,))
        became(loop.var, "copies the next tile while it computes")
        var, ranges = ir.Var(loop.var), {loop.var: arith.extent_range(loop.extent)}
        simplifier = arith.Simplifier(ranges)
        following = ir.substitute(copies, {loop.var: ir.arithmetic("+", var, 1)})
        threads = [one for one in ir.loops_of(self.kernel) if one.kind.is_thread]
        inside = {one.var: arith.extent_range(one.extent) for one in threads}
        start = simplified(ir.substitute(copies, {loop.var: ir.Const(0)}), inside)
        first = _in_half(start, names, ir.Const(0))
        half = simplifier.expr(ir.arithmetic("%", ir.arithmetic("+", var, 1), 2))
        ahead = ir.If(ir.less(var, loop.extent - 1), _in_half(following, names, half))
        now = _in_half(uses, names, ir.arithmetic("%", var, 2))
        notes = tuple((f"{COPIES} {n}", name) for n, name in enumerate(names))
        kept = tuple(pair for pair in loop.annotations if pair[0] != NOTE)
        body = ir.sequence(ir.Barrier(), ahead, now)
        new = ir.For(loop.var, loop.extent, body, loop.kind, kept + notes)
        if repeated or _loaded(copies) & self.passed_on():
            first = ir.sequence(ir.Barrier(), first)
        return ir.sequence(first, new)

    def passed_on(self) -> set[str]:
        """The buffers that threads of the kernel store to, and others may see."""
        allocated = (node for node in ir.stmts_of(self.kernel) if isinstance(node, ir.Alloc))
        return ir.stored_buffers(self.kernel) - {alloc.buffer.name for alloc in allocated}


def _parts(body: ir.Stmt) -> tuple[ir.Stmt, ir.Stmt] | None:
    """The copies and the uses in the body of a loop: behind its first and its second barrier."""
    stmts = body.stmts if isinstance(body, ir.Seq) else (body,)
    places = [n for n, stmt in enumerate(stmts) if isinstance(stmt, ir.Barrier)]
    hidden = sum(isinstance(node, (ir.Barrier, ir.ThreadReduce)) for node in ir.stmts_of(body))
    if len(places) != 2 or hidden != 2 or places[0] != 0:
        return None
    middle = places[1]
    return ir.sequence(*stmts[1:middle]), ir.sequence(*stmts[middle + 1 :])


def _loaded(stmt: ir.Stmt) -> set[str]:
    return {load.buffer for load in ir.loads(stmt)}


def _in_half(stmt: ir.Stmt, names: list[str], half: ir.Expr) -> ir.Stmt:
    """A statement that accesses one half of some buffers."""
    for name in names:
        stmt = indexed(stmt, name, (half,))
    return stmt
