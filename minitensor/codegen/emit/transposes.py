"""Transposed copies: a loop that gathers what is a row apart, and goes along the rows, copies
squares of elements, which are transposed in registers.

    for (int64_t k = 0; k < 144; k += 8) {
        transpose_float32x8(&packed[k * 8], 8, &B[k], 144);
    }

A vector of eight elements from eight rows takes eight loads and seven insertions; a square of 8 x 8
takes eight loads and 24 instructions that exchange parts of two vectors. The rest of the loop, too
short for a square, gathers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from minitensor import arith, ir
from minitensor.codegen.emit.c_types import element_type, int_twin, whole
from minitensor.codegen.emit.guarded import Position
from minitensor.codegen.emit.helpers import Definition, Helpers, function
from minitensor.codegen.emit.vectors import load, store

BITS: Final = 32
"""Of an element: instructions exchange parts of vectors of that size in one cycle or two."""
MOST: Final = 8
"""Rows and columns of a square at most: two of 8 x 8 make a vector of 16 lanes, for a square of
16 x 16 would take all registers and more.
"""


class Transposed(NamedTuple):
    """A copy that a loop makes, square by square.

    to, source  what is stored, and what is loaded
    size        rows and columns of a square
    step        elements from a column of a square to the next, where it is stored
    apart       elements from a row to the next, where it is loaded
    end         iterations that squares make; others are left
    """

    to: ir.Store
    source: ir.Load
    size: int
    step: int
    apart: int
    end: int


def transposed(loop: ir.For, position: Position, distance: Callable[..., int]) -> Transposed | None:
    """The copy that the loop makes, if it is one and long enough for a square.

    distance  of neighbouring lanes of an access (name, indices); 0 for what is no array
    """
    stmt = loop.body
    if loop.kind is not ir.LoopKind.SERIAL or not isinstance(stmt, ir.Store):
        return None
    value = stmt.value
    if not isinstance(value, ir.Load) or value.buffer == stmt.buffer:
        return None
    if value.dtype.bits != BITS or value.dtype != whole(value.dtype):
        return None
    lanes, apart = value.dtype.lanes, distance(value.buffer, value.indices)
    size = min(lanes, MOST)
    if size < 4 or loop.extent < size:
        return None
    if distance(stmt.buffer, stmt.indices) != 1 or apart in (0, 1):
        return None
    step = _step(position(stmt.buffer, stmt.indices), loop.var)
    if step < lanes or _step(position(value.buffer, value.indices), loop.var) != 1:
        return None
    return Transposed(stmt, value, size, step, apart, loop.extent - loop.extent % size)


def calls(copy: Transposed, helpers: Helpers, there: str, here: str) -> list[str]:
    """The statements that copy the squares of one vector.

    there, here  the addresses of what is stored, and of what is loaded
    """
    name = helpers.need(transpose, copy.source.dtype.scalar.with_lanes(copy.size))
    starts = range(0, copy.source.dtype.lanes, copy.size)
    return [
        f"{name}({_after(there, n)}, {copy.step}, {_after(here, n * copy.apart)}, {copy.apart});"
        for n in starts
    ]


def _after(address: str, elements: int) -> str:
    return f"{address} + {elements}" if elements else address


def _step(place: arith.Linear, loop: str) -> int:
    """The elements from one iteration to the next; 0 if they are not always as many."""
    others = place.part(lambda atom, _: atom != ir.Var(loop))
    return 0 if others.mentions_any([loop]) else int(place.coefficient(loop))


def transpose(helpers: Helpers, dtype: ir.DType) -> Definition:
    """A square from rows that are `from` apart to columns that are `to` apart."""
    kind, lanes = helpers.vector(dtype), dtype.lanes
    mask, element = helpers.vector(int_twin(dtype)), element_type(dtype)
    read, write = helpers.need(load, dtype), helpers.need(store, dtype)
    exchange = [f"{kind} x{n} = {read}(q + {n} * from);" for n in range(lanes)]
    names = [f"x{n}" for n in range(lanes)]
    step = 1
    while step < lanes:
        low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
        high = [lane + step if not lane & step else lanes + lane for lane in range(lanes)]
        for n in (n for n in range(lanes) if not n & step):
            a, b = names[n], names[n + step]
            for place, order in ((n, low), (n + step, high)):
                names[place] = f"{'xyzw'[step.bit_length()]}{place}"
                taken = f"({mask}){{{', '.join(map(str, order))}}}"
                exchange.append(f"{kind} {names[place]} = __builtin_shuffle({a}, {b}, {taken});")
        step *= 2
    exchange += [f"{write}(p + {n} * to, {name});" for n, name in enumerate(names)]
    params = f"{element} *p, int64_t to, const {element} *q, int64_t from"
    plain = f"for (int i = 0; i < {lanes}; ++i) for (int j = 0; j < {lanes}; ++j)"
    lines = ["#ifdef __clang__", plain, "    p[i * to + j] = q[j * from + i];", "#else"]
    return function("void", f"transpose_{kind}", params, *lines, *exchange, "#endif")
