"""Cycles of a warp that has a multiprocessor for itself: the time that occupancy has to hide.

Loads between two barriers, or in an iteration of a serial loop, wait together; a short loop without
barriers is taken to be written out four times, as compilers do, so that four iterations wait
together. The updates of one element wait for each other. The idea of adding up waits, and of warps
that hide them, is that of Hong and Kim, An Analytical Model for a GPU Architecture with
Memory-level and Thread-level Parallelism Awareness, ISCA 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minitensor import ir
from minitensor.gpu.instructions import LOOP, statement
from minitensor.gpu.kernels import Kernel, Site, of_warp
from minitensor.gpu.rates import ARITHMETIC_LATENCY

BARRIER: Final = 20
"""Cycles of a barrier that all have reached, and of a shuffle."""
TOGETHER: Final = 4
"""Iterations of a short loop that wait together."""


class Cycles(NamedTuple):
    """The cycles of a statement.

    waits     for loads
    issue     of instructions
    chain     of updates that wait for each other
    straight  whether there is no barrier and no serial loop in it
    """

    waits: float = 0.0
    issue: float = 0.0
    chain: float = 0.0
    straight: bool = True

    @property
    def total(self) -> float:
        """The cycles of all of it."""
        return self.waits + max(self.issue, self.chain)


def warp_cycles(kernel: Kernel, stmt: ir.Stmt, latencies: Mapping[str, float]) -> Cycles:
    """The cycles of a statement of a warp.

    latencies  of a load of each array; none for those in registers
    """
    match stmt:
        case ir.For(var, extent, body, kind):
            inner = warp_cycles(kernel, body, latencies)
            if kind is ir.LoopKind.UNROLL:
                waits, issue = inner.waits, inner.issue * extent
            else:
                waits = inner.waits * extent
                if inner.straight:
                    waits /= min(TOGETHER, max(1, extent))
                issue = (inner.issue + LOOP) * extent
            apart = kind is ir.LoopKind.UNROLL and _moves_stores(body, var)
            chain = inner.chain * (1 if apart else extent)
            straight = inner.straight and kind is ir.LoopKind.UNROLL
            return Cycles(waits, issue, chain, straight)
        case ir.Seq(stmts):
            return _sequence([warp_cycles(kernel, child, latencies) for child in stmts])
        case ir.If(condition, then, otherwise):
            parts = [warp_cycles(kernel, child, latencies) for child in (then, otherwise) if child]
            own = Cycles(issue=2.0, waits=_wait(condition, latencies))
            return _sequence([own, *parts])
        case ir.Tensorized(_, operands, _, _) if of_warp(stmt) is not None:
            waits = max((latencies.get(operand.buffer, 0.0) for operand in operands), default=0.0)
            return Cycles(waits, statement(kernel, Site(stmt, (), ())).total + len(operands))
        case ir.Alloc(_, body) | ir.Tensorized(_, _, _, body):
            return warp_cycles(kernel, body, latencies)
        case ir.Store(buffer, indices, value):
            done = statement(kernel, Site(stmt, (), ()))
            waits = max((_wait(part, latencies) for part in (*indices, value)), default=0.0)
            issue = done.total + sum(load.buffer in latencies for load in ir.loads(value))
            issue += buffer in latencies
            return Cycles(waits, issue, ARITHMETIC_LATENCY if done.fma or done.float32 else 0.0)
        case ir.Barrier():
            return Cycles(waits=BARRIER, straight=False)
        case ir.ThreadReduce():
            done = statement(kernel, Site(stmt, (), ()))
            meets = done.shuffles + done.barriers + done.memory
            return Cycles(meets * BARRIER, done.total, straight=False)
    return Cycles()


def _sequence(parts: list[Cycles]) -> Cycles:
    """Statements one after the other; those without barriers between them wait together."""
    waits = group = 0.0
    for part in parts:
        if part.straight:
            group = max(group, part.waits)
        else:
            waits, group = waits + group + part.waits, 0.0
    issue = sum(part.issue for part in parts)
    chain = sum(part.chain for part in parts)
    return Cycles(waits + group, issue, chain, all(part.straight for part in parts))


def _wait(expr: ir.Expr, latencies: Mapping[str, float]) -> float:
    """The longest wait for a load of an expression; those of indices are added."""
    return max(
        (
            latencies.get(load.buffer, 0.0)
            + max((_wait(index, latencies) for index in load.indices), default=0.0)
            for load in ir.loads(expr)
        ),
        default=0.0,
    )


def _moves_stores(body: ir.Stmt, var: str) -> bool:
    """Tell whether an unrolled loop stores to other elements in each iteration."""
    stores = [stmt for stmt in ir.stmts_of(body) if isinstance(stmt, ir.Store)]
    return all(any(ir.mentions(index, var) for index in stmt.indices) for stmt in stores)
