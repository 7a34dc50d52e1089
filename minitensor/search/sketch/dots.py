"""Products of narrow numbers, summed by an instruction that multiplies a few and adds them up.

operands are copied: widened if the instruction wants them wider, in groups as it reads them,
with zeros where its size does not divide an extent
for o, i.0:                         strips of the other axes, and blocks of rows
    for j.0:                        columns
        for o.1, i.1:               tiles
            sums = 0
            for k.0:                the reduction, in groups
                for i.2, j.1:       rows and vectors, unrolled
                    dot             lanes of a vector, and the elements of a group
            the consumer

A long reduction may run in parts, each over all tiles of a block of rows, as in `tiles`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.lang import GROUP, LANES, dot_name
from minitensor.runtime import native_features
from minitensor.schedule import IndexMap, Schedule
from minitensor.search.sketch.blocks import (
    FEW,
    HALVES,
    elementwise_store,
    fusible_consumer,
    is_contiguous,
    is_read_often,
    is_strictly_inlinable,
    is_sum,
    loops_by_axis,
    place_of,
    readers,
    reads_of,
    reduce_iters,
    reduction_of,
    spatial_iters,
    uses,
    writers,
    written_place,
)
from minitensor.search.sketch.layouts import move_to_the_end
from minitensor.search.sketch.rule import Rule, State, Verdict, inline, unless_refused, where
from minitensor.search.sketch.windows import is_padding

WASTE: Final = 1.07
"""The part of its columns that a result may have more for the sake of wider tiles."""
TALLEST: Final = {16: 8, 32: 14}
"""The most rows of a tile, by the number of registers."""
WIDE, WIDEST = 2, 4
"""Vectors side by side in most tiles, and the most of them."""
SUMS: Final = 12
"""Sums of a tile that are enough for an instruction never to wait for the one before."""
USUAL: Final = 8
"""The weight of a tile that an author would take, beside others."""
MOST_PARTS: Final = 16
"""The most parts of a reduction."""
_BYTES: Final = ("int8", "uint8")
_VNNI: Final = {"avx512_vnni", "avx_vnni"}
_X86: Final = ("x86_64", "AMD64")


@dataclass(frozen=True)
class Product:
    """A sum of products as a dot product of few elements computes it.

    left, right  what is read: without the lanes, and with them
    types        of these, as the instruction reads them
    lanes        the axis of the vectors
    rows         an axis that shares what is loaded of `right`; None if there is none
    along        the axis that is summed in groups
    """

    left: ir.Load
    right: ir.Load
    types: tuple[str, str]
    lanes: ir.Iter
    rows: ir.Iter | None
    along: ir.Iter

    @property
    def group(self) -> int:
        """The elements that are summed together."""
        return GROUP[self.types[0]]


def product_of(block: ir.Block, features: Sequence[str], lanes: int) -> Product | None:
    """The product that a block sums, if an instruction does that; None if it does not.

    lanes  in a vector of 32-bit sums
    """
    body = reduction_of(block)
    if (
        body is None
        or not is_sum(block)
        or ir.operator_of(body.reducer) != "+"
        or lanes not in LANES
    ):
        return None
    match body.values[0]:
        case ir.Binary("*", ir.Cast(_, ir.Load() as x), ir.Cast(total, ir.Load() as y)):
            types = _types(x.dtype, y.dtype, str(total), features)
            found = [
                made
                for left, right, kinds in ((x, y, types), (y, x, types and types[::-1]))
                if kinds is not None and x.buffer != y.buffer
                if (made := _assigned(block, left, right, kinds, lanes)) is not None
            ]
            return max(found, key=lambda p: _preference(block, p, lanes), default=None)
    return None


def _types(x: str, y: str, total: str, features: Sequence[str]) -> tuple[str, str] | None:
    """The types in which an instruction reads numbers of two types; None if there is none."""
    if total == "float32":
        return (x, y) if x == y == "bfloat16" and "avx512_bf16" in features else None
    if total != "int32" or not {x, y} <= {*_BYTES, "int16"}:
        return None
    bytes_ = x in _BYTES and y in _BYTES and not _VNNI.isdisjoint(features)
    return (x, y) if bytes_ else ("int16", "int16")


def _assigned(
    block: ir.Block, left: ir.Load, right: ir.Load, types: tuple[str, str], lanes: int
) -> Product | None:
    """The product, with the axes of the block in the places of those of the instruction."""
    along = [
        axis
        for axis in reduce_iters(block)
        if axis.extent >= GROUP[types[0]] // 2
        and None not in (place_of(left, axis), place_of(right, axis))
    ]
    vectors = [
        axis
        for axis in spatial_iters(block)
        if 2 * axis.extent > lanes and place_of(right, axis) is not None and not uses(left, axis)
    ]
    if not along or not vectors:
        return None
    rows = [a for a in spatial_iters(block) if uses(left, a) and not uses(right, a)]
    tall = [a for a in rows if a.extent >= FEW] or sorted(rows, key=lambda axis: axis.extent)
    last = max(vectors, key=lambda axis: (written_place(block, axis), axis.extent))
    summed = max(along, key=lambda axis: axis.extent)
    return Product(left, right, types, last, tall[-1] if tall else None, summed)


def _preference(block: ir.Block, product: Product, lanes: int) -> tuple[bool, bool, int]:
    """A key that is larger for a better product: full vectors, results in a row, many lanes."""
    last = written_place(block, product.lanes) == len(spatial_iters(block)) - 1
    return product.lanes.extent >= lanes, last, product.lanes.extent


def _lanes(state: State) -> int:
    return (state.target.vector_bits or 0) // 32


def _product(state: State) -> Product | None:
    if state.name in state.cached:
        return None
    return product_of(state.block, native_features(state.target), _lanes(state))


def _apply(state: State, cores: int) -> Iterator[State]:
    """A state whose sums stay in registers, and one in which they do for a part of them."""
    product = _product(state)
    assert product is not None
    for in_parts in (False, True):
        with contextlib.suppress(ScheduleError):
            if not in_parts or _part_counts(state, product):
                yield _applied(state, product, in_parts)


def _part_counts(state: State, product: Product) -> list[int]:
    """Numbers of parts of a reduction whose panels take at least a quarter of L1, and at most a
    quarter of L2; none if the whole of them is that short.
    """
    groups = -(-product.along.extent // product.group)
    size = groups * WIDE * _lanes(state) * 4
    counts = _divisors(groups, MOST_PARTS)[1:]
    return [n for n in counts if state.caches.l1 // 4 <= size // n <= state.caches.l2 // 4]


def _applied(state: State, product: Product, in_parts: bool) -> State:
    schedule, name = state.schedule.copy(), state.name
    consumer = fusible_consumer(schedule.program, state.block)
    consumer = consumer or schedule.cache_write(name, "local")
    inlined: list[str] = []
    copies = []
    for load, dtype in zip((product.left, product.right), product.types):
        copies.append(_copy(schedule, state, product, load, dtype))
        sources = [b for b in writers(schedule.program, load.buffer) if b in state.pending]
        for source in sources if copies[-1] else []:
            if is_padding(schedule.program, schedule.program.blocks[source]):
                schedule.compute_inline(source)
                inlined.append(source)
    left, right = copies
    _pad(schedule, state, product)
    loops, extents = loops_by_axis(schedule, name), _extents(schedule, name)
    _lay_out_right(schedule, product, right, _lanes(state))
    if left:
        _lay_out_left(schedule, product, left, _lanes(state))
    counts = _part_counts(state, product) if in_parts else []
    _tile(schedule, state, product, loops, extents, consumer, counts)
    text = f"{product.along.var} in groups of {product.group}, {product.lanes.var} in lanes"
    rows = f", rows of {product.rows.var}" if product.rows is not None else ""
    follows = "summed in parts, {} follows each strip" if in_parts else "{} follows each tile"
    what = f"{text}{rows}, {follows.format(consumer)}"
    return state.after("dot products", what, schedule, also=inlined)


def _copy(schedule: Schedule, state: State, product: Product, load: ir.Load, dtype: str) -> str:
    """Copy an operand as the instruction reads it; "" where it is read in place."""
    if load.dtype != dtype:
        return str(schedule.widen(state.name, load.buffer, dtype))
    whole = product.along.extent % product.group == 0 and not _is_odd(state, product)
    if load is product.left and whole and is_contiguous(load, product.along):
        return ""
    return str(schedule.cache_read(state.name, load.buffer, "global"))


def _is_odd(state: State, product: Product) -> bool:
    """Return whether no good number of rows divides them, and they can be padded."""
    rows = product.rows
    if rows is None or rows.extent <= FEW or place_of(product.left, rows) is None:
        return False
    return max(_divisors(rows.extent, TALLEST[state.registers])) < FEW


def _divisors(extent: int, most: int) -> list[int]:
    return [n for n in range(1, most + 1) if extent % n == 0]


def _pad(schedule: Schedule, state: State, product: Product) -> None:
    """Pad the axes that the instruction does not divide."""
    lanes, loops = _lanes(state), loops_by_axis(schedule, state.name)
    columns = product.lanes.extent
    wide = [
        lanes * n for n in (4, 2) if math.ceil(columns / (lanes * n)) * lanes * n <= WASTE * columns
    ]
    wanted = [(product.along, product.group), (product.lanes, next(iter(wide), lanes))]
    if product.rows is not None and _is_odd(state, product):
        wanted.append((product.rows, FEW))
    for axis, multiple in wanted:
        if axis.extent % multiple:
            schedule.pad(loops[axis.var], multiple)


def _extents(schedule: Schedule, block: str) -> dict[str, int]:
    return {i.var: i.extent for i in schedule.program.blocks[block].iters}


def _lay_out_right(schedule: Schedule, product: Product, copy: str, lanes: int) -> None:
    """Lay the operand with lanes out as vectors of groups, one behind the other."""
    at, along = place_of(product.right, product.lanes), place_of(product.right, product.along)
    assert at is not None and along is not None
    loops, group = schedule.get_loops(copy), product.group
    names = [f"i{n}" for n in range(len(loops))]
    others = [ir.Var(name) for n, name in enumerate(names) if n not in (at, along)]
    j, k = ir.Var(names[at]), ir.Var(names[along])
    outputs = (j // lanes, *others, k // group, j % lanes, k % group)
    schedule.transform_layout(copy, IndexMap(tuple(names), outputs))
    j_0, j_1 = schedule.split(loops[at], [None, lanes])
    k_0, k_1 = schedule.split(loops[along], [None, group])
    rest = [loop for n, loop in enumerate(loops) if n not in (at, along)]
    schedule.reorder(j_0, *rest, k_0, j_1, k_1)
    schedule.unroll(k_1)


def _lay_out_left(schedule: Schedule, product: Product, copy: str, lanes: int) -> None:
    """Lay the other operand out so that a group is in a row."""
    along = place_of(product.left, product.along)
    assert along is not None
    loops = schedule.get_loops(copy)
    order = [n for n in range(len(loops)) if n != along] + [along]
    if along != len(loops) - 1:
        names = tuple(f"i{n}" for n in range(len(loops)))
        schedule.transform_layout(copy, IndexMap(names, tuple(ir.Var(names[n]) for n in order)))
        schedule.reorder(*[loops[n] for n in order])


def _tile(
    schedule: Schedule,
    state: State,
    product: Product,
    loops: dict[str, str],
    extents: dict[str, int],
    consumer: str,
    counts: list[int],
) -> None:
    """Tile the sum, and have its innermost loops done by the instruction.

    counts  numbers of parts of the reduction; empty if it is one
    """
    name, block, lanes = state.name, state.block, _lanes(state)
    strips = [
        loops[axis.var]
        for axis in spatial_iters(block)
        if axis.var not in (product.lanes.var, product.rows.var if product.rows else "")
    ]
    if product.rows is not None:
        rows = loops[product.rows.var]
        shapes = _row_tiles(state, extents[product.rows.var])
    else:
        rows, shapes = schedule.add_unit_loop(loops[product.lanes.var]), [(1, 1, 1)]
    count = extents[product.lanes.var] // lanes
    widths = [(count // n, n) for n in _divisors(count, WIDEST)]
    height, wide = _usual_tile(state, {h for *_, h in shapes}, {n for _, n in widths})
    counts_of_blocks = [n for n, _, h in shapes if h == height]
    blocks = _usual_blocks(state, product, counts_of_blocks, count // wide)
    likely = [USUAL if (n, h) == (blocks, height) else 1 for n, _, h in shapes]
    tile = schedule.sample_tile(rows, 3, candidates=shapes, probs=likely)
    i_0, i_1, i_2 = schedule.split(rows, tile)
    columns, j_2 = schedule.split(loops[product.lanes.var], [None, lanes])
    likely = [USUAL if n == wide else 1 for _, n in widths]
    tile = schedule.sample_tile(columns, 2, candidates=widths, probs=likely)
    j_0, j_1 = schedule.split(columns, tile)
    reduced = [loops[i.var] for i in reduce_iters(block)]
    k_0, k_1 = schedule.split(loops[product.along.var], [None, product.group])
    parts: list[str] = []
    if counts:
        part, k_0 = schedule.split(k_0, [schedule.sample_categorical(counts), None])
        parts = [part]
    reduced = [loop for loop in reduced if loop != loops[product.along.var]]
    schedule.reorder(*strips, i_0, j_0, *parts, i_1, *reduced, k_0, i_2, j_1, j_2, k_1)
    schedule.unroll(i_2)
    schedule.unroll(j_1)
    follow = schedule.reverse_compute_at(consumer, j_0 if parts else i_1)
    at, last = written_place(block, product.lanes), len(spatial_iters(block)) - 1
    if at == last:
        schedule.vectorize(follow[at])
    else:
        move_to_the_end(schedule, name, at)
    init = schedule.decompose_reduction(name, [*parts, *reduced, k_0][0])
    schedule.vectorize(schedule.get_loops(init)[-1])
    schedule.tensorize(j_2, dot_name(*product.types, lanes))


def _usual_tile(state: State, heights: set[int], widths: set[int]) -> tuple[int, int]:
    """The rows and vectors of a tile whose sums and operands fit in the registers, and for which
    the fewest operands are loaded; among those the one with the fewest sums.
    """

    def cost(tile: tuple[int, int]) -> tuple[bool, float, int]:
        rows, vectors = tile
        sums = rows * vectors
        lacking = max(1.0, SUMS / sums)
        return sums + vectors >= state.registers, lacking * (1 / rows + 1 / vectors), sums

    return min(itertools.product(sorted(heights), sorted(widths)), key=cost)


def _usual_blocks(state: State, product: Product, counts: list[int], columns: int) -> int:
    """The blocks of rows that an author would take: as few as keep the cores busy, and as keep the
    rows of one in half of the L2 cache.

    counts   that there may be
    columns  of tiles
    """
    tiled = (product.lanes.var, product.rows.var if product.rows else "")
    around = math.prod(i.extent for i in spatial_iters(state.block) if i.var not in tiled)
    size = state.program.buffers[product.left.buffer].nbytes / around
    busy = FEW * (state.target.num_cores or 1) / (around * columns)
    wanted = max(busy, 2 * size / state.caches.l2)
    return next((n for n in sorted(counts) if n >= wanted), max(counts))


def _row_tiles(state: State, extent: int) -> list[tuple[int, int, int]]:
    """Blocks, tiles in a block, and rows in a tile: exact, for what an instruction does cannot be
    guarded; tiles as high as the registers allow, and few blocks for each core.
    """
    cores = state.target.num_cores or 1
    heights = _divisors(extent, TALLEST[state.registers])
    high = [n for n in heights if n >= min(FEW, heights[-1])]
    found = []
    for height in high:
        tiles = extent // height
        parts = [n for n in _divisors(tiles, tiles) if n in (1, tiles) or n <= 8 * cores]
        found += [(n, tiles // n, height) for n in parts]
    return found


def _judge(state: State, cores: int) -> Verdict:
    """On a processor for which there are only bodies in plain C, other rules are asked too."""
    if _product(state) is None:
        return Verdict.SKIP
    return Verdict.APPLY_AND_STOP if platform.machine() in _X86 else Verdict.APPLY


DOTS: Final = Rule("dot products", _judge, _apply)


def _narrow_floats(state: State) -> list[str]:
    """The buffers of 16-bit floats whose elements a sum converts at each of many uses."""
    body = reduction_of(state.block)
    if body is None or not is_sum(state.block):
        return []
    return [
        load.buffer
        for node in ir.walk(body.values[0])
        if isinstance(node, ir.Cast) and isinstance(load := node.a, ir.Load)
        if load.dtype in HALVES and node.dtype == "float32"
        if is_read_often(state.block, load)
    ]


def _judge_widening(state: State, cores: int) -> Verdict:
    narrow = _narrow_floats(state)
    if not narrow or len(narrow) != len(set(narrow)):
        return Verdict.SKIP
    return Verdict.APPLY_AND_STOP


@unless_refused
def _widen(state: State, cores: int) -> list[State]:
    schedule = state.schedule.copy()
    made = [schedule.widen(state.name, name, "float32") for name in _narrow_floats(state)]
    after = state.after("widening", "each element is converted once", schedule, stay=True)
    return [replace(after, pending=(state.name, *made, *after.pending[1:]))]


WIDENING: Final = Rule("widening", _judge_widening, _widen)


def _is_cheap(state: State) -> bool:
    """Return whether a reader may compute it, and no sum would convert it again and again."""
    program, store = state.program, elementwise_store(state.block)
    match store:
        case ir.Store(buffer, _, ir.Cast("float32", ir.Load() as narrow)) if narrow.dtype in HALVES:
            reading = [program.blocks[name] for name in readers(program, buffer)]
            loads = [(b, n) for b in reading for n in reads_of(b) if n.buffer == buffer]
            if any(reduce_iters(b) and is_read_often(b, n) for b, n in loads):
                return False
    return is_strictly_inlinable(program, state.block)


INLINE_CHEAP: Final = inline("always inline", where(_is_cheap))
"""Ours in the place of Ansor's first rule: a root or a tangent is computed once, too."""
