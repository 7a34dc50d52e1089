"""Each hand schedule beside the candidate most like it, in the space that a search draws from.

    python -m benchmarks.by_hand                        every workload of tutorials.schedules
    python -m benchmarks.by_hand matmul-512 'conv-*'    some of them

What the space does not hold, no search can find: it shows here. "Same" is the part of the hand
schedule's loops that the candidate has too, counted for each block from the inside, with as many
iterations, the same threads and the same tile written out; blocks weigh as much as the work that
they do. Of the candidate with the largest, the fastest amount of unrolling is found first, as the
space chooses it for all blocks at once; that one is then timed anew, in turns with the hand
schedule, so that the choice among noisy times does not flatter it. Uses as many
threads as OMP_NUM_THREADS says, or all cores.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, takewhile
from typing import TypeAlias

import numpy as np

import minitensor as mt
from benchmarks.common import geometric_mean, machine, markdown_table
from benchmarks.compare.work import normal_arrays
from minitensor import ir
from minitensor.runtime import SPIN_SECONDS, Caches, Pace, interleave, native_target, ratio
from minitensor.search import Candidate, Space
from minitensor.search.space import GRANULARITY, UNROLL, Plan
from tutorials.schedules import HAND_SCHEDULES, HandSchedule, scheduled

BAR = 0.97
"""Of the speed of a hand schedule: the least that the space must hold."""
MOST_DECISIONS = 20_000
"""Of a sketch that is looked through."""

Loops: TypeAlias = tuple[tuple[ir.LoopKind, int], ...]
"""The loops around a block that have several iterations, outermost first: kind and extent."""
Tile: TypeAlias = tuple[int, ...]
"""The extents of the unrolled and vectorized part of a block along its axes, ascending."""


@dataclass(frozen=True)
class Found:
    """The candidate of a space that is most like a schedule.

    same  the part of its loops that are the same, from 0 to 1
    """

    space: Space
    candidate: Candidate
    same: float

    @property
    def sketch(self) -> str:
        """The rules that made its sketch, one a line."""
        return self.space.sketches[self.candidate.sketch].explain()


@dataclass(frozen=True)
class Call:
    """A kernel on its arrays; see `minitensor.runtime.rounds.Timed`."""

    name: str
    call: Callable[[], object]
    spin: float = SPIN_SECONDS


def find(
    hand: HandSchedule,
    target: mt.Target,
    enough: float = math.inf,
    caches: Caches | None = None,
) -> Found:
    """The candidate that shares most of a hand schedule's loops; of several the first with its
    tiles, and as many blocks. The first that shares at least the part `enough` ends the search.

    caches  of a core; None for those of this machine
    """
    own = _of_program(scheduled(hand, target).program)
    wanted = Counter(loops for loops, _ in own)
    space = Space.of(hand.define(), target, caches=caches)
    best, found = (-1.0, 0, 0), Candidate(0, ())
    for number in range(len(space.sketches)):
        for candidate, blocks in _all_of(space, number):
            tiles = {tile for _, tile in blocks}
            score = (
                _shared(wanted, Counter(loops for loops, _ in blocks)),
                sum(_work(loops) for loops, tile in own if tile in tiles),
                -abs(len(blocks) - len(own)),
            )
            if score > best:
                best, found = score, candidate
            if best[0] >= enough:
                return Found(space, found, best[0])
    return Found(space, found, best[0])


def measured(hand: HandSchedule, found: Found, target: mt.Target) -> tuple[float, float]:
    """Seconds of the hand schedule, and its time over the candidate's, unrolled as is best."""
    program = hand.define()
    arrays = list(normal_arrays([b.shape for b in program.inputs]))
    arrays += [np.empty(b.shape, np.float32) for b in program.outputs]

    def call(name: str, schedule: mt.Schedule) -> Call:
        return Call(name, mt.build(schedule, target).prepare(*arrays))

    copies = len(found.candidate.unroll)
    unrolled = [replace(found.candidate, unroll=(u,) * copies) for u in UNROLL]
    calls = [call(str(one.unroll[:1]), found.space.schedule(one)) for one in unrolled]
    first = interleave(calls, Pace())
    best = min(calls, key=lambda one: first[one.name].seconds)
    turns = interleave([call("hand", scheduled(hand, target)), best], Pace())
    return turns["hand"].seconds, ratio(turns[best.name].fastest, turns["hand"].fastest)


def _all_of(space: Space, number: int) -> Iterator[tuple[Candidate, list[tuple[Loops, Tile]]]]:
    """The candidates of a sketch, all blocks where it leaves them, with the loops of each block."""
    locations = tuple("root" for _ in space.movable[number])
    plan, options = space.plan(number, locations), [k.options for k in space.knobs[number]]
    if plan is None or plan.structure is None or math.prod(map(len, options)) > MOST_DECISIONS:
        return
    drawn = [Candidate(number, values, locations) for values in product(*options)]
    for parallel, unroll in product(GRANULARITY[1:], UNROLL):
        batch = [space.annotated(one, parallel, unroll) for one in drawn]
        yield from zip(batch, _of_batch(space, plan, batch))


def _of_batch(
    space: Space, plan: Plan, batch: Sequence[Candidate]
) -> Iterator[list[tuple[Loops, Tile]]]:
    """The loops of each block and its tile, for each candidate: no schedule is made."""
    assert plan.structure is not None
    numbers = plan.structure.numbers(space.decisions(batch), len(batch))
    sizes = numbers.extents
    marks = space.marks(plan, numbers, batch)
    sites = ir.loop_sites(plan.schedule.program)
    blocks = []
    for block in plan.structure.blocks:
        names, marked = plan.structure.loops_of(block), marks[block]
        extents = np.array([np.broadcast_to(sizes[n], (len(batch),)) for n in names]).reshape(
            len(names), len(batch)
        )
        kinds = np.full((len(names), len(batch)), "", object)
        for place, name in enumerate(names):
            kinds[place] = sites[name].loop.kind
        kinds[marked.parallel.T] = ir.LoopKind.PARALLEL
        kinds[marked.unroll.T] = ir.LoopKind.UNROLL
        kinds[marked.vectorize.T] = ir.LoopKind.VECTORIZE
        axes = _axes_of(plan.schedule.program.blocks[block], names)
        blocks.append((kinds.T.tolist(), extents.T.tolist(), axes))
    for number in range(len(batch)):
        yield [
            (_normal(zip(kinds[number], extents[number])), _tile(kinds[number], extents[number], a))
            for kinds, extents, a in blocks
        ]


def _of_program(program: ir.Program) -> list[tuple[Loops, Tile]]:
    found = []
    for name, path in ir.paths(program).items():
        kinds, extents = [loop.kind for loop in path], [loop.extent for loop in path]
        axes = _axes_of(program.blocks[name], [loop.var for loop in path])
        found.append((_normal(zip(kinds, extents)), _tile(kinds, extents, axes)))
    return found


def _axes_of(block: ir.Block, loops: Sequence[str]) -> list[frozenset[str]]:
    """The axes of a block that each loop moves along."""
    return [frozenset(i.var for i in block.iters if ir.mentions(i.binding, loop)) for loop in loops]


def _tile(
    kinds: Sequence[ir.LoopKind], extents: Sequence[int], axes: Sequence[frozenset[str]]
) -> Tile:
    """The steps along each axis that the innermost loops, written out, make together."""
    steps: dict[str, int] = {}
    for kind, extent, along in zip(reversed(kinds), reversed(extents), reversed(axes)):
        if extent > 1 and kind not in (ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE):
            break
        for axis in along:
            steps[axis] = steps.get(axis, 1) * extent
    return tuple(sorted(n for n in steps.values() if n > 1))


def _normal(loops: Iterable[tuple[ir.LoopKind, int]]) -> Loops:
    """The loops of several iterations; threads are one loop, and what is written out is another."""
    found: list[tuple[ir.LoopKind, int]] = []
    for kind, extent in loops:
        as_one = ir.LoopKind.UNROLL if kind is ir.LoopKind.VECTORIZE else kind
        if found and found[-1][0] is as_one is not ir.LoopKind.SERIAL:
            found[-1] = (as_one, found[-1][1] * extent)
        elif extent != 1:
            found.append((as_one, extent))
    return tuple(found)


def _shared(wanted: Counter[Loops], blocks: Counter[Loops]) -> float:
    """The part of the wanted loops that blocks have: what is the same, and of the rest what each
    shares with the most similar one that is left.
    """
    left = blocks - wanted
    work = {loops: _work(loops) for loops in wanted}
    found: float = sum(work[loops] * count for loops, count in (wanted & blocks).items())
    for loops, count in (wanted - blocks).items():
        found += work[loops] * count * max((_common(loops, other) for other in left), default=0)
    return found / sum(work[loops] * count for loops, count in wanted.items())


def _work(loops: Loops) -> int:
    """The iterations of a block."""
    return math.prod(extent for _, extent in loops)


@lru_cache(maxsize=1 << 16)
def _common(wanted: Loops, found: Loops) -> float:
    """The part of some loops that others have too, from the inside."""
    pairs = zip(reversed(wanted), reversed(found))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return same / max(len(wanted), len(found), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description="find the hand schedules in the space of a search")
    parser.add_argument("names", nargs="*", default=["*"], metavar="NAME")
    wanted = parser.parse_args().names
    chosen = [key for key in HAND_SCHEDULES if any(fnmatch.fnmatch(key, name) for name in wanted)]
    if not chosen:
        parser.error(
            f"no workload is called {' or '.join(wanted)}; there are {', '.join(HAND_SCHEDULES)}"
        )
    target = native_target(mt.Target("c"))
    print(f"{machine()}; {target.num_cores} threads, {target.vector_bits} bits\n")
    lines = [["workload", "by hand, ms", "candidate / by hand", "same work"]]
    ratios = []
    for key in chosen:
        hand = HAND_SCHEDULES[key]
        found = find(hand, target)
        seconds, faster = measured(hand, found, target)
        ratios.append(faster)
        lines.append([hand.name, f"{seconds * 1e3:.4g}", f"{faster:.3f}", f"{found.same:.3f}"])
    print("\n".join(markdown_table(lines)))
    least = min(ratios)
    verdict = "met" if least >= BAR else "MISSED"
    print(
        f"\ngeometric mean {geometric_mean(ratios):.3f}, least {least:.3f} (bar {BAR}: {verdict})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
