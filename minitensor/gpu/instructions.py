"""Instructions of a kernel, counted from its statements: those of warps, over all blocks.

Arithmetic on elements is what the text says, each common part of a statement once. Integer
arithmetic is an estimate: an address that moves with a serial loop is one addition in an iteration,
with each division or remainder in it counted beside; offsets of loops that are written out are part
of the instruction; a serial loop takes three instructions in an iteration. Functions such as exp
have the operations of their definitions (`codegen.definitions`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

from minitensor import codegen, ir
from minitensor.gpu.kernels import Kernel, Site
from minitensor.gpu.warps import executions

DIVISION: Final = 10
"""Instructions of a division of floats, which is rounded correctly; as many of a square root."""
QUOTIENT: Final = 4
"""Instructions of a quotient or a remainder of integers by a constant that is no power of two."""
PRODUCTS: Final = 16 * 8 * 16
"""Multiplications of an instruction of a tensor core."""
LOOP: Final = 3
"""Instructions of an iteration of a serial loop: count, compare, branch."""
_ROOTS: Final = ("sqrt", "rsqrt")
_FREE: Final = ("in_bounds", "reinterpret", "abs")


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions of warps.

    fma       products that are added to an element in one instruction
    float32   other operations on floats of 32 bits and fewer
    float64   operations on floats of 64 bits, FMAs among them
    special   divisions and roots, which begin with an approximation by a unit of its own
    integer   addresses, conditions, loops, conversions
    tensor    multiplications of matrices, m16n8k16 (PTX ISA)
    memory    loads and stores; of registers there are none
    barriers  waits for all threads of a block
    shuffles  exchanges between the lanes of a warp
    """

    fma: float = 0.0
    float32: float = 0.0
    float64: float = 0.0
    special: float = 0.0
    integer: float = 0.0
    tensor: float = 0.0
    memory: float = 0.0
    barriers: float = 0.0
    shuffles: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return float(sum(getattr(self, field.name) for field in fields(self)))

    def plus(self, other: Instructions) -> Instructions:
        """The sum with others."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Instructions(*(a + b for a, b in pairs))

    def times(self, count: float) -> Instructions:
        """So many times these."""
        return Instructions(*(getattr(self, f.name) * count for f in fields(self)))


def instructions_of(kernel: Kernel, sites: Sequence[Site], memory: float) -> Instructions:
    """The instructions of a kernel.

    memory  its loads and stores
    """
    total = Instructions(memory=memory)
    known: dict[object, float] = {}
    for site in sites:
        if site.buffer is None:
            key = (tuple(loop.var for loop in site.loops), site.guards)
            if key not in known:
                known[key] = executions(kernel, site)
            total = total.plus(statement(kernel, site).times(known[key]))
    return total.plus(_addresses(kernel, sites)).plus(_loops(kernel, sites))


def statement(kernel: Kernel, site: Site) -> Instructions:
    """The instructions of one execution of a statement by a warp, without addresses."""
    match site.stmt:
        case ir.Store(buffer, indices, value):
            fused = _is_update(buffer, indices, value)
            found = _operations([value])
            if fused and not found.float64:
                found = found.plus(Instructions(fma=1, float32=-2))
            elif fused:
                found = found.plus(Instructions(float64=-1))
            narrow = [load for load in ir.loads(value) if load.dtype.is_float]
            halves = sum(load.dtype.bits < 32 for load in narrow)
            written = kernel.buffers[buffer].dtype
            return found.plus(
                Instructions(integer=halves + (written.is_float and written.bits < 32))
            )
        case ir.If(condition):
            return _operations([condition]).plus(Instructions(integer=1))
        case ir.Barrier():
            return Instructions(barriers=1)
        case ir.Tensorized():
            return _of_intrinsic(kernel, site.stmt)
        case ir.ThreadReduce(reducer, _, buffers):
            return _reduction(kernel, _operations(reducer.results), len(buffers))
    return Instructions()


def _of_intrinsic(kernel: Kernel, stmt: ir.Tensorized) -> Instructions:
    """The work of a warp together: its products and sums are those of a tensor core."""
    body: ir.Stmt = stmt
    count = 1
    while isinstance(body, (ir.For, ir.Tensorized)):
        count *= body.extent if isinstance(body, ir.For) else 1
        body = body.body
    adds = statement(kernel, Site(body, (), ())).fma
    return Instructions(tensor=count / PRODUCTS) if adds else Instructions()


def _reduction(kernel: Kernel, combine: Instructions, values: int) -> Instructions:
    """A reduction across the threads of a row: shuffles in a warp, then shared memory."""
    x, y, z = kernel.parts.block
    steps = int(math.log2(min(x, ir.WARP))) if x % ir.WARP == 0 or ir.WARP % x == 0 else 0
    handed = kernel.parts.combined // (y * z)
    found = combine.times(steps + max(0, handed - 1)).plus(Instructions(shuffles=steps * values))
    return found.plus(Instructions(memory=(handed + 1) * values, barriers=2)) if handed else found


def _is_update(buffer: str, indices: tuple[ir.Expr, ...], value: ir.Expr) -> bool:
    """Tell whether a product is added to the element that is stored, which is one instruction."""
    if not isinstance(value, ir.Binary) or value.op not in ("+", "-") or not value.dtype.is_float:
        return False
    own = [isinstance(p, ir.Load) and (p.buffer, p.indices) == (buffer, indices)
           for p in (value.a, value.b)]  # fmt: skip
    product = [isinstance(part, ir.Binary) and part.op == "*" for part in (value.a, value.b)]
    return (own[0] and product[1]) or (own[1] and product[0] and value.op == "+")


def _operations(values: Iterable[ir.Expr]) -> Instructions:
    """The instructions of expressions, each common part once; of loads nothing."""
    seen = set[ir.Expr]()
    pending = list(values)
    total = Instructions()
    while pending:
        node = pending.pop()
        if node in seen or isinstance(node, (ir.Load, ir.Var, ir.Const)):
            continue
        seen.add(node)
        total = total.plus(_operation(node))
        pending += [child for child in ir.children(node) if not isinstance(child, ir.For)]  # type: ignore[misc]
    return total


def _operation(node: ir.Expr) -> Instructions:
    """The instructions of an operation itself, on each lane of a vector."""
    asked = node.a.dtype if isinstance(node, ir.Binary) else node.dtype
    lanes = asked.lanes
    if isinstance(node, (ir.Ramp, ir.Broadcast, ir.Lanes)):
        return Instructions()
    if isinstance(node, ir.Call):
        return _call(node.function, asked.scalar)
    if not asked.is_float:
        divides = isinstance(node, ir.Binary) and node.op in ("//", "%")
        return Instructions(integer=lanes * (_quotient(node) if divides else 1))
    wide = asked.bits == 64
    if isinstance(node, ir.Binary) and node.op == "/":
        rest = float(DIVISION - 1) * lanes
        return Instructions(special=lanes, float64=rest * wide, float32=rest * (not wide))
    return Instructions(float64=lanes * wide, float32=lanes * (not wide))


@cache
def _call(function: str, dtype: ir.DType) -> Instructions:
    """The instructions of a function."""
    if function in _FREE:
        return Instructions()
    if function in _ROOTS:
        return Instructions(special=1, float32=DIVISION - 1)
    known = codegen.definitions().get((function, dtype))
    if known is None:
        known = codegen.definitions().get((function, ir.FLOAT32))
    if known is None:
        return Instructions(float32=1)
    return _operations([*(value for _, value in known.values), known.result])


def _quotient(node: ir.Expr) -> int:
    """The instructions of `//` or `%`: one by a power of two."""
    by = node.b if isinstance(node, ir.Binary) else None
    power = (
        isinstance(by, ir.Const) and int(by.value) > 0 and not int(by.value) & (int(by.value) - 1)
    )
    return 1 if power else QUOTIENT


def _addresses(kernel: Kernel, sites: Sequence[Site]) -> Instructions:
    """The integer instructions that addresses take: once in each iteration of the innermost serial
    loop that moves them; accesses that differ by a constant share them.
    """
    registers = kernel.in_registers(list(sites))
    warps = float(kernel.warps * kernel.blocks)
    done = set[object]()
    count = 0.0
    for site in sites:
        if site.buffer is None or site.buffer.name in registers:
            continue
        used = {name for index in site.indices for name in ir.free_vars(index)}
        slow = [loop for loop in site.loops if loop.kind is not ir.LoopKind.UNROLL]
        while slow and slow[-1].var not in used:
            slow.pop()
        moving = {loop.var for loop in slow}
        quotients = {
            node
            for index in site.indices
            for node in ir.walk(index)
            if isinstance(node, ir.Binary)
            and node.op in ("//", "%")
            and not moving.isdisjoint(ir.free_vars(node))
        }
        key = (site.buffer.name, site.indices, tuple(loop.var for loop in slow))
        if key not in done:
            done.add(key)
            each = 1 + sum(map(_quotient, quotients))
            count += warps * math.prod(loop.extent for loop in slow) * each
    return Instructions(integer=count)


def _loops(kernel: Kernel, sites: Sequence[Site]) -> Instructions:
    """The instructions of serial loops."""
    paths = {
        tuple(loop.var for loop in site.loops[: n + 1]): site.loops[: n + 1]
        for site in sites
        for n in range(len(site.loops))
    }
    count = 0.0
    for path in paths.values():
        if path[-1].kind is not ir.LoopKind.UNROLL:
            count += math.prod(loop.extent for loop in path)
    return Instructions(integer=LOOP * count * kernel.warps * kernel.blocks)
