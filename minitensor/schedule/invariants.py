"""Conditions that every step must leave true, and names that it must not give again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, TypeAlias

from minitensor import ir
from minitensor.arith import (
    MismatchError,
    PrefetchError,
    match_intrinsic,
    note_of,
    prefetches,
    require_prefetch,
)
from minitensor.schedule.dependence import combines, conflict, driven
from minitensor.schedule.refusal import refuse

DEEPEST: Final = 128
"""The most loops around a block."""
MOST_RUNS: Final = 1 << 62
"""The most iterations of these together: an offset into memory, computed of their variables, then
fits into 64 bits."""
LARGEST_INDEX: Final = 5000
"""The most nodes of the indices of an access, the binding of an iter or a predicate. A few steps
could make millions: to split, reorder and fuse the loops of a reduction doubles a binding."""


def concurrent_loops_stay_independent(
    before: ir.Program, after: ir.Program, check: bool
) -> ir.Program:
    """Rule K1: what a step rewrote must not make iterations of a concurrent loop conflict."""
    if not check or (after.body is before.body and after.temporaries is before.temporaries):
        return after
    known = ir.loop_sites(before)
    moved: set[str] | None = None
    for name, site in ir.marked_loops(after).items():
        if not site.loop.kind.is_concurrent:
            continue
        was = known.get(name)
        if was is not None and was.loop is site.loop:
            if moved is None:
                moved = _moved(before, after)
            if moved.isdisjoint(_touched(site.loop)):
                continue
        label = f"{site.loop.kind.value} loop"
        is_combining = site.loop.kind is ir.LoopKind.THREAD_IDX_X
        for block in ir.blocks_of(site.loop) if is_combining else ():
            if driven(block, name, (ir.IterKind.REDUCE,)) and not combines(after, block, name):
                block_name = ir.print_name(block.name)
                text = f"threads combine in {block_name} what is no partial result of rfactor"
                refuse("K1", text, marks=ir.Marks({name: label}, {block.name: "combines"}))
        found = conflict(after, name, reductions=not is_combining)
        if found is not None:
            refuse("K1", found.describe(name), marks=found.marks(name, label))
    return after


def _moved(before: ir.Program, after: ir.Program) -> set[str]:
    """The temporaries that live elsewhere after a step, and those that are new or gone."""
    return {name for name, _ in ir.lifetimes(before).items() ^ ir.lifetimes(after).items()}


@ir.fact
def _touched(loop: ir.For) -> frozenset[str]:
    """The buffers that the blocks under a loop access."""
    accessed = [part for block in ir.blocks_of(loop) for part in ir.accessed_buffers(block)]
    return frozenset().union(*accessed)


def names_that_are_gone(before: ir.Program, after: ir.Program, check: bool) -> ir.Program:
    """Names of loops and blocks that a step consumed are never given again."""
    if after.body is before.body:
        return after
    gone = (ir.loop_sites(before).keys() - ir.loop_sites(after).keys()) | (
        before.blocks.keys() - after.blocks.keys()
    )
    return after.replace(retired=before.retired | gone) if gone else after


def loops_and_indices_stay_small(before: ir.Program, after: ir.Program, check: bool) -> ir.Program:
    """Rule K2: what walks a program does so recursively, compilers too; indices have 64 bits."""
    if after.body is not before.body:
        depth, runs = _extent(after)
        if depth > DEEPEST:
            refuse("K2", f"there would be {depth}")
        if runs > MOST_RUNS and runs > _extent(before)[1]:
            refuse("K2", f"there would be about 2**{runs.bit_length() - 1} runs")
        known = before.blocks
        for name, block in after.blocks.items():
            old = known.get(name)
            if old is not block and _has_large_index(block) and not (old and _has_large_index(old)):
                refuse("K2", f"one of {ir.print_name(name)} would have more")
    return after


def _has_large_index(block: ir.Block) -> bool:
    own = (block.predicate, *(i.binding for i in block.iters))
    parts = [part for part in (block.body, block.init) if part is not None]
    return any(map(_has_large_index_inside, parts)) or any(_is_large((part,)) for part in own)


@ir.fact
def _has_large_index_inside(body: ir.Stmt) -> bool:
    stores = [n for n in ir.stmts_of(body) if isinstance(n, (ir.Store, ir.Reduce))]
    return ir.summary(body).longest > LARGEST_INDEX or any(_is_large(n.indices) for n in stores)


def _is_large(place: Sequence[ir.Expr]) -> bool:
    return sum(ir.nodes_in(index, LARGEST_INDEX + 1) for index in place) > LARGEST_INDEX


def _extent(program: ir.Program) -> tuple[int, int]:
    """The depth of the deepest nest, and the most often that the loops around a block run it."""
    extents = [_extent_of(nest) for nest in ir.nests(program)]
    depths, runs = zip((1, 0), *extents)
    return max(depths), max(runs)


@ir.fact
def _extent_of(nest: ir.Stmt) -> tuple[int, int]:
    """The depth of a nest, and the most often that it runs a block; an empty loop counts as one."""
    found = ir.survey(nest)
    depth = 1 + max((len(site.outer) for site in found.sites.values()), default=0)
    runs = (math.prod(max(1, loop.extent) for loop in path) for path in found.paths.values())
    return depth, max(runs, default=0)


@ir.fact
def tensorized(program: ir.Program) -> Mapping[str, str]:
    """For each block that an intrinsic does, the outermost of its tensorized loops."""
    found: dict[str, str] = {}
    for name, site in ir.marked_loops(program).items():
        if site.loop.kind is ir.LoopKind.TENSORIZE:
            for block in ir.blocks_of(site.loop):
                found.setdefault(block.name, name)
    return found


def intrinsics_still_match(before: ir.Program, after: ir.Program, check: bool) -> ir.Program:
    """Rule K3: what a step did to tensorized loops, their block or its buffers leaves them a match;
    and a block that an intrinsic did before is not taken out of its hands unsaid.
    """
    if not check or (after.body is before.body and after.temporaries is before.temporaries):
        return after
    now = tensorized(after)
    for block, loop in now.items():
        key = dict(ir.loop_sites(after)[loop].loop.annotations).get(ir.NOTE)
        marks = ir.Marks({loop: "tensorized"}, {block: "done by an intrinsic"})
        found = ir.known_intrinsic(key) if isinstance(key, str) else None
        if found is None or found.key != key:
            refuse("K3", f"{ir.print_name(loop)} is tensorized, and would name no intrinsic")
        try:
            match_intrinsic(after, loop, found, ir.LoopKind.TENSORIZE)
        except MismatchError as problem:
            name = key.partition(ir.SEPARATOR)[0]
            detail = f"{name} would not do {ir.print_name(block)} any more: {problem.detail}"
            known = loop in ir.loop_sites(before) and block in before.blocks
            refuse("K3", detail, marks=marks if known else None)
    for block, loop in tensorized(before).items():
        if block in after.blocks and block not in now:
            marks = ir.Marks({loop: "tensorized"}, {block: "done by an intrinsic"})
            refuse("K3", f"{ir.print_name(block)} would not be tensorized any more", marks=marks)
    return after


def prefetches_stay_of_use(before: ir.Program, after: ir.Program, check: bool) -> ir.Program:
    """Rule K4: a loop that prefetches is not taken away unsaid, nor what it prefetches, and what a
    step did to it or to the blocks under it leaves it able to.
    """
    if not check or (after.body is before.body and after.temporaries is before.temporaries):
        return after
    sites = ir.loop_sites(after)
    for name, wanted in _prefetching(before).items():
        for buffer in wanted:
            gone = name if name not in sites else buffer if buffer not in after.buffers else None
            if buffer in before.buffers and gone is not None:
                text = f"{ir.print_name(gone)} would be no more"
                _refuse_prefetch(before, name, buffer, text)
    for name, wanted in _prefetching(after).items():
        for buffer, distance in wanted.items():
            if buffer in after.buffers:
                try:
                    require_prefetch(after, name, buffer, distance)
                except PrefetchError as problem:
                    _refuse_prefetch(before, name, buffer, problem.detail)
    return after


@ir.fact
def _prefetching(program: ir.Program) -> Mapping[str, Mapping[str, ir.Annotation]]:
    """The buffers that loops prefetch, for each loop that does."""
    marked = ir.marked_loops(program).items()
    found = {name: prefetches(site.loop) for name, site in marked if site.loop.annotations}
    return {name: wanted for name, wanted in found.items() if wanted}


def _refuse_prefetch(before: ir.Program, loop: str, buffer: str, why: str) -> NoReturn:
    what = f"{ir.print_name(loop)} prefetches {ir.print_name(buffer)}"
    known = loop in ir.loop_sites(before)
    undo = f'prefetch after this step, or unannotate("{loop}", "{note_of(buffer)}") before it'
    marks = ir.Marks({loop: f"prefetches {buffer}"}) if known else None
    refuse("K4", f"{what}, and {why}", marks=marks, advice=undo)


Invariant: TypeAlias = Callable[[ir.Program, ir.Program, bool], ir.Program]

INVARIANTS: Final[tuple[Invariant, ...]] = (
    loops_and_indices_stay_small,
    concurrent_loops_stay_independent,
    names_that_are_gone,
    intrinsics_still_match,
    prefetches_stay_of_use,
)
"""Each holds a rewritten program against one condition: (before, after, check) -> after."""
