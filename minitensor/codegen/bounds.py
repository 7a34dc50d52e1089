"""Pass: a run-time check for each access that cannot be proven to stay inside its buffer.

    before  a program with blocks
    after   the same, where an index that depends on data, or on a condition beyond the prover's
            reach, is wrapped: in_bounds(index, extent)

Proofs are made in terms of a block's iters, whose domain is known, so schedules do not make them
harder. Affine programs come out unchanged.
"""

from __future__ import annotations

from minitensor.arith import (
    Linear,
    Ranges,
    at_least_zero,
    extent_range,
    is_nonnegative,
    simplified_linear,
    simplify,
)
from minitensor.ir import (
    Block,
    Call,
    Const,
    Expr,
    For,
    If,
    Load,
    Program,
    Reduce,
    Select,
    Seq,
    Stmt,
    Store,
    Unary,
    conjuncts,
    map_children,
)

INDEX_CHECK = "in_bounds"


def check_bounds(program: Program) -> Program:
    """The program with every access either proven or checked."""
    return program.replace(body=_statement(program.body, program))


def _statement(stmt: Stmt, program: Program) -> Stmt:
    if isinstance(stmt, (For, Seq)):
        return map_children(stmt, lambda child: _statement(child, program))
    if isinstance(stmt, Block):
        guard = _Guard(program, {i.var: extent_range(i.extent) for i in stmt.iters})
        body = guard.statement(stmt.body, ())
        init = guard.statement(stmt.init, ()) if stmt.init is not None else None
        return Block(stmt.name, stmt.iters, body, init, stmt.predicate, stmt.annotations)
    return stmt


class _Guard:
    """Rewrites the statements of one block; `facts` are forms known to be >= 0 where they stand."""

    def __init__(self, program: Program, ranges: Ranges) -> None:
        self.program = program
        self.ranges = ranges

    def statement(self, stmt: Stmt, facts: tuple[Linear, ...]) -> Stmt:
        match stmt:
            case Store(buffer, indices, value):
                where = self.indices(buffer, indices, facts)
                return Store(buffer, where, self.expr(value, facts))
            case Reduce(reducer, buffers, indices, values):
                where = self.indices(buffers[0], indices, facts)
                terms = tuple(self.expr(v, facts) for v in values)
                return Reduce(reducer, buffers, where, terms)
            case If(condition, then, otherwise):
                yes, no = self.facts(condition), self.facts(Unary("not", condition))
                return If(
                    self.expr(condition, facts),
                    self.statement(then, facts + yes),
                    None if otherwise is None else self.statement(otherwise, facts + no),
                )
            case _:
                return map_children(stmt, lambda child: self.statement(child, facts))

    def expr(self, expr: Expr, facts: tuple[Linear, ...]) -> Expr:
        if isinstance(expr, Select) and expr.lazy:
            yes, no = self.facts(expr.condition), self.facts(Unary("not", expr.condition))
            return Select(
                self.expr(expr.condition, facts),
                self.expr(expr.a, facts + yes),
                self.expr(expr.b, facts + no),
                lazy=True,
            )
        if isinstance(expr, Load):
            return Load(expr.buffer, self.indices(expr.buffer, expr.indices, facts), expr.dtype)
        return map_children(expr, lambda child: self.expr(child, facts))

    def facts(self, condition: Expr) -> tuple[Linear, ...]:
        """What a condition says, as forms that are >= 0 where it holds."""
        simple = simplify(condition, self.ranges)
        if isinstance(simple, Unary) and simple.op == "not":
            return _facts_of_negation(simple.a, self.ranges)
        return tuple(
            form for part in conjuncts(simple) for form in at_least_zero(part, self.ranges) or ()
        )

    def indices(
        self, buffer: str, indices: tuple[Expr, ...], facts: tuple[Linear, ...]
    ) -> tuple[Expr, ...]:
        shape = self.program.buffers[buffer].shape
        return tuple(self.index(self.expr(i, facts), n, facts) for i, n in zip(indices, shape))

    def index(self, index: Expr, extent: int, facts: tuple[Linear, ...]) -> Expr:
        form = simplified_linear(index, self.ranges)
        inside = is_nonnegative(form, self.ranges, facts) and is_nonnegative(
            form.times(-1).shifted(extent - 1), self.ranges, facts
        )
        return index if inside else Call(INDEX_CHECK, (index, Const(extent)), index.dtype)


def _facts_of_negation(condition: Expr, ranges: Ranges) -> tuple[Linear, ...]:
    """What `not (a or b)` says: neither a nor b."""
    op, a, b = (getattr(condition, name, None) for name in ("op", "a", "b"))
    if op != "or":
        return ()
    found: tuple[Linear, ...] = ()
    for part in (a, b):
        negated = simplify(Unary("not", part), ranges)  # type: ignore[arg-type]
        found += at_least_zero(negated, ranges) or ()
        if isinstance(negated, Unary):
            found += _facts_of_negation(negated.a, ranges)
    return found
