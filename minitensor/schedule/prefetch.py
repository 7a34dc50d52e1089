"""The primitive that loads cache lines before they are read: prefetch.

It leaves a note at the loop (see `arith.prefetch`), so the loops stay what they were for whatever
is done later. What may be done to them follows from one rule, K4: the loop must still be able to
prefetch what it did. Code generation writes the instructions.

Not here: prefetching what is written, or at places that only data tell (A[B[i]]).
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.arith import PrefetchError, note_of, require_prefetch
from minitensor.schedule.arguments import LARGEST_INT, BufferName, LoopName, ints
from minitensor.schedule.batch import Batch, Effect, StepView
from minitensor.schedule.edit import spliced
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

RULE_OF: Final = {
    "kind": "R1",
    "scope": "R2",
    "not read": "R3",
    "written": "R4",
    "distance": "R5",
    "not driven": "R6",
    "too many": "R7",
}

Distance: TypeAlias = Annotated[int, ints(1, LARGEST_INT)]
"""A number of iterations."""


@primitive(
    rules={
        "R1": (
            "the loop is serial, parallel or unrolled, and no loop around it is vectorized",
            "name a loop around the vectorized one",
        ),
        "R2": (
            "the buffer is in memory (scope global)",
            "prefetch the buffer that it is filled from",
        ),
        "R3": (
            "a block under the loop reads the buffer",
            "name a loop around a block that reads it",
        ),
        "R4": (
            "no block under the loop writes the buffer",
            "leave this step out: what was just written is in the cache",
        ),
        "R5": (
            "the loop has an iteration that is so far ahead",
            "choose a distance that is less than the extent of the loop",
        ),
        "R6": (
            "the part of the buffer that an iteration reads moves with the loop",
            "name a loop that drives an index of the buffer, not one that data alone decide",
        ),
        "R7": (
            "an iteration reads at most 64 cache lines of the buffer",
            "name a loop further inside, or split it first",
        ),
    },
    alternatives="loop",
)
def prefetch(
    program: ir.Program, buffer: BufferName, loop: LoopName, distance: Distance
) -> Rewritten[None]:
    """Load the cache lines that a loop reads of a buffer some iterations before it reads them.

    prefetch("B", "k", 8)
        for k in range(256):                    for k in range(256):  # prefetch_B = 8
            for j in vectorize(32):      =>         for j in vectorize(32):
                C[j] += A[k] * B[k, j]                  C[j] += A[k] * B[k, j]

    At the start of each iteration, before anything else, the compiled code has an instruction for
    each line of B[k + 8, :], one for every 64 bytes of a row from its first element on; of the
    last row where there is no row k + 8. They change no value and cannot fail. Lines that every
    iteration reads a part of are asked for by every iteration: split the loop first, so that one
    reads whole lines. Prefetching again replaces the distance; unannotate("k", "prefetch_B") takes
    it back. Later steps leave the loop able to prefetch (rule K4), so this is one of the last.

    distance  in iterations of the loop: about the time that memory takes, by that of an iteration

    Preserves  every output.
    """
    site = ir.loop_sites(program)[loop]
    try:
        require_prefetch(program, loop, buffer, distance)
    except PrefetchError as problem:
        blocks = {} if problem.block is None else {problem.block: "writes it"}
        marks = ir.Marks({loop: "to prefetch in"}, blocks)
        refuse(RULE_OF[problem.reason], problem.detail, marks=marks)
    old = site.loop
    notes = {**dict(old.annotations), note_of(buffer): distance}
    new = ir.For(old.var, old.extent, old.body, old.kind, tuple(notes.items()))
    return spliced(program, {id(old): new}), None


@prefetch.on_batch
def _prefetch_batch(view: StepView) -> Effect:
    loop, distance = view.argument("loop"), view.step.arguments["distance"]
    view.follow()

    def effect(batch: Batch) -> None:
        ahead = np.less(batch.number(distance), batch.extents[loop])
        view.require(ahead, "the loop has no iteration that is so far ahead")

    return effect


@prefetch.random_call()
def _call_prefetch(scene: Scene) -> None:
    """Mostly a buffer that a block reads, and a loop around it."""
    block = scene.block()
    found = scene.program.blocks.get(block)
    read = sorted(ir.accessed_buffers(found)[0]) if found is not None else []
    buffer = scene.pick(read) if read and not scene.chance(20) else scene.buffer()
    scene.do("prefetch", buffer, scene.pick(scene.loops(block)), scene.pick((1, 2, 3, 8)))


class PrefetchPrimitives:
    """The primitive of this file, as a method of a Schedule."""

    prefetch = prefetch
