"""Schedules for a GPU, drawn at random: blocks, nests of threads, shared and local memory.

Steps drawn without a plan (`schedules`) seldom give a kernel of several nests of threads. These
follow one: some block is tiled over a grid, what it reads is computed or copied inside of the tile,
what it writes is copied out, and loops of all nests are bound to threads. Any step may be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minitensor import arith, ir
from minitensor.errors import ScheduleError
from minitensor.schedule import Schedule
from minitensor.testing.draws import Draws

_SCOPES: Final = ("shared", "local", "shared", "register", "global")
_THREADS: Final = ("threadIdx.x", "threadIdx.y", "threadIdx.x", "threadIdx.z", "vthread")
_COUNTS: Final = (4, 2, 3, 8, 5)
"""The numbers of threads that loops are split into."""


@st.composite
def kernel_schedules(draw: DrawFn, program: ir.Program) -> Schedule:
    """A schedule of a program for a GPU."""
    planner = _Planner(draw, Schedule(program))
    planner.plan()
    return planner.schedule


class _Planner(Draws):
    def __init__(self, draw: DrawFn, schedule: Schedule) -> None:
        super().__init__(draw)
        self.schedule = schedule

    def plan(self) -> None:
        """Take the steps."""
        s = self.schedule
        root = self.pick(s.get_blocks()[::-1])
        if self.chance(40):
            self.attempt(s.cache_write, root, self.pick(_SCOPES))
        for name in self.loops(root):
            if self.chance(60):
                self.attempt(s.split, name, [None, self.pick(_COUNTS)])
        if self.chance(60):
            self.attempt(s.reorder, *self.shuffled(self.loops(root)))
        outer = self.loops(root)[: self.number(1, 2)]
        for name, index in zip(outer, self.pick([("x", "y"), ("y", "x"), ("x", "x")])):
            if self.chance(80):
                self.attempt(s.bind, name, f"blockIdx.{index}")
        for name in s.program.buffers:
            if self.chance(50):
                self.attempt(s.cache_read, root, name, self.pick(_SCOPES))
        for name in reversed(s.get_blocks()):
            if name != root and self.chance(90):
                target = self.pick(self.loops(root)[: self.number(1, 4)] or ("none",))
                self.attempt(s.compute_at, name, target)
                self.attempt(s.reverse_compute_at, name, target)
        for buffer in s.program.temporaries:
            if self.chance(60):
                self.attempt(s.set_scope, buffer.name, self.pick(_SCOPES))
        for name in s.get_blocks():
            self.threads(name)

    def threads(self, block: str) -> None:
        """Bind loops of a block to threads."""
        s = self.schedule
        summed = [n for n in self.loops(block) if arith.carries(s.program.blocks[block], n)]
        if summed and self.chance(40):
            inner = self.attempt(s.split, summed[-1], [None, self.pick(_COUNTS)])
            if inner and self.attempt(s.rfactor, inner[-1], axis=-1):
                self.attempt(s.bind, s.get_loops(block)[-1], "threadIdx.x")
        for name in reversed(self.loops(block)):
            if self.chance(60):
                parts = None
                if self.chance(40):
                    parts = self.attempt(s.split, name, [None, self.pick(_COUNTS)])
                self.attempt(s.bind, self.pick(parts[::-1]) if parts else name, self.pick(_THREADS))

    def loops(self, block: str) -> tuple[str, ...]:
        """The serial loops around a block."""
        sites = ir.loop_sites(self.schedule.program)
        found = self.schedule.get_loops(block)
        return tuple(n for n in found if sites[n].loop.kind is ir.LoopKind.SERIAL)

    def attempt(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of a step; None if it is refused."""
        with suppress(ScheduleError):
            return step(*args, **kwargs)
        return None
