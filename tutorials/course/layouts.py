"""Elements that a block reads, in the order of a run: for tasks about layouts and about parts."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import NamedTuple

from minitensor import ir


class Read(NamedTuple):
    """A read of an element.

    place  in the buffer that is read, in elements
    iters  the values of the block's iters
    loops  the numbers of the iterations of the loops around it
    """

    place: int
    iters: dict[str, int]
    loops: dict[str, int]


def reads(program: ir.Program, block: str, origin: str) -> list[Read]:
    """The reads that a block makes of a parameter, or of a copy of it, in the order of the loops.

    Those whose index or guard depends on data are left out.
    """
    found = program.blocks[block]
    body = found.body.then if isinstance(found.body, ir.If) else found.body
    guard = found.body.condition if isinstance(found.body, ir.If) else ir.TRUE
    if ir.loads(guard) or ir.loads(found.predicate):
        return []
    loads = [
        load
        for load in ir.loads(body)
        if origin_of(program, load.buffer) == origin and not any(map(ir.loads, load.indices))
    ]
    loops = ir.paths(program)[block]
    made = []
    for numbers in itertools.product(*(range(loop.extent) for loop in loops)):
        outside = dict(zip((loop.var for loop in loops), numbers))
        if not ir.evaluate(found.predicate, outside):
            continue
        values = {i.var: int(ir.evaluate(i.binding, outside)) for i in found.iters}
        if not ir.evaluate(guard, values):
            continue
        for load in loads:
            strides = ir.strides_of(program.buffers[load.buffer])
            indices = [int(ir.evaluate(index, values)) for index in load.indices]
            made.append(Read(sum(s * i for s, i in zip(strides, indices)), values, outside))
    return made


def origin_of(program: ir.Program, buffer: str) -> str:
    """The buffer that another one holds the elements of: the first of a chain of copies."""
    seen = {buffer}
    while True:
        writers = ir.writers(program, buffer)
        body = writers[0].body if len(writers) == 1 else None
        if not (isinstance(body, ir.Store) and isinstance(body.value, ir.Load)):
            return buffer
        buffer = body.value.buffer
        if buffer in seen:
            return buffer
        seen.add(buffer)


def shares(program: ir.Program, origin: str) -> list[int]:
    """The number of elements of a parameter that each iteration of a parallel loop combines; none
    where a reduction of them has no such loop around it.
    """
    found: list[int] = []
    for name, block in program.blocks.items():
        if not any(isinstance(stmt, ir.Reduce) for stmt in ir.stmts_of(block.body)):
            continue
        made = reads(program, name, origin)
        around = [x for x in ir.paths(program)[name] if x.kind is ir.LoopKind.PARALLEL]
        if made and not around:
            return []
        if made:
            counts = Counter(read.loops[around[0].var] for read in made)
            found += [counts[number] for number in range(around[0].extent)]
    return found
