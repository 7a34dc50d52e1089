"""Whether a loop nest computes what an intrinsic means, and with which operands.

`match_intrinsic` compares the loops from one inward, and the one block in them, with the meaning:

    for i_1, j_1, k_1 in grid(4, 16, 8):            C[i, j] += A[i, k] * B[k, j]   meaning
        C[i_0*4 + i_1, j_1] +=                      i = i_1, j = j_1, k = k_1
            A[i_0*4 + i_1, k_0*8 + k_1] * P[k_0, k_1, j_1]
                                                    A at A[i_0*4, k_0*8], B at P[k_0, 0, 0], …

Loops are told apart by the axis of the output that they run along; those of the reduction take the
axes of the reduction in the order in which they stand. In each access the axes of the buffer that
the loops move must be those of the operand, in order and at the same pace; the others are fixed.
A product or sum may have its operands the other way round.

Not here: proving the body in C, which is what `testing.check_intrinsic` tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final, Literal, TypeAlias

from minitensor.arith.interval import Ranges, extent_range
from minitensor.arith.linear import Linear, constant_form
from minitensor.arith.prove import is_nonnegative
from minitensor.arith.simplify import Simplifier, simplified_linear
from minitensor.ir import (
    TRUE,
    Binary,
    Block,
    Call,
    Cast,
    Const,
    Expr,
    For,
    If,
    Intrinsic,
    IterKind,
    Load,
    LoopKind,
    Program,
    Reduce,
    Reducer,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    children,
    homes,
    loads,
    loop_sites,
    map_children,
    print_expr,
    print_name,
    print_stmt,
    strides_of,
    substitute,
)

Reason: TypeAlias = Literal[
    "nest", "guard", "init", "statement", "dtype", "extent", "index", "alias", "stride", "vector"
]
"""What of a loop nest is not as the intrinsic wants it."""
COMMUTATIVE: Final = frozenset(("+", "*", "min", "max", "and", "or", "==", "!="))
MOST_ORDERS: Final = 24
"""How many assignments of loops to the axes of a reduction are tried."""


class MismatchError(Exception):
    """A loop nest does not compute what the intrinsic means.

    reason  what differs
    detail  in words
    block   the name of the block in it, None if there is none
    part    the expression in the block that differs
    depth   how many parts of the statement agreed before
    """

    def __init__(
        self, reason: Reason, detail: str, block: str | None = None, part: Expr | None = None
    ) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.block, self.part = reason, detail, block, part
        self.depth = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an operand is: its first element, and for each of its axes that of the buffer along
    which it runs (None for one of which only the first element is touched).
    """

    first: Load
    axes: tuple[int | None, ...]


def match_intrinsic(
    program: Program, loop: str, intrinsic: Intrinsic, kind: LoopKind
) -> tuple[Operand, ...]:
    """The operands of the intrinsic that does what the loops from `loop` inward do.

    kind  of which these loops must be

    Raises MismatchError if they do something else.
    """
    site = loop_sites(program)[loop]
    nest, block = _perfect_nest(site.loop, kind)
    for outer in site.outer:
        if outer.kind is LoopKind.VECTORIZE:
            raise MismatchError("vector", f"{print_name(outer.var)} is", block.name)
    return _Matcher(program, site.outer, nest, block, intrinsic).operands()


def _perfect_nest(loop: For, kind: LoopKind) -> tuple[tuple[For, ...], Block]:
    loops: list[For] = []
    stmt: Stmt = loop
    while isinstance(stmt, For):
        if stmt.kind is not kind:
            raise MismatchError("nest", f"{print_name(stmt.var)} is {stmt.kind.value}")
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Block):
        raise MismatchError("nest", f"{print_name(loops[-1].var)} holds several statements")
    return tuple(loops), stmt


@dataclass(frozen=True, slots=True)
class _Place:
    """The indices of an access, taken apart: what the loops of the nest add, and the rest."""

    moving: tuple[Linear, ...]
    fixed: tuple[Linear, ...]


class _Matcher:
    """Compares one nest with one meaning; `to_loop` says which loop is which of its axes."""

    def __init__(
        self,
        program: Program,
        outer: Sequence[For],
        nest: Sequence[For],
        block: Block,
        intrinsic: Intrinsic,
    ) -> None:
        self.program = program
        self.block = block
        self.intrinsic = intrinsic
        self.loops = [loop for loop in nest if loop.extent != 1]
        self.inner = frozenset(loop.var for loop in nest)
        ranges = {loop.var: extent_range(loop.extent) for loop in (*outer, *nest)}
        bindings = {i.var: Simplifier(ranges).linear(i.binding) for i in block.iters}
        self.shown = {i.var: bindings[i.var].expr() for i in block.iters}
        self.simplifier = Simplifier(ranges, bindings)
        self.domain: Ranges = {i.var: extent_range(i.extent) for i in block.iters}
        self.meant = Simplifier({n: extent_range(e) for n, e in intrinsic.axes.items()})
        self.to_loop: dict[str, Expr] = {}

    def fail(self, reason: Reason, detail: str, part: Expr | None = None) -> MismatchError:
        return MismatchError(reason, detail, self.block.name, part)

    def operands(self) -> tuple[Operand, ...]:
        """The operands in the order of the intrinsic's parameters."""
        block, meaning = self.block, self.intrinsic.statement
        if block.predicate != TRUE or isinstance(block.body, If):
            condition = block.body.condition if isinstance(block.body, If) else block.predicate
            raise self.fail("guard", f"the block runs only if {print_expr(condition)}")
        if block.init is not None:
            raise self.fail("init", "it initialises what it reduces")
        found = block.body
        if isinstance(found, Reduce) and isinstance(meaning, Reduce) and len(found.buffers) == 1:
            self.same_reducer(found.reducer, meaning.reducer)
            buffer, value, meant = found.buffers[0], found.values[0], meaning.values[0]
        elif isinstance(found, Store) and isinstance(meaning, Store):
            buffer, value, meant = found.buffer, found.value, meaning.value
        else:
            raise self.fail("statement", f"{self.does()}, the intrinsic does {print_stmt(meaning)}")
        first = Load(buffer, found.indices, self.program.buffers[buffer].dtype)
        mine = Load(self.intrinsic.output, meaning.indices, meant.dtype)
        if first.dtype != mine.dtype:
            raise self.fail("dtype", self.differs(first, mine))
        orders = self.orders(first, mine)
        bound = self.whole(orders, first, mine, value, meant)
        self.check(bound)
        return tuple(bound[operand.name] for operand in self.intrinsic.operands)

    def does(self) -> str:
        """What the block does, for a message."""
        return f"the block does {print_stmt(substitute(self.block.body, self.shown))}"

    def same_reducer(self, mine: Reducer, meant: Reducer) -> None:
        """Both reduce by the same expression."""
        names = {v.name: w for v, w in zip(mine.lhs + mine.rhs, meant.lhs + meant.rhs)}
        results = tuple(substitute(e, dict(names)) for e in mine.results)
        if mine.identity and mine.identity[0].dtype != meant.identity[0].dtype:
            a, b = mine.identity[0].dtype, meant.identity[0].dtype
            raise self.fail("dtype", f"the block reduces {a}, the intrinsic {b}")
        if results != meant.results:
            names_ = f"the block reduces by {mine.name}, the intrinsic by {meant.name}"
            raise self.fail("statement", names_)

    # ---- which loop is which axis

    def orders(self, first: Load, mine: Load) -> list[dict[str, Expr]]:
        """The ways in which the loops can be the axes of the meaning."""
        axes = {name: n for name, n in self.intrinsic.axes.items() if n != 1}
        if len(self.loops) != len(axes):
            names = ", ".join(print_name(loop.var) for loop in self.loops) or "none"
            raise self.fail(
                "extent",
                f"the loops of more than one iteration are {names}; "
                f"the axes of the intrinsic are {', '.join(map(print_name, axes))}",
            )
        place = self.place(first)
        wanted = [form for form in self.forms(mine) if form.terms]
        moving = [form for form in place.moving if form.terms]
        by_name = {loop.var: loop for loop in self.loops}
        found: dict[str, Expr] = {}
        for part in moving:
            match list(part.terms.items()):
                case [(Var(name), 1)] if Var(name) not in found.values():
                    if len(found) < len(wanted):
                        (axis,) = wanted[len(found)].terms
                        assert isinstance(axis, Var)
                        found[axis.name] = Var(name)
                        continue
            raise self.fail("index", self.differs(first, mine), None)
        if len(moving) != len(wanted):
            raise self.fail("index", self.differs(first, mine), None)
        reduced = [i.var for i in self.intrinsic.block.iters if i.kind is not IterKind.SPATIAL]
        reduced = [name for name in reduced if name in axes]
        rest = [Var(loop.var) for loop in self.loops if Var(loop.var) not in found.values()]
        found.update(zip(reduced, rest))
        tried: list[dict[str, Expr]] = []
        for order in list(permutations(rest))[:MOST_ORDERS]:
            names = {**found, **dict(zip(reduced, order))}
            if all(by_name[v.name].extent == axes[a] for a, v in names.items()):  # type: ignore[union-attr]
                tried.append(names)
        if not tried:
            self.to_loop = found
            for axis, var in found.items():
                loop = by_name[var.name]  # type: ignore[union-attr]
                if loop.extent != axes[axis]:
                    raise self.fail(
                        "extent",
                        f"extent of {print_name(axis)} differs: loop {print_name(loop.var)} runs "
                        f"{loop.extent}, the intrinsic wants {axes[axis]}",
                    )
        return tried

    def whole(
        self, orders: Sequence[dict[str, Expr]], first: Load, mine: Load, value: Expr, meant: Expr
    ) -> Mapping[str, Operand]:
        """The operands by name, in the first order of the loops in which everything agrees."""
        nearest: MismatchError | None = None
        for order in orders:
            self.to_loop = order
            try:
                bound = {self.intrinsic.output: self.operand(first, mine)}
                return self.expr(value, meant, bound)
            except MismatchError as problem:
                if nearest is None or problem.depth > nearest.depth:
                    nearest = problem
        assert nearest is not None
        raise nearest

    # ---- expressions

    def expr(self, mine: Expr, meant: Expr, bound: Mapping[str, Operand]) -> dict[str, Operand]:
        """What the loads in `mine` make of the operands, if it is `meant` in all else."""
        known = dict(bound)
        if isinstance(meant, Load):
            return self.load(mine, meant, known)
        if _operation(mine) != _operation(meant):
            raise self.near("statement", self.unlike(mine, meant), mine, known)
        if mine.dtype != meant.dtype:
            raise self.near("dtype", self.unlike(mine, meant), mine, known)
        parts, others = children(mine), children(meant)
        try:
            return self.exprs(parts, others, known)
        except MismatchError as straight:
            if not (isinstance(mine, Binary) and mine.op in COMMUTATIVE):
                raise
            try:
                return self.exprs(parts[::-1], others, known)
            except MismatchError as turned:
                raise (turned if turned.depth > straight.depth else straight) from None

    def exprs(
        self, mine: Sequence[Any], meant: Sequence[Any], known: dict[str, Operand]
    ) -> dict[str, Operand]:
        for a, b in zip(mine, meant):
            known = self.expr(a, b, known)
        return known

    def unlike(self, mine: Expr, meant: Expr) -> str:
        text = print_expr(self.in_loops(mine))
        return f"the block computes {text}, the intrinsic {print_expr(meant)}"

    def near(
        self, reason: Reason, detail: str, part: Expr, known: Mapping[str, Operand]
    ) -> MismatchError:
        """A mismatch, after some operands have been found."""
        problem = self.fail(reason, detail, part)
        problem.depth = 4 * len(known)
        return problem

    def load(self, mine: Expr, meant: Load, known: dict[str, Operand]) -> dict[str, Operand]:
        if not isinstance(mine, Load):
            raise self.near("statement", self.unlike(mine, meant), mine, known)
        if mine.dtype != meant.dtype:
            problem = self.near("dtype", self.differs(mine, meant), mine, known)
            problem.depth += 1
            raise problem
        try:
            operand = self.operand(mine, meant)
        except MismatchError as problem:
            problem.depth = 4 * len(known) + 2
            raise
        if known.setdefault(meant.buffer, operand) != operand:
            text = f"{self.unlike(mine, meant)}, which was {print_expr(known[meant.buffer].first)}"
            raise self.near("statement", text, mine, known)
        return known

    # ---- accesses

    def operand(self, mine: Load, meant: Load) -> Operand:
        """The operand that `meant` is, if `mine` moves as it does."""
        place = self.place(mine)
        wanted = [form for form in self.forms(meant)]
        moving = [(axis, form) for axis, form in enumerate(place.moving) if form.terms]
        named = [(axis, form) for axis, form in enumerate(wanted) if form.terms]
        for (axis, mine_form), (_, form) in zip(moving, named):
            if mine_form != form:
                raise self.fail(
                    "index",
                    f"{self.differs(mine, meant)}: axis {axis} differs, {_text(mine_form)} where "
                    f"the intrinsic has {_text(form)}",
                    mine,
                )
        if len(moving) != len(named):
            raise self.fail(
                "index",
                f"{self.differs(mine, meant)}: the loops move {len(moving)} of its axes, "
                f"of the operand {len(named)}",
                mine,
            )
        axes: list[int | None] = [None] * len(wanted)
        for (axis, _), (own, _) in zip(moving, named):
            axes[own] = axis
        first = Load(mine.buffer, tuple(form.expr() for form in place.fixed), mine.dtype)
        return Operand(first, tuple(axes))

    def forms(self, meant: Load) -> list[Linear]:
        """The indices of an operand in the meaning, in the loops that are its axes."""
        found = []
        for index in meant.indices:
            total = constant_form(0)
            for axis, step in self.meant.linear(index).terms.items():
                assert isinstance(axis, Var)
                total = total.plus(Linear({self.to_loop.get(axis.name, axis): step}))
            found.append(total)
        return found

    def place(self, mine: Load) -> _Place:
        """The indices of an access, taken apart; refused if that cannot be done exactly."""
        moving, fixed = [], []
        shape = self.program.buffers[mine.buffer].shape
        for axis, (index, extent) in enumerate(zip(mine.indices, shape)):
            form = self.simplifier.linear(index)
            part = form.part(lambda atom, _: isinstance(atom, Var) and atom.name in self.inner)
            rest = form.minus(part)
            where = f"{print_expr(self.in_loops(mine))}: axis {axis}"
            if loads(index):
                raise self.fail("index", f"{where} depends on data", mine)
            if rest.mentions_any(self.inner):
                raise self.fail("index", f"{where} is no sum of multiples of the loops", mine)
            inside = simplified_linear(index, self.domain)
            if not (
                is_nonnegative(inside, self.domain)
                and is_nonnegative(inside.times(-1).shifted(extent - 1), self.domain)
            ):
                raise self.fail("index", f"{where} may leave the buffer", mine)
            moving.append(part)
            fixed.append(rest)
        return _Place(tuple(moving), tuple(fixed))

    def in_loops(self, expr: Expr) -> Expr:
        """An expression of the block in terms of the loops, for a message."""

        def one(node: Any) -> Any:
            if isinstance(node, Load):
                indices = tuple(self.simplifier.linear(i).expr() for i in node.indices)
                return Load(node.buffer, indices, node.dtype)
            return map_children(node, one)

        found: Expr = one(expr)
        return found

    def differs(self, mine: Load, meant: Load) -> str:
        """An access beside what the intrinsic has in its place."""
        verb = "written" if meant.buffer == self.intrinsic.output else "read"
        a, b = (("", "") if mine.dtype == meant.dtype else (f"{mine.dtype} ", f"{meant.dtype} "))
        place = print_expr(self.in_loops(mine))
        text = f"{a}{place} is {verb} where the intrinsic has {b}{print_expr(meant)}"
        if mine.dtype == meant.dtype and self.to_loop:
            pairs = [f"{axis} is {print_expr(var)}" for axis, var in self.to_loop.items()]
            text += f" ({', '.join(pairs)})"
        return text

    # ---- the operands together

    def check(self, bound: Mapping[str, Operand]) -> None:
        """What is written is no other operand, is seen outside, and strides are as relied on."""
        target = bound[self.intrinsic.output].first.buffer
        if any(load.buffer == target for load in loads(self.block.body)):
            raise self.fail("alias", f"{print_name(target)} is read and written")
        living = homes(self.program)
        for name, operand in bound.items():
            buffer = operand.first.buffer
            if living.get(buffer) in self.inner:
                raise self.fail("nest", f"nothing outside these loops uses {print_name(buffer)}")
            shape = self.program.buffers[buffer]
            strides = strides_of(shape)
            position = [b.name for b in self.intrinsic.operands].index(name)
            for axis, wanted in zip(operand.axes, self.intrinsic.strides[position]):
                if axis is not None and wanted not in (None, strides[axis]):
                    raise self.fail(
                        "stride",
                        f"{print_name(name)} must have stride {wanted} where axis {axis} of "
                        f"{print_name(buffer)} has {strides[axis]}: its shape is "
                        f"{list(shape.shape)}",
                    )


def _operation(expr: Expr) -> object:
    """What a node does to its children."""
    match expr:
        case Unary(op) | Binary(op):
            return op
        case Select(lazy=lazy):
            return Select, lazy
        case Call(function):
            return Call, function
        case Const(value):
            return Const, repr(value)
        case Cast():
            return Cast
        case _:
            return expr


def _text(form: Linear) -> str:
    return print_expr(form.expr())
