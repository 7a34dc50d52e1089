"""A stream of instructions: what an accelerator is given.

An instruction is an operation at one iteration of the loops around it. Each goes to the queue of
its kind; a queue does its instructions in order, at the same time as the others. Between queues
there are tokens: an instruction *pushes* one to another queue when it is done, and *pops* one of
another queue before it begins. Queues are in order, so the k-th pop takes what the k-th push left,
whatever happens when.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from minitensor import arith, ir
from minitensor.accelerator.lower import QUEUES, Operation, Operations, Repeated
from minitensor.accelerator.machine import Machine
from minitensor.errors import ArgumentError, LoweringError, is_integer, unexpected, whole
from minitensor.looks import Whole

MOST: Final = 1 << 21
"""The most instructions of a stream."""
LISTED: Final = 60
"""The most instructions that a listing has, unless it is asked for more."""


class Box(NamedTuple):
    """Elements of a buffer: from `low` to before `high`, along each axis."""

    buffer: str
    low: tuple[int, ...]
    high: tuple[int, ...]

    def meets(self, other: Box) -> bool:
        """Tell whether two boxes of one buffer share an element."""
        pairs = zip(self.low, self.high, other.low, other.high)
        return all(low < end and start < high for low, high, start, end in pairs)

    def holds(self, other: Box) -> bool:
        """Tell whether all elements of another box of the buffer are in this one."""
        pairs = zip(self.low, self.high, other.low, other.high)
        return all(low <= start and end <= high for low, high, start, end in pairs)

    @property
    def elements(self) -> int:
        """Their number."""
        return math.prod(max(0, high - low) for low, high in zip(self.low, self.high))

    def __str__(self) -> str:
        axes = (f"{a}" if b == a + 1 else f"{a}:{b}" for a, b in zip(self.low, self.high))
        return f"{ir.print_name(self.buffer)}[{', '.join(axes)}]"


class Instruction(NamedTuple):
    """An operation at one iteration.

    number  in the stream, from 0
    queue   that does it
    at      the values of the loops around the operation
    reads   what it reads of memories, and `writes` what it writes
    cycles  that its queue takes
    """

    number: int
    queue: str
    operation: Operation
    at: tuple[int, ...]
    reads: tuple[Box, ...]
    writes: Box
    cycles: int

    @property
    def where(self) -> str:
        """The loops around it with their values, such as "k_0 = 1, v = 0"."""
        pairs = zip(self.operation.loops, self.at)
        return ", ".join(f"{ir.print_name(loop.var)} = {n}" for loop, n in pairs)

    @property
    def text(self) -> str:
        """The instruction in words."""
        read = ", ".join(map(str, self.reads))
        match self.operation.kind:
            case "load" | "store":
                return f"{self.writes} <- {read or '0'}"
            case "product":
                return f"{self.writes} += {' . '.join(map(str, self.reads))}"
            case "fill":
                return f"{self.writes} = {ir.print_expr(self.operation.store.value)}"
        return f"{self.writes} = f({read})"

    def __str__(self) -> str:
        return f"{self.queue} #{self.number} ({self.text}; {self.where or 'in no loop'})"


Token: TypeAlias = tuple[int, int]
"""Two instructions by their numbers: the first pushes, the second pops."""
Queues: TypeAlias = Mapping[int, tuple[str, ...]]
"""By the number of an instruction, queues: those of which it pops, or to which it pushes."""


@dataclass(frozen=True)
class Stream:
    """Instructions in the order of the program, and the buffers that they touch."""

    program: ir.Program
    machine: Machine
    instructions: tuple[Instruction, ...]
    buffers: Mapping[str, ir.Buffer]
    pops: Queues = field(default_factory=dict)
    pushes: Queues = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __getitem__(self, number: int) -> Instruction:
        if not is_integer(number, 0, len(self) - 1):
            raise unexpected(f"a number from 0 to {len(self) - 1}", "number", number)
        return self.instructions[number]

    @functools.cached_property
    def queues(self) -> Mapping[str, Sequence[Instruction]]:
        """The instructions of each queue, in order."""
        found: dict[str, list[Instruction]] = {queue: [] for queue in QUEUES}
        for one in self.instructions:
            found[one.queue].append(one)
        return found

    @functools.cached_property
    def sources(self) -> Mapping[int, tuple[int | None, ...]]:
        """For each instruction that pops, those whose pushes it pops; None for one that never
        comes.
        """
        pushed: dict[tuple[str, str], list[int]] = {}
        for number in sorted(self.pushes):
            for queue in self.pushes[number]:
                pushed.setdefault((self.instructions[number].queue, queue), []).append(number)
        left = {channel: iter(numbers) for channel, numbers in pushed.items()}
        return {
            number: tuple(
                next(left.get((queue, self.instructions[number].queue), iter(())), None)
                for queue in self.pops[number]
            )
            for number in sorted(self.pops)
        }

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens in the order of their pops; those that are never popped are not among them."""
        pairs = ((one, number) for number, ones in self.sources.items() for one in ones)
        return tuple((source, number) for source, number in pairs if source is not None)

    def with_tokens(self, tokens: Iterable[Token]) -> Stream:
        """The same instructions with these tokens only. Raises ArgumentError for numbers that are
        not in the stream, or two instructions of one queue.
        """
        if not isinstance(tokens, Iterable):
            raise unexpected("pairs of numbers of instructions", "tokens", tokens)
        pops: dict[int, tuple[str, ...]] = {}
        pushes: dict[int, tuple[str, ...]] = {}
        for token in tokens:
            source, target = self._checked(token)
            pushes[source.number] = (*pushes.get(source.number, ()), target.queue)
            pops[target.number] = (*pops.get(target.number, ()), source.queue)
        return replace(self, pops=pops, pushes=pushes)

    def _checked(self, token: object) -> tuple[Instruction, Instruction]:
        last = len(self) - 1
        pair = token if isinstance(token, (tuple, list)) and len(token) == 2 else (-1, -1)
        if not all(isinstance(n, (int, np.integer)) and 0 <= n <= last for n in pair):
            text = f"pairs of numbers of instructions, from 0 to {last}"
            raise unexpected(text, "tokens", token)
        source, target = (self.instructions[number] for number in pair)
        if source.queue == target.queue:
            raise ArgumentError(
                f"{source} and {target} are of one queue, which is in order: no token is needed"
            )
        return source, target

    def listing(self, most: int = LISTED) -> str:
        """The instructions as a table: number, queue, what is waited for, what is done, what is
        signalled, and the loops that it comes from. Raises ArgumentError for no whole number.
        """
        most = whole("most", most, 0)
        rows = [("#", "queue", "pops", "instruction", "pushes", "cycles", "loops")]
        for one in self.instructions[:most]:
            popped = " ".join(f"{queue}>" for queue in self.pops.get(one.number, ()))
            pushed = " ".join(f">{queue}" for queue in self.pushes.get(one.number, ()))
            row = (one.queue, popped, one.text, pushed, f"{one.cycles}", one.where)
            rows.append((str(one.number), *row))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if len(self) > most:
            lines.append(f"... and {len(self) - most:,} more")
        return Whole("\n".join(lines))

    __str__ = __repr__ = listing


def stream_of(stream: object) -> Stream:
    """A stream as itself. Raises ArgumentError for anything else."""
    if not isinstance(stream, Stream):
        raise unexpected("the stream of a kernel (kernel.stream)", "stream", stream)
    return stream


# ---- from operations


def bare_stream(found: Operations, machine: Machine) -> Stream:
    """The instructions of a program, without tokens. Raises LoweringError if they are too many."""
    count = sum(map(_count, found.body))
    if count > MOST:
        raise LoweringError(
            f"{ir.print_name(found.program.name)}: {count:,} instructions, and a stream has at "
            f"most {MOST:,}; make the tiles larger"
        )
    places: dict[Operation, list[tuple[int, tuple[int, ...]]]] = {}
    _collect(found.body, (), places, 0)
    made: list[tuple[int, tuple[str, Operation, tuple[int, ...], Effect]]] = []
    for operation, ones in places.items():
        values = np.array([at for _, at in ones], np.int64).reshape(len(ones), -1)
        effects = _effects(operation, values, found.buffers, machine)
        made += [
            (number, (operation.queue, operation, at, effect))
            for (number, at), effect in zip(ones, effects)
            if effect is not None  # else a condition leaves all of it out
        ]
    made.sort(key=lambda pair: pair[0])
    instructions = tuple(
        Instruction(number, queue, operation, at, *effect)
        for number, (_, (queue, operation, at, effect)) in enumerate(made)
    )
    return Stream(found.program, machine, instructions, found.buffers)


Effect: TypeAlias = "tuple[tuple[Box, ...], Box, int]"
"""Reads of an instruction, its write, its cycles."""


def _count(part: Repeated | Operation) -> int:
    return part.loop.extent * sum(map(_count, part.body)) if isinstance(part, Repeated) else 1


def _collect(
    body: Sequence[Repeated | Operation],
    at: tuple[int, ...],
    found: dict[Operation, list[tuple[int, tuple[int, ...]]]],
    number: int,
) -> int:
    """Number the iterations of operations in the order of the program; gives the next number."""
    for part in body:
        if isinstance(part, Operation):
            found.setdefault(part, []).append((number, at))
            number += 1
        else:
            for value in range(part.loop.extent):
                number = _collect(part.body, (*at, value), found, number)
    return number


def _effects(
    operation: Operation,
    values: np.ndarray,
    buffers: Mapping[str, ir.Buffer],
    machine: Machine,
) -> list[Effect | None]:
    """The effect at each iteration of the loops around; None where there is none."""
    touched: tuple[ir.Store | ir.Load, ...] = (operation.store, *operation.reads)
    accesses = [(one.buffer, one.indices) for one in touched]
    count = len(values)
    columns = []
    for name, indices in accesses:  # what is outside of the buffer, where a load pads, is not read
        bounds = [_bounds(index, operation, values) for index in indices]
        lows = [np.maximum(low, 0).tolist() for low, _ in bounds]
        highs = [np.minimum(h + 1, n).tolist() for (_, h), n in zip(bounds, buffers[name].shape)]
        columns.append([Box(name, *ends) for ends in zip(_rows(lows, count), _rows(highs, count))])

    @functools.cache
    def effect(writes: Box, *reads: Box) -> Effect | None:
        kept = tuple(box for box in reads if box.elements)
        cycles = machine.issue_cycles + operation.steps
        if operation.queue != "execute":
            moved = (writes,) if operation.queue == "store" else kept
            size = sum(box.elements * buffers[box.buffer].dtype.bits // 8 for box in moved)
            cycles = machine.dram_latency + math.ceil(size / machine.dram_bytes_per_cycle)
        return (kept, writes, cycles) if writes.elements else None

    return [effect(*boxes) for boxes in zip(*columns)]


def _rows(columns: Sequence[Sequence[int]], count: int) -> Iterable[tuple[int, ...]]:
    return zip(*columns) if columns else [()] * count


def _bounds(
    index: ir.Expr, operation: Operation, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of an index, for each iteration of the loops around."""
    outer = {loop.var: column for column, loop in enumerate(operation.loops)}
    inner = {loop.var: arith.extent_range(loop.extent) for loop in operation.inner}
    form = arith.linear_of(index)
    low = np.full(len(values), form.constant, np.int64)
    high = low.copy()
    for atom, factor in form.terms.items():
        if isinstance(atom, ir.Var) and atom.name in outer:
            first = last = values[:, outer[atom.name]]
        else:
            names = [name for name in ir.free_vars(atom) if name in outer]
            points = [
                {name: arith.Interval(row[outer[name]], row[outer[name]]) for name in names}
                for row in (values if names else values[:1]).tolist()
            ]
            ranges = [arith.interval_of(atom, {**inner, **point}) for point in points]
            first, last = np.array([(one.lo, one.hi) for one in ranges], np.int64).T
        ends = (first * factor, last * factor)
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    return low, high
