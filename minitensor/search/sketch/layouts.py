"""Layouts that put side by side what is read side by side."""

from __future__ import annotations

from collections.abc import Sequence

from minitensor.ir import Var, accessed_buffers
from minitensor.schedule import IndexMap, Schedule


def move_to_the_end(schedule: Schedule, block: str, at: int) -> None:
    """Lay out what a block writes so that neighbours in dimension `at` are side by side."""
    (buffer,) = accessed_buffers(schedule.program.blocks[block])[1]
    names = [f"i{n}" for n in range(len(schedule.program.buffers[buffer].shape))]
    order = [*names[:at], *names[at + 1 :], names[at]]
    if order != names:
        schedule.transform_layout(buffer, IndexMap(tuple(names), tuple(Var(n) for n in order)))


def in_panels(
    schedule: Schedule, copy: str, loops: Sequence[str], at: int, width: int
) -> tuple[str, list[str], str]:
    """Lay a copy out in panels, each as wide as given and as long as the other dimensions.

    loops  of the copy, one for each dimension
    at     the dimension that is cut into panels

    Returns the loops over panels, over the other dimensions, and inside a panel.
    """
    names = [f"i{n}" for n in range(len(loops))]
    others = [Var(n) for n in names if n != names[at]]
    outputs = (Var(names[at]) // width, *others, Var(names[at]) % width)
    schedule.transform_layout(copy, IndexMap(tuple(names), outputs))
    outer, inner = schedule.split(loops[at], [None, width])
    return outer, [loop for loop in loops if loop != loops[at]], inner
