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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import accelerator, arith, ir
from minitensor.errors import TuningError
from minitensor.schedule import Schedule

THREADS: Final = (1, 2, 4)
"""Virtual threads that are tried."""


@dataclass(frozen=True)
class _Product:
    """The block of a product, and what is known of it.

    rows     the spatial axes but one, columns that one
    terms    the reduction axes but one, `inner` that one
    """

    block: ir.Block
    inputs: ir.Load
    weights: ir.Load
    rows: tuple[str, ...]
    columns: str
    terms: tuple[str, ...]
    inner: str

    @property
    def output(self) -> str:
        """The buffer of the sums."""
        (name,) = ir.stored_buffers(self.block.body)
        return name


def accelerator_template(
    program: ir.Program, machine: accelerator.Machine
) -> Callable[[Schedule], None]:
    """The template of a program. Raises TuningError for a program that has no product of int8, or
    whose extents do not divide the array.
    """
    found = _product(program)
    extents = {i.var: i.extent for i in found.block.iters}
    for name, step in ((found.columns, machine.rows), (found.inner, machine.columns)):
        if extents[name] % step:
            raise TuningError(
                f"{ir.print_name(program.name)}: the axis {name} of "
                f"{ir.print_name(found.block.name)} has {extents[name]} iterations, and the array "
                f"takes {step} at a time; pad the definition with zeros, as mt.accelerator.matmul "
                "and mt.accelerator.conv2d do"
            )
    intrinsic = accelerator.product(machine)
    axes = {i.var: n for n, i in enumerate(found.block.iters)}

    def template(s: Schedule) -> None:
        loops = s.get_loops(found.block.name)
        tiles: dict[str, int] = {}
        outer: dict[str, str] = {}
        middle: dict[str, str] = {}
        inner: dict[str, str] = {}
        for name, step in ((found.columns, machine.rows), (found.inner, machine.columns)):
            first, inner[name] = s.split(loops[axes[name]], [None, step])
            factors = s.sample_perfect_tile(first, n=2, max_innermost_factor=64)
            outer[name], middle[name] = s.split(first, factors)
            tiles[name] = int(factors[1]) * step
        for name in (*found.rows, *found.terms):
            loop = loops[axes[name]]
            factors = s.sample_perfect_tile(loop, n=2, max_innermost_factor=256)
            outer[name], middle[name] = s.split(loop, factors)
            tiles[name] = int(factors[1])
        spatial = (*found.rows, found.columns)
        axis = str(s.sample_categorical(list(spatial)))
        threads = int(s.sample_categorical(list(THREADS)))
        count = extents[axis] // tiles[axis]
        s.require(count % threads == 0, "virtual threads divide the tiles")
        _require_room(s, found, tiles, threads, machine)
        before, virtual = s.split(outer[axis], [None, threads])
        outer[axis] = before
        reduced = [outer[name] for name in (*found.terms, found.inner)]
        within = [middle[name] for name in (*found.terms, *found.rows, found.columns, found.inner)]
        s.reorder(
            *[outer[name] for name in spatial],
            virtual,
            *reduced,
            *within,
            inner[found.columns],
            inner[found.inner],
        )
        s.bind(virtual, "vthread")
        _place(s, found, virtual, reduced[-1])
        s.decompose_reduction(found.block.name, reduced[0])
        s.tensorize(inner[found.columns], intrinsic)

    return template


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


def _require_room(
    s: Schedule,
    found: _Product,
    tiles: Mapping[str, int],
    threads: int,
    machine: accelerator.Machine,
) -> None:
    """Require that the tiles of all threads fit."""
    held = (
        ("acc.input", _tile(found.inputs.indices, tiles), machine.input_bytes),
        ("acc.weight", _tile(found.weights.indices, tiles), machine.weight_bytes),
        (
            "acc.accumulator",
            5 * math.prod(tiles[name] for name in (*found.rows, found.columns)),
            machine.accumulator_bytes,
        ),
    )
    for scope, size, room in held:
        s.require(size * threads <= room, f"tiles fit {scope}, {room:,} bytes")


def _tile(indices: Sequence[ir.Expr], tiles: Mapping[str, int]) -> int:
    """The elements that one tile reads."""
    ranges = {name: arith.extent_range(extent) for name, extent in tiles.items()}
    spans = [arith.linear_of(index).interval(ranges) for index in indices]
    return math.prod(int(span.hi) - int(span.lo) + 1 for span in spans)


def _product(program: ir.Program) -> _Product:
    """The product of a program. Raises TuningError if there is none, or more than one."""
    found = [one for block in program.blocks.values() if (one := _as_product(block)) is not None]
    if len(found) != 1:
        raise TuningError(
            f"{ir.print_name(program.name)} has {len(found) or 'no'} products of int8 into int32 "
            "of the form that an accelerator's array does, C[…, j] = sum of A[…, k] * B[…, k, j] "
            "(mt.accelerator.matmul, mt.accelerator.conv2d), and its template needs one; schedule "
            "others by hand, or give a space="
        )
    return found[0]


def _as_product(block: ir.Block) -> _Product | None:
    if not isinstance(block.body, ir.Reduce) or len(block.body.values) != 1:
        return None
    match block.body.values[0]:
        case ir.Binary("*", ir.Cast(_, ir.Load() as a), ir.Cast(_, ir.Load() as b)):
            pass
        case _:
            return None
    if block.body.reducer.name != "sum" or {str(a.dtype), str(b.dtype)} != {"int8"}:
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
        return _Product(block, inputs, weights, rows, column.name, others, term.name)
    return None
