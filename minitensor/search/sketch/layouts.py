"""Layouts of what blocks write: neighbours side by side, panels, and images by channels.

With the channels of an image side by side, a tile of a convolution reads a few whole lines of the
cache for some channels, and not one line for each channel. If the image is padded, it is written
anew in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from minitensor.ir import Load, Var, free_vars
from minitensor.schedule import IndexMap, Schedule
from minitensor.search.sketch.blocks import (
    Pair,
    operands,
    place_of,
    reduce_iters,
    spatial_iters,
    uses,
    writers,
    written_by,
)
from minitensor.search.sketch.rule import State
from minitensor.search.sketch.windows import is_padding


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
    """The block that pads an image, or the name of a parameter that is one, and the reduction over
    its channels; None if lines of the cache hold what a tile needs.

    A tile reads windows of the image along an axis of the result, and the sum over channels is
    longer: of lines that hold pixels it needs few of each. Where one vector has all columns, the
    image is read just once, and stays as it is.
    """
    reads = [o for o in operands(state.block) if uses(o, pair.rows) and not uses(o, pair.lanes)]
    longest = max(reduce_iters(state.block), key=lambda i: i.extent)
    if len(reads) != 1 or min(longest.extent, pair.lanes.extent - 1) < state.lanes:
        return None
    (read,) = reads
    if place_of(read, longest) in (None, len(read.indices) - 1) or not _is_window(state, read):
        return None
    writing = writers(state.program, read.buffer)
    padding = [b for b in writing if is_padding(state.program, state.program.blocks[b])]
    if len(writing) > 1 or writing != [b for b in padding if b in state.pending]:
        return None
    return (writing[0] if writing else read.buffer), longest.var


def _is_window(state: State, read: Load) -> bool:
    """Return whether pixels are read several times, for neighbouring results."""
    spatial = {i.var for i in spatial_iters(state.block)}
    windows = {i.var for i in reduce_iters(state.block) if i.extent > 1}
    used = [set(free_vars(index)) for index in read.indices]
    return any(names & spatial and names & windows for names in used)


def write_by_channels(schedule: Schedule, state: State, image: str, channels: str) -> None:
    """Write an image with its channels side by side, as squares of channels and pixels."""
    block = image
    if image not in state.program.blocks:
        block = schedule.cache_read(state.name, image, "global")
    written = written_by(schedule.program.blocks[block])
    (read,) = (o for o in operands(schedule.program.blocks[state.name]) if o.buffer == written)
    at = next(place_of(read, i) for i in reduce_iters(state.block) if i.var == channels)
    assert at is not None
    move_to_the_end(schedule, block, at)
    loops = schedule.get_loops(block)
    c_0, c_1 = schedule.split(loops[at], [None, state.lanes])
    others = [loop for d, loop in enumerate(loops[:-1]) if d != at]
    schedule.reorder(*others, c_0, loops[-1], c_1)
    schedule.vectorize(c_1)
