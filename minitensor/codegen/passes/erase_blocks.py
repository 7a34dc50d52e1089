"""Pass: blocks become plain statements, temporaries become allocations.

    before  a program with blocks and temporaries
    after   loops, conditions, stores, and Alloc statements where temporaries live (`ir.lifetime`);
            shapes are still the full ones

A reduction's init moves in front of its outermost reduction loop where that is right, and stays a
condition in the innermost loop where it is not. Loops that an intrinsic does keep their text, with
the operands for the call beside it (`Tensorized`).
On a GPU, threads combine what a reduction over their loop is of (see `gpu.combine`).
"""

from __future__ import annotations

from minitensor import arith, ir
from minitensor.codegen.gpu.combine import combining_thread, guarded, over_threads
from minitensor.codegen.intrinsics import declared
from minitensor.codegen.passes.order_positions import order_positions
from minitensor.codegen.target import Target
from minitensor.errors import LoweringError


def erase_blocks(program: ir.Program, target: Target) -> ir.Program:
    """The program without blocks and temporaries."""
    eraser = _Eraser(order_positions(program), target)
    body = eraser.statement(eraser.program.body)
    return program.replace(body=eraser.allocated(None, body), temporaries=())


class _Eraser:
    def __init__(self, program: ir.Program, target: Target) -> None:
        self.program = program
        self.is_gpu = target.is_gpu
        self.dtypes = {name: b.dtype for name, b in program.buffers.items()}
        self.names = ir.names_in(program)
        self.living: dict[str | None, list[ir.Buffer]] = {}
        where = ir.lifetimes(program)
        for buffer in program.temporaries:
            self.living.setdefault(where[buffer.name], []).append(buffer)
        self.inits: dict[str, list[ir.Stmt]] = {}
        """Nests that initialise a reduction, by the loop they stand in front of."""
        self.in_intrinsic = False
        """True if the walk stands in loops that an intrinsic does."""
        self.started: set[str] = set()
        """The blocks whose init has been moved there."""
        for name, block in program.blocks.items():
            if block.init is not None:
                self.move_init(block, ir.paths(program)[name])

    def move_init(self, block: ir.Block, loops: tuple[ir.For, ...]) -> None:
        """Plan the init of a reduction in front of its outermost reduction loop, if right."""
        depth = next((n for n, loop in enumerate(loops) if arith.carries(block, loop.var)), None)
        if depth is None or any(arith.mixes(block, loop.var) for loop in loops[depth:]):
            return
        if arith.repeats(block, loops, depth) is not None or not arith.starts(block, loops, depth):
            return
        own, init = arith.init_nest(block, loops, depth, block.name, self.fresh)
        first = self.block(ir.Block(init.name, init.iters, init.body, None, init.predicate))
        self.inits.setdefault(loops[depth].var, []).append(ir.nest(own, first))
        self.started.add(block.name)

    def fresh(self, label: str, block: str) -> str:
        return ir.fresh_name(label, self.names, owner=block)

    def allocated(self, loop: str | None, body: ir.Stmt) -> ir.Stmt:
        return ir.allocated(self.living.get(loop, ()), body)

    def statement(self, stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.For):
            if stmt.kind is ir.LoopKind.TENSORIZE and not self.in_intrinsic:
                return self.tensorized(stmt)
            body = self.allocated(stmt.var, self.statement(stmt.body))
            return ir.sequence(*self.inits.get(stmt.var, ()), ir.with_body(stmt, body))
        if isinstance(stmt, ir.Seq):
            return ir.sequence(*[self.statement(child) for child in stmt.stmts])
        if isinstance(stmt, ir.Block):
            return self.block(stmt)
        return ir.map_stmts(stmt, self.statement)  # plain already

    def tensorized(self, loop: ir.For) -> ir.Stmt:
        """A nest, and with what operands its intrinsic is to be called for it."""
        key = str(dict(loop.annotations).get(ir.NOTE))
        try:
            found = arith.match_intrinsic(
                self.program, loop.var, declared(key), ir.LoopKind.TENSORIZE
            )
        except arith.MismatchError as problem:
            raise LoweringError(
                f"{ir.print_name(key)} does not do the loop {ir.print_name(loop.var)}: "
                f"{problem.detail}"
            ) from None
        self.in_intrinsic = True
        body = self.statement(loop)
        self.in_intrinsic = False
        return ir.Tensorized(key, tuple(o.first for o in found), tuple(o.axes for o in found), body)

    def block(self, block: ir.Block) -> ir.Stmt:
        bindings = {i.var: i.binding for i in block.iters}
        thread = combining_thread(block, ir.paths(self.program)[block.name])
        if self.is_gpu and thread is not None:
            return over_threads(block, thread, self.names, self.init(block), self.reduction)
        body = self.plain(ir.substitute(block.body, bindings))
        body = ir.sequence(self.init(block), body)
        return guarded(block.predicate, body)

    def init(self, block: ir.Block) -> ir.Stmt:
        """The start of a reduction that has not been moved: a condition in the innermost loop."""
        if block.init is None or block.name in self.started:
            return ir.NOTHING
        carried = [i for i in block.iters if i.kind is not ir.IterKind.SPATIAL]
        first = ir.conjunction(ir.equal(i.binding, 0) for i in carried)
        bindings = {i.var: i.binding for i in block.iters}
        return guarded(first, self.plain(ir.substitute(block.init, bindings)))

    def plain(self, stmt: ir.Stmt) -> ir.Stmt:
        """A statement of a block with its reductions written out."""
        match stmt:
            case ir.Reduce():
                return self.reduction(stmt)
            case ir.If(condition, then, otherwise):
                other = None if otherwise is None else self.plain(otherwise)
                return ir.If(condition, self.plain(then), other)
            case ir.Seq(stmts):
                return ir.sequence(*[self.plain(child) for child in stmts])
            case _:
                return stmt

    def reduction(self, stmt: ir.Reduce) -> ir.Stmt:
        old = tuple(ir.Load(b, stmt.indices, self.dtypes[b]) for b in stmt.buffers)
        if _is_simple(stmt.reducer):
            (result,) = ir.apply_reducer(stmt.reducer, old, stmt.values)
            return ir.Store(stmt.buffers[0], stmt.indices, result)
        given: list[tuple[ir.Buffer, ir.Expr]] = []
        held: dict[str, ir.Expr] = {}
        for var, value in zip(stmt.reducer.lhs + stmt.reducer.rhs, old + stmt.values):
            name = ir.fresh_name(f"{stmt.buffers[0]}_{var.name}", self.names)
            given.append((ir.Buffer(name, (), var.dtype, ir.Scope.REGISTER), value))
            held[var.name] = ir.Load(name, (), var.dtype)
        results = [
            ir.Store(buffer, stmt.indices, ir.substitute(result, held))
            for buffer, result in zip(stmt.buffers, stmt.reducer.results)
        ]
        stores = [ir.Store(buffer.name, (), value) for buffer, value in given]
        return ir.allocated([buffer for buffer, _ in given], ir.sequence(*stores, *results))


def _is_simple(reducer: ir.Reducer) -> bool:
    """Tell whether each operand occurs once: then no temporary is needed."""
    if len(reducer.results) != 1:
        return False
    used = [n.name for n in ir.walk(reducer.results[0]) if isinstance(n, ir.Var)]
    return len(used) == len(set(used))
