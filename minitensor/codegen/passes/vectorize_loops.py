"""Pass: vectorized loops become operations on vectors.

    before  for j in vectorize(40): C[i, j] = A[i, j] * b[i]
    after   C[i, ramp(0, 1, 16)]  = A[i, ramp(0, 1, 16)]  * broadcast(b[i], 16)
            C[i, ramp(16, 1, 16)] = …                           and 8 lanes for the rest
            (of 43 iterations the last three are the first lanes of a vector of 4)

A value is widened only where it depends on the lane. Accesses at a constant stride become loads and
stores of a vector (the emitter sees whether the elements are neighbours); other reads are collected
lane by lane (`Lanes`). Of an if_then_else whose lanes choose differently both sides are computed
where that does no harm. A statement that cannot be widened (a condition that differs from lane to
lane, a store to places without a pattern) becomes a scalar loop over its lanes, which is the same
because iterations of a vectorized loop are independent. Loops inside the loop are kept:
their bodies are widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from minitensor import ir
from minitensor.arith import Interval, Simplifier, extent_range
from minitensor.codegen.lanes import is_gathered
from minitensor.codegen.passes.safe_values import is_safe, written_whole
from minitensor.codegen.remarks import became, is_recording, missed
from minitensor.codegen.target import Target

NARROWEST: Final = 128
"""The width in bits below which what remains of a loop is done in scalars."""
FEW: Final = 8
"""Up to this many vectors, or scalars that are left over, are written out in a row."""
FEWEST: Final = 3
"""The least lanes of a vector that are worth one: two are as fast as scalars."""
NARROW: Final = ir.DType.of("int32")
COMPARED: Final = ("<", "<=", "==", "!=")
LANE: Final = "lane"
LAZY: Final = "select, where both of its sides are safe to compute, does not"


def vectorize_loops(program: ir.Program, target: Target) -> ir.Program:
    """The program with its vectorized loops in vectors of the target's width."""
    made = [s.buffer for s in ir.stmts_of(program.body) if isinstance(s, ir.Alloc)]
    written = {s.buffer for s in ir.stmts_of(program.body) if isinstance(s, ir.Store)}
    around = _Around(
        {},
        frozenset(loop.var for loop in ir.loops_of(program.body)),
        {b.name: b.shape for b in (*program.params, *made)},
        frozenset(b.name for b in program.params if b.name not in written),
    )
    return program.replace(body=_statement(program.body, around, target.vector_bits or 0))


@dataclass(frozen=True)
class _Around:
    """The surroundings of a statement.

    ranges      of the loops around it
    names       of all loops of the program
    shapes      of the buffers
    whole       those of which all elements have been written
    conditions  what holds here
    """

    ranges: Mapping[str, Interval]
    names: frozenset[str]
    shapes: Mapping[str, tuple[int, ...]]
    whole: frozenset[str]
    conditions: tuple[ir.Expr, ...] = ()


def _statement(stmt: ir.Stmt, around: _Around, bits: int) -> ir.Stmt:
    match stmt:
        case ir.For(var, extent, kind=kind):
            if kind is ir.LoopKind.VECTORIZE:
                return _pieces(stmt, around, bits)
            around = replace(around, ranges={**around.ranges, var: extent_range(extent)})
        case ir.Alloc(buffer):
            around = replace(around, whole=around.whole - {buffer.name})
        case ir.If(condition, then, otherwise):
            inside = replace(around, conditions=(*around.conditions, condition))
            no = None if otherwise is None else _statement(otherwise, around, bits)
            return ir.If(condition, _statement(then, inside, bits), no)
        case ir.Seq(stmts):
            parts = []
            for child in stmts:
                parts.append(_statement(child, around, bits))
                more = frozenset(written_whole(child, around.shapes))
                around = replace(around, whole=around.whole | more)
            return ir.sequence(*parts)
    return ir.map_stmts(stmt, lambda child: _statement(child, around, bits))


def _pieces(loop: ir.For, around: _Around, bits: int) -> ir.Stmt:
    """The loop as whole vectors, then narrower ones, then single iterations."""
    lane = ir.fresh_name(f"{loop.var}_{LANE}", set(), around.names)
    width = _widest_element(loop.body)
    done, result = 0, []
    pieces: list[tuple[int, int]] = []
    lanes = bits // width
    while lanes >= 2 and done < loop.extent:
        count = (loop.extent - done) // lanes
        if count:
            result.append(_vectors(loop, lane, done, count, lanes, around))
            pieces.append((count, lanes))
            done += count * lanes
        rest = loop.extent - done
        if lanes // 2 < rest and (part := _part(loop, lane, done, rest, around)) is not None:
            result.append(part)
            pieces.append((1, rest))
            done = loop.extent
        lanes //= 2
        if lanes * width < NARROWEST:
            break
    if done < loop.extent:
        rest = loop.extent - done
        few = rest * width < NARROWEST <= bits  # written out, so that a tile of registers stays one
        kind = ir.LoopKind.UNROLL if few and rest <= FEW else ir.LoopKind.SERIAL
        result.append(_scalars(loop, done, rest, kind))
    if is_recording():
        _record_pieces(loop, pieces, bits // width, loop.extent - done)
    return ir.sequence(*result)


def _part(loop: ir.For, lane: str, start: int, lanes: int, around: _Around) -> ir.Stmt | None:
    """The iterations from `start` on as the first `lanes` of a vector; None where what the others
    hold could do harm, or where lanes are treated one by one.
    """
    if lanes < FEWEST:
        return None
    part = _vectors(loop, lane, start, 1, lanes, around)
    return part if all(_has_partial_form(node, lane) for node in ir.walk(part)) else None


def _has_partial_form(node: ir.Node, lane: str) -> bool:
    """Tell whether a node is of scalars, or of numbers, places and conditions in lanes: what is in
    the others does no harm there, as it would where integers are divided, one after the other.
    """
    if isinstance(node, ir.For):
        return node.var != lane
    if not isinstance(node, ir.Expr) or node.dtype.lanes == 1:
        return True
    if node.dtype.scalar == ir.INDEX:
        return isinstance(node, ir.Ramp)
    divides = isinstance(node, ir.Binary) and node.op in ("//", "%")
    return not divides and not isinstance(node, ir.Lanes)


def _record_pieces(loop: ir.For, vectors: list[tuple[int, int]], most: int, scalars: int) -> None:
    """Say what the loop became: (count, lanes) of its vectors, and how many iterations are left.

    most  the lanes of a full vector
    """
    parts = [
        f"{count} vector{'s' if count > 1 else ''} of {lanes} lanes" for count, lanes in vectors
    ]
    parts += [f"{scalars} in scalars"] if scalars else []
    became(loop.var, ", ".join(parts) or "nothing")
    short = loop.extent - sum(count * lanes for count, lanes in vectors if lanes == most)
    if most < 2:
        text = "nothing is vectorized: the target has no vectors of two such elements"
        missed("vector", loop.var, text)
    elif short == loop.extent:
        how = ", ".join(parts) if vectors else "nothing is vectorized"
        text = f"{loop.extent} iterations are fewer than the {most} lanes of a vector: {how}"
        missed(
            "vector", loop.var, text, "vectorize a longer loop, or fuse it with the one around it"
        )
    elif short:
        text = f"{short} of {loop.extent} iterations are left over by vectors of {most} lanes"
        rest = ", ".join(parts[1:])
        advice = f"a multiple of {most} leaves none"
        missed("vector", loop.var, f"{text}: {rest}", advice)


def _widest_element(stmt: ir.Stmt) -> int:
    """The width in bits of the widest element that is loaded or stored, as it is computed."""
    nodes = [node for node in ir.walk(stmt) if isinstance(node, (ir.Load, ir.Store))]
    dtypes = {node.dtype if isinstance(node, ir.Load) else node.value.dtype for node in nodes}
    return max((max(d.bits, 32) if d.is_float else d.bits for d in dtypes), default=8)


def _scalars(loop: ir.For, start: int, count: int, kind: ir.LoopKind) -> ir.Stmt:
    body = ir.substitute(loop.body, {loop.var: ir.Var(loop.var) + start}) if start else loop.body
    return ir.For(loop.var, count, body, kind)


def _vectors(
    loop: ir.For, lane: str, start: int, count: int, lanes: int, around: _Around
) -> ir.Stmt:
    """`count` vectors of `lanes` iterations each, from iteration `start` on.

    lane  a name for the number of a lane
    """
    body = ir.substitute(loop.body, {loop.var: ir.Var(lane)})
    if count == 1:
        return _Widener(loop.var, lane, ir.Const(start), lanes, around).statement(body)
    base = ir.Var(loop.var) * lanes + start if start else ir.Var(loop.var) * lanes
    inner = replace(around, ranges={**around.ranges, loop.var: extent_range(count)})
    widener = _Widener(loop.var, lane, base, lanes, inner)
    kind = ir.LoopKind.UNROLL if count <= FEW else ir.LoopKind.SERIAL
    return ir.For(loop.var, count, widener.statement(body), kind)


class _CannotWidenError(Exception):
    """A statement that must be done lane by lane, and why."""


class _Widener:
    """Rewrites the body of a loop for `lanes` iterations at once: var = base + 0, 1, …

    loop  its name; the body has `var` for its variable
    """

    def __init__(self, loop: str, var: str, base: ir.Expr, lanes: int, around: _Around) -> None:
        self.loop, self.var, self.base, self.lanes = loop, var, base, lanes
        self.around = around
        self.ranges = {**around.ranges, var: Interval(0, (1 << 40))}
        self.conditions = around.conditions
        self.wide: set[str] = set()
        """Buffers private to an iteration, which now hold a vector in each element."""

    # ---- statements

    def statement(self, stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.Seq):
            return ir.sequence(*[self.statement(child) for child in stmt.stmts])
        try:
            return self.widened(stmt)
        except _CannotWidenError as why:
            if self.wide:
                raise
            self.record(f"{_named(stmt)} goes lane by lane: {why}")
            return self.lane_by_lane(stmt)

    def record(self, text: str, advice: str = "") -> None:
        """Record for the loop what is done lane by lane."""
        missed("lanes", self.loop, text, advice)

    def lane_by_lane(self, stmt: ir.Stmt) -> ir.Stmt:
        """The statement in a scalar loop over the lanes."""
        body = ir.substitute(stmt, {self.var: _sum(self.base, ir.Var(self.var))})
        return ir.For(self.var, self.lanes, body)

    def widened(self, stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.Store(buffer, indices, value):
                return self.store(buffer, indices, value)
            case ir.For(var, extent, body, kind, annotations):
                self.ranges[var] = extent_range(extent)
                return ir.For(var, extent, self.statement(body), kind, annotations)
            case ir.If(condition, then, otherwise):
                test = self.expr(condition)
                if test.dtype.lanes > 1:
                    raise _CannotWidenError("its condition differs from lane to lane")
                no = None if otherwise is None else self.statement(otherwise)
                before, self.conditions = self.conditions, (*self.conditions, condition)
                yes = self.statement(then)
                self.conditions = before
                return ir.If(test, yes, no)
            case ir.Alloc(buffer, body):
                return self.allocation(buffer, body)
            case ir.Prefetch():
                raise _CannotWidenError("it is of one element")
            case _:
                return ir.map_stmts(stmt, self.statement)

    def allocation(self, buffer: ir.Buffer, body: ir.Stmt) -> ir.Stmt:
        """A buffer of each iteration's own: one element for every lane, side by side."""
        for access in ir.accesses(body, buffer.name):
            if any(ir.mentions(index, self.var) for index in access.indices):
                name = ir.print_name(buffer.name)
                raise _CannotWidenError(f"{name}, private to an iteration, is indexed by the loop")
        new = buffer.name not in self.wide
        self.wide.add(buffer.name)
        try:
            inner = self.statement(body)
        finally:
            if new:
                self.wide.discard(buffer.name)
        dtype = buffer.dtype.with_lanes(self.lanes)
        return ir.Alloc(ir.Buffer(buffer.name, buffer.shape, dtype, buffer.scope), inner)

    def store(self, buffer: str, indices: tuple[ir.Expr, ...], value: ir.Expr) -> ir.Stmt:
        stored = self.vector(self.expr(value))
        if buffer in self.wide:
            return ir.Store(buffer, indices, stored)
        where = tuple(self.index(i) for i in indices)
        if not where or not _is_regular(where):
            raise _CannotWidenError(f"the lanes are stored {_places(where)}")
        return ir.Store(buffer, where, stored)

    # ---- expressions

    def vector(self, expr: ir.Expr) -> ir.Expr:
        """An expression with a value for every lane."""
        return expr if expr.dtype.lanes > 1 else ir.Broadcast(expr, self.lanes)

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """The expression for all lanes: a scalar if it is the same in each."""
        if expr.dtype == ir.INDEX:
            return self.index(expr)
        match expr:
            case ir.Const() | ir.Var():
                return expr
            case ir.Load():
                return self.load(expr)
            case ir.Unary(op, a):
                return ir.Unary(op, self.expr(a))
            case ir.Binary(op, a, b):
                places = self.compared(op, a, b) if a.dtype == ir.INDEX else None
                x, y = places or self.alike(self.expr(a), self.expr(b))
                return ir.Binary(op, x, y)
            case ir.Select():
                return self.select(expr)
            case ir.Cast(dtype, a):
                inner = self.expr(a)
                return ir.Cast(dtype.with_lanes(inner.dtype.lanes), inner)
            case ir.Call(function, args, dtype):
                values = self.alike(*[self.expr(a) for a in args])
                return ir.Call(function, values, dtype.with_lanes(values[0].dtype.lanes))
        raise _CannotWidenError(f"{type(expr).__name__} has no vector form")

    def compared(self, op: str, a: ir.Expr, b: ir.Expr) -> tuple[ir.Expr, ir.Expr] | None:
        """Two numbers of 32 bits that compare as indices do, one the same in all lanes, the other
        a number for each that is known to a compiler; None where they may not fit.
        """
        if op not in COMPARED or not (ir.mentions(a, self.var) or ir.mentions(b, self.var)):
            return None
        simplifier = Simplifier(self.ranges)
        form = simplifier.linear(b).minus(simplifier.linear(a))
        step = form.coefficient(self.var)
        rest = form.part(lambda atom, _: atom != ir.Var(self.var)).shifted(form.constant)
        if not step or rest.mentions_any([self.var]):
            return None
        rest = rest.plus(simplifier.linear(self.base), step)
        values, most = rest.interval(self.ranges), 1 << 31
        if self.reads_wide(rest.expr()) or not -most < values.lo <= values.hi < most:
            return None
        lanes = ir.Ramp(ir.Const(0, NARROW), -int(step), self.lanes)
        return lanes, ir.Broadcast(ir.Cast(NARROW, rest.expr()), self.lanes)

    def alike(self, *exprs: ir.Expr) -> tuple[ir.Expr, ...]:
        """The expressions, all scalar or all vectors."""
        if all(e.dtype.lanes == 1 for e in exprs):
            return exprs
        return tuple(self.vector(e) for e in exprs)

    def index(self, expr: ir.Expr) -> ir.Expr:
        """An index: a scalar, a ramp, or collected lane by lane."""
        if not ir.mentions(expr, self.var):
            return self.lanes_of(expr) if self.reads_wide(expr) else expr
        form = Simplifier(self.ranges).linear(expr)
        stride = form.coefficient(self.var)
        rest = form.part(lambda atom, _: atom != ir.Var(self.var)).shifted(form.constant)
        if rest.mentions_any([self.var]) or self.reads_wide(expr):
            return self.lanes_of(expr)
        start = rest.plus(Simplifier(self.ranges).linear(self.base), stride)
        return ir.Ramp(start.expr(), stride, self.lanes) if stride else start.expr()

    def reads_wide(self, expr: ir.Expr) -> bool:
        """Tell whether the expression reads a buffer that holds vectors (which `Lanes` cannot)."""
        if any(isinstance(n, ir.Load) and n.buffer in self.wide for n in ir.walk(expr)):
            raise _CannotWidenError("a place depends on a value that each lane computes")
        return False

    def lanes_of(self, expr: ir.Expr) -> ir.Expr:
        """The expression evaluated for one lane after the other."""
        self.reads_wide(expr)
        here = _sum(self.base, ir.Var(self.var))
        return ir.Lanes(self.var, self.lanes, ir.substitute(expr, {self.var: here}))

    def load(self, load: ir.Load) -> ir.Expr:
        if load.buffer in self.wide:
            return ir.Load(load.buffer, load.indices, load.dtype.with_lanes(self.lanes))
        where = tuple(self.index(i) for i in load.indices)
        if all(i.dtype.lanes == 1 for i in where):
            return load
        if not _is_regular(where):
            name = ir.print_name(load.buffer)
            self.record(f"{name} goes lane by lane: the lanes are read {_places(where)}")
            return self.lanes_of(load)
        return ir.Load(load.buffer, where, load.dtype.with_lanes(self.lanes))

    def select(self, expr: ir.Select) -> ir.Expr:
        condition = self.expr(expr.condition)
        lazy = expr.lazy and any(isinstance(n, (ir.Load, ir.Call)) for n in ir.walk(expr))
        if condition.dtype.lanes > 1 and lazy and not (self.safe(expr.a) and self.safe(expr.b)):
            return self.chosen_by_lane(expr)
        a, b = self.alike(self.expr(expr.a), self.expr(expr.b))
        if condition.dtype.lanes == 1:
            return ir.Select(condition, a, b, expr.lazy)
        if lazy and any(
            isinstance(n, ir.Lanes) and is_gathered(n, self.ranges)
            for side in (condition, a, b)
            for n in ir.walk(side)
        ):
            return self.chosen_by_lane(expr)
        return ir.Select(condition, self.vector(a), self.vector(b))

    def chosen_by_lane(self, expr: ir.Select) -> ir.Expr:
        """A choice of which each lane computes one side."""
        text = "an if_then_else whose condition differs from lane to lane goes lane by lane"
        self.record(text, LAZY)
        return self.lanes_of(expr)

    def safe(self, expr: ir.Expr) -> bool:
        """Tell whether it may be computed in all lanes, also where another side is chosen."""
        place = {self.var: _sum(self.base, ir.Var(self.var))}
        here, *known = (ir.substitute(one, place) for one in (expr, *self.conditions))
        ranges = {**self.ranges, self.var: Interval(0, self.lanes - 1)}
        return is_safe(here, ranges, self.around.shapes, self.around.whole - self.wide, known)


def _is_regular(indices: tuple[ir.Expr, ...]) -> bool:
    """Tell whether the lanes address elements at a constant distance from each other."""
    return all(isinstance(i, ir.Ramp) or i.dtype.lanes == 1 for i in indices) and any(
        isinstance(i, ir.Ramp) for i in indices
    )


def _places(indices: tuple[ir.Expr, ...]) -> str:
    """The places of lanes that are not at a constant distance from each other."""
    odd = [index for index in indices if isinstance(index, ir.Lanes)]
    if not odd:
        return "at one place"
    data = any(isinstance(node, ir.Load) for index in odd for node in ir.walk(index))
    return "at places that depend on data" if data else "at no constant distance"


def _named(stmt: ir.Stmt) -> str:
    """A statement as a note calls it: by the buffers it stores to."""
    names = {n.buffer: None for n in ir.walk(stmt) if isinstance(n, ir.Store)}
    return f"the update of {', '.join(map(ir.print_name, names))}" if names else "a statement"


def _sum(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return b if a == ir.Const(0) else a + b
