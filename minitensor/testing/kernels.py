"""Schedules for a GPU, drawn at random: nests of threads that fork and join in blocks of a grid.

A random `bind` rarely leads to two nests of threads in one block. So the frame comes first: loops
of one stage are tiled, the outer ones bound to blockIdx, other stages moved inside (copies of
inputs, producers, consumers), and then each stage gets threads of its own. Single steps, and what
is done with what remains, are drawn as in `schedules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minitensor import ir
from minitensor.schedule import Schedule
from minitensor.testing.schedules import DrawnSchedule, Trial, kept_promises

BEFORE: Final = (
    *("rfactor", "compute_inline", "cache_read", "cache_write", "fuse", "split", "cache_read"),
)
AFTER: Final = (
    *("bind", "set_scope", "storage_align", "unroll", "vectorize", "compute_at", "split"),
    *("reverse_compute_at", "reorder", "decompose_reduction", "transform_layout", "add_unit_loop"),
)
"""Primitives of which single steps are drawn, before the frame is made and after it."""
BLOCKS: Final = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREADS: Final = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
COUNTS: Final = {
    "threadIdx.x": (4, 8, 2, 3, 5, 7, 16, 32, 33, 40),
    "threadIdx.y": (4, 2, 8, 3, 5),
    "threadIdx.z": (2, 3),
}
"""Threads along each index; together mostly no more than a block has."""
TAILS: Final = ("guard", "guard", "guard", "guard", "cut")
SCOPES: Final = ("shared", "local", "global", "register", "shared")


@st.composite
def kernel_schedules(draw: DrawFn, program: ir.Program) -> Schedule:
    """A schedule whose nests are bound to blocks and threads, mostly.

    Some are no kernels for a GPU, as a schedule may be: building them is refused. Raises
    AssertionError as `schedules` does.
    """
    return kept_promises(draw, program, kernel_attempts(program))


@st.composite
def kernel_attempts(draw: DrawFn, program: ir.Program) -> DrawnSchedule:
    """A schedule as `kernel_schedules` draws it, with the attempts. Raises BrokenPromiseError."""
    made = DrawnSchedule(Schedule(program))
    author = _Author(draw, made)
    author.repeat(0, 3, 40, lambda _: author.some(BEFORE))
    author.kernels()
    author.repeat(0, 4, 60, lambda _: author.some(AFTER))
    author.settle()
    return made


class _Author(Trial):
    """Makes kernels of the nests at the top."""

    def kernels(self) -> None:
        """A kernel of each nest, the last ones first; a nest that moved into one is done."""
        self.done: set[str] = set()

        def next_kernel(_: int) -> None:
            left = [name for name in self.schedule.get_blocks() if name not in self.done]
            if left:
                block = left[-1] if self.chance(70) else self.pick(left)
                self.kernel(block)
                self.done |= {block, *self.neighbours(block)}

        self.repeat(1, 4, 90, next_kernel)

    def kernel(self, block: str) -> None:
        """The nest of a block: tiles for blocks, stages in them, threads in the stages."""
        if self.chance(35):
            copy = self.tried("cache_write", block, self.pick(("local", "shared", "global")))
        else:
            copy = None
        inner, steps = self.tiled(block)
        if not inner:
            return
        outer = [name for name in self.schedule.get_loops(block) if name in self.outer]
        if copy is not None and outer:
            self.tried("reverse_compute_at", copy, outer[-1])
        places = [name for name in (*outer[-1:], *steps) if name in self.schedule.get_loops(block)]
        if places:
            self.gather(block, places)
        for name in self.schedule.get_consumers(block):
            if outer and name not in self.neighbours(block) and self.chance(60):
                self.tried("reverse_compute_at", name, outer[-1])
        for name in self.neighbours(block):
            self.threads(name)
        self.storage(block)
        for name in steps:
            if name in self.sites and self.chance(35):
                self.tried("annotate", name, "pipeline", 2)
        if self.chance(96):
            self.grid(outer)

    # ---- the frame

    def tiled(self, block: str) -> tuple[list[str], list[str]]:
        """Split the loops of a block and put them in order.

        Returns the loops inside of a tile, and those of a reduction that go over its steps.
        """
        self.outer: list[str] = []
        loops = self.serial(block)
        spatial = [name for name in loops if not self.reduces(block, name)]
        inner, steps, last = [], [], []
        for name in loops:
            if name not in spatial:
                if self.chance(60):
                    found = self.tried("split", name, [None, self.pick((4, 2, 3, 8))])
                    if found is not None:
                        steps.append(found[0])
                        last.append(found[1])
                        continue
                (steps if self.chance(30) else last).append(name)
            elif self.chance(75):
                tile, tail = self.pick((4, 8, 2, 16, 3, 5, 32)), self.pick(TAILS)
                found = self.tried("split", name, [None, tile], tail=tail)
                if found is not None:
                    self.outer.append(found[0])
                    inner.append(found[1])
            else:
                (inner if self.chance(70) else self.outer).append(name)
        if not self.outer and self.chance(80):
            found = self.tried("add_unit_loop", (loops or [block])[0])
            if found is not None:
                self.outer.append(found)
        order = [*self.outer, *steps, *inner, *last]
        if self.chance(20):
            order = [*self.outer, *steps, *last, *inner]
        if len(order) > 1:
            self.tried("reorder", *order)
        return inner + last or self.outer, steps

    def grid(self, outer: Sequence[str]) -> None:
        """Bind the outermost loops to the indices of blocks; what is more stays for the host."""
        loops = [name for name in outer if name in self.sites]
        if len(loops) > 3 or (len(loops) > 1 and self.chance(30)):
            fused = self.tried("fuse", *loops)
            loops = [fused] if fused is not None else loops
        if len(loops) > 1 and self.chance(8):
            loops = loops[1:]
        for name, index in zip(loops[-3:][::-1], BLOCKS):
            self.tried("bind", name, index)

    def gather(self, block: str, places: Sequence[str]) -> None:
        """Move stages that the block reads, or copies of what it reads, inside of its nest."""

        def stage(_: int) -> None:
            inside = self.neighbours(block)
            reader = self.pick(inside)
            place = self.pick(places[::-1])
            makers = [p for p in self.producers(inside) if p not in inside]
            if makers and self.chance(60):
                self.tried("compute_at", self.pick(makers), place)
                return
            read = sorted(ir.accessed_buffers(self.program.blocks[reader])[0])
            if read:
                copy = self.tried("cache_read", reader, self.pick(read), self.pick(SCOPES))
                if copy is not None and self.tried("compute_at", copy, place) is None:
                    self.tried("compute_at", copy, places[0])

        self.repeat(0, 4, 75, stage)

    # ---- threads

    def threads(self, block: str) -> None:
        """Bind loops of a stage to threads, inside of what its nest has in common."""
        loops = [n for n in self.serial(block) if n not in self.outer and self.is_own(block, n)]
        spatial = [name for name in loops if not self.reduces(block, name)]
        if self.chance(8):
            return  # thread 0 does it
        reducing = [name for name in loops if name not in spatial]
        if reducing and self.chance(35):
            self.combined(reducing)
            return
        if not spatial:
            return
        if len(spatial) > 1 and self.chance(50):
            self.tried("reorder", *spatial, *reducing)
            fused = self.tried("fuse", *spatial)
            spatial = [fused] if fused is not None else spatial
        indices = list(THREADS) if self.chance(80) else self.shuffled(THREADS)
        inside: list[str] = []
        if self.chance(15):
            found = self.tried("split", spatial[0], [self.pick((2, 3)), None])
            if found is not None:
                self.tried("bind", found[0], "vthread")
                spatial[0] = found[1]
        if self.chance(30):
            found = self.tried("split", spatial[-1], [None, self.pick((4, 2, 8))])
            if found is not None:
                self.tried("vectorize", found[1])
                spatial[-1] = found[0]
        for name in spatial[::-1][:3]:
            index = indices.pop(0)
            if self.sites[name].loop.extent <= max(COUNTS[index]) and self.chance(50):
                self.tried("bind", name, index)
                continue
            count, is_inner = self.pick(COUNTS[index]), self.number(0, 1)
            found = self.tried("split", name, [None, count] if is_inner else [count, None])
            if found is None:
                continue
            thread = found[is_inner]
            inside += [n for n in found if n != thread]
            if len(spatial) == 1 and self.chance(40):
                more = self.tried("split", thread, [None, self.pick((2, 4, 3))])
                if more is not None:
                    thread = more[1]
                    self.tried("bind", more[0], indices.pop(0))
            self.tried("bind", thread, index)
        for name in inside:
            if self.chance(40):
                self.tried(self.pick(("unroll", "vectorize")), name)

    def combined(self, reducing: Sequence[str]) -> None:
        """Let threads sum what rfactor leaves."""
        name = self.pick(reducing)
        found = self.tried("split", name, [None, self.pick(COUNTS["threadIdx.x"])])
        partial = self.tried("rfactor", found[-1] if found is not None else name, axis=0)
        if partial is None:
            return
        (rest, *_) = self.schedule.get_consumers(partial) or (None,)
        if rest is None:
            return
        loops = [n for n in self.serial(rest) if self.reduces(rest, n)]
        if loops:
            self.tried("bind", loops[-1], "threadIdx.x")
        places = [n for n in self.schedule.get_loops(rest) if n not in loops[-1:]]
        if places and self.chance(80):
            self.tried("compute_at", partial, places[-1])
        own = [n for n in self.serial(partial) if not self.reduces(partial, n)]
        if own:
            self.tried("bind", self.pick(own[::-1]), "threadIdx.x")

    def storage(self, block: str) -> None:
        """Scopes and rows of temporaries that a nest accesses."""
        used = {n for b in self.neighbours(block) for n in _buffers(self.program.blocks[b])}
        for buffer in self.program.temporaries:
            if buffer.name in used and self.chance(30):
                self.tried("set_scope", buffer.name, self.pick(SCOPES))
            if buffer.name in used and len(buffer.shape) > 1 and self.chance(15):
                factor, offset = self.pick((8, 4, 2)), self.pick((1, 0, 3))
                self.tried("storage_align", buffer.name, -2, factor, offset)

    def settle(self) -> None:
        """Leave shared memory to what stays in one nest, mostly."""
        for buffer in self.program.temporaries:
            nests = [
                nest
                for nest in ir.nests(self.program)
                if any(buffer.name in _buffers(block) for block in ir.blocks_of(nest))
            ]
            if buffer.scope is ir.Scope.SHARED and len(nests) > 1 and not self.chance(5):
                self.tried("set_scope", buffer.name, "global")

    # ---- what there is

    @property
    def sites(self) -> Any:
        return ir.loop_sites(self.program)

    def serial(self, block: str) -> list[str]:
        """The loops around a block that are serial yet, those of one iteration mostly left out."""
        loops = [self.sites[name].loop for name in self.schedule.get_loops(block)]
        return [n.var for n in loops if n.kind is ir.LoopKind.SERIAL and n.extent != 1]

    def reduces(self, block: str, loop: str) -> bool:
        """Tell whether a loop drives an iter that is not spatial."""
        iters = self.program.blocks[block].iters
        return any(
            i.kind is not ir.IterKind.SPATIAL and loop in ir.free_vars(i.binding) for i in iters
        )

    def is_own(self, block: str, loop: str) -> bool:
        """Tell whether a loop is around this block only."""
        return len(list(ir.blocks_of(self.sites[loop].loop))) == 1

    def neighbours(self, block: str) -> list[str]:
        """The blocks in the nest of a block."""
        loops = self.schedule.get_loops(block)
        if not loops:
            return [block]
        return [found.name for found in ir.blocks_of(self.sites[loops[0]].loop)]

    def producers(self, blocks: Sequence[str]) -> list[str]:
        """The blocks that write what these read."""
        found = {p: None for name in blocks for p in self.schedule.get_producers(name)}
        return list(found)


def _buffers(block: ir.Block) -> set[str]:
    read, written = ir.accessed_buffers(block)
    return {*read, *written}
