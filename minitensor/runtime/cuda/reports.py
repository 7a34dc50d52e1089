"""Reports of the emulator (checks.h), in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted
from minitensor.runtime.cuda.symbols import Symbols
from minitensor.runtime.fault import Fault, element_at, element_name

MOST: Final = 256
"""Reports of one call."""

Index = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Actor:
    """A thread that accesses memory, or waits.

    block, thread  their indices x, y, z
    epoch          barriers that its block had passed
    line           of the text, 0 if it is not known
    does           "reads", "writes", "atomically changes", "atomically sets" or "waits"
    """

    block: Index
    thread: Index
    epoch: int
    line: int
    does: str


@dataclass(frozen=True, slots=True)
class DeviceFault(Fault):
    """One thing that threads of a GPU did wrong.

    kernel  the name of the function
    actors  who did it: the thread that ran when it was found, then the other one if there is one
    """

    kernel: str = ""
    actors: tuple[Actor, ...] = ()

    @property
    def place(self) -> tuple[object, ...]:
        """The same for faults that differ only in which threads and elements they name."""
        does = frozenset((actor.line, actor.does) for actor in self.actors)
        return self.kind, self.kernel, self.buffer, self.line if len(does) < 2 else 0, does


@dataclass(frozen=True, slots=True)
class Report:
    """A report as it is in memory; see `Report` in checks.h."""

    fault: int
    kernel: int
    range: int
    offset: int
    bytes: int
    block: int
    thread: int
    epoch: int
    site: int
    kind: int
    other_block: int
    other_thread: int
    other_epoch: int
    other_site: int
    other_kind: int
    line: int
    other_line: int
    other_state: int
    grid_x: int
    grid_y: int
    block_x: int
    block_y: int


FIELDS: Final = len(fields(Report))

_DOES: Final = ("reads", "writes", "atomically changes", "atomically sets")
_STATES: Final = ("runs", "waits at the barrier of", "waits for its warp in", "has ended")
_ENDED: Final = 3


@dataclass(frozen=True, slots=True)
class Memory:
    """A range of memory that reports are about.

    buffer  of a parameter
    name    of what is none
    size    in bytes
    item    bytes of an element
    """

    name: str
    size: int
    item: int
    buffer: ir.Buffer | None = None

    def element(self, offset: int) -> tuple[str, tuple[int, ...], str]:
        """The name of the buffer, the indices of the element at an offset, and both as text."""
        if self.buffer is not None:
            index = element_at(self.buffer, offset)
            return self.buffer.name, index, element_name(self.buffer, index)
        index = (offset // self.item,)
        return self.name, index, f"{ir.print_name(self.name)}[{index[0]}]"

    def __str__(self) -> str:
        if self.buffer is not None:
            shape = ", ".join(map(str, self.buffer.shape))
            return f"{ir.print_name(self.name)}: {self.buffer.dtype}[{shape}]"
        return f"{ir.print_name(self.name)}[{self.size // self.item}]"


class Describer:
    """Makes faults of reports.

    memory  the ranges by their numbers
    lines   gives the lines of return addresses
    """

    def __init__(
        self,
        emitted: Emitted,
        memory: Sequence[Memory],
        symbols: Symbols,
        lines: Callable[[Iterable[int]], dict[int, int]],
    ) -> None:
        self.name = ir.print_name(emitted.name or emitted.entry)
        self.several = len(emitted.kernels) > 1
        self.memory, self.symbols, self.find_lines = memory, symbols, lines

    def faults(self, rows: np.ndarray) -> list[DeviceFault]:
        """The faults of reports, in order; reads of what is not written yet come after races."""
        reports = [Report(*row) for row in rows.tolist()]
        self.lines = self.find_lines(
            site for report in reports for site in (report.site, report.other_site)
        )
        found = [self._fault(report) for report in reports]
        return sorted(found, key=lambda fault: fault.kind == "uninitialised")

    def _fault(self, r: Report) -> DeviceFault:
        kernel = self.symbols.kernels.get(r.kernel, "")
        name = f"{self.name} ({ir.print_name(kernel)})" if self.several and kernel else self.name
        memory = self._part(r)
        if r.fault == 6:
            buffer, index, place = self.memory[r.range].element(r.offset)
            return DeviceFault("unwritten", f"{self.name} does not write {place}", buffer, index)
        me = self._actor(r, r.block, r.thread, r.epoch, r.site, r.kind)
        who = f"thread {me.thread} of block {me.block}"
        if r.fault == 7:
            return self._divergent(r, kernel, f"{name}: {who}")
        passed = f"after {me.epoch} barrier{'' if me.epoch == 1 else 's'}"
        line = f" ({passed}, line {me.line})" if me.line else f" ({passed})"
        buffer, index, place = "", (), "memory"
        if memory is not None:
            buffer, index, place = memory[0].element(memory[1])
        actors: tuple[Actor, ...] = (me,)
        match r.fault:
            case 0:
                other = self._actor(
                    r, r.other_block, r.other_thread, r.other_epoch, r.other_site, r.other_kind
                )
                actors = (me, other)
                kind, text = "race", f"{who} {me.does} {place}, {self._against(me, other)}"
                if me.line and other.line:
                    line = f" ({passed}, lines {me.line} and {other.line})"
            case 1:
                kind = "out of bounds"
                text = f"{who} {me.does} {r.bytes} bytes {self._outside(r)}"
                index = (index or (r.offset // memory[0].item,)) if memory is not None else ()
            case 2:
                kind = "misaligned"
                text = (
                    f"{who} {me.does} {r.bytes} bytes at {place}, which does not start at a "
                    f"multiple of {r.bytes} bytes"
                )
            case 3:
                kind = "uninitialised"
                shared = r.range >= 0 and self.memory[r.range].buffer is None
                text = f"{who} {me.does} {place}, which nothing wrote" + " before" * (not shared)
            case 4:
                kind = "race"
                text = (
                    f"{who} {me.does} {place} while an asynchronous copy to it is under way; its "
                    "thread waits for it first, then all meet at a barrier"
                )
            case _:
                kind, text = "input changed", f"{who} {me.does} the input {place}"
        message = f"{name}: {text}{line}"
        return DeviceFault(kind, message, buffer, index, me.line, kernel, actors)

    def _part(self, r: Report) -> tuple[Memory, int] | None:
        """The memory that a report is about, and the offset in it; None if it is near none."""
        if r.range < 0:
            return None
        memory, offset = self.memory[r.range], r.offset
        if r.range == len(self.memory) - 1:
            for part in self.symbols.parts.get(self.symbols.kernels.get(r.kernel, ""), ()):
                if part.place <= offset:
                    memory = Memory(part.name, memory.size - part.place, part.item)
                    offset = r.offset - part.place
        return memory, offset

    def _actor(self, r: Report, block: int, thread: int, epoch: int, site: int, kind: int) -> Actor:
        return Actor(
            block=_index(block, r.grid_x, r.grid_y),
            thread=_index(thread, r.block_x, r.block_y),
            epoch=epoch,
            line=self.lines.get(site, 0),
            does=_DOES[kind],
        )

    def _against(self, me: Actor, other: Actor) -> str:
        if other.block != me.block:
            where, why = f"of block {other.block}", "blocks run in any order"
        else:
            where, why = "of the same block", "no barrier is between"
        both = " both" if (me.does, other.does) == ("writes", "writes") else ""
        does = "writes too" if both else other.does
        return f"which thread {other.thread} {where} {does}: {why}"

    def _outside(self, r: Report) -> str:
        found = self._part(r)
        if found is None:
            return "of memory that belongs to no buffer"
        memory, offset = found
        if offset < 0:
            return f"outside {memory}, {-offset} bytes before its start"
        return f"outside {memory}, {max(0, offset - memory.size)} bytes after its end"

    def _divergent(self, r: Report, kernel: str, who: str) -> DeviceFault:
        block = _index(r.block, r.grid_x, r.grid_y)
        me = Actor(block, _index(r.thread, r.block_x, r.block_y), r.epoch, r.line, "waits")
        thread = _index(r.other_thread, r.block_x, r.block_y)
        other = Actor(block, thread, r.epoch, r.other_line, "waits")
        state = _STATES[r.other_state]
        where = "" if r.other_state == _ENDED else f" line {r.other_line}"
        if r.thread == r.other_thread:
            text = f"{who} {_STATES[r.kind]} line {r.line}, for lanes that do not wait with it"
        else:
            waits = f"{_STATES[r.kind]} line {r.line}"
            text = f"{who} {waits}, but thread {thread} {state}{where}"
        return DeviceFault("barrier", text, "", (), r.line, kernel, (me, other))


def _index(number: int, x: int, y: int) -> Index:
    return number % x, number // x % y, number // x // y
