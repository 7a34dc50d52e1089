"""Streaming stores: an output that the caches do not hold is written past them.

    for (int64_t j = 0; j < 512; ++j) {
        stream_float32x8(&C[i * 4096 + j * 8], load_float32x8(…) + load_float32x8(…));
    }
    stream_fence();

An ordinary store first reads the line that it writes to, which takes as long as writing it. That is
saved where a loop goes over the output without a gap, so that lines are written whole; the output
is not read; and it is larger than most caches, which would not keep it until it is read. The
instructions want aligned addresses, which is asked as they run; all vectors of a loop have one
length, so that they are aligned alike, for lines that are written in both ways take five times as
long. They leave the order of stores open: the fence behind the loop closes it, before threads meet.

Not here: the sanitizers' hooks, which must see each store, keep the ordinary ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.emit.c_types import element_type
from minitensor.codegen.emit.helpers import Definition, Helpers, function
from minitensor.codegen.emit.vectors import store

SMALLEST: Final = 1 << 25
"""The least bytes of an output that is streamed: most last-level caches have 8 to 32 MiB."""
SHORTEST: Final = 1 << 14
"""The least bytes that a loop writes: a fence waits for all stores before it."""
_SUFFIXES: Final = {"float32": "ps", "float64": "pd"}
_BITS: Final = {128: ("__SSE2__", ""), 256: ("__AVX__", "256"), 512: ("__AVX512F__", "512")}
"""By the width of a vector: the macro of compilers with the instruction, and its name's end."""


def may_be_streamed(buffer: ir.Buffer) -> bool:
    """Tell whether an output that is not read may be written past the caches."""
    return str(buffer.dtype) in _SUFFIXES and buffer.nbytes >= SMALLEST


def streamed(
    loop: ir.For,
    buffers: Collection[ir.Buffer],
    position: Callable[[ir.Store], arith.Linear | None],
) -> frozenset[str]:
    """The names of those buffers that a loop writes in vectors, one next to the other.

    position  gives that of a vector of neighbours in its buffer; None for any other store
    """
    stmts = list(ir.stmts_of(loop.body)) if buffers else []
    if not all(isinstance(stmt, (ir.Alloc, ir.Seq, ir.Store)) for stmt in stmts):
        return frozenset()
    found = set()
    for buffer in buffers:
        stores = [s for s in stmts if isinstance(s, ir.Store) and s.buffer == buffer.name]
        step = _step(loop.var, [(position(s), s.value.dtype.lanes) for s in stores])
        if step * loop.extent * buffer.dtype.bits // 8 >= SHORTEST:
            found.add(buffer.name)
    return frozenset(found)


def _step(loop: str, vectors: Sequence[tuple[arith.Linear | None, int]]) -> int:
    """The elements that an iteration writes without a gap, the next one going on behind them; 0 if
    that is not known.
    """
    places = [(place, lanes) for place, lanes in vectors if place is not None]
    if len(places) < len(vectors) or len({lanes for _, lanes in places}) != 1:
        return 0
    first = places[0][0]
    step = int(first.coefficient(loop))
    if any(not place.minus(first).is_constant for place, _ in places):
        return 0
    if first.part(lambda atom, _: atom != ir.Var(loop)).mentions_any([loop]):
        return 0
    spans = sorted((int(place.constant), lanes) for place, lanes in places)
    ends = [start + lanes for start, lanes in spans]
    starts = [start for start, _ in spans[1:]] + [spans[0][0] + step]
    return step if starts == ends else 0


def stream(helpers: Helpers, dtype: ir.DType) -> Definition:
    """A vector stored at an address, past the caches where there is an instruction for it."""
    kind, plain = helpers.vector(dtype), helpers.need(store, dtype)
    lines = [f"{plain}(p, x);"]
    known = _BITS.get(dtype.bits * dtype.lanes)
    if known is not None:
        macro, width = known
        lines = [
            f"#if defined({macro}) && !defined(__clang__)",
            f"if ((uintptr_t)p % {dtype.bits * dtype.lanes // 8} == 0) {{",
            f"    __builtin_ia32_movnt{_SUFFIXES[str(dtype.scalar)]}{width}(p, x);",
            "    return;",
            "}",
            "#endif",
            *lines,
        ]
    params = f"{element_type(dtype)} *p, {kind} x"
    return function("void", f"stream_{kind}", params, *lines)


def fence(helpers: Helpers) -> Definition:
    """The end of a loop that streams: what it stored is seen before what is stored later."""
    body = "#if defined(__SSE2__) && !defined(__clang__)", "__builtin_ia32_sfence();", "#endif"
    return function("void", "stream_fence", "void", *body)
