"""Features of statements: computed here only, for one program or for many candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from minitensor.arith import Linear, Num, opened
from minitensor.codegen import Target
from minitensor.ir import Program, paths
from minitensor.phrasebook import SCHEDULE_OR_PROGRAM, no_program
from minitensor.schedule import Schedule
from minitensor.search.features.memory import Walk, lines_of, reuse_of
from minitensor.search.features.names import (
    ALLOCATION_AT,
    BUFFER_WIDTH,
    BUFFERS,
    BUFFERS_AT,
    CURVE,
    CURVE_AT,
    GPU_AT,
    MARK_WIDTH,
    MARKS,
    MARKS_AT,
    OUTER_AT,
    POSITIONS,
    THREADS,
    WIDTH,
    WORK,
)
from minitensor.search.features.nest import Floats, Marks, Nest, marked
from minitensor.search.features.statement import Statement, bound_loops, statement_of

Rows = npt.NDArray[np.float32]


def fill(
    rows: Rows,
    statement: Statement,
    extents: Mapping[str, Num],
    forms: Mapping[str, Linear],
    shapes: Mapping[str, Sequence[Num]],
    marks: Mapping[str, Marks] | None,
    gpu: bool,
) -> None:
    """Write the features of a statement into rows (WIDTH, candidates), which hold 0.

    extents  of the loops around it
    forms    of the iters in terms of those loops
    shapes   of its buffers
    marks    by the name of the block; None for what the program says
    """
    nest = Nest(statement, extents, forms, rows.shape[1])
    walks = [Walk(nest, touch, shapes[touch.buffer.name]) for touch in statement.touches]
    traffic = sum((walk.touched for walk in walks), np.zeros_like(nest.inside))
    _fill_work(rows, nest)
    _fill_marks(rows[MARKS_AT:GPU_AT], nest, marks)
    _fill_threads(rows, nest, gpu)
    if described := walks[:BUFFERS]:
        last = BUFFERS_AT + len(described) * BUFFER_WIDTH
        _fill_buffers(rows[BUFFERS_AT:last], nest, described, traffic)
    _fill_curve(rows[CURVE_AT : CURVE_AT + CURVE], nest, traffic)
    _fill_allocation(rows[ALLOCATION_AT:OUTER_AT], nest, walks)
    rows[OUTER_AT] = nest.depth
    rows[OUTER_AT + 1] = nest.inside[0]
    rows[OUTER_AT + 2] = statement.unroll
    rows += 1
    np.log2(rows, out=rows)


def _fill_work(rows: Rows, nest: Nest) -> None:
    for row, count in zip(rows, nest.statement.work):
        if count:
            row[:] = count * nest.inside[0]


def _fill_marks(rows: Rows, nest: Nest, marks: Mapping[str, Marks] | None) -> None:
    ways = rows.reshape(len(MARKS), MARK_WIDTH, nest.count)
    found = marked(nest.statement, marks, nest.count)
    if not found.any():
        ways[:, 3] = 1
        return
    some = found.any(1)
    place = nest.innermost(found), nest.lanes
    ways[:, 0] = nest.length[place] * some
    ways[:, 1] = np.where(found, nest.length, 1).prod(1) * some
    ways[:, 2] = found.sum(1)
    position = nest.positions[place] * some
    ways[:, 3:] = position[:, None] == np.arange(len(POSITIONS))[:, None]


def _fill_threads(rows: Rows, nest: Nest, gpu: bool) -> None:
    rows[GPU_AT] = gpu
    for kind, loop in bound_loops(nest.statement):
        row = rows[GPU_AT + 1 + THREADS.index(kind)]
        row[:] = nest.length[loop] * np.maximum(row, 1)  # there may be several virtual threads


def _fill_buffers(rows: Rows, nest: Nest, walks: Sequence[Walk], traffic: Floats) -> None:
    """The features of some buffers, rows (BUFFER_WIDTH * buffers, candidates)."""
    table = rows.reshape(len(walks), BUFFER_WIDTH, nest.count)
    for own, walk in zip(table, walks):
        own[0] = walk.touch.reads and not walk.touch.writes
        own[1] = walk.touch.writes and not walk.touch.reads
        own[2] = walk.touch.reads and walk.touch.writes
    amounts = np.empty((len(walks), 4, nest.count))
    for amount, walk in zip(amounts, walks):
        amount[0] = nest.inside[0] * (walk.touch.item * walk.touch.places)
        amount[1] = walk.touched[0]
        amount[3] = walk.unique_lines
    amounts[:, 2], table[:, 17] = lines_of(nest, walks)
    reuse = reuse_of(nest, walks, traffic)
    table[:, 3:7] = amounts
    table[:, 7] = reuse.looped
    table[:, 8] = reuse.shared
    table[:, 9] = ~(reuse.looped | reuse.shared)
    table[:, 10] = reuse.apart
    table[:, 11] = reuse.between
    table[:, 12] = reuse.count
    table[:, 13:17] = amounts * (1 / np.maximum(reuse.count, 1))[:, None]


def _fill_curve(rows: Rows, nest: Nest, traffic: Floats) -> None:
    """Operations for each byte, from the statement alone (first) to its whole nest (last)."""
    work = sum(nest.statement.work[: 2 * len(WORK)])
    if not work:
        return
    dense = nest.inside * work / np.where(traffic > 0, traffic, 1)
    place = nest.depth - nest.depth * np.arange(CURVE) / (CURVE - 1)
    depth = place.astype(np.int64)
    part = (place - depth)[:, None]
    rows[:] = dense[depth] * (1 - part) + dense[np.minimum(depth + 1, nest.depth)] * part


def _fill_allocation(rows: Rows, nest: Nest, walks: Sequence[Walk]) -> None:
    """Of the first buffer that is written: the bytes of one instance (as much of it as is touched),
    how many are allocated, and the loops around and inside of that.
    """
    written = next((walk for walk in walks if walk.touch.writes), None)
    if written is None:
        return
    home = written.touch.home
    depth = 0 if home is None else home
    outside = np.multiply.reduce(nest.length[:depth], 0)
    rows[0] = written.touched[depth]
    rows[1] = 0 if home is None else outside
    rows[2] = outside
    rows[3] = nest.inside[depth]


def extract_features(
    schedule_or_program: Schedule | Program, target: str | Target = "c"
) -> npt.NDArray[np.float32]:
    """The features of a program: a row of 164 numbers (FEATURE_NAMES) for each of its blocks.

    Returns a float32 array (blocks, 164), the blocks in the order of the text. See
    docs/features.md.
    """
    program = (
        schedule_or_program.program
        if isinstance(schedule_or_program, Schedule)
        else schedule_or_program
    )
    if not isinstance(program, Program):
        raise no_program("schedule_or_program", schedule_or_program, SCHEDULE_OR_PROGRAM)
    gpu = Target.of(target).is_gpu
    found = np.zeros((len(program.blocks), WIDTH, 1), np.float32)
    shapes = {buffer.name: buffer.shape for buffer in program.buffers.values()}
    for rows, block in zip(found, program.blocks.values()):
        statement = statement_of(program, block)
        extents = {loop.var: loop.extent for loop in paths(program)[block.name]}
        forms = {i.var: opened(i.binding) for i in block.iters}
        fill(rows, statement, extents, forms, shapes, None, gpu)
    return found[:, :, 0]
