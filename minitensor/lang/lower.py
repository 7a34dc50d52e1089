"""From tensor expressions to the plain loop nest: one loop for each axis, one block for each stage.

The nest is the definition of the program; schedules rewrite it. Stages come in an order in which
each tensor is computed before it is read. Every access is checked to be in bounds: an index that
can be proven to leave its buffer is refused here, one that cannot be decided (it depends on data,
or on a condition) is left to the interpreter and to the check that code generation emits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from minitensor import arith, ir
from minitensor.answers import answered
from minitensor.errors import ArgumentError, LoweringError, unexpected
from minitensor.lang.checked import checked_name
from minitensor.lang.scalar import describe
from minitensor.lang.signs import Signs
from minitensor.lang.tensor import Axis, Stage, Tensor
from minitensor.phrasebook import no_tensors

INDEX_LIMIT: Final = 1 << 62
"""Index arithmetic must stay below this, so that 64-bit integers hold it."""


@answered
def lower(
    tensors: Sequence[Tensor], name: str = "main", constants: Sequence[Tensor] = ()
) -> ir.Program:
    """The program that computes every non-placeholder in `tensors` from the placeholders in it.

    tensors    inputs and outputs in call order; other tensors that are needed become temporaries
    name       the name of the program
    constants  inputs that are known before the first call, such as weights: a search leaves out of
               its times what a schedule computes of them alone, as `kernel.bind` does of calls

    Raises LoweringError for a placeholder that is needed but not listed, a tensor listed twice,
    nothing to compute, or an access that is out of bounds; ArgumentError for a constant that is no
    input.
    """
    if isinstance(name, Tensor):
        raise ArgumentError("the tensors stand in one list: mt.lower([A, B, C], name='main')")
    given = _checked_tensors(tensors)
    program_name = checked_name(name, "main")
    stages = stages_in_order(given)
    names, signs = _Names(given, stages), Signs()
    body: list[ir.Stmt] = []
    held: list[ir.Buffer] = []
    for tensor in stages:
        stage = tensor.stage
        assert stage is not None
        _check_bounds(tensor, stage)
        nest = _Nest(tensor, stage, names, signs)
        body.extend(nest.build())
        held.extend(nest.held)
    known = _checked_constants(constants, given)
    outputs = {id(t) for t in given}
    computed = [t for first in stages for t in first.siblings]
    program = ir.Program(
        program_name,
        tuple(ir.Buffer(names.buffer[id(t)], t.shape, t.dtype) for t in given),
        tuple(
            ir.Buffer(names.buffer[id(t)], t.shape, t.dtype)
            for t in computed
            if id(t) not in outputs
        )
        + tuple(held),
        ir.sequence(*body),
        constants=frozenset(names.buffer[id(t)] for t in known),
    )
    ir.verify(program)
    return program


def _checked_constants(constants: object, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Constants, each an input. Raises ArgumentError for others."""
    listed = tuple(constants) if isinstance(constants, (tuple, list)) else (constants,)
    inputs = [tensor for tensor in given if tensor.stage is None]
    for one in listed:
        if not any(one is tensor for tensor in inputs):
            names = ", ".join(ir.print_name(tensor.name) for tensor in inputs)
            raise unexpected(f"tensors among the inputs ({names})", "constants", constants)
    return listed


def _checked_tensors(tensors: object) -> tuple[Tensor, ...]:
    if isinstance(tensors, Tensor):
        tensors = (tensors,)
    if not isinstance(tensors, Sequence) or isinstance(tensors, str):
        raise no_tensors("tensors", tensors, "a list of tensors")
    for tensor in tensors:
        if isinstance(tensor, (tuple, list)):
            raise ArgumentError(
                "expected tensors, but got a tuple of them (a reduction of several values gives "
                "one tensor for each): list them one by one"
            )
        if not isinstance(tensor, Tensor):
            raise no_tensors("tensors", tensor, "tensors")
    given = tuple(tensors)
    for tensor in given:
        if sum(other is tensor for other in given) > 1:
            name = ir.print_name(tensor.name)
            raise LoweringError(f"{name} is listed twice among the tensors; list it once")
    if not given:
        raise LoweringError("nothing to compute: the list of tensors is empty")
    if all(tensor.stage is None for tensor in given):
        raise LoweringError(
            "nothing to compute: every tensor listed is a placeholder; list an output too"
        )
    return given


def stages_in_order(given: tuple[Tensor, ...]) -> list[Tensor]:
    """One tensor for each stage that is needed, producers first; iterative, for long chains."""
    listed = {id(t) for t in given}
    done: set[int] = set()
    order: list[Tensor] = []
    being_computed: set[int] = set()
    for output in given:
        stack: list[tuple[Tensor, bool]] = [(output, False)]
        while stack:
            tensor, expanded = stack.pop()
            if id(tensor) in done:
                continue
            if tensor.stage is None:
                done.add(id(tensor))
                if id(tensor) not in listed:
                    raise LoweringError(
                        f"the placeholder {ir.print_name(tensor.name)} is needed, "
                        "but is not among the tensors given to lower; add it to the list"
                    )
                continue
            if expanded:
                being_computed.discard(id(tensor))
                order.append(tensor.siblings[0])
                done.update(id(t) for t in tensor.siblings)
                continue
            if id(tensor) in being_computed:
                name = ir.print_name(tensor.name)
                raise LoweringError(f"{name} is computed from itself; mt.update is for that")
            being_computed.add(id(tensor))
            stack.append((tensor, True))
            inputs = [t for t in _read_tensors(tensor.stage) if t not in tensor.siblings]
            stack.extend((t, False) for t in reversed(inputs))
    return order


def _read_tensors(stage: Stage) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    for value in stage.values + stage.init:
        for load in ir.loads(value):
            tensor = load.buffer.tensor  # type: ignore[attr-defined]
            found[id(tensor)] = tensor
    return list(found.values())


class _Names:
    """Unique names for buffers, blocks and loops, as close as possible to what the user wrote."""

    def __init__(self, given: tuple[Tensor, ...], stages: list[Tensor]) -> None:
        self.buffer: dict[int, str] = {}
        self.taken: set[str] = set()
        self.loops: set[str] = {"root"}
        every = [*given, *(t for first in stages for t in first.siblings)]
        for tensor in every:
            if id(tensor) not in self.buffer:
                self.buffer[id(tensor)] = ir.fresh_name(tensor.name, self.taken)

    def loop(self, stage: str, label: str) -> str:
        return ir.fresh_name(label, self.loops, also=self.taken, owner=stage)


class _Nest:
    """The loop nest of one stage.

    held  temporaries for values of an update that wait until all are computed; known once built
    """

    def __init__(self, tensor: Tensor, stage: Stage, names: _Names, signs: Signs) -> None:
        self.stage, self.names, self.signs = stage, names, signs
        self.tensors = tensor.siblings
        self.buffers = tuple(names.buffer[id(t)] for t in tensor.siblings)
        self.block = self.buffers[0]
        self.held: list[ir.Buffer] = []
        labels: set[str] = set()
        self.iters: dict[str, str] = {
            axis.var: ir.fresh_name(axis.var.label, labels) for axis in stage.axes + stage.reduced
        }

    def build(self) -> list[ir.Stmt]:
        stage = self.stage
        target = tuple(ir.Var(self.iters[axis.var]) for axis in stage.axes)
        values = tuple(self.rename(v) for v in stage.values)
        domain = stage.axes + stage.reduced
        self.learn_signs(values)
        init = self.init(target)
        if init is not None and any(axis.extent == 0 for axis in stage.reduced):
            return [self.nest(self.block, stage.axes, init, None)]
        body: ir.Stmt
        if stage.reducer is not None:
            body = ir.Reduce(stage.reducer, self.buffers, target, values)
        else:
            body = self.stores(target, values)
        if init is not None and any(axis.kind is ir.IterKind.ORDERED for axis in stage.axes):
            free = tuple(Axis(a.var, a.extent) for a in stage.axes)
            name = ir.fresh_name(f"{self.block}_init", self.names.taken)
            nest = self.nest(self.block, domain, body, None)
            return [self.nest(name, free, init, None), nest]
        return [self.nest(self.block, domain, body, init)]

    def learn_signs(self, values: tuple[ir.Expr, ...]) -> None:
        """Note the signs of the elements, unless they are updated in order."""
        stage = self.stage
        ordered = any(axis.kind is ir.IterKind.ORDERED for axis in stage.axes + stage.reduced)
        if not ordered and not stage.init:
            axes = {self.iters[axis.var]: axis.extent for axis in stage.axes}
            reduced = {self.iters[axis.var]: axis.extent for axis in stage.reduced}
            self.signs.learn(self.buffers, values, axes, reduced, stage.reducer)

    def init(self, target: tuple[ir.Expr, ...]) -> ir.Stmt | None:
        """The stores of the values before the first step."""
        reducer = self.stage.reducer
        starts = map(self.rename, self.stage.init) if reducer is None else reducer.identity
        stores = [ir.Store(b, target, start) for b, start in zip(self.buffers, starts)]
        return ir.sequence(*stores) if stores else None

    def stores(self, target: tuple[ir.Expr, ...], values: tuple[ir.Expr, ...]) -> ir.Stmt:
        """The values stored, as if all were computed before: one that a later value could see is
        held in a temporary until the end.
        """
        read: set[str] = set()
        held: set[str] = set()
        for buffer, value in reversed(list(zip(self.buffers, values))):
            held |= {buffer} & read
            read |= {load.buffer for load in ir.loads(value) if _may_be_at(load, target)}
        now: list[ir.Stmt] = []
        last: list[ir.Stmt] = []
        for tensor, buffer, value in zip(self.tensors, self.buffers, values):
            if buffer in held:
                name = ir.fresh_name(f"{buffer}_next", self.names.taken)
                self.held.append(ir.Buffer(name, tensor.shape, tensor.dtype))
                now.append(ir.Store(name, target, value))
                last.append(ir.Store(buffer, target, ir.Load(name, target, tensor.dtype)))
            else:
                now.append(ir.Store(buffer, target, value))
        return ir.sequence(*now, *last)

    def nest(
        self, name: str, domain: tuple[Axis, ...], body: ir.Stmt, init: ir.Stmt | None
    ) -> ir.Stmt:
        loops = [self.names.loop(name, self.iters[axis.var]) for axis in domain]
        iters = tuple(
            ir.Iter(self.iters[axis.var], axis.extent, axis.kind, ir.Var(loop))
            for axis, loop in zip(domain, loops)
        )
        stmt: ir.Stmt = ir.Block(name, iters, body, init)
        for axis, loop in zip(reversed(domain), reversed(loops)):
            stmt = ir.For(loop, axis.extent, stmt)
        return stmt

    def rename(self, expr: ir.Expr) -> ir.Expr:
        """The user's expression with the names of the program, and functions that know the signs
        of their arguments.
        """
        domain = self.stage.axes + self.stage.reduced
        ranges = {self.iters[axis.var]: arith.extent_range(axis.extent) for axis in domain}

        def one(node: object) -> object:
            match node:
                case ir.Var(name) if name in self.iters:
                    return ir.Var(self.iters[name], node.dtype)
                case ir.Load(buffer, indices, dtype):
                    tensor = buffer.tensor  # type: ignore[attr-defined]
                    return ir.Load(self.names.buffer[id(tensor)], indices, dtype)
            return node

        renamed = arith.simplify(ir.rewrite(expr, one))  # type: ignore[arg-type]
        return self.signs.used(renamed, ranges)


def _may_be_at(load: ir.Load, target: tuple[ir.Expr, ...]) -> bool:
    """Return whether the element that is loaded may be the one with these indices."""
    return not any(map(_never_equal, load.indices, target))


def _never_equal(a: ir.Expr, b: ir.Expr) -> bool:
    difference = arith.linear_of(a - b)
    return not difference.terms and difference.constant != 0


# ---- bounds


def _check_bounds(tensor: Tensor, stage: Stage) -> None:
    """Refuse accesses that certainly leave their buffer, and index arithmetic beyond 64 bits."""
    domain = stage.axes + stage.reduced
    if any(axis.extent == 0 for axis in stage.axes):
        return
    empty = any(axis.extent == 0 for axis in stage.reduced)
    ranges: arith.Ranges = {axis.var: arith.extent_range(axis.extent) for axis in domain}
    values = () if empty else stage.values
    for value in values + stage.init:
        ir.make_room(value)
        _check_expr(tensor, value, ranges, certain=True)


def _check_expr(tensor: Tensor, expr: ir.Expr, ranges: arith.Ranges, certain: bool) -> None:
    """`certain`: whether the expression is evaluated for every point of the domain."""
    if isinstance(expr, ir.Select) and expr.lazy:
        _check_expr(tensor, expr.condition, ranges, certain)
        condition = arith.simplify(expr.condition, ranges)
        if condition != ir.FALSE:
            _check_expr(tensor, expr.a, ranges, certain and condition == ir.TRUE)
        if condition != ir.TRUE:
            _check_expr(tensor, expr.b, ranges, certain and condition == ir.FALSE)
        return
    if isinstance(expr, ir.Load):
        for axis, index in enumerate(expr.indices):
            _check_index(tensor, expr, axis, index, ranges, certain)
    if expr.dtype == ir.INDEX:
        interval = arith.interval_of(expr, ranges)
        known = arith.EVERYTHING if _depends_on_data(expr) else interval
        if known.is_bounded and not known.within(-INDEX_LIMIT, INDEX_LIMIT):
            raise LoweringError(
                f"{ir.print_name(tensor.name)}: the index expression {describe(expr)} reaches "
                f"{int(max(-interval.lo, interval.hi))}, which 64-bit integers "
                "cannot hold; make extents or factors smaller"
            )
    for child in ir.children(expr):
        _check_expr(tensor, child, ranges, certain)  # type: ignore[arg-type]


def _check_index(
    tensor: Tensor,
    load: ir.Load,
    axis: int,
    index: ir.Expr,
    ranges: arith.Ranges,
    certain: bool,
) -> None:
    read: Tensor = load.buffer.tensor  # type: ignore[attr-defined]
    extent = read.shape[axis]
    interval = arith.interval_of(arith.simplify(index, ranges), ranges)
    if certain and not interval.within(0, extent - 1) and _is_exact(index):
        low, high = (int(b) if not math.isinf(b) else b for b in interval)
        raise LoweringError(
            f"{ir.print_name(tensor.name)}: {describe(load)} is out of bounds: index {axis} goes "
            f"from {low} to {high}, but axis {axis} of {ir.print_name(read.name)} has extent "
            f"{extent}. Pad with mt.if_then_else, or make the domain smaller"
        )


def _is_exact(index: ir.Expr) -> bool:
    """Tell whether the interval of the index is exact: each variable in it occurs once, no data."""
    seen: list[str] = []
    stack: list[ir.Expr] = [index]
    while stack:
        node = stack.pop()
        if isinstance(node, (ir.Load, ir.Select, ir.Cast)):
            return False
        match node:
            case ir.Binary("%") | ir.Binary("//", _, ir.Var() | ir.Binary()):
                return False
        if isinstance(node, ir.Var):
            seen.append(node.name)
        stack.extend(ir.children(node))  # type: ignore[arg-type]
    return len(seen) == len(set(seen))


def _depends_on_data(expr: ir.Expr) -> bool:
    return any(isinstance(c, ir.Cast) for c in [expr, *ir.children(expr)])
