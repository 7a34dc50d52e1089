"""Any program on a GPU: a schedule that needs no thought, and steps that the others share.

Thread nests are siblings under the loops of a block: each is a step that all threads of the block
have finished before the next one begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from minitensor import ir
from minitensor.codegen import Target
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule

from .hand import Steps

WARP: Final = 32
"""Threads that execute together."""
THREADS: Final = 256
"""Of a block, where nothing speaks for another number."""
BLOCKS: Final = 264
"""Fewer blocks do not fill a large GPU: two for each of 132 multiprocessors."""
LONG: Final = 64
"""Terms from which on the threads of a block share a sum."""
TERMS: Final = 8
"""The least of them for a thread, before other blocks get a part of the sum."""
CHEAP_READS: Final = 4
"""Reads of an element up to which computing it again costs less than memory."""
CHEAP_LOADS: Final = 2
"""Loads of an expression that is computed again at any number of readers."""


def by_default(s: Schedule, target: Target) -> Steps:
    """Schedule any program that has not been scheduled."""
    for block in s.get_blocks():
        if _is_cheap(s.program, block):
            attempt(s, partial(inline, block=block))
    yield (
        "Fusion",
        "A stage that is cheap, or that is read a few times, is computed where it is read: what is "
        "not stored costs no memory and no kernel.",
    )
    for block in s.get_blocks():
        if any(loop.kind.is_bound for loop in ir.paths(s.program)[block]):
            continue
        if _is_few_long_sums(s.program, block) and is_accepted(s, partial(sums, block=block)):
            follow(s, block, sums(s, block))
        else:
            elements(s, block)
    yield (
        "Blocks and threads",
        "An element of a stage is computed by a thread. Where there are few elements and each is a "
        "long sum, the threads of a block share one: each adds up some of its terms, and they "
        "combine what they have. What follows such an element is done at once.",
    )


def attempt(s: Schedule, *steps: Callable[[Schedule], object]) -> bool:
    """Take some steps if the schedule accepts all of them; return whether it does."""
    if not is_accepted(s, *steps):
        return False
    for step in steps:
        step(s)
    return True


def is_accepted(s: Schedule, *steps: Callable[[Schedule], object]) -> bool:
    """Return whether a schedule accepts some steps, which are not taken."""
    tried = s.copy()
    try:
        for step in steps:
            step(tried)
    except ScheduleError:
        return False
    return True


def inline(s: Schedule, block: str) -> None:
    """Compute a block where it is read."""
    s.compute_inline(block)


def reorder(s: Schedule, loops: Iterable[str]) -> None:
    """Put loops into another order."""
    s.reorder(*loops)


def move(s: Schedule, reader: str, loop: str) -> None:
    """Compute what reads a block in an iteration of a loop around that."""
    s.reverse_compute_at(reader, loop)


def _is_cheap(program: ir.Program, name: str) -> bool:
    """Tell whether a block is better computed at each of its readers than once."""
    block = program.blocks[name]
    if not isinstance(block.body, ir.Store):
        return False
    stored, value = block.body.buffer, block.body.value
    reads = sum(
        size(reader.iters) * sum(load.buffer == stored for load in ir.loads(reader.body))
        for reader in ir.readers(program, stored)
    )
    if reads <= CHEAP_READS * size(block.iters):
        return True
    is_costly = any(
        isinstance(node, ir.Call) or (isinstance(node, ir.Binary) and node.op in ("/", "//", "%"))
        for node in ir.walk(value)
    )
    return not is_costly and len(ir.loads(value)) <= CHEAP_LOADS


def size(iters: Iterable[ir.Iter], kind: ir.IterKind | None = None) -> int:
    """The number of instances of some iters, or of those of one kind among them."""
    return math.prod(i.extent for i in iters if kind in (None, i.kind))


def _is_few_long_sums(program: ir.Program, name: str) -> bool:
    block = program.blocks[name]
    terms = size(block.iters, ir.IterKind.REDUCE)
    return terms >= LONG and 0 < size(block.iters, ir.IterKind.SPATIAL) < BLOCKS * WARP


def follow(s: Schedule, block: str, loop: str) -> None:
    """Compute what reads a block as soon as an iteration of a loop around that is done."""
    for reader in s.get_consumers(block):
        if isinstance(s.program.blocks[reader].body, ir.Store):
            attempt(s, partial(move, reader=reader, loop=loop))


def elements(s: Schedule, block: str) -> None:
    """Compute each element of a block by a thread of a grid; its sums and scans stay serial."""
    nest = {loop: ir.loop_sites(s.program)[loop].loop.extent for loop in s.get_loops(block)}
    free = [loop for loop in nest if is_accepted(s, partial(by_grid, loops=[loop]))]
    attempt(s, partial(reorder, loops=[*free, *(loop for loop in nest if loop not in free)]))
    runs = [[*run] for is_free, run in groupby(s.get_loops(block), free.__contains__) if is_free]
    if runs and 0 not in nest.values():
        run = max(runs, key=lambda run: math.prod(nest[loop] for loop in run))
        shared_out = partial(by_grid, loops=run)
        if not attempt(s, partial(follow, block=block, loop=run[-1]), shared_out):
            attempt(s, shared_out)


def by_grid(s: Schedule, loops: Sequence[str]) -> None:
    """Share the iterations of some loops, outermost first, among the threads of a grid."""
    loop = s.fuse(*loops) if len(loops) > 1 else loops[0]
    extent = ir.loop_sites(s.program)[loop].loop.extent
    threads = next((n for n in (THREADS, 128) if extent >= n * BLOCKS), 64)
    block, thread = s.split(loop, [None, threads])
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")


def sums(s: Schedule, block: str) -> str:
    """Compute each sum of a block by a block of threads, or its parts by several.

    Returns the loop over the blocks of threads.
    """
    iters = s.program.blocks[block].iters
    results, terms = size(iters, ir.IterKind.SPATIAL), size(iters, ir.IterKind.REDUCE)
    parts = min(-(-BLOCKS // results), terms // (TERMS * THREADS))
    summed = [
        loop
        for loop, i in zip(s.get_loops(block), iters, strict=True)
        if i.kind is ir.IterKind.REDUCE
    ]
    k = s.fuse(*summed) if len(summed) > 1 else summed[0]
    if parts > 1:
        part, _ = s.split(k, [parts, None])
        one_a_block(s, s.rfactor(part))
    return one_a_block(s, block)


def one_a_block(s: Schedule, block: str) -> str:
    """Compute each sum of a block, the last loop of which goes over its terms, by the threads of a
    block. Returns the loop over these.
    """
    *results, k = s.get_loops(block)
    terms = ir.loop_sites(s.program)[k].loop.extent
    if len(results) > 1:
        s.fuse(*results)
    elif not results:
        s.add_unit_loop(k)
    by_threads(s, block, next((n for n in (WARP, 64, 128) if terms <= n), THREADS))
    grid = s.get_loops(block)[0]
    s.bind(grid, "blockIdx.x")
    return grid


def by_threads(s: Schedule, block: str, threads: int) -> tuple[str, ...]:
    """Add up the last loop of a block by threads, each of which has every so manyth term.

    Returns the loops of the partial sums, the last of which goes over the threads.
    """
    _, k_1 = s.split(s.get_loops(block)[-1], [None, threads])
    partial_sums = s.rfactor(k_1)
    if len(s.get_loops(block)) == 1:
        s.add_unit_loop(s.get_loops(block)[0])
    *_, row, thread = s.get_loops(block)
    *loops, own = s.compute_at(partial_sums, row)
    s.set_scope(partial_sums, "local")
    s.bind(own, "threadIdx.x")
    s.bind(thread, "threadIdx.x")
    return (*loops, own)
