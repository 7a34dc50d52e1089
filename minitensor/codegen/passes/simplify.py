"""Pass: simplify with what is known at each place.

    before  loops, conditions, stores, allocations
    after   the same program: indices and conditions simplified under the ranges of the loops around
            them and the conditions above them; conditions that are decided are gone, and so are
            loops of one iteration or none

Run after each pass that substitutes.
"""

from __future__ import annotations

from minitensor import arith, ir
from minitensor.codegen.gpu.kernels import is_block
from minitensor.codegen.remarks import became, missed
from minitensor.codegen.target import Target


def simplify_program(program: ir.Program, target: Target) -> ir.Program:
    """The program, simplified. For a GPU the loops over blocks stay: they are what a kernel is."""
    return program.replace(body=_Simplifier({}, (), blocks=target.is_gpu).statement(program.body))


def simplified(stmt: ir.Stmt, ranges: arith.Ranges) -> ir.Stmt:
    """A statement, simplified for loop variables in `ranges`."""
    return _Simplifier(dict(ranges), ()).statement(stmt)


class _Remembering(arith.Simplifier):
    """A simplifier that looks at each load, index and condition once: copies repeat them."""

    def __init__(self, ranges: arith.Ranges) -> None:
        super().__init__(ranges)
        self.known: dict[ir.Expr, ir.Expr] = {}

    def expr(self, expr: ir.Expr) -> ir.Expr:
        if type(expr) is not ir.Load and expr.dtype not in (ir.INDEX, ir.BOOL):
            return super().expr(expr)
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = super().expr(expr)
        return found


class _Simplifier:
    def __init__(
        self,
        ranges: dict[str, arith.Interval],
        facts: tuple[arith.Linear, ...],
        simplifier: arith.Simplifier | None = None,
        blocks: bool = False,
    ) -> None:
        self.blocks = blocks
        self.ranges = ranges
        self.facts = facts
        self.simplifier = simplifier or _Remembering(ranges)
        self.verdicts: dict[ir.Expr, bool | None] = {}
        """Of conditions that were looked at; what is unrolled repeats them."""
        self.indices: dict[ir.Expr, ir.Expr] = {}
        """Those in which `taken` was looked for."""

    def inside(self, loop: ir.For) -> _Simplifier:
        ranges = {**self.ranges, loop.var: arith.extent_range(loop.extent)}
        return _Simplifier(ranges, self.facts, blocks=self.blocks)

    def given(self, condition: ir.Expr) -> _Simplifier:
        known = tuple(
            form
            for part in ir.conjuncts(condition)
            for form in arith.at_least_zero(part, self.ranges) or ()
        )
        return _Simplifier(self.ranges, self.facts + known, self.simplifier, self.blocks)

    def statement(self, stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.For():
                return self.loop(stmt)
            case ir.Seq(stmts):
                return ir.sequence(*[self.statement(child) for child in stmts])
            case ir.Store(buffer, indices, value):
                where = tuple(self.expr(i) for i in indices)
                return ir.Store(buffer, where, self.expr(value))
            case ir.If():
                return self.condition(stmt)
            case ir.Prefetch(buffer, indices):
                return ir.Prefetch(buffer, tuple(self.expr(i) for i in indices))
            case ir.Tensorized(intrinsic, operands, axes, body):
                first = tuple(self.operand(operand) for operand in operands)
                return ir.Tensorized(intrinsic, first, axes, self.statement(body))
            case ir.Alloc(buffer, body):
                inner = self.statement(body)
                return inner if inner == ir.NOTHING else ir.Alloc(buffer, inner)
            case _:
                return stmt

    def operand(self, load: ir.Load) -> ir.Load:
        """The first element of an operand; it stays an access, whatever it may hold."""
        return ir.Load(load.buffer, tuple(self.expr(i) for i in load.indices), load.dtype)

    def loop(self, loop: ir.For) -> ir.Stmt:
        if loop.extent == 0:
            return ir.NOTHING
        if loop.extent == 1:
            inner = self.statement(ir.substitute(loop.body, {loop.var: ir.Const(0)}))
            if self.blocks and is_block(loop) and inner != ir.NOTHING:
                return ir.with_body(loop, inner)
            _record_single(loop)
            return inner
        body = self.inside(loop).statement(loop.body)
        if body == ir.NOTHING:
            return ir.NOTHING
        return ir.with_body(loop, body)

    def condition(self, stmt: ir.If) -> ir.Stmt:
        condition = self.decided(stmt.condition)
        if condition == ir.TRUE:
            return self.statement(stmt.then)
        if condition == ir.FALSE:
            return ir.NOTHING if stmt.otherwise is None else self.statement(stmt.otherwise)
        then = self.given(condition).statement(stmt.then)
        otherwise = ir.NOTHING if stmt.otherwise is None else self.statement(stmt.otherwise)
        if then == ir.NOTHING and otherwise == ir.NOTHING:
            return ir.NOTHING
        return ir.If(condition, then, None if otherwise == ir.NOTHING else otherwise)

    def decided(self, condition: ir.Expr) -> ir.Expr:
        """A condition without the parts that always hold; FALSE if one never does."""
        left: list[ir.Expr] = []
        for part in ir.conjuncts(self.simplifier.expr(condition)):
            verdict = self.verdict(part)
            if verdict is False:
                return ir.FALSE
            if verdict is None:
                left.append(part)
        return ir.conjunction(left)

    def verdict(self, condition: ir.Expr) -> bool | None:
        """True if a condition always holds, False if it never does; None if that is not known."""
        if condition not in self.verdicts:
            self.verdicts[condition] = arith.prove(condition, self.ranges, self.facts)
        return self.verdicts[condition]

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """An expression, simplified; conditions inside it that are decided are taken."""
        return self.simplifier.expr(self.taken(expr) if self.facts else expr)

    def taken(self, expr: ir.Expr) -> ir.Expr:
        if type(expr) in (ir.Var, ir.Const):
            return expr
        if expr.dtype == ir.INDEX:
            found = self.indices.get(expr)
            if found is None:
                found = self.indices[expr] = self.undecided(expr)
            return found
        return self.undecided(expr)

    def undecided(self, expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Select):
            condition = self.decided(expr.condition)
            if condition in (ir.TRUE, ir.FALSE):
                return self.taken(expr.a if condition == ir.TRUE else expr.b)
        if isinstance(expr, ir.Binary) and expr.op in ir.COMPARISONS and expr.a.dtype == ir.INDEX:
            verdict = self.verdict(expr)
            return expr if verdict is None else (ir.TRUE if verdict else ir.FALSE)
        return ir.map_children(expr, self.taken)


def _record_single(loop: ir.For) -> None:
    if loop.kind is ir.LoopKind.SERIAL:
        return
    became(loop.var, "1 iteration: no loop")
    if loop.kind is ir.LoopKind.VECTORIZE:
        missed(
            "vector", loop.var, "a single iteration is done in scalars", "vectorize a longer loop"
        )
    elif loop.kind is ir.LoopKind.PARALLEL:
        missed(
            "parallel", loop.var, "has one iteration, so one thread", "make a longer loop parallel"
        )
