"""The primitive that changes how a buffer is laid out in memory: transform_layout."""

from __future__ import annotations

import inspect
import keyword
import math
import numbers
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from minitensor import arith, ir
from minitensor.errors import MinitensorError, shown
from minitensor.schedule.arguments import LARGEST_INT, BufferName
from minitensor.schedule.batch import Batch, Effect, StepView
from minitensor.schedule.edit import spliced, with_block
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.signature import Argument

INDEX_LIMIT: Final = 1 << 62
"""The bound of every number on the way to an index."""
LARGEST_MAP: Final = 1000
"""The most nodes of the outputs of an index map together."""
GROWTH: Final = 16
"""The largest factor by which padding may make a buffer grow."""


INDEX_OPERATORS: Final = ("+", "-", "*", "//", "%")
"""The operators of an index map."""
DEEPEST: Final = 100
"""The greatest depth of its expressions."""


@dataclass(frozen=True, slots=True, repr=False)
class IndexMap:
    """A map from indices to indices, such as lambda i, j: (i // 8, j, i % 8)."""

    inputs: tuple[str, ...]
    outputs: tuple[ir.Expr, ...]

    def __repr__(self) -> str:
        outputs = ", ".join(ir.summary_if_large(e) or ir.print_expr(e) for e in self.outputs)
        comma = "," if len(self.outputs) == 1 else ""
        return f"lambda {', '.join(self.inputs)}: ({outputs}{comma})"

    def apply(self, indices: Sequence[ir.Expr]) -> tuple[ir.Expr, ...]:
        """The outputs for given inputs."""
        values = dict(zip(self.inputs, indices))
        return tuple(ir.substitute(output, values) for output in self.outputs)


def _index_map(program: ir.Program, name: str, value: Any) -> IndexMap:
    expected = "expected a function from indices to a tuple of index expressions"
    if isinstance(value, IndexMap):
        names = value.inputs
        _require_small(value.outputs)
        if not all(map(is_name, names)) or len(set(names)) < len(names):
            refuse("A2", f"{expected}, but its inputs are {shown(names)}")
        for output in value.outputs:
            if not is_index_expr(output, names):
                refuse("A2", f"{expected} (+, -, *, //, %), but it returned {shown(output)}")
        return value
    if not callable(value):
        refuse("A2", f"{expected}, but got {name}={shown(value)} ({type(value).__name__})")
    try:
        inputs = tuple(inspect.signature(value).parameters)
        given = value(*[ir.Var(i) for i in inputs])
    except MinitensorError as problem:
        refuse("A2", f"{expected}; calling it gave: {problem.message}")
    except Exception as problem:  # whatever a user's function raises is his to read
        refuse("A2", f"{expected}; calling it gave {type(problem).__name__}: {problem}")
    outputs = given if isinstance(given, (tuple, list)) else (given,)
    _require_small(outputs)
    nodes = []
    for output in outputs:
        if isinstance(output, numbers.Integral) and not isinstance(output, bool):
            output = ir.as_expr(int(output))  # noqa: PLW2901
        if not is_index_expr(output, inputs):
            refuse("A2", f"{expected} (+, -, *, //, %), but it returned {shown(output)}")
        nodes.append(output)
    return IndexMap(inputs, tuple(nodes))


def _require_small(outputs: Sequence[object]) -> None:
    """Refuse a map that is too large to be looked at; what it uses again and again counts."""
    size, stack = 0, list(outputs)
    while stack:
        node = stack.pop()
        size += 1
        if size > LARGEST_MAP:
            text = f"an index map of at most {LARGEST_MAP} operations, but it has more"
            refuse("A2", f"expected {text}")
        if isinstance(node, ir.Binary):
            stack += (node.a, node.b)


def is_name(text: str) -> bool:
    """Return whether Python takes it as the name of a variable, unchanged by normalization."""
    plain = unicodedata.is_normalized("NFKC", text)
    return plain and text.isidentifier() and not keyword.iskeyword(text)


def is_index_expr(expr: object, inputs: Sequence[str], depth: int = 0) -> bool:
    """Return whether an index map may return it: what a trace can hold and Python can say."""
    match expr:
        case ir.Var(name, dtype):
            return name in inputs and dtype == ir.INDEX
        case ir.Const(int(value)):
            return not isinstance(value, bool) and abs(value) <= LARGEST_INT
        case ir.Binary(op, a, b) if op in INDEX_OPERATORS and depth < DEEPEST:
            return is_index_expr(a, inputs, depth + 1) and is_index_expr(b, inputs, depth + 1)
    return False


IndexMapLike: TypeAlias = Annotated[Callable[..., Any] | IndexMap, Argument(_index_map)]
"""A function of one symbolic index for each axis, that returns a tuple of index expressions."""


@primitive(
    rules={
        "R1": (
            "the buffer is a temporary, and has no storage_align",
            "cache_read or cache_write it first, and lay the copy out",
        ),
        "R2": ("the map takes one index for each axis", "give the map one argument for each axis"),
        "R3": (
            "the map sends different elements to different places",
            "return all digits of every index, such as i // 8 and i % 8",
        ),
        "R4": (
            "the new indices are not negative and computed within 64 bits, and padding grows the "
            "buffer at most 16 times, and to at most 2**40 elements",
            "keep the indices small and not negative",
        ),
        "R5": (
            "no reduction of several values writes the buffer",
            "lay out a copy of one of the values",
        ),
    }
)
def transform_layout(
    program: ir.Program, buffer: BufferName, index_map: IndexMapLike
) -> Rewritten[None]:
    """Lay a temporary out differently in memory.

    transform_layout("B", lambda i, j: (i // 8, j, i % 8))
        B = empty(float32[64, 32])            B = empty(float32[8, 32, 8])
        for i in range(64):                   for i in range(64):
            for j in range(32):        =>         for j in range(32):
                B[i, j] = f(i, j)                     B[i // 8, j, i % 8] = f(i, j)
    index_map  a function from the old indices to the new ones

    All accesses follow; the loops stay as they are. An extent that the map does not divide is
    padded, and the padding is never touched. Parameters cannot be laid out anew: cache_read or
    cache_write them first (packing).

    Preserves  every output.
    """
    temporaries = {b.name: b for b in program.temporaries}
    old = temporaries.get(buffer)
    if old is None or old.alignment:
        plain = [b.name for b in program.temporaries if not b.alignment]
        refuse("R1", f"{ir.print_name(buffer)} is not", choices=plain)
    for block in ir.writers(program, buffer):
        if len(ir.stored_buffers(block.body)) > 1:
            refuse("R5", marks=ir.Marks(blocks={block.name: f"writes {ir.print_name(buffer)}"}))
    assert isinstance(index_map, IndexMap)
    if len(index_map.inputs) != len(old.shape):
        refuse("R2", f"{ir.print_name(buffer)} has rank {len(old.shape)}, the map is {index_map}")
    ranges = {name: arith.extent_range(n) for name, n in zip(index_map.inputs, old.shape)}
    simplifier = arith.Simplifier(ranges)
    forms = [simplifier.linear(output) for output in index_map.outputs]
    free = frozenset(index_map.inputs)
    for name in index_map.inputs:
        if not arith.separates(name, forms, forms, free, ranges):
            refuse("R3", f"{name} is not determined by the new indices of {index_map}")
    bounds = [arith.interval_of(form.expr(), ranges) for form in forms]
    parts: list[Any] = [part for form in forms for part in ir.walk(form.expr())]
    if _size(old.shape) and not (
        all(b.is_bounded and b.lo >= 0 for b in bounds)
        and all(arith.interval_of(part, ranges).within(-INDEX_LIMIT, INDEX_LIMIT) for part in parts)
    ):
        refuse("R4", f"the map is {index_map}")
    shape: tuple[int, ...] = tuple(max(0, int(b.hi) + 1) if b.is_bounded else 0 for b in bounds)
    if _size(shape) > min(LARGEST_INT, GROWTH * max(1, _size(old.shape))):
        refuse("R4", f"{list(old.shape)} would become {list(shape)}")

    def laid_out(block: ir.Block) -> ir.Block:
        inside = arith.Simplifier(
            {i.var: arith.extent_range(i.extent) for i in block.iters}, keep_units=True
        )

        def moved(node: Any) -> Any:
            touched = buffer in getattr(node, "buffers", (getattr(node, "buffer", None),))
            if not isinstance(node, (ir.Load, ir.Store, ir.Reduce)) or not touched:
                return node
            new = tuple(inside.expr(e) for e in index_map.apply(node.indices))
            if isinstance(node, ir.Load):
                return ir.Load(buffer, new, node.dtype)
            if isinstance(node, ir.Store):
                return ir.Store(buffer, new, node.value)
            return ir.Reduce(node.reducer, node.buffers, new, node.values)

        body, init = ir.rewrite(block.body, moved), block.init
        init = None if init is None else ir.rewrite(init, moved)
        return with_block(block, body=body, init=init)

    new = ir.Buffer(buffer, shape, old.dtype, old.scope)
    kept = tuple(new if b.name == buffer else b for b in program.temporaries)
    touching = (*ir.readers(program, buffer), *ir.writers(program, buffer))
    edits = {id(block): laid_out(block) for block in touching}
    return spliced(program, edits).replace(temporaries=kept), None


def _size(shape: Sequence[int]) -> int:
    return math.prod(shape)


@transform_layout.on_batch
def _layout_batch(view: StepView) -> Effect:
    name = view.argument("buffer")
    old, new = view.before.buffers[name].shape, view.after.buffers[name].shape
    view.follow()

    def effect(batch: Batch) -> None:
        if not all(map(arith.same, batch.shapes[name], old)):
            raise arith.BatchError("a buffer whose shape depends on the numbers is laid out anew")
        batch.shapes[name] = new

    return effect


@transform_layout.random_call()
def _call_transform_layout(scene: Scene) -> None:
    buffer = scene.buffer()
    rank = len(scene.program.buffers[buffer].shape)
    c = scene.pick([2, 3, 4, 8])
    names = ("i", "j", "k", "l")[:rank]
    indices = [ir.Var(name) for name in names]
    maps: list[tuple[ir.Expr, ...]] = [tuple(indices[::-1]), (*indices[1:], *indices[:1])]
    if rank:
        first, *middle = indices
        maps.append((first // c, *middle, first % c))
        maps.append((first // c, first % c, *middle))
        maps.append((*middle, first * 2))
        maps.append((first // c, *middle))
    if rank > 1:
        last = indices[-1]
        maps.append((last // c, *indices[:-1], last % c))
        maps.append((*indices[:-2], indices[-2] * 16 + last))
    scene.do("transform_layout", buffer, IndexMap(names, scene.pick(maps)))


class LayoutPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    transform_layout = transform_layout
