"""The template of an accelerator: tiles of a product of int8, with virtual threads as a decision.

    for tiles of rows and columns:
        for v in bind(2, "vthread"):
            C = 0                                         # acc.accumulator
            for tiles of terms:
                load A, load B                            # acc.input, acc.weight
                C += A . B                                # the array, tensorized
            D = f(C); store D

It does any reduction of products of int8 in which one axis of the output, its columns, is the last
of the weights, and the axis before it, of terms, is the last of the inputs:
`mt.accelerator.matmul`, `mt.accelerator.conv2d`, `mt.workloads.conv2d` in layout "NHWC".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from minitensor import accelerator, arith, ir
from minitensor.errors import TuningError
from minitensor.schedule import Schedule

THREADS: Final = (1, 2, 4)
"""Virtual threads that are tried."""
FEW_TILES: Final = 1 << 12
"""Tiles of a product, all loops together, that a stream may have however small they are."""
LONG: Final = 1 << 11
"""Cycles of the array for a tile so large that its instructions do not count."""
LARGEST: Final = 256
"""The most iterations of an axis within a tile."""
PLANS: Final = 256
"""The best plans of each number of virtual threads: what occurs in them is drawn."""
STEEP: Final = 4
"""The odds of a plan fall with this power of its expected cycles."""
VECTOR: Final = 4
"""Operations of the vector unit for a result: quantised, and zeroed before."""


@dataclass(frozen=True)
class _Product:
    """The block of a product, and what is known of it.

    rows     the spatial axes but one, columns that one
    terms    the reduction axes but one, `inner` that one
    steps    of columns and of inner, how many the array takes at a time
    """

    block: ir.Block
    inputs: ir.Load
    weights: ir.Load
    rows: tuple[str, ...]
    columns: str
    terms: tuple[str, ...]
    inner: str
    steps: Mapping[str, int]

    @property
    def extents(self) -> dict[str, int]:
        """Of all axes, in the order of the loops."""
        return {i.var: i.extent for i in self.block.iters}

    @property
    def spatial(self) -> tuple[str, ...]:
        """The axes of the output."""
        return (*self.rows, self.columns)

    def sizes(self, plan: Plan) -> dict[str, int]:
        """The iterations of each axis within a tile."""
        return {name: tile * self.steps.get(name, 1) for name, tile in plan.tiles.items()}

    @property
    def output(self) -> str:
        """The buffer of the sums."""
        (name,) = ir.stored_buffers(self.block.body)
        return name


@dataclass(frozen=True)
class Plan:
    """The decisions of the template.

    tiles    by the axis of the product's block, its iterations within a tile; of its columns and
             inner terms in multiples of the array's
    axis     the spatial axis of whose tiles the virtual threads take turns
    threads  their number
    """

    tiles: Mapping[str, int]
    axis: str
    threads: int


def accelerator_template(
    program: ir.Program, machine: accelerator.Machine
) -> Callable[[Schedule], None]:
    """The template of a program: tiles, the number of virtual threads and their axis are drawn,
    with the odds that they have in plans that should take few cycles.

    Raises TuningError for a program that has no product of int8, or whose extents do not divide the
    array.
    """
    found = _product(program, machine)
    ranked = _plans(found, machine)
    if not ranked:
        raise TuningError(
            f"{ir.print_name(program.name)}: no tile of {ir.print_name(found.block.name)} fits the "
            "memories of the accelerator, not even one of its array; use a machine with more"
        )
    odds = {name: _odds(ranked, [plan.tiles[name] for _, plan in ranked]) for name in found.extents}
    axes = _odds(ranked, [plan.axis for _, plan in ranked])
    counts = _odds(ranked, [plan.threads for _, plan in ranked])

    def template(s: Schedule) -> None:
        def drawn(given: Mapping[Any, float]) -> Any:
            return s.sample_categorical(list(given), probs=list(given.values()))

        tiles = {name: drawn(given) for name, given in odds.items()}
        plan = Plan(tiles, drawn(axes), drawn(counts))
        reason = _misfit(found, plan, machine)
        s.require(reason is None, reason or "it fits")
        _apply(s, found, plan, machine)

    return template


def accelerator_schedule(program: ir.Program, machine: accelerator.Machine, plan: Plan) -> Schedule:
    """The template with given decisions. Raises TuningError as the template does, and for a plan
    that does not fit the machine.
    """
    found, s = _product(program, machine), Schedule(program)
    every = replace(plan, tiles={name: plan.tiles.get(name, 1) for name in found.extents})
    reason = _misfit(found, every, machine)
    if reason is not None:
        raise TuningError(f"{ir.print_name(program.name)}: {reason}")
    _apply(s, found, every, machine)
    return s


# ---- plans


def _plans(found: _Product, machine: accelerator.Machine) -> list[tuple[float, Plan]]:
    """The plans that fit with the cycles that they should take, the best of each thread count."""
    extents = {name: n // found.steps.get(name, 1) for name, n in found.extents.items()}
    sizes = [[d for d in range(1, min(n, LARGEST) + 1) if n % d == 0] for n in extents.values()]
    ranked: dict[int, list[tuple[float, Plan]]] = {threads: [] for threads in THREADS}
    for chosen, axis, threads in itertools.product(
        itertools.product(*sizes), found.spatial, THREADS
    ):
        plan = Plan(dict(zip(extents, chosen)), axis, threads)
        if _misfit(found, plan, machine) is None:
            ranked[threads].append((_expected(found, plan, machine), plan))
    best = (sorted(ones, key=itemgetter(0))[:PLANS] for ones in ranked.values())
    return list(itertools.chain.from_iterable(best))


def _odds(ranked: Sequence[tuple[float, Plan]], values: Sequence[Any]) -> dict[Any, float]:
    """The values of a part of plans, the more likely the better the plans that have it."""
    least = min(expected for expected, _ in ranked)
    found: dict[Any, float] = dict.fromkeys(sorted(values), 0.0)
    for value, (expected, _) in zip(values, ranked):
        found[value] += (least / expected) ** STEEP
    return {value: round(max(1e-3, weight), 3) for value, weight in found.items()}


def _misfit(found: _Product, plan: Plan, machine: accelerator.Machine) -> str | None:
    """The reason for which a plan is none: its tiles are to divide, virtual threads to divide their
    number, those of all threads to fit, and the stream to be of more than tiles.
    """
    sizes = found.sizes(plan)
    for name, size in sizes.items():
        if found.extents[name] % size:
            return f"a tile of {size} does not divide the {found.extents[name]} of {name}"
    counts = {name: found.extents[name] // size for name, size in sizes.items()}
    if counts[plan.axis] % plan.threads:
        return f"{plan.threads} virtual threads do not divide {counts[plan.axis]} of {plan.axis}"
    most = max(FEW_TILES, math.prod(found.extents.values()) // machine.peak // LONG)
    if math.prod(counts.values()) > most:
        return f"there are {math.prod(counts.values()):,} tiles, of at most {most:,}"
    held = (*_boxes(found, sizes), [math.prod(sizes[name] for name in found.spatial), 5])
    for (scope, room), box in zip(machine.memories.items(), held):
        needed = math.prod(box) * plan.threads
        if needed > room:
            return f"tiles take {needed:,} bytes of {scope.value}, which has {room:,}"
    return None


def _boxes(found: _Product, sizes: Mapping[str, int]) -> Iterator[list[int]]:
    """The extents of what one tile reads of the inputs and of the weights."""
    for load in (found.inputs, found.weights):
        forms = (arith.linear_of(index).terms.items() for index in load.indices)
        yield [
            1 + sum((sizes.get(atom.name, 1) - 1) * abs(int(factor)) for atom, factor in terms)
            for terms in forms
        ]


def _expected(found: _Product, plan: Plan, machine: accelerator.Machine) -> float:
    """The cycles of a plan: of each tile those of its loads and of its product, in turn with one
    virtual thread, the longer with more; behind the last of its terms those of its results. A load
    has two dimensions, so boxes of more take several.
    """
    sizes = found.sizes(plan)
    moved, commands = 0, 0
    for box in _boxes(found, sizes):
        moved += math.prod(box)
        commands += math.prod(box[:-2])
    load = moved / machine.dram_bytes_per_cycle + commands * machine.dram_latency
    execute = math.prod(sizes.values()) / machine.peak + machine.issue_cycles
    sums = math.prod(sizes[name] for name in found.spatial)
    last = sums / machine.dram_bytes_per_cycle + VECTOR * sums / machine.rows
    tiles = math.prod(found.extents[name] // sizes[name] for name in found.spatial)
    terms = math.prod(found.extents[name] // sizes[name] for name in (*found.terms, found.inner))
    if plan.threads == 1:
        return tiles * (terms * (load + execute) + last)
    return tiles * terms * max(load, execute + VECTOR * sums / machine.rows / terms)


# ---- schedules


def _apply(s: Schedule, found: _Product, plan: Plan, machine: accelerator.Machine) -> None:
    """Tile, bind the virtual threads, and place copies and the product."""
    outer: dict[str, str] = {}
    middle: dict[str, str] = {}
    inner: dict[str, str] = {}
    for name, loop in zip(found.extents, s.get_loops(found.block.name)):
        step = [found.steps[name]] if name in found.steps else []
        outer[name], middle[name], *rest = s.split(loop, [None, plan.tiles[name], *step])
        inner.update((name, one) for one in rest)
    outer[plan.axis], virtual = s.split(outer[plan.axis], [None, plan.threads])
    reduced = [outer[name] for name in (*found.terms, found.inner)]
    within = (*found.terms, *found.rows, found.columns, found.inner)
    s.reorder(
        *[outer[name] for name in found.spatial],
        virtual,
        *reduced,
        *[middle[name] for name in within],
        inner[found.columns],
        inner[found.inner],
    )
    s.bind(virtual, "vthread")
    _place(s, found, virtual, reduced[-1])
    s.decompose_reduction(found.block.name, reduced[0])
    s.tensorize(inner[found.columns], accelerator.product(machine))


def _place(s: Schedule, found: _Product, virtual: str, innermost: str) -> None:
    """Copies on chip, where they are used."""
    sums = found.output
    program = s.program
    if sums in {b.name for b in program.outputs}:
        copied = s.cache_write(found.block.name, "acc.accumulator")
        s.reverse_compute_at(copied, virtual)
    else:
        s.set_scope(sums, "acc.accumulator")
        for reader in ir.readers(program, sums):
            if reader.name != found.block.name:
                s.reverse_compute_at(reader.name, virtual)
                s.cache_write(reader.name, "acc.accumulator")
    for load, scope in ((found.inputs, "acc.input"), (found.weights, "acc.weight")):
        writers = ir.writers(program, load.buffer)
        if writers:  # it is padded: that copy is the load
            s.set_scope(load.buffer, scope)
            s.compute_at(writers[0].name, innermost)
        else:
            s.compute_at(s.cache_read(found.block.name, load.buffer, scope), innermost)


# ---- the product


def _product(program: ir.Program, machine: accelerator.Machine) -> _Product:
    """The product of a program. Raises TuningError if there is none, or more than one, or if its
    extents do not divide the array.
    """
    every = [_as_product(block, machine) for block in program.blocks.values()]
    found = [one for one in every if one is not None]
    name = ir.print_name(program.name)
    if len(found) != 1:
        raise TuningError(
            f"{name} has {len(found) or 'no'} products of int8 into int32 "
            "of the form that an accelerator's array does, C[…, j] = sum of A[…, k] * B[…, k, j] "
            "(mt.accelerator.matmul, mt.accelerator.conv2d), and its template needs one; schedule "
            "others by hand, or give a space="
        )
    (one,) = found
    for axis, step in one.steps.items():
        if one.extents[axis] % step:
            raise TuningError(
                f"{name}: the axis {axis} of {ir.print_name(one.block.name)} has "
                f"{one.extents[axis]} iterations, and the array takes {step} at a time; pad the "
                "definition with zeros, as mt.accelerator.matmul and mt.accelerator.conv2d do"
            )
    return one


def _as_product(block: ir.Block, machine: accelerator.Machine) -> _Product | None:
    if not isinstance(block.body, ir.Reduce) or len(block.body.values) != 1:
        return None
    match block.body.values[0]:
        case ir.Binary("*", ir.Cast(_, ir.Load() as a), ir.Cast(_, ir.Load() as b)):
            pass
        case _:
            return None
    if ir.operator_of(block.body.reducer) != "+" or {str(a.dtype), str(b.dtype)} != {"int8"}:
        return None
    spatial = [i.var for i in block.iters if i.kind is ir.IterKind.SPATIAL]
    summed = [i.var for i in block.iters if i.kind is not ir.IterKind.SPATIAL]
    for inputs, weights in ((a, b), (b, a)):
        if len(weights.indices) < 2 or not inputs.indices:
            continue
        term, column = weights.indices[-2:]
        if not (isinstance(column, ir.Var) and isinstance(term, ir.Var)):
            continue
        if column.name not in spatial or term.name not in summed or inputs.indices[-1] != term:
            continue
        rows = tuple(name for name in spatial if name != column.name)
        others = tuple(name for name in summed if name != term.name)
        if any(ir.Var(column.name) in list(ir.walk(index)) for index in inputs.indices):
            continue
        steps = {column.name: machine.rows, term.name: machine.columns}
        return _Product(block, inputs, weights, rows, column.name, others, term.name, steps)
    return None
