"""The features of one program, from its text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from minitensor.arith import opened
from minitensor.codegen import Target
from minitensor.errors import unexpected
from minitensor.ir import Program, paths
from minitensor.schedule import Schedule
from minitensor.search.features.names import WIDTH
from minitensor.search.features.rows import fill
from minitensor.search.features.statement import statement_of


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
