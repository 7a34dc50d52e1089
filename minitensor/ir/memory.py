"""Memory under observation: bounds, uninitialised reads, races, and counts.

A `Frame` is what a running statement sees: values of variables, instances of buffers, and the
`Team`s it is a member of, one for each concurrent loop around it. A team remembers who touched
which element since the last barrier, and refuses what two members may not both do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from minitensor.errors import ExecutionError
from minitensor.ir.dtype import compute_dtype
from minitensor.ir.evaluate import Evaluator
from minitensor.ir.expr import Expr, Load, Var
from minitensor.ir.numbers import Value
from minitensor.ir.printer import Marks, print_name, print_type
from minitensor.ir.program import Program, print_program
from minitensor.ir.stmt import Buffer, For


@dataclass
class Counts:
    """Counts of accesses: element loads and stores per buffer and per scope."""

    loads: dict[str, int] = field(default_factory=dict)
    stores: dict[str, int] = field(default_factory=dict)
    scope_loads: dict[str, int] = field(default_factory=dict)
    scope_stores: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Storage:
    """One instance of a buffer; `written` marks the elements that hold a value."""

    data: np.ndarray
    written: np.ndarray

    @staticmethod
    def fresh(buffer: Buffer) -> Storage:
        """An instance of the buffer in which nothing is written yet."""
        lanes = (buffer.dtype.lanes,) if buffer.dtype.lanes > 1 else ()
        try:
            data = np.zeros(buffer.shape + lanes, compute_dtype(buffer.dtype))
            return Storage(data, np.zeros(buffer.shape, bool))
        except (MemoryError, ValueError):
            raise ExecutionError(
                f"no memory for {print_name(buffer.name)}: {print_type(buffer)}", "memory"
            ) from None


@dataclass(slots=True)
class Team:
    """One execution of a concurrent loop: who touched what since the last barrier.

    member  the iteration that runs; while it combines into an element with the others, all of them
            are one, by the name of the block
    """

    loop: For
    private: frozenset[str]
    member: int | str = 0
    writers: dict[tuple[int, tuple[int, ...]], int | str] = field(default_factory=dict)
    readers: dict[tuple[int, tuple[int, ...]], set[int | str]] = field(default_factory=dict)


@dataclass(slots=True)
class Frame:
    """The state that a running statement sees."""

    values: dict[str, Value]
    storage: dict[str, Storage]
    teams: tuple[Team, ...]

    def child(self, values: dict[str, Value]) -> Frame:
        """The frame of a block: its iters alone are visible."""
        return Frame(values, self.storage, self.teams)


Eval: TypeAlias = Callable[[Frame], Value]


class Memory:
    """Compiles accesses to the buffers of one program to functions of a frame."""

    def __init__(self, program: Program, buffers: dict[str, Buffer]) -> None:
        self.program = program
        self.buffers = buffers
        self.number = {name: n for n, name in enumerate(buffers)}
        self.counts = Counts()
        for name, buffer in buffers.items():
            for table, key in (
                (self.counts.loads, name),
                (self.counts.stores, name),
                (self.counts.scope_loads, buffer.scope.value),
                (self.counts.scope_stores, buffer.scope.value),
            ):
                table[key] = 0
        self.evaluator: Evaluator[Frame] = Evaluator(self.load)

    @contextmanager
    def declared(self, buffer: Buffer) -> Iterator[None]:
        """While statements under an allocation are compiled: what its name means."""
        outside = self.buffers[buffer.name]
        self.buffers[buffer.name] = buffer
        yield
        self.buffers[buffer.name] = outside

    def fail(self, kind: str, message: str, loop: str | None = None) -> ExecutionError:
        """The error to raise; `loop` is marked in its picture."""
        marks = Marks(loops={loop: kind} if loop is not None else {})
        return ExecutionError(
            f"{print_name(self.program.name)}: {message}",
            kind,
            lambda: print_program(self.program, marks),
        )

    def load(self, load: Load) -> Eval:
        """A Load as a function of the frame."""
        return self.reader(load.buffer, load.indices)

    def reader(self, buffer: str, indices: tuple[Expr, ...]) -> Eval:
        """A checked read, as a function of the frame."""
        locate = self.address(buffer, indices)
        number = self.number[buffer]
        loads, scope_loads = self.counts.loads, self.counts.scope_loads
        scope = self.buffers[buffer].scope.value
        holds_vectors = self.buffers[buffer].dtype.lanes > 1
        lanes = _lanes_of(indices)

        def read_one(frame: Frame, index: tuple[int, ...]) -> Value:
            storage = frame.storage[buffer]
            if not storage.written[index]:
                raise self.fail(
                    "uninitialised", f"{_element(buffer, index)} is read before written"
                )
            loads[buffer] += 1
            scope_loads[scope] += 1
            for team in frame.teams:
                if buffer not in team.private:
                    key = (number, index)
                    if team.writers.get(key, team.member) != team.member:
                        raise self._race(team, buffer, index, team.writers[key])
                    team.readers.setdefault(key, set()).add(team.member)
            return storage.data[index].copy() if holds_vectors else storage.data[index]

        if lanes == 1:
            return lambda frame: read_one(frame, locate(frame))

        def read_lanes(frame: Frame) -> Value:
            where = locate(frame)
            return np.array([read_one(frame, _lane(where, k)) for k in range(lanes)])

        return read_lanes

    def writer(self, buffer: str, indices: tuple[Expr, ...]) -> Callable[[Frame, Value], None]:
        """A checked write, as a function of the frame and the value."""
        locate = self.address(buffer, indices)
        number = self.number[buffer]
        stores, scope_stores = self.counts.stores, self.counts.scope_stores
        scope = self.buffers[buffer].scope.value
        lanes = _lanes_of(indices)

        def write_one(frame: Frame, index: tuple[int, ...], value: Value) -> None:
            storage = frame.storage[buffer]
            stores[buffer] += 1
            scope_stores[scope] += 1
            for team in frame.teams:
                if buffer not in team.private:
                    key = (number, index)
                    other = team.writers.get(key, team.member)
                    if other == team.member:
                        other = next(
                            (m for m in team.readers.get(key, ()) if m != team.member), other
                        )
                    if other != team.member:
                        raise self._race(team, buffer, index, other)
                    team.writers[key] = team.member
            storage.data[index] = value
            storage.written[index] = True

        if lanes == 1:
            return lambda frame, value: write_one(frame, locate(frame), value)

        def write_lanes(frame: Frame, value: Value) -> None:
            where = locate(frame)
            for lane in range(lanes):
                own = value[lane] if np.ndim(value) else value
                write_one(frame, _lane(where, lane), own)

        return write_lanes

    def address(self, name: str, indices: tuple[Expr, ...]) -> Callable[[Frame], tuple[Any, ...]]:
        """The checked indices of an access, as a function of the frame."""
        parts = [self.evaluator.expr(i) for i in indices]
        shape = self.buffers[name].shape

        def locate_one(frame: Frame) -> tuple[Any, ...]:
            index = tuple([part(frame) for part in parts])
            for value, extent in zip(index, shape):
                if not 0 <= value < extent:
                    raise self._outside(name, index, shape)
            return index

        def locate_variables(frame: Frame) -> tuple[Any, ...]:
            index: tuple[Any, ...] = values_of(frame.values)
            for value, extent in zip(index, shape):
                if not 0 <= value < extent:
                    raise self._outside(name, index, shape)
            return index

        def locate_lanes(frame: Frame) -> tuple[Any, ...]:
            index = tuple([part(frame) for part in parts])
            if not all(np.all((i >= 0) & (i < extent)) for i, extent in zip(index, shape)):
                raise self._outside(name, index, shape)
            return index

        names = [i.name for i in indices if isinstance(i, Var)]
        if len(names) == len(indices) > 1:  # the usual access, which need not be slow
            values_of = itemgetter(*names)
            return locate_variables
        return locate_one if _lanes_of(indices) == 1 else locate_lanes

    def _outside(self, name: str, index: tuple[Any, ...], shape: tuple[int, ...]) -> ExecutionError:
        axis, extent = next(
            (axis, extent)
            for axis, (value, extent) in enumerate(zip(index, shape))
            if not np.all((value >= 0) & (value < extent))
        )
        return self.fail(
            "out of bounds",
            f"{_element(name, index)} is outside {name}: axis {axis} has extent {extent}",
        )

    def _race(
        self, team: Team, buffer: str, index: tuple[int, ...], other: int | str
    ) -> ExecutionError:
        loop = team.loop
        return self.fail(
            "race",
            f"iterations {_member(other)} and {_member(team.member)} of the {loop.kind.value} loop "
            f"{print_name(loop.var)} both touch {_element(buffer, index)}, and one of them writes",
            loop.var,
        )


def _element(buffer: str, index: Sequence[Any]) -> str:
    return f"{print_name(buffer)}[{', '.join(map(str, index))}]"


def _member(member: int | str) -> str:
    return f"of block {print_name(member)}" if isinstance(member, str) else str(member)


def _lanes_of(indices: tuple[Expr, ...]) -> int:
    """The number of addresses: those of a vector, or 1."""
    return max((i.dtype.lanes for i in indices), default=1)


def _lane(index: tuple[Any, ...], lane: int) -> tuple[int, ...]:
    return tuple(int(i[lane]) if np.ndim(i) else i for i in index)
