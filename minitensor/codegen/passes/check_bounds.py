"""Pass: a run-time check for each access that cannot be proven to stay inside its buffer.

    before  a program with blocks
    after   the same, where an index that depends on data, or on a condition beyond the prover's
            reach, is wrapped: in_bounds(index, extent)

Proofs are made in terms of a block's iters, whose domain is known, so schedules do not make them
harder. Affine programs come out unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitensor import arith, ir
from minitensor.codegen.target import Target

INDEX_CHECK = "in_bounds"


def check_bounds(program: ir.Program, target: Target) -> ir.Program:
    """The program with every access either proven or checked."""
    return program.replace(body=_statement(program.body, program))


def _statement(stmt: ir.Stmt, program: ir.Program) -> ir.Stmt:
    if isinstance(stmt, (ir.For, ir.Seq)):
        return ir.map_children(stmt, lambda child: _statement(child, program))
    if isinstance(stmt, ir.Block):
        guard = _Guard(program, {i.var: arith.extent_range(i.extent) for i in stmt.iters})
        body = guard.statement(stmt.body, ())
        init = guard.statement(stmt.init, ()) if stmt.init is not None else None
        return ir.Block(stmt.name, stmt.iters, body, init, stmt.predicate, stmt.annotations)
    return stmt


@dataclass(frozen=True, slots=True)
class _Guard:
    """Rewrites the statements of one block; `facts` are forms known to be >= 0 where they stand."""

    program: ir.Program
    ranges: arith.Ranges

    def statement(self, stmt: ir.Stmt, facts: tuple[arith.Linear, ...]) -> ir.Stmt:
        match stmt:
            case ir.Store(buffer, indices, value):
                where = self.indices(buffer, indices, facts)
                return ir.Store(buffer, where, self.expr(value, facts))
            case ir.Reduce(reducer, buffers, indices, values):
                where = self.indices(buffers[0], indices, facts)
                terms = tuple(self.expr(v, facts) for v in values)
                return ir.Reduce(reducer, buffers, where, terms)
            case ir.If(condition, then, otherwise):
                yes, no = self.facts(condition), self.facts(ir.Unary("not", condition))
                return ir.If(
                    self.expr(condition, facts),
                    self.statement(then, facts + yes),
                    None if otherwise is None else self.statement(otherwise, facts + no),
                )
            case _:
                return ir.map_children(stmt, lambda child: self.statement(child, facts))

    def expr(self, expr: ir.Expr, facts: tuple[arith.Linear, ...]) -> ir.Expr:
        if isinstance(expr, ir.Select) and expr.lazy:
            yes, no = self.facts(expr.condition), self.facts(ir.Unary("not", expr.condition))
            return ir.Select(
                self.expr(expr.condition, facts),
                self.expr(expr.a, facts + yes),
                self.expr(expr.b, facts + no),
                lazy=True,
            )
        if isinstance(expr, ir.Load):
            return ir.Load(expr.buffer, self.indices(expr.buffer, expr.indices, facts), expr.dtype)
        return ir.map_children(expr, lambda child: self.expr(child, facts))

    def facts(self, condition: ir.Expr) -> tuple[arith.Linear, ...]:
        """Forms that are >= 0 where a condition holds."""
        simple = arith.simplify(condition, self.ranges)
        if isinstance(simple, ir.Unary) and simple.op == "not":
            return _facts_of_negation(simple.a, self.ranges)
        return tuple(
            form
            for part in ir.conjuncts(simple)
            for form in arith.at_least_zero(part, self.ranges) or ()
        )

    def indices(
        self, buffer: str, indices: tuple[ir.Expr, ...], facts: tuple[arith.Linear, ...]
    ) -> tuple[ir.Expr, ...]:
        shape = self.program.buffers[buffer].shape
        return tuple(self.index(self.expr(i, facts), n, facts) for i, n in zip(indices, shape))

    def index(self, index: ir.Expr, extent: int, facts: tuple[arith.Linear, ...]) -> ir.Expr:
        form = arith.simplified_linear(index, self.ranges)
        inside = arith.is_nonnegative(form, self.ranges, facts) and arith.is_nonnegative(
            form.times(-1).shifted(extent - 1), self.ranges, facts
        )
        return index if inside else ir.Call(INDEX_CHECK, (index, ir.Const(extent)), index.dtype)


def _facts_of_negation(condition: ir.Expr, ranges: arith.Ranges) -> tuple[arith.Linear, ...]:
    """The facts of `not (a or b)`: neither a nor b."""
    op, a, b = (getattr(condition, name, None) for name in ("op", "a", "b"))
    if op != "or":
        return ()
    found: tuple[arith.Linear, ...] = ()
    for part in (a, b):
        negated = arith.simplify(ir.Unary("not", part), ranges)  # type: ignore[arg-type]
        found += arith.at_least_zero(negated, ranges) or ()
        if isinstance(negated, ir.Unary):
            found += _facts_of_negation(negated.a, ranges)
    return found
