"""Register pressure of loops: the tiles that one updates, and the operands of one iteration.

A tile is in registers as long as the loop runs that updates it, so all of it counts at once. Of the
operands, vectors that more than one statement uses count (`name_values` gives them a name), and one
register for a number that is broadcast; others can be read from memory where they are used. This is
an estimate: what the compiler makes of it is measured in its assembly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.codegen.remarks import Recorder, missed
from minitensor.codegen.target import Target

OPERANDS: Final = 3
"""The registers beside a tile's: two vectors that all rows use, and a number that is broadcast."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """The vector registers that a loop needs.

    loop       by its name in the program
    tiles      registers of each tile, by the buffer's name
    operands   registers of what one iteration reads
    available  how many there are
    """

    loop: str
    tiles: Mapping[str, int]
    operands: int
    available: int

    @property
    def needed(self) -> int:
        """All registers together."""
        return sum(self.tiles.values()) + self.operands


def usual_registers(vector_bits: int) -> int:
    """The vector registers of a machine with vectors of some bits, where they are not known.

    AVX-512 has 32. With 256 bits it is AVX's 16; with 128 it may be NEON's 32, or SSE's 16.
    """
    return 32 if vector_bits >= 512 else 16


def pressures(
    program: ir.Program,
    after: ir.Program,
    target: Target,
    registers: int | None,
    recorder: Recorder,
) -> tuple[Pressure, ...]:
    """The loops that hold tiles in registers; a remark on each that holds too many.

    program  as the schedule left it
    after    as the passes left it
    """
    bits = max(128, target.vector_bits or 0)
    available = registers or usual_registers(bits)
    variables = {
        s.buffer.name: s.buffer
        for s in ir.stmts_of(after.body)
        if isinstance(s, ir.Alloc) and s.buffer.scope is ir.Scope.REGISTER and not s.buffer.shape
    }
    found: dict[str, Pressure] = {}
    for loop in ir.loops_of(after.body):
        pressure = _pressure(loop, variables, bits, available, recorder)
        if pressure is None:
            continue
        known = found.get(loop.var)
        if known is None or known.needed < pressure.needed:
            found[loop.var] = pressure
    for pressure in found.values():
        if pressure.needed > available:
            _tell(program, pressure, bits)
    return tuple(found.values())


def _pressure(
    loop: ir.For, variables: Mapping[str, ir.Buffer], bits: int, available: int, recorder: Recorder
) -> Pressure | None:
    """The registers of variables from outside that a loop updates; None if there are none."""
    own = {s.buffer.name for s in ir.stmts_of(loop.body) if isinstance(s, ir.Alloc)}
    tiles: Counter[str] = Counter()
    updated = {s.buffer for s in ir.stmts_of(loop.body) if isinstance(s, ir.Store)}
    for name in sorted(updated & set(variables) - own):
        dtype = variables[name].dtype
        if dtype.lanes > 1 or dtype.is_float:
            tiles[ir.print_name(recorder.origin(name))] += registers_of(dtype, bits)
    if not tiles:
        return None
    return Pressure(loop.var, dict(tiles), _operands(loop, variables, bits), available)


def _operands(loop: ir.For, variables: Mapping[str, ir.Buffer], bits: int) -> int:
    """The registers for the vectors that several statements read, and one for a broadcast."""
    shared = [
        registers_of(s.value.dtype, bits)
        for s in ir.stmts_of(loop.body)
        if isinstance(s, ir.Store) and s.buffer in variables and isinstance(s.value, ir.Load)
        if s.value.dtype.lanes > 1 and s.value.buffer not in variables
    ]
    return sum(shared) + any(isinstance(n, ir.Broadcast) for n in ir.walk(loop.body))


def registers_of(dtype: ir.DType, bits: int) -> int:
    """The registers of some bits that a value takes."""
    return -(-dtype.bits * dtype.lanes // bits)


def fills_registers(stmts: Sequence[ir.Store], bits: int) -> bool:
    """Tell whether a tile of sums, two or more vectors that all of them use, and one number that is
    broadcast take three quarters of the registers of some bits or more, and fit.
    """
    bits = max(bits, 128)
    stored = {stmt.buffer for stmt in stmts}
    sums: dict[ir.Expr, int] = {}
    vectors: Counter[ir.Expr] = Counter()
    for stmt in stmts:
        named = isinstance(stmt.value, ir.Load)  # for all that use it (see `name_values`)
        for load in frozenset(ir.loads(stmt.value)):
            if load.buffer == stmt.buffer and load.indices == stmt.indices:
                sums[load] = registers_of(load.dtype, bits)
            elif load.dtype.lanes > 1 and load.buffer not in stored:
                vectors[load] += 1 + named
    shared = [registers_of(load.dtype, bits) for load, uses in vectors.items() if uses > 1]
    broadcast = any(isinstance(n, ir.Broadcast) for stmt in stmts for n in ir.walk(stmt.value))
    if len(shared) < 2 or not sums or not broadcast:
        return False
    needed, available = sum(sums.values()) + sum(shared) + 1, usual_registers(bits)
    return 3 * available <= 4 * needed <= 4 * available


def first_values(stmts: Sequence[ir.Store], bits: int) -> frozenset[ir.Expr]:
    """The loads of vectors that initialize several accumulators of a tile each, if accumulators,
    these vectors and a tile's operands need more registers than there are.

    stmts  stores that follow each other, before the tile is updated
    bits   of a vector register
    """
    bits = max(bits, 128)
    vectors = {
        s.buffer: v for s in stmts if isinstance(v := s.value, ir.Load) and v.dtype.lanes > 1
    }
    uses = Counter(v.buffer for v in vectors.values() if v.buffer in vectors)
    first = {vectors[name]: count for name, count in uses.items() if count > 1}
    needed = sum((1 + count) * registers_of(v.dtype, bits) for v, count in first.items())
    return frozenset(first) if needed + OPERANDS > usual_registers(bits) else frozenset()


def _tell(program: ir.Program, pressure: Pressure, bits: int) -> None:
    name = max(pressure.tiles, key=lambda tile: pressure.tiles[tile])
    tiles = " and ".join(f"{n} of {b}" for b, n in pressure.tiles.items())
    text = (
        f"the tile does not fit in registers: {ir.print_name(pressure.loop)} holds {tiles} and "
        f"{pressure.operands} of operands, and the machine has {pressure.available}"
    )
    missed("registers", name, text, _smaller(program, name, pressure, bits))


def _smaller(program: ir.Program, name: str, pressure: Pressure, bits: int) -> str:
    """A split of one loop of the tile after which it fits, if there is one."""
    loops = tile_loops(program, name)
    most = pressure.available - (pressure.needed - pressure.tiles[name])
    best: tuple[int, str] | None = None
    for loop in loops:
        # a vectorized loop is shortened by whole vectors
        step = _lanes(program, name, bits) if loop.kind is ir.LoopKind.VECTORIZE else 1
        others = -(-pressure.tiles[name] * step // loop.extent)
        extent = most // max(1, others) * step
        while extent > step and loop.extent % extent:
            extent -= step
        if 0 < extent < loop.extent and (best is None or others * extent // step > best[0]):
            best = (others * extent // step, f"split {ir.print_name(loop.var)} by {extent}")
    return f"smaller tile: {best[1]}" if best else "make the tile smaller"


def _lanes(program: ir.Program, name: str, bits: int) -> int:
    buffer = next(b for b in program.buffers.values() if ir.print_name(b.name) == name)
    return max(1, bits // buffer.dtype.bits)


def tile_loops(program: ir.Program, buffer: str) -> list[ir.For]:
    """The unrolled and vectorized loops that index a buffer where it is updated."""
    found: dict[str, ir.For] = {}
    for block in program.blocks.values():
        used = _loops_that_index(block, buffer)
        for loop in ir.paths(program)[block.name]:
            if loop.var in used and loop.kind in (ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE):
                found.setdefault(loop.var, loop)
    return [site.loop for name, site in ir.loop_sites(program).items() if name in found]


def _loops_that_index(block: ir.Block, buffer: str) -> set[str]:
    indices = [
        index
        for node in ir.walk(block.body)
        if hasattr(node, "indices")
        and buffer in [ir.print_name(b) for b in getattr(node, "buffers", ())]
        for index in node.indices
    ]
    iters = {name for index in indices for name in ir.free_vars(index)}
    return {name for i in block.iters if i.var in iters for name in ir.free_vars(i.binding)}
