"""Pass: simplify with what is known at each place.

    before  loops, conditions, stores, allocations
    after   the same program: indices and conditions simplified under the ranges of the loops around
            them and the conditions above them; conditions that are decided are gone, and so are
            loops of one iteration or none

Run after each pass that substitutes.
"""

from __future__ import annotations

from minitensor.arith import (
    Interval,
    Linear,
    Ranges,
    Simplifier,
    at_least_zero,
    extent_range,
    prove,
)
from minitensor.codegen.notes import became, missed
from minitensor.ir import (
    COMPARISONS,
    FALSE,
    INDEX,
    NOTHING,
    TRUE,
    Alloc,
    Binary,
    Const,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Program,
    Select,
    Seq,
    Stmt,
    Store,
    Tensorized,
    conjunction,
    conjuncts,
    map_children,
    sequence,
    substitute,
)


def tidy(program: Program) -> Program:
    """The program, simplified."""
    return program.replace(body=tidied(program.body, {}))


def tidied(stmt: Stmt, ranges: Ranges, facts: tuple[Linear, ...] = ()) -> Stmt:
    """A statement, simplified for loop variables in `ranges` where `facts` are all >= 0."""
    return _Tidy(dict(ranges), facts).statement(stmt)


class _Tidy:
    def __init__(self, ranges: dict[str, Interval], facts: tuple[Linear, ...]) -> None:
        self.ranges = ranges
        self.facts = facts
        self.simplifier = Simplifier(ranges)

    def inside(self, loop: For) -> _Tidy:
        return _Tidy({**self.ranges, loop.var: extent_range(loop.extent)}, self.facts)

    def given(self, condition: Expr) -> _Tidy:
        known = tuple(
            form for part in conjuncts(condition) for form in at_least_zero(part, self.ranges) or ()
        )
        return _Tidy(self.ranges, self.facts + known)

    def statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For():
                return self.loop(stmt)
            case Seq(stmts):
                return sequence(*[self.statement(child) for child in stmts])
            case Store(buffer, indices, value):
                where = tuple(self.expr(i) for i in indices)
                return Store(buffer, where, self.expr(value))
            case If():
                return self.condition(stmt)
            case Tensorized(intrinsic, operands, axes, body):
                first = tuple(self.operand(operand) for operand in operands)
                return Tensorized(intrinsic, first, axes, self.statement(body))
            case Alloc(buffer, body):
                inner = self.statement(body)
                return inner if inner == NOTHING else Alloc(buffer, inner)
            case _:
                return stmt

    def operand(self, load: Load) -> Load:
        """The first element of an operand; it stays an access, whatever it may hold."""
        return Load(load.buffer, tuple(self.expr(i) for i in load.indices), load.dtype)

    def loop(self, loop: For) -> Stmt:
        if loop.extent == 0:
            return NOTHING
        if loop.extent == 1:
            _tell_single(loop)
            return self.statement(substitute(loop.body, {loop.var: Const(0)}))
        body = self.inside(loop).statement(loop.body)
        if body == NOTHING:
            return NOTHING
        return For(loop.var, loop.extent, body, loop.kind, loop.annotations)

    def condition(self, stmt: If) -> Stmt:
        condition = self.decided(stmt.condition)
        if condition == TRUE:
            return self.statement(stmt.then)
        if condition == FALSE:
            return NOTHING if stmt.otherwise is None else self.statement(stmt.otherwise)
        then = self.given(condition).statement(stmt.then)
        otherwise = NOTHING if stmt.otherwise is None else self.statement(stmt.otherwise)
        if then == NOTHING and otherwise == NOTHING:
            return NOTHING
        return If(condition, then, None if otherwise == NOTHING else otherwise)

    def decided(self, condition: Expr) -> Expr:
        """A condition without the parts that always hold; FALSE if one never does."""
        left: list[Expr] = []
        for part in conjuncts(self.simplifier.expr(condition)):
            verdict = prove(part, self.ranges, self.facts)
            if verdict is False:
                return FALSE
            if verdict is None:
                left.append(part)
        return conjunction(left)

    def expr(self, expr: Expr) -> Expr:
        """An expression, simplified; conditions inside it that are decided are taken."""
        return self.simplifier.expr(self.taken(expr) if self.facts else expr)

    def taken(self, expr: Expr) -> Expr:
        if isinstance(expr, Select):
            condition = self.decided(expr.condition)
            if condition in (TRUE, FALSE):
                return self.taken(expr.a if condition == TRUE else expr.b)
        if isinstance(expr, Binary) and expr.op in COMPARISONS and expr.a.dtype == INDEX:
            verdict = prove(expr, self.ranges, self.facts)
            return expr if verdict is None else (TRUE if verdict else FALSE)
        return map_children(expr, self.taken)


def _tell_single(loop: For) -> None:
    if loop.kind is LoopKind.SERIAL:
        return
    became(loop.var, "1 iteration: no loop")
    if loop.kind is LoopKind.VECTORIZE:
        missed(
            "vector", loop.var, "a single iteration is done in scalars", "vectorize a longer loop"
        )
    elif loop.kind is LoopKind.PARALLEL:
        missed(
            "parallel", loop.var, "has one iteration, so one thread", "make a longer loop parallel"
        )
