"""One statement (a block in its loop nest), as far as tile sizes do not change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import arith, ir
from minitensor.arith import Linear, opened
from minitensor.search.features.names import WORK

AUTO_UNROLL: Final = "auto_unroll_max_step"
"""The annotation, of a block or of a loop around it, that says up to how many copies the compiler
may unroll."""
_FREE: Final = ("reinterpret", "in_bounds")
_OTHER: Final = ("abs", "popcount", "floor", "ceil", "round")
_SYMBOLS: Final = {
    "+": 0, "-": 0, "*": 1, "/": 2, "//": 2, "%": 3, "min": 4, "max": 4,
    **dict.fromkeys(ir.BITWISE, 0),
}  # fmt: skip
_COMPARE, _FUNCTION, _OTHERS = WORK.index("compare"), WORK.index("function"), WORK.index("other")
_LOGIC, _SELECT = 2 * len(WORK), 2 * len(WORK) + 1


@dataclass(frozen=True, slots=True)
class Place:
    """One access: where it goes, as forms of the block's iters."""

    buffer: str
    indices: tuple[Linear, ...]
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Shifted:
    """Indices along one axis of a buffer that differ in constants only: from least to most."""

    form: Linear
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Touch:
    """The accesses of a statement to one buffer.

    axes    for each axis of the buffer, the different forms with which it is indexed
    routes  the different ways to combine them: for each axis the number of one
    places  how many different elements one execution touches, as far as can be seen
    others  for the whole program, then for each loop around the statement, how many other blocks
            in there touch the buffer
    home    how many loops stand around an instance of the buffer; None for a parameter
    """

    buffer: ir.Buffer
    axes: tuple[tuple[Shifted, ...], ...]
    routes: tuple[tuple[int, ...], ...]
    places: int
    reads: bool
    writes: bool
    others: tuple[int, ...]
    home: int | None

    @property
    def item(self) -> int:
        """The bytes of an element."""
        return self.buffer.dtype.bits // 8


@dataclass(frozen=True, slots=True)
class Statement:
    """A block at its place in its loop nest.

    loops    the names of the loops around it, outermost first
    kinds    how each is executed
    iters    its iters: the name, and whether it is part of a reduction or an ordered update
    touches  its buffers: first those of which it touches most bytes, then in the order of the text
    work     how many operations of each kind one execution is, in the order of the features
    unroll   what an annotation says about unrolling; 0 for nothing
    """

    block: str
    loops: tuple[str, ...]
    kinds: tuple[ir.LoopKind, ...]
    iters: tuple[tuple[str, bool], ...]
    touches: tuple[Touch, ...]
    work: tuple[int, ...]
    unroll: int

    def forms(self) -> Iterator[Linear]:
        """The forms of which it is asked how they move with loops: its iters and its indices."""
        for name, _ in self.iters:
            yield arith.variable(name)
        for touch in self.touches:
            for axis in touch.axes:
                for one in axis:
                    yield one.form


def statement_of(program: ir.Program, block: ir.Block, body: ir.Stmt | None = None) -> Statement:
    """The description of a block of a program.

    body  what to take for the block's body where it is asked for places; None for that itself
    """
    path = ir.paths(program)[block.name]
    notes = [*block.annotations, *(note for loop in reversed(path) for note in loop.annotations)]
    steps = [value for key, value in notes if key == AUTO_UNROLL and isinstance(value, int)]
    return Statement(
        block.name,
        tuple(loop.var for loop in path),
        tuple(loop.kind for loop in path),
        tuple((i.var, i.kind is not ir.IterKind.SPATIAL) for i in block.iters),
        _touches(program, block, body if body is not None else block.body, path),
        _work(block.body),
        max(0, steps[0]) if steps else 0,
    )


def places_of(body: ir.Stmt) -> list[Place]:
    """Every access of a block's body, in the order of the text."""
    found = []
    for node in ir.walk(body):
        if isinstance(node, ir.Store):
            found.append(Place(node.buffer, _forms(node.indices), False, True))
        elif isinstance(node, ir.Reduce):
            found.extend(Place(b, _forms(node.indices), True, True) for b in node.buffers)
        elif isinstance(node, ir.Load):
            found.append(Place(node.buffer, _forms(node.indices), True, False))
    return found


def _forms(indices: Sequence[ir.Expr]) -> tuple[Linear, ...]:
    return tuple(map(opened, indices))


def _touches(
    program: ir.Program, block: ir.Block, body: ir.Stmt, path: Sequence[ir.For]
) -> tuple[Touch, ...]:
    by_buffer: dict[str, list[Place]] = {}
    for place in places_of(body):
        by_buffer.setdefault(place.buffer, []).append(place)
    found = [_touch(program, block, path, places) for places in by_buffer.values()]
    return tuple(sorted(found, key=lambda touch: -touch.places * touch.item))


def _touch(
    program: ir.Program, block: ir.Block, path: Sequence[ir.For], places: Sequence[Place]
) -> Touch:
    buffer = program.buffers[places[0].buffer]
    axes: list[list[Shifted]] = [[] for _ in buffer.shape]
    routes = {
        tuple(_shifted(axis, index) for axis, index in zip(axes, place.indices)) for place in places
    }
    different: list[tuple[Linear, ...]] = []
    for place in places:
        if not any(all(map(arith.alike, place.indices, known)) for known in different):
            different.append(place.indices)
    scopes = [list(program.blocks.values()), *(ir.blocks_of(loop) for loop in path)]
    others = tuple(
        sum(b.name != block.name and _touches_buffer(b, buffer.name) for b in scope)
        for scope in scopes
    )
    home: int | None = None
    if any(b.name == buffer.name for b in program.temporaries):
        names = [loop.var for loop in path]
        living = ir.lifetimes(program)[buffer.name]
        home = 0 if living is None else names.index(living) + 1
    return Touch(
        buffer,
        tuple(map(tuple, axes)),
        tuple(sorted(routes)),
        len(different),
        any(place.reads for place in places),
        any(place.writes for place in places),
        others,
        home,
    )


def _touches_buffer(block: ir.Block, buffer: str) -> bool:
    read, written = ir.accessed_buffers(block)
    return buffer in read or buffer in written


def _shifted(axis: list[Shifted], index: Linear) -> int:
    """The number of the form in `axis` that an index is a shift of; one is made if there is none.

    The constants of forms that are made from expressions are ints.
    """
    shift = index.constant
    assert isinstance(shift, int)
    for number, known in enumerate(axis):
        if arith.alike(known.form, Linear(index.terms)):
            axis[number] = Shifted(known.form, min(known.least, shift), max(known.most, shift))
            return number
    axis.append(Shifted(Linear(index.terms), shift, shift))
    return len(axis) - 1


def _work(body: ir.Stmt) -> tuple[int, ...]:
    """The operations of one execution, by kind."""
    counts = [0] * (2 * len(WORK) + 2)
    for node in _computed(body):
        kind = _kind_of_work(node)
        if kind is not None:
            counts[kind] += 1
    return tuple(counts)


def _computed(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes that compute with data: neither indices nor the conditions of guards."""
    stack = [node]
    while stack:
        current = stack.pop()
        match current:
            case ir.Load():
                continue
            case ir.Store(_, _, value):
                stack.append(value)
            case ir.Reduce(reducer, _, _, values):
                stack.extend((*values, *reducer.results))
            case ir.If(_, then, otherwise):
                stack.extend(part for part in (then, otherwise) if part is not None)
            case _:
                yield current
                stack.extend(ir.children(current))


def _kind_of_work(node: ir.Node) -> int | None:
    """The number of the count to which an operation belongs; None if it costs nothing."""
    match node:
        case ir.Select():
            return _SELECT
        case ir.Unary("not"):
            return _LOGIC
        case ir.Unary("-", a) if a.dtype != ir.INDEX:
            return _numeric(a, 0)
        case ir.Call(function, args) if function not in _FREE and args:
            return _numeric(args[0], _OTHERS if function in _OTHER else _FUNCTION)
        case ir.Binary(op, a):
            if op in ir.LOGICAL or a.dtype.kind == "bool":
                return _LOGIC
            if op in ir.COMPARISONS:
                return _numeric(a, _COMPARE)
            return None if a.dtype == ir.INDEX else _numeric(a, _SYMBOLS[op])
    return None


def _numeric(operand: ir.Expr, kind: int) -> int:
    return kind if operand.dtype.is_float else len(WORK) + kind


def bound_loops(statement: Statement) -> list[tuple[str, int]]:
    """The loops that are bound to an index of a GPU's grid: that index, and which loop it is."""
    return [(kind.value, n) for n, kind in enumerate(statement.kinds) if kind.is_bound]
