"""Features of statements: computed here only, for one program or for many candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from minitensor.arith import Linear, Num, opened
from minitensor.codegen import Target
from minitensor.errors import unexpected
from minitensor.ir import Program, paths
from minitensor.schedule import Schedule
from minitensor.search.features.memory import Walk, reuse_of
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
    marks: Mapping[str, Marks] | None = None,
    unroll: Num | None = None,
    gpu: bool = False,
) -> None:
    """Write the features of a statement into rows (WIDTH, candidates), which hold 0.

    extents  of the loops around it
    forms    of the iters in terms of those loops
    shapes   of its buffers
    marks    by the name of the block; None for what the program says
    unroll   up to how many copies the compiler may unroll; None for what the program says
    """
    nest = Nest(statement, extents, forms, rows.shape[1])
    walks = [Walk(nest, touch, shapes[touch.buffer.name]) for touch in statement.touches]
    traffic = _traffic(nest, walks)
    _fill_work(rows, nest)
    _fill_marks(rows, nest, marks)
    _fill_threads(rows, nest, gpu)
    for n, walk in enumerate(walks[:BUFFERS]):
        at = BUFFERS_AT + n * BUFFER_WIDTH
        _fill_buffer(rows[at : at + BUFFER_WIDTH], walk, traffic)
    _fill_curve(rows[CURVE_AT : CURVE_AT + CURVE], nest, traffic)
    _fill_allocation(rows[ALLOCATION_AT:OUTER_AT], nest, walks)
    rows[OUTER_AT] = nest.depth
    rows[OUTER_AT + 1] = nest.inside[0]
    rows[OUTER_AT + 2] = statement.unroll if unroll is None else unroll
    rows += 1
    np.log2(rows, out=rows)


def _traffic(nest: Nest, walks: Sequence[Walk]) -> list[Floats]:
    """The bytes of all buffers that are touched while the outermost 0, 1, … loops stand still."""
    rows = [sum((walk.touched[-1] for walk in walks), np.zeros(nest.count))]
    for loop in reversed(range(nest.depth)):
        same = all(walk.touched[loop] is walk.touched[loop + 1] for walk in walks)
        now = rows[-1] if same else sum((w.touched[loop] for w in walks), np.zeros(nest.count))
        rows.append(now)
    return rows[::-1]


def _fill_work(rows: Rows, nest: Nest) -> None:
    for row, count in zip(rows, nest.statement.work):
        if count:
            row[:] = count * nest.inside[0]


def _fill_marks(rows: Rows, nest: Nest, marks: Mapping[str, Marks] | None) -> None:
    for n, kind in enumerate(MARKS):
        at = MARKS_AT + n * MARK_WIDTH
        found = marked(nest.statement, kind, marks, nest.count)
        if found is None or not found.any():
            rows[at + 3] = 1
            continue
        some = found.any(0)
        product = np.ones(nest.count)
        for length, where in zip(nest.length, found):
            np.multiply(product, length, out=product, where=where)
        place = nest.innermost(found), np.arange(nest.count)
        rows[at] = nest.length[place] * some
        rows[at + 1] = product * some
        rows[at + 2] = found.sum(0)
        position = nest.positions[place] * some
        for k in range(len(POSITIONS)):
            rows[at + 3 + k] = position == k


def _fill_threads(rows: Rows, nest: Nest, gpu: bool) -> None:
    rows[GPU_AT] = gpu
    for kind, loop in bound_loops(nest.statement).items():
        rows[GPU_AT + 1 + THREADS.index(kind)] = nest.length[loop]


def _fill_buffer(rows: Rows, walk: Walk, traffic: Sequence[Floats]) -> None:
    touch, runs = walk.touch, walk.nest.inside[0]
    rows[0] = touch.reads and not touch.writes
    rows[1] = touch.writes and not touch.reads
    rows[2] = touch.reads and touch.writes
    lines, stride = walk.lines()
    amounts = (runs * (touch.item * touch.places), walk.touched[0], lines, walk.unique_lines)
    reuse = reuse_of(walk, traffic)
    rows[7] = reuse.looped
    rows[8] = reuse.shared
    rows[9] = ~(reuse.looped | reuse.shared)
    rows[10] = reuse.apart
    rows[11] = reuse.between
    rows[12] = reuse.count
    often = 1 / np.maximum(reuse.count, 1)
    for n, amount in enumerate(amounts):
        rows[3 + n] = amount
        rows[13 + n] = amount * often
    rows[17] = stride


def _fill_curve(rows: Rows, nest: Nest, traffic: Sequence[Floats]) -> None:
    """Operations for each byte, from the statement alone (first) to its whole nest (last)."""
    work = sum(nest.statement.work[: 2 * len(WORK)])
    if not work:
        return
    known: dict[int, Floats] = {}

    def at(depth: int) -> Floats:
        if depth not in known:
            moved = traffic[depth]
            known[depth] = nest.inside[depth] * work / np.where(moved > 0, moved, 1)
        return known[depth]

    for n, row in enumerate(rows):
        place = nest.depth - nest.depth * n / (CURVE - 1)
        depth = int(place)
        part = place - depth
        row[:] = at(depth) * (1 - part) + at(depth + 1) * part if part else at(depth)


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
        raise unexpected("a schedule or a program", "schedule_or_program", schedule_or_program)
    gpu = is_gpu(Target.of(target))
    found = np.zeros((len(program.blocks), WIDTH, 1), np.float32)
    shapes = {buffer.name: buffer.shape for buffer in program.buffers.values()}
    for rows, block in zip(found, program.blocks.values()):
        statement = statement_of(program, block)
        extents = {loop.var: loop.extent for loop in paths(program)[block.name]}
        forms = {i.var: opened(i.binding) for i in block.iters}
        fill(rows, statement, extents, forms, shapes, gpu=gpu)
    return found[:, :, 0]


def is_gpu(target: Target) -> bool:
    """Return whether code for the target runs on a GPU, or as if it did."""
    return target.kind.startswith("cuda")
