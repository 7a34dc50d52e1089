"""Matching a loop nest with the meaning of an intrinsic, and finding its operands.

`match_intrinsic` compares the loops from one inward, and the one block in them, with the meaning:

    for i_1, j_1, k_1 in grid(4, 16, 8):            C[i, j] += A[i, k] * B[k, j]   meaning
        C[i_0*4 + i_1, j_1] +=                      i = i_1, j = j_1, k = k_1
            A[i_0*4 + i_1, k_0*8 + k_1] * P[k_0, k_1, j_1]
                                                    A at A[i_0*4, k_0*8], B at P[k_0, 0, 0], …

Loops are distinguished by the axis of the output that they run along; those of the reduction may be
its axes in any order. A product or a sum may have its operands the other way round.

Not here: proving the body in C, which is what `testing.check_intrinsic` tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, permutations
from typing import Any, Final

from minitensor import ir
from minitensor.arith.operands import Accesses, MismatchError, Operand, Reason

COMMUTATIVE: Final = frozenset(("+", "*", "min", "max", "and", "or", "==", "!=", "&", "|", "^"))
MOST_ORDERS: Final = 24
"""The most assignments of loops to the axes of a reduction that are tried."""


def match_intrinsic(
    program: ir.Program, loop: str, intrinsic: ir.Intrinsic, kind: ir.LoopKind
) -> tuple[Operand, ...]:
    """The operands of the intrinsic that does what the loops from `loop` inward do.

    kind  of which these loops must be

    Raises MismatchError if they do something else.
    """
    site = ir.loop_sites(program)[loop]
    nest, block = _perfect_nest(site.loop, kind)
    for outer in site.outer:
        if outer.kind is ir.LoopKind.VECTORIZE:
            raise MismatchError("vector", f"{ir.print_name(outer.var)} is", block.name)
    return _Matcher(program, block, site.outer, nest, intrinsic).operands()


def _perfect_nest(loop: ir.For, kind: ir.LoopKind) -> tuple[tuple[ir.For, ...], ir.Block]:
    loops: list[ir.For] = []
    stmt: ir.Stmt = loop
    while isinstance(stmt, ir.For):
        if stmt.kind is not kind:
            raise MismatchError("nest", f"{ir.print_name(stmt.var)} is {stmt.kind.value}")
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, ir.Block):
        raise MismatchError("nest", f"{ir.print_name(loops[-1].var)} holds several statements")
    return tuple(loops), stmt


class _Matcher(Accesses):
    """Compares one nest with one meaning."""

    def operands(self) -> tuple[Operand, ...]:
        """The operands in the order of the intrinsic's parameters."""
        block, meaning = self.block, self.intrinsic.statement
        found = block.body
        if block.predicate != ir.TRUE or isinstance(found, ir.If):
            condition = found.condition if isinstance(found, ir.If) else block.predicate
            raise self.fail("guard", f"it runs if {ir.print_expr(condition)}")
        if block.init is not None:
            raise self.fail("init", "it has its own init")
        if (
            isinstance(found, ir.Reduce)
            and isinstance(meaning, ir.Reduce)
            and len(found.buffers) == 1
        ):
            self.same_reducer(found.reducer, meaning.reducer)
            buffer, value, meant = found.buffers[0], found.values[0], meaning.values[0]
        elif isinstance(found, ir.Store) and isinstance(meaning, ir.Store):
            buffer, value, meant = found.buffer, found.value, meaning.value
        else:
            bindings = {i.var: i.binding for i in block.iters}
            text = ir.print_stmt(ir.substitute(found, bindings)).replace("\n", "; ")
            raise self.fail("statement", f"it does {text}, the intrinsic {ir.print_stmt(meaning)}")
        mine = ir.Load(buffer, found.indices, self.program.buffers[buffer].dtype)
        target = ir.Load(self.intrinsic.output, meaning.indices, meant.dtype)
        if mine.dtype != target.dtype:
            raise self.fail("dtype", self.differs(mine, target))
        bound = self.bound(self.orders(mine, target), mine, target, value, meant)
        self.check_together(bound)
        return tuple(bound[operand.name] for operand in self.intrinsic.operands)

    def same_reducer(self, mine: ir.Reducer, meant: ir.Reducer) -> None:
        """Refuse another reducer; what it is called does not matter."""
        names: dict[str, ir.Expr] = {
            v.name: w for v, w in zip(mine.lhs + mine.rhs, meant.lhs + meant.rhs)
        }
        if mine.lhs[0].dtype != meant.lhs[0].dtype:
            a, b = mine.lhs[0].dtype, meant.lhs[0].dtype
            raise self.fail("dtype", f"it reduces {a}, the intrinsic {b}")
        if tuple(ir.substitute(e, names) for e in mine.results) != meant.results:
            raise self.fail(
                "statement",
                f"the reducer differs: it is {ir.print_name(mine.name)}, that of the intrinsic "
                f"{ir.print_name(meant.name)}",
            )

    # ---- which loop is which axis

    def orders(self, mine: ir.Load, target: ir.Load) -> list[dict[str, str]]:
        """The ways in which the loops can be the axes of the meaning: loops by axis.

        mine    what the block writes
        target  what the meaning writes
        """
        axes = {name: n for name, n in self.intrinsic.axes.items() if n != 1}
        extents = {loop.var: loop.extent for loop in self.nest if loop.extent != 1}
        if len(extents) != len(axes):
            raise self.fail(
                "extent",
                f"from {ir.print_name(self.nest[0].var)} inwards {_count(extents, 'loop')} of more "
                f"than one iteration, the intrinsic has {_count(axes, 'axis')}",
            )
        wanted = [name for form in self.forms(target) for name in _names(form.terms)]
        moving = [form for form in self.address(mine).moving if form.terms]
        found: dict[str, str] = {}
        for axis, form in zip(wanted, moving):
            match list(form.terms.items()):
                case [(ir.Var(name), 1)] if name not in found.values():
                    found[axis] = name
        if not len(found) == len(wanted) == len(moving):
            raise self.fail("index", self.differs(mine, target))
        reduced = [i.var for i in self.intrinsic.block.iters if i.kind is not ir.IterKind.SPATIAL]
        reduced = [name for name in reduced if name in axes]
        rest = [name for name in extents if name not in found.values()]
        tried = [
            {**found, **dict(zip(reduced, order))}
            for order in islice(permutations(rest), MOST_ORDERS)
        ]
        fitting = [t for t in tried if all(extents[t[axis]] == n for axis, n in axes.items())]
        if not fitting:
            axis, loop = next((a, x) for a, x in tried[0].items() if extents[x] != axes[a])
            raise self.fail(
                "extent",
                f"extent of {ir.print_name(axis)} differs: loop {ir.print_name(loop)} runs "
                f"{extents[loop]}, the intrinsic wants {axes[axis]}",
            )
        return fitting

    def bound(
        self,
        orders: Sequence[dict[str, str]],
        mine: ir.Load,
        target: ir.Load,
        value: ir.Expr,
        meant: ir.Expr,
    ) -> Mapping[str, Operand]:
        """The operands by name, in the first order of the loops in which everything agrees."""
        furthest: MismatchError | None = None
        for order in orders:
            self.to_loop = order
            try:
                return self.expr(value, meant, {target.buffer: self.operand(mine, target)})
            except MismatchError as problem:
                if furthest is None or problem.depth > furthest.depth:
                    furthest = problem
        assert furthest is not None
        raise furthest

    # ---- expressions

    def expr(
        self, mine: ir.Expr, meant: ir.Expr, known: Mapping[str, Operand]
    ) -> dict[str, Operand]:
        """The operands known, and those that the loads in `mine` are if the rest is `meant`."""
        if isinstance(meant, ir.Load):
            return self.load(mine, meant, known)
        if _operation(mine) != _operation(meant):
            raise self.apart("statement", mine, meant, known)
        if mine.dtype != meant.dtype:
            raise self.apart("dtype", mine, meant, known)
        parts, others = ir.children(mine), ir.children(meant)
        try:
            return self.exprs(parts, others, known)
        except MismatchError as straight:
            if not (isinstance(mine, ir.Binary) and mine.op in COMMUTATIVE):
                raise
            try:
                return self.exprs(parts[::-1], others, known)
            except MismatchError as turned:
                raise (turned if turned.depth > straight.depth else straight) from None

    def exprs(
        self, mine: Sequence[Any], meant: Sequence[Any], known: Mapping[str, Operand]
    ) -> dict[str, Operand]:
        found = dict(known)
        for a, b in zip(mine, meant):
            found = self.expr(a, b, found)
        return found

    def load(
        self, mine: ir.Expr, meant: ir.Load, known: Mapping[str, Operand]
    ) -> dict[str, Operand]:
        if not isinstance(mine, ir.Load):
            raise self.apart("statement", mine, meant, known)
        if mine.dtype != meant.dtype:
            problem = self.fail("dtype", self.differs(mine, meant), mine)
            problem.depth = 4 * len(known) + 1
            raise problem
        try:
            operand = self.operand(mine, meant)
        except MismatchError as problem:
            problem.depth = 4 * len(known) + 2
            raise
        if known.get(meant.buffer, operand) != operand:
            raise self.apart("statement", mine, meant, known)
        return {**known, meant.buffer: operand}

    def apart(
        self, reason: Reason, mine: ir.Expr, meant: ir.Expr, known: Mapping[str, Operand]
    ) -> MismatchError:
        """Two expressions that differ, after some operands have been found."""
        own = ir.print_expr(self.in_loops(mine))
        text = f"it computes {own} where the intrinsic has {ir.print_expr(meant)}"
        if isinstance(meant, ir.Load) and meant.buffer in known:
            text += f", which is at {ir.print_expr(known[meant.buffer].first)} already"
        if reason == "dtype":
            text += f": {mine.dtype} and {meant.dtype}"
        problem = self.fail(reason, text, mine)
        problem.depth = 4 * len(known)
        return problem

    # ---- the operands together

    def check_together(self, bound: Mapping[str, Operand]) -> None:
        """Require that the output is not read, is used elsewhere, and has the strides relied on."""
        target = bound[self.intrinsic.output].first.buffer
        if any(load.buffer == target for load in ir.loads(self.block.body)):
            raise self.fail("alias", f"it reads {ir.print_name(target)} too")
        living = ir.lifetimes(self.program)
        for operand, relied in zip(self.intrinsic.operands, self.intrinsic.strides):
            found = bound[operand.name]
            buffer = self.program.buffers[found.first.buffer]
            if living.get(buffer.name) in self.inner:
                raise self.fail("nest", f"no other block uses {ir.print_name(buffer.name)}")
            strides = ir.strides_of(buffer)
            for axis, stride in zip(found.axes, relied):
                if axis is not None and stride not in (None, strides[axis]):
                    raise self.fail(
                        "stride",
                        f"{ir.print_name(operand.name)} must have stride {stride} where axis "
                        f"{axis} of {ir.print_name(buffer.name)}, of shape "
                        f"{list(buffer.shape)}, has {strides[axis]}",
                    )


def _names(terms: Mapping[ir.Expr, int]) -> list[str]:
    return [atom.name for atom in terms if isinstance(atom, ir.Var)]


def _count(names: Mapping[str, int], noun: str) -> str:
    """The number of some names, and the names."""
    plural = {"loop": "loops", "axis": "axes"}[noun]
    listed = ", ".join(f"{ir.print_name(name)} of {n}" for name, n in names.items())
    return f"{len(names)} {noun if len(names) == 1 else plural} ({listed})"


def _operation(expr: ir.Expr) -> object:
    """The operation of a node on its children."""
    match expr:
        case ir.Unary(op) | ir.Binary(op):
            return op
        case ir.Select(lazy=lazy):
            return ir.Select, lazy
        case ir.Call("exp_nonpositive"):  # the same value, where more is known of the argument
            return ir.Call, "exp"
        case ir.Call(function):
            return ir.Call, function
        case ir.Const(value):
            return ir.Const, repr(value)
        case ir.Cast():
            return ir.Cast
        case _:
            return expr
