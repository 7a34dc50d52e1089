"""The addresses that the 32 lanes of a warp access, and what memory makes of them.

An index is computed by numpy for many warps at once: rows are executions of an access by a warp,
columns are its lanes. Rows range over the warps of a block and over the blocks and loops that make
a difference. Few are enumerated, of many a sample is drawn, each row of which stands for equally
many.

Counts are those of NVIDIA's profiler (CUDA C++ Best Practices Guide, "Coalesced Access to Global
Memory" and "Shared Memory and Memory Banks"):

    global, local  a request of a warp moves sectors of 32 bytes
    shared         32 banks, each gives one word of 4 bytes in a cycle, to any number of lanes;
                   accesses of 8 and 16 bytes are made by half and quarter warps

The idea, addresses of a warp by evaluation and not by pattern, is that of Ernst et al., Analytical
Performance Estimation during Code Generation on Modern GPUs, JPDC 173, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor import ir
from minitensor.gpu.kernels import Kernel, Site, size_of
from minitensor.gpu.reuse import Held, address_form, held, lane_of

Numbers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

LANES: Final = ir.WARP
SECTOR: Final = 32
"""Bytes that memory moves at the least."""
BANKS: Final = 32
WORD: Final = 4
"""Bytes of a bank."""
WIDEST: Final = 16
"""Bytes that a lane accesses at once at the most."""
ROWS: Final = 8192
"""The most executions that are looked at of each access."""
SEED: Final = 18


@dataclass(frozen=True, slots=True)
class Traffic:
    """The counts of an access, summed over all blocks of one launch.

    site      the access
    space     "global", "shared" or "local"
    size      bytes that a lane accesses at once
    requests  instructions of warps with an active lane
    sectors   of 32 bytes that they move (global, local)
    cycles    that the banks take (shared)
    wanted    bytes that lanes ask for
    distinct  bytes that a request asks for, each counted once
    ways      cycles over the fewest that these requests could take (shared)
    exact     whether every execution was looked at
    """

    site: Site
    space: str
    size: int
    requests: float
    sectors: float
    cycles: float
    wanted: float
    distinct: float
    ways: float
    exact: bool

    @property
    def buffer(self) -> str:
        """The name of the array."""
        assert self.site.buffer is not None
        return self.site.buffer.name

    @property
    def moved(self) -> float:
        """Bytes that are moved."""
        return self.sectors * SECTOR if self.space != "shared" else self.cycles * BANKS * WORD

    @property
    def sectors_a_request(self) -> float:
        """The sectors of a request, on average."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def cycles_a_request(self) -> float:
        """The cycles of a request, on average."""
        return self.cycles / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Rows:
    """Executions by warps.

    values  of variables: (rows, 1) or, of threads, (rows, 32)
    active  lanes that are threads, (rows, 32)
    weight  executions that a row stands for
    exact   whether these are all
    """

    values: Mapping[str, Any]
    active: Mask
    weight: float
    exact: bool


def traffic_of(kernel: Kernel, site: Site, as_written: bool = False, most: int = ROWS) -> Traffic:
    """The counts of an access.

    as_written  whether to count each execution of the text; else loads that a compiler keeps in
                registers count once (see `reuse`)
    most        executions that are looked at
    """
    buffer = site.buffer
    assert buffer is not None
    if site.together:
        return _traffic_of_warp(kernel, site, most)
    space = {ir.Scope.SHARED: "shared"}.get(buffer.scope, "global")
    if buffer in kernel.private:
        space = "local"
    pieces, size = pieces_of(buffer, site.indices)
    keeps = Held(site.loops) if as_written else held(kernel, site)
    size *= keeps.elements
    period = BANKS * WORD if space == "shared" else SECTOR
    rows = rows_of(kernel, site, keeps, period, most)
    active = holding(site, rows)
    sums = np.zeros(6)
    for piece in pieces:
        address = _address(buffer, piece, rows) + np.zeros(active.shape, np.int64)
        sums += _counted(address, active, size, space)
    data = any(ir.loads(index) for index in site.indices)
    exact = rows.exact and not data
    return _summed(site, space, size, sums * rows.weight, exact)


def _traffic_of_warp(kernel: Kernel, site: Site, most: int) -> Traffic:
    """The counts of what an intrinsic of a warp accesses: each byte once, a row of 8 or 16 bytes by
    a lane. Of a matrix in shared memory 8 rows are read at once, as by ldmatrix (PTX ISA).
    """
    buffer = site.buffer
    assert buffer is not None
    shared, size = buffer.scope is ir.Scope.SHARED, size_of(buffer)
    rows = rows_of(kernel, site, Held(site.loops), BANKS * WORD if shared else SECTOR, most)
    active = holding(site, rows).any(axis=1, keepdims=True)
    number = np.arange(math.prod(loop.extent for loop in site.together))[None, :]
    values = {name: v[:, :1] if np.ndim(v) == 2 else v for name, v in rows.values.items()}
    for loop in reversed(site.together):
        number, values[loop.var] = np.divmod(number, loop.extent)
    touched = _address(buffer, site.indices, Rows(values, rows.active, 1, True))
    touched = touched + np.zeros(active.shape, np.int64)
    wide = WIDEST if shared else 8
    first = touched.min(axis=1, initial=np.iinfo(np.int64).max)[:, None]
    pattern = np.unique((touched[:1] - first[:1]) // wide) * wide
    pitch = ir.strides_of(buffer)[-2] * size if len(buffer.shape) > 1 else 1 << 30
    if shared:
        pattern = pattern[np.lexsort((pattern // pitch, pattern % pitch))]
    space, sums = "shared" if shared else "global", np.zeros(6)
    for start in range(0, len(pattern), LANES):
        lanes = first + pattern[start : start + LANES]
        sums += _counted(lanes, np.broadcast_to(active, lanes.shape), wide, space)
    return _summed(site, space, wide, sums * rows.weight, rows.exact)


def _summed(site: Site, space: str, size: int, sums: Floats, exact: bool) -> Traffic:
    """The traffic of an access from its sums, as `_counted` gives them."""
    requests, sectors, cycles, wanted, distinct, fewest = map(float, sums)
    ways = cycles / fewest if fewest else 1.0
    return Traffic(site, space, size, requests, sectors, cycles, wanted, distinct, ways, exact)


def executions(kernel: Kernel, site: Site, most: int = ROWS) -> float:
    """The executions of a statement by warps with an active lane, over all blocks."""
    rows = rows_of(kernel, site._replace(indices=()), Held(site.loops), 1, most)
    return float(holding(site, rows).any(axis=1).sum()) * rows.weight


def addresses(kernel: Kernel, site: Site, warp: int, values: Mapping[str, int]) -> Numbers:
    """The byte that each of the 32 lanes of a warp accesses first, in one execution; -1 of a lane
    that is not active.

    values  of block indices and loops; others are 0
    """
    buffer = site.buffer
    assert buffer is not None
    loops = {loop.var: values.get(loop.var, 0) for loop in (*kernel.parts.blocks, *site.loops)}
    threads, active = _threads(kernel, np.array([warp]))
    rows = Rows({**loops, **threads}, active, 1, True)
    pieces, _ = pieces_of(buffer, site.indices)
    address = _address(buffer, pieces[0], rows) + np.zeros(active.shape, np.int64)
    found: Numbers = np.where(holding(site, rows), address, -1)[0]
    return found


# ---- rows


def rows_of(kernel: Kernel, site: Site, keeps: Held, period: int, most: int) -> Rows:
    """The executions of a site that differ in what they access, or a sample of them.

    keeps   the loops in which an access is made, and the combinations of unrolled ones
    period  bytes that can be added to all addresses of a warp without a difference
    """
    extents = {loop.var: loop.extent for loop in (*kernel.parts.blocks, *keeps.loops)}
    free = {name for index in site.indices for name in ir.free_vars(index)}
    asked = {name for guard, _ in site.guards for name in ir.free_vars(guard)}
    still = _still(kernel, site, period) - asked
    moving = [name for name in extents if name in (free - still) | asked]
    repeats = math.prod(n for name, n in extents.items() if name not in moving)
    sizes = [kernel.warps, keeps.combinations, *(extents[name] for name in moving)]
    total = math.prod(sizes)
    if total <= most:
        row = np.arange(total, dtype=np.int64)
    else:
        row = np.random.default_rng(SEED).integers(0, total, most)
    values: dict[str, Any] = {}
    for name in reversed(moving):
        row, digit = np.divmod(row, extents[name])
        values[name] = digit[:, None]
    row, combination = np.divmod(row, keeps.combinations)
    values |= {name: one[combination][:, None] for name, one in keeps.unrolled.items()}
    threads, active = _threads(kernel, row)
    weight = repeats * total / max(1, len(row))
    return Rows({**dict.fromkeys(extents, 0), **values, **threads}, active, weight, total <= most)


def _threads(kernel: Kernel, warps: Numbers) -> tuple[dict[str, Any], Mask]:
    """The indices of the threads of some warps of a block, x fastest; and which of the lanes are
    threads.
    """
    number = warps[:, None] * LANES + np.arange(LANES)
    active = number < math.prod(kernel.parts.block)
    indices, rest = [], number
    for extent in kernel.parts.block:
        rest, index = np.divmod(rest, extent)
        indices.append(index)
    axes = {f"threadIdx.{axis}": index for axis, index in zip("xyz", indices)}
    return {loop.var: axes[loop.kind.value] for loop in kernel.parts.threads}, active


def holding(site: Site, rows: Rows) -> Mask:
    """The lanes in which the conditions of a site hold; those that depend on data do."""
    active = rows.active
    for condition, wanted in site.guards:
        found = ir.value_by_numpy(lane_of(condition, 0), rows.values)
        if found is not None:
            active = active & (np.asarray(found) == wanted)
    return active


def _still(kernel: Kernel, site: Site, period: int) -> set[str]:
    """The loops that only add multiples of the period to the address."""
    if site.buffer is None:
        return set()
    form = address_form(site)
    names = {loop.var for loop in (*kernel.parts.blocks, *site.loops)}
    inside = {n for atom in form.terms if not isinstance(atom, ir.Var) for n in ir.free_vars(atom)}
    steps = {atom.name: int(c) for atom, c in form.terms.items() if isinstance(atom, ir.Var)}
    return {n for n in names - inside if steps.get(n, 0) % period == 0}


# ---- addresses


def pieces_of(
    buffer: ir.Buffer, indices: Sequence[ir.Expr]
) -> tuple[list[tuple[ir.Expr, ...]], int]:
    """The first elements of the instructions that make an access, and the bytes of one: a vector is
    accessed 16 bytes at a time if its elements are side by side, else one by one.
    """
    lanes = max((index.dtype.lanes for index in indices), default=1)
    size = size_of(buffer)
    if lanes == 1:
        return [tuple(lane_of(index, 0) for index in indices)], size
    wide = 1
    last, others = indices[-1], indices[:-1]
    if isinstance(last, ir.Ramp) and last.stride == 1 and all(i.dtype.lanes == 1 for i in others):
        wide = math.gcd(lanes, max(1, WIDEST // size))
    starts = range(0, lanes, wide)
    return [tuple(lane_of(index, n) for index in indices) for n in starts], wide * size


def _address(buffer: ir.Buffer, indices: Sequence[ir.Expr], rows: Rows) -> Any:
    """The first bytes of what is accessed, from the begin of the buffer on; an index that depends
    on data is drawn at random.
    """
    address: Any = 0
    for index, extent, stride in zip(indices, buffer.shape, ir.strides_of(buffer)):
        found = ir.value_by_numpy(index, rows.values)
        if found is None:
            found = np.random.default_rng(SEED).integers(0, max(1, extent), rows.active.shape)
        address = address + found * stride
    return address * size_of(buffer)


# ---- counts


def _counted(address: Numbers, active: Mask, size: int, space: str) -> Floats:
    """Requests, sectors, cycles, bytes wanted, distinct bytes, and the fewest cycles."""
    made = active.any(axis=1)
    requests, wanted = made.sum(), active.sum() * size
    if space == "local":  # words of the lanes are side by side
        words = max(1, size // WORD)
        lane = np.arange(address.shape[1])
        address = (address // size) * (words * WORD * LANES) + lane * max(size, WORD)
    distinct = _distinct(address // size, active).sum() * size
    sectors = cycles = least = 0
    if space == "shared":
        taken, fewest = bank_cycles(address, active, size)
        cycles, least = taken.sum(), fewest.sum()
    else:
        sectors = _distinct(address // SECTOR, active).sum()
    return np.array([requests, sectors, cycles, wanted, distinct, least], np.float64)


def _distinct(values: Numbers, active: Mask) -> Numbers:
    """The number of distinct values in each row; values are not negative."""
    ordered = np.sort(np.where(active, values, -1), axis=1)
    changes = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    found: Numbers = changes + (ordered[:, 0] >= 0)
    return found


def bank_cycles(address: Numbers, active: Mask, size: int) -> tuple[Numbers, Numbers]:
    """The cycles in which banks serve each row, and the fewest that could be: one for each half or
    quarter of a warp with an active lane.
    """
    words = max(1, size // WORD)
    group = LANES // words
    first = address // WORD
    taken = np.zeros(len(address), np.int64)
    fewest = np.zeros(len(address), np.int64)
    for start in range(0, address.shape[1], group):
        part, on = first[:, start : start + group], active[:, start : start + group]
        every = np.concatenate([part + n for n in range(words)], axis=1)
        asked = np.tile(on, words)
        taken += _deepest(every, asked)
        fewest += on.any(axis=1)
    return taken, fewest


def _deepest(words: Numbers, active: Mask) -> Numbers:
    """The most distinct words that one bank has to give, in each row."""
    ordered = np.sort(np.where(active, words, -1), axis=1)
    new = np.ones(ordered.shape, np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    new &= ordered >= 0
    row = np.repeat(np.arange(len(words)), ordered.shape[1]).reshape(ordered.shape)
    place = (row * BANKS + ordered % BANKS)[new].astype(np.intp)
    found: Numbers = np.bincount(place, minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)
    return found
