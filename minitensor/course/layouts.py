"""Addresses that a block reads, in the order of a run: for tasks about layouts."""

from __future__ import annotations

import itertools

from minitensor import ir


def reads(program: ir.Program, block: str, origin: str) -> list[tuple[int, dict[str, int]]]:
    """The reads that a block makes of a parameter, or of a copy of it: the place in the buffer that
    is read, in elements, and the values of the block's iters. In the order of the loops.

    Reads whose index depends on data are left out.
    """
    found = program.blocks[block]
    loads = [
        load
        for load in ir.loads(found.body)
        if origin_of(program, load.buffer) == origin and not any(map(ir.loads, load.indices))
    ]
    loops = ir.paths(program)[block]
    made = []
    for numbers in itertools.product(*(range(loop.extent) for loop in loops)):
        outside = dict(zip((loop.var for loop in loops), numbers))
        if not ir.loads(found.predicate) and not ir.evaluate(found.predicate, outside):
            continue
        values = {i.var: int(ir.evaluate(i.binding, outside)) for i in found.iters}
        for load in loads:
            strides = ir.strides_of(program.buffers[load.buffer])
            indices = [int(ir.evaluate(index, values)) for index in load.indices]
            made.append((sum(s * i for s, i in zip(strides, indices)), values))
    return made


def origin_of(program: ir.Program, buffer: str) -> str:
    """The buffer that another one holds the elements of: the first of a chain of copies."""
    seen = {buffer}
    while True:
        writers = [b for b in program.blocks.values() if buffer in ir.stored_buffers(b)]
        body = writers[0].body if len(writers) == 1 else None
        if not (isinstance(body, ir.Store) and isinstance(body.value, ir.Load)):
            return buffer
        buffer = body.value.buffer
        if buffer in seen:
            return buffer
        seen.add(buffer)
