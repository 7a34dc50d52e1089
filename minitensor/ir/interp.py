"""The reference semantics: any program, scheduled or not, run in plain Python.

It is the definition that every primitive, pass and backend is compared with, and a sanitizer. It
refuses, with an ExecutionError that names the loop, the buffer and the index:

    out of bounds     an access outside a buffer
    uninitialised     a read of an element that nothing wrote
    race              two iterations of a parallel, vectorized or thread loop touch one element,
                      one of them writing, with no barrier in between
    barrier           a barrier that not all threads of the block reach
    domain            a block's iter bound to a value outside its domain (a missing guard)

and it counts loads and stores. Iterations of a threadIdx.x loop that drives a reduction may combine
into one element, which no other statement may touch between two barriers. Statements are compiled
once to closures over a Frame; a statement that contains a barrier becomes a generator, so that
threads can take turns at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from minitensor.errors import ArgumentError, ExecutionError, VerifyError
from minitensor.ir.dtype import numpy_dtype, pack, unpack
from minitensor.ir.expr import TRUE
from minitensor.ir.lifetime import lifetimes
from minitensor.ir.meeting import Combine, Stop, as_one, combined, has_stop, meet
from minitensor.ir.memory import Counts, Frame, Memory, Storage, Team
from minitensor.ir.numbers import Value
from minitensor.ir.printer import print_name
from minitensor.ir.program import Program
from minitensor.ir.stmt import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    IterKind,
    LoopKind,
    Prefetch,
    Reduce,
    Seq,
    Stmt,
    Store,
    Tensorized,
    ThreadReduce,
)
from minitensor.ir.visit import free_vars, walk

_Run: TypeAlias = Callable[[Frame], None]

_Steps: TypeAlias = Callable[[Frame], Iterator[Stop]]


def interpret(
    program: Program, arrays: Sequence[np.ndarray], outputs: Sequence[str] | None = None
) -> tuple[list[np.ndarray], Counts]:
    """Run a program on one array for each input parameter, in call order.

    outputs  the names of the parameters that are outputs; None for those that are stored to

    Returns the outputs in call order, newly allocated (bfloat16 as uint16 bits), and the counts.
    Raises ExecutionError for what the module's text lists, ArgumentError for arrays that do not
    fit. The whole array of an output must have been written, or it counts as uninitialised.
    """
    names = {b.name for b in program.outputs} if outputs is None else set(outputs)
    inputs = [b for b in program.params if b.name not in names]
    if len(arrays) != len(inputs):
        wanted = ", ".join(print_name(b.name) for b in inputs)
        raise ArgumentError(
            f"{print_name(program.name)} takes {len(inputs)} inputs ({wanted}), "
            f"but got {len(arrays)}"
        )
    storage = {b.name: _loaded(b, array) for b, array in zip(inputs, arrays)}
    results = [b for b in program.params if b.name in names]
    for buffer in results:
        storage[buffer.name] = Storage.fresh(buffer)
    machine = _Machine(program)
    with np.errstate(all="ignore"):
        machine.run(storage)
    return [_result(b, storage[b.name]) for b in results], machine.memory.counts


def _loaded(buffer: Buffer, array: np.ndarray) -> Storage:
    try:
        given = np.asarray(array)
    except ValueError as error:
        raise ArgumentError(f"{print_name(buffer.name)} is not an array: {error}") from None
    if given.shape != buffer.shape or given.dtype != numpy_dtype(buffer.dtype):
        raise ArgumentError(
            f"expected {print_name(buffer.name)} of shape {buffer.shape} and dtype {buffer.dtype}, "
            f"but got shape {given.shape} and dtype {given.dtype}"
        )
    data = unpack(given, buffer.dtype)
    return Storage(data.copy() if data is given else data, np.ones(buffer.shape, bool))


def _result(buffer: Buffer, storage: Storage) -> np.ndarray:
    missing = np.argwhere(~storage.written)
    if len(missing):
        index = ", ".join(map(str, missing[0]))
        raise ExecutionError(
            f"the output {print_name(buffer.name)} was never written at [{index}]", "uninitialised"
        )
    return pack(storage.data, buffer.dtype)


class _Machine:
    """Compiles statements to closures over frames; memory and expressions are its helpers'."""

    def __init__(self, program: Program) -> None:
        self.program = program
        buffers = dict(program.buffers)
        self.threads_x: frozenset[str] = frozenset()
        for node in walk(program.body):
            if isinstance(node, Alloc):
                buffers[node.buffer.name] = node.buffer
            elif isinstance(node, For) and node.kind is LoopKind.THREAD_IDX_X:
                self.threads_x |= {node.var}
        self.memory = Memory(program, buffers)
        self.expr = self.memory.evaluator.expr
        self.fail = self.memory.fail
        self.lifetimes = lifetimes(program)
        self.as_one: Callable[[Combine], Combine] = lambda run: run
        """The change to the combinations of the block that is being compiled; see `as_one`."""
        self.serial: tuple[str, ...] = ()
        """The serial loops around the statement that is being compiled, between barriers."""

    def run(self, storage: dict[str, Storage]) -> None:
        for buffer in self.program.temporaries:
            if self.lifetimes[buffer.name] is None:
                storage[buffer.name] = Storage.fresh(buffer)
        self.statement(self.program.body)(Frame({}, storage, ()))

    # ---- statements

    def statement(self, stmt: Stmt) -> _Run:
        match stmt:
            case For():
                return self.loop(stmt)
            case Seq(stmts):
                runs = [self.statement(s) for s in stmts]

                def run_sequence(frame: Frame) -> None:
                    for run in runs:
                        run(frame)

                return run_sequence
            case Block():
                return self.block(stmt)
            case Store(buffer, indices, value):
                evaluate = self.expr(value)
                write = self.memory.writer(buffer, indices)
                return lambda frame: write(frame, evaluate(frame))
            case Reduce():
                return self.reduction(stmt)
            case If(condition, then, otherwise):
                test = self.expr(condition)
                yes = self.statement(then)
                no = self.statement(otherwise) if otherwise is not None else None

                def run_if(frame: Frame) -> None:
                    if test(frame):
                        yes(frame)
                    elif no is not None:
                        no(frame)

                return run_if
            case Alloc(buffer, body):
                with self.memory.declared(buffer):
                    run_body = self.statement(body)

                def run_alloc(frame: Frame) -> None:
                    frame.storage[buffer.name] = Storage.fresh(buffer)
                    run_body(frame)

                return run_alloc
            case Tensorized(body=body):
                return self.statement(body)
            case Prefetch(name, indices):
                locate = self.memory.address(name, indices)

                def run_prefetch(frame: Frame) -> None:
                    locate(frame)  # it does nothing, but for an element that is none

                return run_prefetch
            case Barrier() | ThreadReduce():
                raise VerifyError("a barrier stands outside every loop over threads")
        raise VerifyError(f"not a statement: {stmt!r}")

    def loop(self, loop: For) -> _Run:
        if loop.kind.is_thread and has_stop(loop.body):
            steps = self.thread_loop(loop, outermost=True)

            def run_threads(frame: Frame) -> None:
                for _ in steps(frame):
                    pass

            return run_threads
        body = self.statement(loop.body)
        enter = self.enter_iteration(loop)
        var, extent = loop.var, loop.extent
        if not loop.kind.is_concurrent:

            def run_serial(frame: Frame) -> None:
                for value in range(extent):
                    frame.values[var] = value
                    enter(frame)
                    body(frame)

            return run_serial
        private = self.private_buffers(loop)

        def run_concurrent(frame: Frame) -> None:
            team = Team(loop, private)
            inner = Frame(frame.values, frame.storage, (*frame.teams, team))
            for value in range(extent):
                team.member = value
                frame.values[var] = value
                enter(inner)
                body(inner)

        return run_concurrent

    def enter_iteration(self, loop: For) -> _Run:
        """The start of each iteration: buffers that live in the loop are new."""
        living = [b for b in self.program.temporaries if self.lifetimes[b.name] == loop.var]

        def enter(frame: Frame) -> None:
            for buffer in living:
                frame.storage[buffer.name] = Storage.fresh(buffer)

        return enter

    def private_buffers(self, loop: For) -> frozenset[str]:
        """The buffers of which each iteration of the loop has its own instance."""
        inside = {n.var for n in walk(loop) if isinstance(n, For)}
        private = {name for name, holder in self.lifetimes.items() if holder in inside}
        private |= {n.buffer.name for n in walk(loop.body) if isinstance(n, Alloc)}
        return frozenset(private)

    def block(self, block: Block) -> _Run:
        bindings = [(i.var, i.extent, self.expr(i.binding)) for i in block.iters]
        carried = [i.var for i in block.iters if i.kind is not IterKind.SPATIAL]
        predicate = None if block.predicate == TRUE else self.expr(block.predicate)
        together = self.threads_x & frozenset(
            name for i in block.iters if i.kind is IterKind.REDUCE for name in free_vars(i.binding)
        )
        self.as_one = as_one(block.name, together)
        body = self.statement(block.body)
        init = self.as_one(self.statement(block.init)) if block.init is not None else None

        def run_block(frame: Frame) -> None:
            if predicate is not None and not predicate(frame):
                return
            values: dict[str, Value] = {}
            for var, extent, binding in bindings:
                value = binding(frame)
                if not 0 <= value < extent:
                    raise self.fail(
                        "domain",
                        f"block {print_name(block.name)}: iter {var} is bound to {value}, "
                        f"outside [0, {extent})",
                    )
                values[var] = value
            inner = frame.child(values)
            if init is not None and not any(map(values.get, carried)):
                init(inner)
            body(inner)

        return run_block

    def reduction(self, stmt: Reduce) -> _Run:
        values = [self.expr(v) for v in stmt.values]
        reads = [self.memory.reader(b, stmt.indices) for b in stmt.buffers]
        writes = [self.memory.writer(b, stmt.indices) for b in stmt.buffers]
        evaluate = combined(self.memory, stmt.reducer)

        def combine(frame: Frame, new: list[Value]) -> None:
            old = [read(frame) for read in reads]
            for write, result in zip(writes, evaluate(frame, old + new)):
                write(frame, result)

        combine = self.as_one(combine)
        return lambda frame: combine(frame, [value(frame) for value in values])

    # ---- threads and barriers

    def steps(self, stmt: Stmt) -> _Steps:
        """The statement as a generator that pauses where threads meet."""
        if not has_stop(stmt):
            run = self.statement(stmt)

            def run_at_once(frame: Frame) -> Iterator[Stop]:
                run(frame)
                yield from ()

            return run_at_once
        match stmt:
            case Barrier() | ThreadReduce():
                serial = self.serial
                combines = stmt if isinstance(stmt, ThreadReduce) else None

                def pause(frame: Frame) -> Iterator[Stop]:
                    place = (id(stmt), *[frame.values.get(n) for n in serial])
                    yield Stop(place, combines, (frame,))

                return pause
            case Seq(stmts):
                parts = [self.steps(s) for s in stmts]

                def run_parts(frame: Frame) -> Iterator[Stop]:
                    for part in parts:
                        yield from part(frame)

                return run_parts
            case If(condition, then, otherwise):
                test = self.expr(condition)
                yes = self.steps(then)
                no = self.steps(otherwise if otherwise is not None else Seq(()))

                def run_if(frame: Frame) -> Iterator[Stop]:
                    yield from (yes if test(frame) else no)(frame)

                return run_if
            case Alloc(buffer, body):
                with self.memory.declared(buffer):
                    rest = self.steps(body)

                def run_alloc(frame: Frame) -> Iterator[Stop]:
                    frame.storage[buffer.name] = Storage.fresh(buffer)
                    yield from rest(frame)

                return run_alloc
            case For(var, extent, body, kind) if kind.is_thread:
                return self.thread_loop(stmt, outermost=False)
            case For(var, extent, body, kind):
                self.serial = (*self.serial, var)
                rest = self.steps(body)
                self.serial = self.serial[:-1]
                enter = self.enter_iteration(stmt)
                private = self.private_buffers(stmt)

                def run_serial(frame: Frame) -> Iterator[Stop]:
                    inner = frame
                    team = None
                    if kind.is_concurrent:
                        team = Team(stmt, private)
                        inner = Frame(frame.values, frame.storage, (*frame.teams, team))
                    for value in range(extent):
                        if team is not None:
                            team.member = value
                        frame.values[var] = value
                        enter(inner)
                        yield from rest(inner)

                return run_serial
        raise VerifyError("a barrier stands inside a block")

    def thread_loop(self, loop: For, outermost: bool) -> _Steps:
        body = self.steps(loop.body)
        enter = self.enter_iteration(loop)
        private = self.private_buffers(loop)

        def run_team(frame: Frame) -> Iterator[Stop]:
            team = Team(loop, private)
            threads: list[Iterator[Stop]] = []
            for value in range(loop.extent):
                own = Frame(dict(frame.values), dict(frame.storage), (*frame.teams, team))
                own.values[loop.var] = value
                enter(own)
                threads.append(body(own))
            while threads:
                reached: list[Stop | None] = []
                for member, thread in enumerate(threads):
                    team.member = member
                    reached.append(next(thread, None))
                if not any(reached):
                    return
                waits = next(n for n, stop in enumerate(reached) if stop)
                stop = reached[waits]
                assert stop is not None
                if any(other != stop for other in reached):
                    member = next(n for n, other in enumerate(reached) if other != stop)
                    what = "barrier" if stop.combines is None else "reduction"
                    raise self.fail(
                        "barrier",
                        f"thread {print_name(loop.var)} = {member} does not reach a {what} "
                        f"where {print_name(loop.var)} = {waits} waits",
                        loop.var,
                    )
                if stop.combines is not None and stop.combines.thread is loop.kind:
                    for frames in zip(*[one.frames for one in reached if one]):
                        meet(self.memory, stop.combines, frames)
                if not outermost:
                    waiting = tuple(frame for one in reached if one for frame in one.frames)
                    yield Stop(stop.place, stop.combines, waiting)
                if stop.combines is None:
                    team.writers.clear()
                    team.readers.clear()

        return run_team
