"""Factors that rules leave open: lists to choose from, sized by the machine and by the loop.

A factor need not divide the extent: what is too much is guarded, and the guards leave the inner
loops when code is generated. So no decision depends on another. What is known to be good more often
is more likely to be drawn (`weights`); everything else stays possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from minitensor.arith import linear_of
from minitensor.ir import Iter, Load
from minitensor.schedule import Schedule
from minitensor.search.sketch.blocks import operands, pieces, uses
from minitensor.search.sketch.rule import State

ROWS: Final = {16: (1, 2, 3, 4, 6), 32: (2, 4, 6, 7, 8, 12, 14)}
"""Rows of a register tile, by the number of registers: with two vectors they fill most of them."""
MOST_LIKELY_ROWS: Final = {16: 6, 32: 8}
"""Rows from which on more are no more likely, by the number of registers."""
VECTORS: Final = (1, 2, 3, 4)
"""Vectors side by side in a tile."""
WAYS: Final = (1, 2, 4, 8)
"""Vectors of partial results: as many additions as there are of them can be under way."""
FEW_ROWS: Final = (1, 2, 3, 4)
"""Rows of a tile whose window is written out."""
ROW: Final = 64
"""The longest row that may be one vector, however few of its elements a register holds."""
STRIP: Final = {8: 1, 16: 1, 32: 2, 64: 4, 128: 2}
"""Rows of a tile that is read down its columns, and how likely they are: the lines of the cache
that a column touches should stay in L1 until the next column."""
LINE: Final = 64
"""Bytes of a line of the caches. A tile that is read down its columns is as wide: it fills lines of
the result, and touches as few of the operand."""
WAY_BYTES: Final = 4096
"""Bytes after which lines of an L1 cache compete for the same places, of which there is one in each
of its ways: those of a page, on all x86 processors."""
UNEQUAL: Final = 8
"""The power of the speed that parts have by their shares: a core that waits is worse than parts of
another size."""
TOGETHER: Final = 4
"""Parts for each core from which on the loops inside of them are not divided too."""
USUAL_VECTORS: Final = 2
"""Vectors side by side in a tile where nothing else is known."""
LIKELY: Final = {1: 1, 2: 4, 3: 2, 4: 1}
"""Weights of so many vectors side by side; more of them come from short rows, and are as one."""
LIKELY_BESIDE_FEW: Final = {1: 1, 2: 2, 3: 4, 4: 1}
"""The same beside two to four rows: 16 registers hold four rows of three vectors."""
MOST_LIKELY_WAYS: Final = 4
"""Ways from which on more are no more likely: they hide the latency of most operations."""


def choose(schedule: Schedule, candidates: Sequence[int], weights: Iterable[float]) -> int:
    """One of some candidates, each as likely as its weight says."""
    probs = [max(0.01, round(weight, 2)) for weight in weights]
    chosen: int = schedule.sample_categorical(candidates, probs=probs)
    return chosen


def used(extent: int, factor: int) -> float:
    """The part of what is computed that is within an extent, cubed: a weight of a factor."""
    return float((extent / (-(-extent // factor) * factor)) ** 3)


def ways(schedule: Schedule, extent: int | None = None) -> int:
    """A number of vectors of partial results."""
    candidates = WAYS if extent is None else up_to(extent, WAYS)
    return choose(schedule, candidates, [min(n, MOST_LIKELY_WAYS) for n in candidates])


def height(
    schedule: Schedule,
    candidates: Sequence[int],
    extent: int,
    registers: int,
    vectors: int = USUAL_VECTORS,
    lines: int | None = None,
) -> int:
    """A number of rows among some: the more, the likelier, as each serves all that is loaded; up to
    a limit, for there are several vectors in each.

    vectors  those of a row that are likeliest; rows for which registers lack are as unlikely as one
    lines    rows from which on their lines drive each other out of L1; they are as unlikely
    """
    weights = _weights_of_heights(candidates, extent, registers, vectors, lines)
    return choose(schedule, candidates, weights)


def _weights_of_heights(
    candidates: Sequence[int], extent: int, registers: int, vectors: int, lines: int | None = None
) -> list[float]:
    most = max(1, (registers - 1) // vectors - 1)  # beside a row of what is loaded, and a number
    most = most if lines is None else max(1, min(most, lines - 1))
    likely = [min(n, MOST_LIKELY_ROWS[registers]) if n <= most else 1 for n in candidates]
    return [n * used(extent, rows) for n, rows in zip(likely, candidates)]


def lines_of_rows(state: State, axis: Iter, packed: Sequence[Load], inner: str) -> int | None:
    """The number of rows from which on L1 does not hold a line of each, since they lie a multiple
    of a large power of two apart; None where that is not known.

    packed  operands whose rows lie side by side
    inner   a reduction along which all others are contiguous; "" if that is as the buffers say
    """
    found = []
    for load in operands(state.block):
        if load in packed or not uses(load, axis):
            continue
        buffer, step = state.program.buffers[load.buffer], 0
        places = [(linear_of(index), size) for index, size in zip(load.indices, buffer.shape)]
        for form, size in sorted(places, key=lambda place: place[0].coefficient(inner) != 0):
            step = step * size + int(form.coefficient(axis.var))
        if step == 0:
            continue
        apart = math.gcd(step * buffer.dtype.bits // 8, WAY_BYTES)
        found.append(state.caches.l1 // WAY_BYTES * (WAY_BYTES // apart))
    return min(found, default=None)


def are_few(heights: Sequence[int], extent: int, registers: int) -> bool:
    """Tell whether the likeliest of some numbers of rows leaves many of 16 registers empty."""
    weights = _weights_of_heights(heights, extent, registers, USUAL_VECTORS)
    return registers == 16 and heights[weights.index(max(weights))] in FEW_ROWS[1:]


def count(
    schedule: Schedule, candidates: Sequence[int], extent: int, lanes: int, few: bool = False
) -> int:
    """A number of vectors among some; `few`: beside few rows."""
    return choose(schedule, candidates, _weights_of_counts(candidates, extent, lanes, few))


def likeliest_count(candidates: Sequence[int], extent: int, lanes: int, few: bool) -> int:
    """The likeliest number of vectors among some."""
    weights = _weights_of_counts(candidates, extent, lanes, few)
    return candidates[weights.index(max(weights))]


def _weights_of_counts(
    candidates: Sequence[int], extent: int, lanes: int, few: bool
) -> list[float]:
    likely = LIKELY_BESIDE_FEW if few else LIKELY
    return [likely.get(n, 1) * used(extent, n * lanes) for n in candidates]


def width(schedule: Schedule, candidates: Sequence[int], extent: int, lanes: int) -> int:
    """A number of elements of a row among some."""
    return choose(schedule, candidates, _weights_of_widths(candidates, extent, lanes))


def likeliest_width(candidates: Sequence[int], extent: int, lanes: int) -> int:
    """The likeliest number of elements of a row among some."""
    weights = _weights_of_widths(candidates, extent, lanes)
    return candidates[weights.index(max(weights))]


def _weights_of_widths(candidates: Sequence[int], extent: int, lanes: int) -> list[float]:
    return [LIKELY.get(pieces(n, lanes), 1) * used(extent, n) for n in candidates]


def part(
    schedule: Schedule,
    candidates: Sequence[int],
    wanted: int,
    extent: int | None = None,
    cores: int = 1,
    most: float = math.inf,
) -> int:
    """A number of parts among some: the nearer to what an author would choose, the likelier, and
    the more equal the shares of all cores in an extent are.

    most  parts from which on each costs as much as unequal shares: it reads an operand again
    """
    weights = [1 / (1 + abs(math.log2(n / wanted))) for n in candidates]
    if extent is not None:
        shares = [_equality(extent, n, cores) * min(1.0, most / n) ** UNEQUAL for n in candidates]
        weights = [weight * share for weight, share in zip(weights, shares)]
    return choose(schedule, candidates, weights)


def _equality(extent: int, count: int, cores: int) -> float:
    """A weight of so many parts: the speed, to a power, of cores of which the busiest has the first
    of them (56 as 32 parts are 28 of two and four of none, of which the first core has 16). A few
    iterations of which each is a part are divided with the loops inside of them.
    """
    size = -(-extent // count)
    if count == 1 or (size == 1 and count < TOGETHER * cores):
        return 1.0
    busiest = min(extent, -(-count // cores) * size)
    return math.pow(extent / (cores * busiest), UNEQUAL)


def up_to(extent: int, candidates: Iterable[int]) -> list[int]:
    """The candidates up to an extent, and the first that reaches over it; ascending."""
    ordered = sorted(set(candidates))
    return [n for n, before in zip(ordered, [0, *ordered]) if before < extent]


def parts(extent: int, cores: int, smallest: int = 1) -> list[int]:
    """Into how many parts to cut a loop for the threads: one, or some for each core.

    smallest  iterations below which there is no point in a part of its own
    """
    most = max(1, extent // smallest)
    some = [cores << n for n in range(6)]
    return sorted({1, *(n for n in some if n <= most), *([extent] if extent <= 64 else [])})


def rows(state: State, extent: int) -> list[int]:
    """Rows of a register tile: those that fill the registers, or all if there are few; and, where a
    few tiles make the extent, as many as leave none of them nearly empty (13 as 5, 5 and 3).
    """
    known = ROWS[state.registers]
    even = -(-extent // -(-extent // known[-1]))
    return up_to(extent, (*known, even) if extent <= ROW else known)


def vectors(state: State, extent: int) -> list[int]:
    """Widths of a tile in vectors."""
    return up_to(-(-extent // state.lanes), VECTORS)


def even_part(extent: int, lanes: int) -> int:
    """The divisor, up to the longest row, whose vectors are filled best; the largest of these."""
    divisors = [n for n in range(1, min(extent, ROW) + 1) if extent % n == 0]
    return min(divisors, key=lambda n: (pieces(n, lanes) / n, -n))


def widths(state: State, extent: int) -> list[int]:
    """Numbers of elements of a row: some vectors, or the row if it is short."""
    whole = [extent] if extent <= ROW else []
    return up_to(extent, (*(n * state.lanes for n in VECTORS), *whole))
