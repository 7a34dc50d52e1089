"""The schedule of a program that was never tuned: no trial, and never the program as it is written
where a rule has something better.

It is the likeliest sketch with the likeliest decisions (`Choices.by_hand`), those of an author of
rules. Of several that are as likely it is the one with the least in the inner loop of its
reductions.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Sequence
from typing import Final

from minitensor.answers import answered
from minitensor.codegen import Target
from minitensor.errors import MinitensorError, TuningError
from minitensor.ir import Block, If, Program, Reduce, Select, Var, free_vars, loads, walk
from minitensor.phrasebook import no_program
from minitensor.runtime import (
    digest_of_code,
    entry_name,
    known_caches,
    recall,
    remember,
    share_out,
    shown_target,
    usable_cores,
)
from minitensor.schedule import ROOT, Schedule, Trace
from minitensor.search.sketch import Sketch, branch_weights, generate_sketches
from minitensor.search.sketch.blocks import (
    is_contiguous,
    operands,
    pairs,
    reduce_iters,
    spatial_iters,
    uses,
    written_by,
)
from minitensor.search.sketch.derive import MOST_SKETCHES
from minitensor.search.sketch.factors import WAY_BYTES
from minitensor.search.sketch.windows import LARGEST, is_padding
from minitensor.search.space import USUAL, Space

ALIKE: Final = 0.99
"""The part of the greatest weight from which on sketches are as likely."""
SHORT: Final = 3
"""The longest axis that is not taken for that of a batch."""
FEW_ROWS: Final = 128
"""Rows of a result up to which copying an operand takes longer than it saves,"""
FEW_ROWS_FAR: Final = 48
"""and the same where each row of the operand lies in a page of its own."""
_RULES: Final = ("ir", "arith", "schedule", "search")
"""The packages whose code decides."""
WORTH_THREADS: Final = 1 << 15
"""Instances of blocks from which on a program has threads: some ten microseconds of work."""


@answered
def schedule_for(program: Program, target: str | Target = "c") -> Schedule:
    """The schedule that rules give a program: no trial, no log.

    target  what is left open is filled in from this machine; without a compiler it is a common one

    Raises ArgumentError for what is no program.
    """
    if not isinstance(program, Program):
        raise no_program("program", program)
    return schedules_for([program], target)[0]


def schedules_for(programs: Sequence[Program], target: str | Target = "c") -> list[Schedule]:
    """The schedules of `schedule_for`. Those that the cache does not have are derived at one time,
    each core working on its own.
    """
    exact = shown_target(Target.of(target))
    entries = [_entry(program, exact) for program in programs]
    found = [_recalled(entry, program) for entry, program in zip(entries, programs)]
    news = [place for place, known in enumerate(found) if known is None]

    def derived(number: int) -> dict[str, str]:
        place = news[number]
        found[place] = made = _derived(programs[place], exact)  # where this process does it
        return {"trace": made.trace.to_json()}

    with contextlib.closing(share_out(derived, len(news), usable_cores())) as traces:
        for number, trace in traces:
            place = news[number]
            if found[place] is None:
                found[place] = _applied(trace["trace"], programs[place])
            with contextlib.suppress(MinitensorError):  # there may be no cache
                remember(entries[place], trace)
    return [one for one in found if one is not None]


def _entry(program: Program, target: Target) -> str:
    """The name of a schedule in the cache."""
    facts = (digest_of_code(_RULES), program.spelled(), repr(target), str(known_caches()))
    return entry_name("schedule", *facts)


def _recalled(entry: str, program: Program) -> Schedule | None:
    """The schedule that the cache has; None if there is none, or it is damaged."""
    with contextlib.suppress(MinitensorError, LookupError, TypeError):
        return _applied((recall(entry) or {})["trace"], program)
    return None


def _applied(trace: str, program: Program) -> Schedule:
    return Trace.from_json(trace).apply(program, check=False).confirm()


def _derived(program: Program, target: Target) -> Schedule:
    """The schedule, derived anew: of the first sketch that can be made."""
    try:
        sketches = generate_sketches(program, target) or [Sketch(program, Trace(), ())]
    except TuningError:
        return Schedule(program)
    made = (_by_hand(sketch, target) for sketch in _likeliest_first(sketches))
    return next((found for found in made if found is not None), Schedule(program))


def _likeliest_first(sketches: Sequence[Sketch]) -> list[Sketch]:
    """The sketches that no other is likelier than, the least burden first; then the others.

    Of a derivation that was cut off, the end of a branch has the chances of all that were left out:
    those as likely as the first sketch, which all rules prefer, come first.
    """
    weights = branch_weights([sketch.history for sketch in sketches])
    most = max(weights) if len(sketches) < MOST_SKETCHES else weights[0]
    likely = [ALIKE * most <= weight <= most / ALIKE for weight in weights]
    likeliest = [sketch for sketch, chosen in zip(sketches, likely) if chosen]
    others = [n for n, chosen in enumerate(likely) if not chosen]
    return [
        *sorted(likeliest, key=_burden),
        *(sketches[n] for n in sorted(others, key=lambda n: -weights[n])),
    ]


def _by_hand(sketch: Sketch, target: Target) -> Schedule | None:
    """The likeliest schedule of a sketch, each block that may be moved in its own nest; None if it
    cannot be made. What takes less time than threads need to start is left to one.
    """
    try:
        space = Space(sketch.program, target, [sketch])
        places: tuple[str, ...] = ()
        for _ in space.movable[0]:
            possible = space.possible_locations(0, places)
            places += (ROOT if ROOT in possible else possible[0],)
        candidate = space.by_hand(random.Random(0), 0, places)
        if _instances(space.program) < WORTH_THREADS:
            candidate = space.annotated(candidate, 0, USUAL[1])
        return space.schedule(candidate)
    except MinitensorError:
        return None


def _instances(program: Program) -> int:
    """The instances of all blocks together: how often one computes something."""
    return sum(math.prod(i.extent for i in block.iters) for block in program.blocks.values())


def _burden(sketch: Sketch) -> tuple[int, int, bool, bool, bool, int, int]:
    """The weight on the inner loop of a reduction. Smaller is better.

    It is conditions of inlined padding; what rules call costly; that nothing is packed which all
    tiles share; that results lie otherwise than their lanes; that nothing lies along the longest
    reduction, where products are added up; the operands packed that tiles do not share, as those of
    each product of a batch, which are read too seldom to be copied; and images copied to be padded.
    """
    schedule = sketch.derived or sketch.apply(seed=0)
    program = schedule.program
    blocks = list(program.blocks.values())
    guards = sum(
        isinstance(node, Select) and node.lazy and not _is_shared_by_lanes(block, node)
        for block in blocks
        if isinstance(block.body.then if isinstance(block.body, If) else block.body, Reduce)
        for node in walk(block.body)
    )
    steps = schedule.trace.steps
    copied = [
        (reader, str(step.arguments["buffer"]), str(step.result))
        for step in steps
        if step.primitive == "cache_read"
        and (reader := str(step.arguments["block"])) in program.blocks
    ]
    packs = [_is_shared_by_tiles(program, reader, copy) for reader, _, copy in copied]
    if any(_is_read_seldom(schedule.history[0], reader, buffer) for reader, buffer, _ in copied):
        packs = [False] * len(packs)
    turned = any(  # the result itself is laid out otherwise, or a tile of it before it is stored
        isinstance(step.arguments["buffer"], str)
        if step.primitive == "transform_layout"
        else step.primitive == "cache_write"
        for step in steps
    )
    copies = sum(is_padding(program, block) for block in blocks)
    tiled = any(pairs(block) for block in schedule.history[0].blocks.values())
    far = tiled and not any(_lies_along_reduction(block) for block in blocks)
    costly = sum(one.costly for one in sketch.history)
    return guards, costly, not any(packs), turned, far, packs.count(False), copies


def _lies_along_reduction(block: Block) -> bool:
    """Return whether an operand is contiguous along the longest axis that is summed over."""
    longest = max(reduce_iters(block), key=lambda i: i.extent, default=None)
    return longest is not None and any(is_contiguous(o, longest) for o in operands(block))


def _is_shared_by_tiles(program: Program, block: str, copy: str) -> bool:
    """Return whether a packed operand is read along one axis of the result at most, beside short
    ones, such as the phases of a transposed convolution.
    """
    axes = {i.var for i in spatial_iters(program.blocks[block]) if i.extent > SHORT}
    packed = written_by(program.blocks[copy])
    reads = [load for load in loads(program.blocks[block].body) if load.buffer == packed]
    used = {name for load in reads for index in load.indices for name in free_vars(index)}
    return len(used & axes) <= 1


def _is_read_seldom(program: Program, name: str, buffer: str) -> bool:
    """Return whether a copy of a matrix that a call is given costs more than it saves: its rows lie
    as lanes read them, and few rows of the result need it, or fewer where its own are pages apart.
    A constant, and what is computed of it, is copied once, when a kernel is bound.
    """
    block = program.blocks.get(name)
    reads = [load for load in operands(block) if load.buffer == buffer] if block else []
    given = {one.name for one in program.params} - set(program.constants)
    if block is None or not reads or buffer not in given:
        return False
    *axes, lanes = spatial_iters(block)
    as_it_lies = all(load.indices[-1] == Var(lanes.var) for load in reads)
    shared = [i.extent for i in axes if not any(uses(load, i) for load in reads)]
    declared = program.buffers[buffer]
    near = declared.shape[-1] * declared.dtype.bits // 8 <= WAY_BYTES
    few = FEW_ROWS if near else FEW_ROWS_FAR
    return as_it_lies and len(shared) == len(axes) and math.prod(shared) < few


def _is_shared_by_lanes(block: Block, choice: Select) -> bool:
    """Return whether all lanes of a small window choose alike: the loops over its pixels are cut
    where the choice changes, so that most of them have no condition left.
    """
    small = math.prod(i.extent for i in reduce_iters(block)) <= LARGEST
    lanes = [i.var for i in spatial_iters(block)[-1:]]  # none, if all is one sum
    return small and any(name not in free_vars(choice.condition) for name in lanes)
