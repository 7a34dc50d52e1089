"""Layouts of what blocks write: neighbours side by side, panels, and images by channels.

A padded image is written anew in any case. With its channels side by side, a tile of a convolution
reads a few whole lines of the cache for some channels, and not one line for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from minitensor.ir import Var
from minitensor.schedule import IndexMap, Schedule
from minitensor.search.sketch.blocks import (
    Pair,
    operands,
    place_of,
    reduce_iters,
    uses,
    writers,
    written_by,
)
from minitensor.search.sketch.rule import State
from minitensor.search.sketch.windows import is_padding

CHANNELS: Final = 16
"""Channels that are written side by side at a time: a line of the cache."""


def move_to_the_end(schedule: Schedule, block: str, at: int) -> None:
    """Lay out what a block writes so that neighbours in dimension `at` are side by side."""
    buffer = written_by(schedule.program.blocks[block])
    names = [f"i{n}" for n in range(len(schedule.program.buffers[buffer].shape))]
    order = [*names[:at], *names[at + 1 :], names[at]]
    if order != names:
        schedule.transform_layout(buffer, IndexMap(tuple(names), tuple(Var(n) for n in order)))


def in_panels(
    schedule: Schedule,
    copy: str,
    loops: Sequence[str],
    at: int,
    width: int,
    steps: Mapping[int, int] = MappingProxyType({}),
    last: int | None = None,
) -> tuple[str, list[str], str]:
    """Lay a copy out in panels, each as wide as given and as long as the other dimensions.

    loops  of the copy, one for each dimension
    at     the dimension that is cut into panels
    steps  by other dimensions: elements so many apart are neighbours, as they are read
    last   the other dimension along which rows of a panel follow each other; None for the last

    Returns the loops over panels, over the other dimensions, and inside a panel.
    """
    names = [f"i{n}" for n in range(len(loops))]
    places = [Var(n) // steps[d] if d in steps else Var(n) for d, n in enumerate(names)]
    others = [places[d] for d in sorted(range(len(names)), key=lambda d: d == last) if d != at]
    phases = [Var(names[d]) % step for d, step in steps.items()]
    outputs = (Var(names[at]) // width, *phases, *others, Var(names[at]) % width)
    schedule.transform_layout(copy, IndexMap(tuple(names), outputs))
    outer, inner = schedule.split(loops[at], [None, width])
    return outer, [loop for loop in loops if loop != loops[at]], inner


def image_by_channels(state: State, pair: Pair) -> tuple[str, str] | None:
    """The block that pads an image which a tile reads along an axis of the result, though what is
    summed up is longer, and the reduction over its channels: lines of the cache hold pixels, of
    which a tile needs few. None where it is otherwise.
    """
    reads = [o for o in operands(state.block) if uses(o, pair.rows) and not uses(o, pair.lanes)]
    longest = max(reduce_iters(state.block), key=lambda i: i.extent)
    writing = [name for read in reads for name in writers(state.program, read.buffer)]
    if len(reads) != 1 or len(writing) != 1 or longest.extent < state.lanes:
        return None
    (image,), at = writing, place_of(reads[0], longest)
    padded = image in state.pending and is_padding(state.program, state.program.blocks[image])
    return (image, longest.var) if padded and at not in (None, len(reads[0].indices) - 1) else None


def write_by_channels(schedule: Schedule, state: State, image: str, channels: str) -> None:
    """Write a padded image with its channels side by side, some of them and of its pixels at a
    time, for it is read as it was.
    """
    written = written_by(state.program.blocks[image])
    (read,) = (o for o in operands(state.block) if o.buffer == written)
    at = next(place_of(read, i) for i in reduce_iters(state.block) if i.var == channels)
    assert at is not None
    move_to_the_end(schedule, image, at)
    loops = schedule.get_loops(image)
    c_0, c_1 = schedule.split(loops[at], [None, CHANNELS])
    x_0, x_1 = schedule.split(loops[-1], [None, state.lanes])
    others = [loop for d, loop in enumerate(loops[:-1]) if d != at]
    schedule.reorder(*others, c_0, x_0, c_1, x_1)
    schedule.vectorize(x_1)
