"""Pass: blocks become plain statements, temporaries become allocations.

    before  a program with blocks and temporaries
    after   loops, conditions, stores, and Alloc statements where the temporaries live (`ir.home`);
            shapes are still the full ones

A reduction's init moves in front of its outermost reduction loop where that is right, and stays a
condition in the innermost loop where it is not. Loops that an intrinsic does keep their text, with
the operands for the call beside it (`Tensorized`).
"""

from __future__ import annotations

from minitensor.arith import (
    MismatchError,
    carries,
    init_nest,
    match_intrinsic,
    mixes,
    repeats,
)
from minitensor.codegen.intrinsics import declared
from minitensor.errors import LoweringError
from minitensor.ir import (
    NOTE,
    TRUE,
    Alloc,
    Block,
    Buffer,
    Expr,
    For,
    If,
    IterKind,
    Load,
    LoopKind,
    Program,
    Reduce,
    Reducer,
    Scope,
    Seq,
    Stmt,
    Store,
    Tensorized,
    Var,
    apply_reducer,
    conjunction,
    equal,
    fresh_name,
    homes,
    loops_of,
    paths,
    print_name,
    sequence,
    substitute,
    walk,
)


def erase_blocks(program: Program) -> Program:
    """The program without blocks and temporaries."""
    eraser = _Eraser(program)
    body = eraser.statement(program.body)
    return program.replace(body=eraser.allocated(None, body), temporaries=())


class _Eraser:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.dtypes = {name: b.dtype for name, b in program.buffers.items()}
        self.names = {b.name for b in program.buffers.values()}
        self.names |= {loop.var for loop in loops_of(program.body)}
        self.living: dict[str | None, list[Buffer]] = {}
        where = homes(program)
        for buffer in program.temporaries:
            self.living.setdefault(where[buffer.name], []).append(buffer)
        self.inits: dict[str, list[Stmt]] = {}
        """Nests that initialise a reduction, by the loop they stand in front of."""
        self.in_intrinsic = False
        """Whether the walk stands in loops that an intrinsic does."""
        self.started: set[str] = set()
        """The blocks whose init has been moved there."""
        for name, block in program.blocks.items():
            if block.init is not None:
                self.move_init(block, paths(program)[name])

    def move_init(self, block: Block, loops: tuple[For, ...]) -> None:
        """Plan the init of a reduction in front of its outermost reduction loop, if right."""
        depth = next((n for n, loop in enumerate(loops) if carries(block, loop.var)), None)
        if depth is None or any(mixes(block, loop.var) for loop in loops[depth:]):
            return
        if repeats(block, loops, depth) is not None:
            return
        own, init = init_nest(block, loops, depth, block.name, self.fresh)
        nest: Stmt = self.block(Block(init.name, init.iters, init.body, None, init.predicate))
        for loop in reversed(own):
            nest = For(loop.var, loop.extent, nest, loop.kind, loop.annotations)
        self.inits.setdefault(loops[depth].var, []).append(nest)
        self.started.add(block.name)

    def fresh(self, label: str) -> str:
        return fresh_name(label, self.names)

    def allocated(self, home: str | None, body: Stmt) -> Stmt:
        for buffer in reversed(self.living.get(home, [])):
            body = Alloc(buffer, body)
        return body

    def statement(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            if stmt.kind is LoopKind.TENSORIZE and not self.in_intrinsic:
                return self.tensorized(stmt)
            body = self.allocated(stmt.var, self.statement(stmt.body))
            loop = For(stmt.var, stmt.extent, body, stmt.kind, stmt.annotations)
            return sequence(*self.inits.get(stmt.var, ()), loop)
        if isinstance(stmt, Seq):
            return sequence(*[self.statement(child) for child in stmt.stmts])
        assert isinstance(stmt, Block)
        return self.block(stmt)

    def tensorized(self, loop: For) -> Stmt:
        """A nest, and with what operands its intrinsic is to be called for it."""
        key = str(dict(loop.annotations).get(NOTE))
        try:
            found = match_intrinsic(self.program, loop.var, declared(key), LoopKind.TENSORIZE)
        except MismatchError as problem:
            raise LoweringError(
                f"{print_name(key)} does not do the loop {print_name(loop.var)}: {problem.detail}"
            ) from None
        self.in_intrinsic = True
        body = self.statement(loop)
        self.in_intrinsic = False
        return Tensorized(key, tuple(o.first for o in found), tuple(o.axes for o in found), body)

    def block(self, block: Block) -> Stmt:
        bindings = {i.var: i.binding for i in block.iters}
        body = self.plain(substitute(block.body, bindings))
        if block.init is not None and block.name not in self.started:
            carried = [i for i in block.iters if i.kind is not IterKind.SPATIAL]
            first = conjunction(equal(i.binding, 0) for i in carried)
            init = self.plain(substitute(block.init, bindings))
            body = sequence(init if first == TRUE else If(first, init), body)
        return body if block.predicate == TRUE else If(block.predicate, body)

    def plain(self, stmt: Stmt) -> Stmt:
        """A statement of a block with its reductions written out."""
        match stmt:
            case Reduce():
                return self.reduction(stmt)
            case If(condition, then, otherwise):
                other = None if otherwise is None else self.plain(otherwise)
                return If(condition, self.plain(then), other)
            case Seq(stmts):
                return sequence(*[self.plain(child) for child in stmts])
            case _:
                return stmt

    def reduction(self, stmt: Reduce) -> Stmt:
        old = tuple(Load(b, stmt.indices, self.dtypes[b]) for b in stmt.buffers)
        if _is_simple(stmt.reducer):
            (result,) = apply_reducer(stmt.reducer, old, stmt.values)
            return Store(stmt.buffers[0], stmt.indices, result)
        given: list[tuple[Buffer, Expr]] = []
        held: dict[str, Expr] = {}
        for var, value in zip(stmt.reducer.lhs + stmt.reducer.rhs, old + stmt.values):
            name = self.fresh(f"{stmt.buffers[0]}_{var.name}")
            given.append((Buffer(name, (), var.dtype, Scope.REGISTER), value))
            held[var.name] = Load(name, (), var.dtype)
        results = [
            Store(buffer, stmt.indices, substitute(result, held))
            for buffer, result in zip(stmt.buffers, stmt.reducer.results)
        ]
        stores = [Store(buffer.name, (), value) for buffer, value in given]
        body = sequence(*stores, *results)
        for buffer, _ in reversed(given):
            body = Alloc(buffer, body)
        return body


def _is_simple(reducer: Reducer) -> bool:
    """Whether each operand occurs once, so that nothing is computed twice without a temporary."""
    if len(reducer.results) != 1:
        return False
    used = [n.name for n in walk(reducer.results[0]) if isinstance(n, Var)]
    return len(used) == len(set(used))
