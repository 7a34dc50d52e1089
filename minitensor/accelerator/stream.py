"""A stream of instructions: what an accelerator is given.

An instruction is an operation at one iteration of the loops around it. Each goes to the queue of
its kind; a queue does its instructions in order, at the same time as the others. Between queues
there are tokens: an instruction *pushes* one to another queue when it is done, and *pops* one of
another queue before it begins, the first that was pushed and not popped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from minitensor import arith, ir
from minitensor.accelerator.lower import QUEUES, Operation, Operations, Repeated
from minitensor.accelerator.machine import Machine
from minitensor.errors import ArgumentError, LoweringError, unexpected, whole
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

    def __str__(self) -> str:
        axes = (
            f"{low}" if high == low + 1 else f"{low}:{high}"
            for low, high in zip(self.low, self.high)
        )
        return f"{ir.print_name(self.buffer)}[{', '.join(axes)}]"


@dataclass(frozen=True, slots=True)
class Instruction:
    """An operation at one iteration.

    number  in the stream, from 0
    at      the values of the loops around the operation
    reads   what it reads of memories, and `writes` what it writes
    cycles  that its queue takes
    pops    queues of which it pops a token, before it begins
    pushes  queues to which it pushes one, when it is done
    """

    number: int
    operation: Operation
    at: tuple[int, ...]
    reads: tuple[Box, ...]
    writes: Box
    cycles: int
    pops: tuple[str, ...] = ()
    pushes: tuple[str, ...] = ()

    @property
    def queue(self) -> str:
        """The queue that does it."""
        return self.operation.queue

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


@dataclass(frozen=True)
class Stream:
    """Instructions in the order of the program, and the buffers that they touch."""

    program: ir.Program
    machine: Machine
    instructions: tuple[Instruction, ...]
    buffers: Mapping[str, ir.Buffer]

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __getitem__(self, number: int) -> Instruction:
        if not isinstance(number, (int, np.integer)) or not 0 <= number < len(self):
            raise unexpected(f"a number from 0 to {len(self) - 1}", "number", number)
        return self.instructions[number]

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens in the order of their pops; those that are never popped are not among them."""
        waiting: dict[tuple[str, str], list[int]] = {}
        for one in self.instructions:
            for queue in one.pushes:
                waiting.setdefault((one.queue, queue), []).append(one.number)
        sources = {channel: iter(numbers) for channel, numbers in waiting.items()}
        found = []
        for one in self.instructions:
            for queue in one.pops:
                source = next(sources.get((queue, one.queue), iter(())), None)
                if source is not None:
                    found.append((source, one.number))
        return tuple(found)

    def with_tokens(self, tokens: Iterable[Token]) -> Stream:
        """The same instructions with these tokens only. Raises ArgumentError for numbers that are
        not in the stream, or two instructions of one queue.
        """
        pops: dict[int, list[str]] = {}
        pushes: dict[int, list[str]] = {}
        if not isinstance(tokens, Iterable):
            raise unexpected("pairs of numbers of instructions", "tokens", tokens)
        for token in tokens:
            source, target = self._checked(token)
            pushes.setdefault(source.number, []).append(target.queue)
            pops.setdefault(target.number, []).append(source.queue)
        made = tuple(
            replace(
                one, pops=tuple(pops.get(one.number, ())), pushes=tuple(pushes.get(one.number, ()))
            )
            for one in self.instructions
        )
        return replace(self, instructions=made)

    def _checked(self, token: object) -> tuple[Instruction, Instruction]:
        last = len(self.instructions) - 1
        if not (
            isinstance(token, (tuple, list))
            and len(token) == 2
            and all(isinstance(n, (int, np.integer)) and 0 <= n <= last for n in token)
        ):
            text = f"pairs of numbers of instructions, from 0 to {last}"
            raise unexpected(text, "tokens", token)
        source, target = (self.instructions[int(n)] for n in token)
        if source.queue == target.queue:
            raise ArgumentError(
                f"{source} and {target} are of one queue, which is in order: no token is needed"
            )
        return source, target

    def without(self, number: int, kind: str, queue: str) -> Stream:
        """The stream without one push or pop: to see what its absence does.

        kind   "push" or "pop"
        queue  to which, or of which
        """
        if kind not in ("push", "pop"):
            raise unexpected("'push' or 'pop'", "kind", kind)
        one = self[number]
        field = "pushes" if kind == "push" else "pops"
        left = list(getattr(one, field))
        if queue not in left:
            has = " and ".join(map(repr, left)) or "none"
            raise ArgumentError(f"expected a queue that #{number} {kind}es, {has}: got {queue!r}")
        left.remove(queue)
        rest_of = tuple(left)
        changed = replace(one, pushes=rest_of) if kind == "push" else replace(one, pops=rest_of)
        rest = list(self.instructions)
        rest[number] = changed
        return replace(self, instructions=tuple(rest))

    def listing(self, most: int = LISTED) -> str:
        """The instructions as a table: number, queue, what is waited for, what is done, what is
        signalled, and the loops that it comes from. Raises ArgumentError for no whole number.
        """
        most = whole("most", most, 0)
        rows = [("#", "queue", "pops", "instruction", "pushes", "cycles", "loops")]
        for one in self.instructions[:most]:
            row = (one.queue, _from(one.pops), one.text, _to(one.pushes), f"{one.cycles}")
            rows.append((str(one.number), *row, one.where))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if len(self) > most:
            lines.append(f"... and {len(self) - most:,} more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.listing()

    def __repr__(self) -> str:
        return Whole(self.listing()).__repr__()


def _from(queues: Sequence[str]) -> str:
    return " ".join(f"{queue}>" for queue in queues)


def _to(queues: Sequence[str]) -> str:
    return " ".join(f">{queue}" for queue in queues)


# ---- from operations


def bare_stream(found: Operations, machine: Machine) -> Stream:
    """The instructions of a program, without tokens. Raises LoweringError if they are too many."""
    count = sum(map(_count, found.body))
    if count > MOST:
        raise LoweringError(
            f"{ir.print_name(found.program.name)}: {count:,} instructions, and a stream has at "
            f"most {MOST:,}; make the tiles larger"
        )
    places: list[tuple[Operation, tuple[int, ...]]] = []
    _collect(found.body, (), places)
    by_operation: dict[int, list[int]] = {}
    for number, (operation, _) in enumerate(places):
        by_operation.setdefault(id(operation), []).append(number)
    made: dict[int, Instruction] = {}
    for numbers in by_operation.values():
        operation = places[numbers[0]][0]
        values = np.array([places[n][1] for n in numbers], np.int64).reshape(len(numbers), -1)
        boxes = [
            _boxes(found.buffers[name], indices, operation, values)
            for name, indices in (operation.writes, *operation.reads)
        ]
        for number, (writes, *reads) in zip(numbers, zip(*boxes)):
            if writes is not None:  # else a condition leaves all of it out
                kept = tuple(box for box in reads if box is not None)
                cycles = _cycles(operation, writes, kept, found.buffers, machine)
                at = places[number][1]
                made[number] = Instruction(number, operation, at, kept, writes, cycles)
    ordered = (made[number] for number in sorted(made))
    numbered = (replace(one, number=n) for n, one in enumerate(ordered))
    return Stream(found.program, machine, tuple(numbered), found.buffers)


def _count(part: Repeated | Operation) -> int:
    return part.loop.extent * sum(map(_count, part.body)) if isinstance(part, Repeated) else 1


def _collect(
    body: Sequence[Repeated | Operation],
    at: tuple[int, ...],
    found: list[tuple[Operation, tuple[int, ...]]],
) -> None:
    for part in body:
        if isinstance(part, Operation):
            found.append((part, at))
        else:
            for value in range(part.loop.extent):
                _collect(part.body, (*at, value), found)


def _cycles(
    operation: Operation,
    writes: Box,
    reads: Sequence[Box],
    buffers: Mapping[str, ir.Buffer],
    machine: Machine,
) -> int:
    if operation.queue == "execute":
        return machine.issue_cycles + operation.steps
    moved = [writes] if operation.queue == "store" else list(reads)
    count = 0
    for box in moved:
        elements = math.prod(high - low for low, high in zip(box.low, box.high))
        count += elements * buffers[box.buffer].dtype.bits // 8
    return machine.dram_latency + math.ceil(count / machine.dram_bytes_per_cycle)


def _boxes(
    buffer: ir.Buffer,
    indices: Sequence[ir.Expr],
    operation: Operation,
    values: np.ndarray,
) -> list[Box | None]:
    """For each iteration of the loops around an operation what an access touches: None if that is
    outside of the buffer, where a load pads.
    """
    axes = [_bounds(index, operation, values) for index in indices]
    lows = [np.maximum(low, 0).tolist() for low, _ in axes]
    highs = [np.minimum(high + 1, n).tolist() for (_, high), n in zip(axes, buffer.shape)]
    count = len(values)
    found: list[Box | None] = []
    corners = zip(zip(*lows), zip(*highs)) if axes else iter([((), ())] * count)
    for low, high in corners:
        inside = all(start < end for start, end in zip(low, high))
        found.append(Box(buffer.name, low, high) if inside else None)
    return found


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
            ranges = [
                arith.interval_of(atom, {**inner, **_points(names, row, outer)})
                for row in (values if names else values[:1])
            ]
            first = np.array([one.lo for one in ranges], np.int64)
            last = np.array([one.hi for one in ranges], np.int64)
        ends = (first * factor, last * factor)
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    return low, high


def _points(
    names: Sequence[str], row: np.ndarray, column: Mapping[str, int]
) -> dict[str, arith.Interval]:
    """The values of loops as ranges."""
    values = {name: int(row[column[name]]) for name in names}
    return {name: arith.Interval(value, value) for name, value in values.items()}


# ---- queues


def by_queue(stream: Stream) -> dict[str, list[Instruction]]:
    """The instructions of each queue, in order."""
    found: dict[str, list[Instruction]] = {queue: [] for queue in QUEUES}
    for one in stream:
        found[one.queue].append(one)
    return found
