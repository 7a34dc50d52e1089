"""A report on one kernel: the outcome of each loop and buffer, and the missed optimizations.

The program is brought through the passes and the emitter once more, recording (see `remarks`). Not
here: anything that is measured; and wording for a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.codegen.emit.c import emit_c
from minitensor.codegen.emit.emitter import Part
from minitensor.codegen.pipeline import PASSES, Passes, lowered
from minitensor.codegen.pressure import Pressure, pressures
from minitensor.codegen.remarks import LOOP_KINDS, Recorder, Remark, Storage, missed, recording
from minitensor.codegen.target import Emitted, Target, unsupported

NO_GUARD: Final = "decompose_reduction moves an init out; a split by a divisor needs no guard"


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of code generation for a program.

    program    as the schedule left it
    emitted    the text and what belongs to it
    remarks    missed optimizations
    outcomes   what each loop became, by name
    storage    the memory of each temporary, those that passes made among them
    pressures  the vector registers that each loop holds across its iterations
    """

    program: ir.Program
    emitted: Emitted
    remarks: tuple[Remark, ...]
    outcomes: dict[str, tuple[str, ...]]
    storage: tuple[Storage, ...]
    pressures: tuple[Pressure, ...]

    @property
    def operations(self) -> int:
        """Arithmetic operations of one call, as far as guards leave every iteration in."""
        return sum(
            math.prod(loop.extent for loop in loops) * _operations(self.program.blocks[name].body)
            for name, loops in ir.paths(self.program).items()
        )

    @property
    def argument_bytes(self) -> int:
        """Bytes of all parameters: what has to move between memory and the CPU at the least."""
        return sum(buffer.nbytes for buffer in self.program.params)


def _operations(body: ir.Stmt) -> int:
    """Operations on elements in one instance of a block; indices cost nothing."""
    count = 0
    for node in ir.walk(body):
        if isinstance(node, ir.Reduce):
            count += len(node.values)
        elif isinstance(node, (ir.Binary, ir.Call)):
            count += node.dtype.kind not in ("index", "bool")
    return count


def report_of(
    program: ir.Program,
    target: Target,
    registers: int | None = None,
    passes: Passes = PASSES,
) -> Report:
    """The report on a program for a target with nothing left open.

    registers  how many vector registers there are; None for what is usual with vectors so wide
    """
    if target.kind != "c":
        raise unsupported(target)
    with recording() as recorder:
        after = lowered(program, target, passes)
        _record_guards(after)
        (emitted,) = emit_c([Part(after, program, target)])
        found = pressures(program, after, target, registers, recorder)
    outcomes: dict[str, tuple[str, ...]] = {}
    for loop, text in recorder.outcomes:
        outcomes[loop] = (*outcomes.get(loop, ()), text)
    return Report(
        program, emitted, _remarks(program, recorder), outcomes, _storage(recorder), found
    )


def gpu_remarks(program: ir.Program, target: Target, passes: Passes) -> tuple[Remark, ...]:
    """The optimizations that were missed in a program for a GPU."""
    with recording() as recorder:
        lowered(program, target, passes)
    return _remarks(program, recorder)


def _remarks(program: ir.Program, recorder: Recorder) -> tuple[Remark, ...]:
    """The remarks that a user can read: on what the program names, and on results that matter.

    A nest that initialises a reduction has copies of its loops, of which the same is true; a buffer
    that is no reduction's result is not updated again and again; and one that is kept in registers
    across one loop may be seen not to be across another.
    """
    results = {b for block in program.blocks.values() for b in _reduced(block.body)}
    kept = {
        *recorder.origins.values(),
        *(p.buffer for p in recorder.storage if p.where == "registers"),
    }
    last: dict[tuple[str, str], Remark] = {}
    arrays = (
        p.buffer
        for p in recorder.storage
        if p.where in ("stack", "workspace") and p.buffer in recorder.origins
    )
    for remark in [*recorder.remarks, *map(_array_remark, arrays)]:
        name = recorder.origin(remark.where)
        if remark.kind in LOOP_KINDS and name not in ir.loop_sites(program):
            continue
        if remark.kind == "promotion" and (name in kept or name not in results):
            continue
        # the loops inside are treated last: theirs is the reason that remains
        key = (name, remark.kind if remark.kind == "promotion" else remark.text)
        last[key] = Remark(remark.kind, ir.print_name(name), remark.text, remark.advice)
    return tuple(last.values())


def _array_remark(tile: str) -> Remark:
    text = "its tile is an array on the stack, for a loop that is not written out indexes it"
    return Remark("registers", tile, text, "vectorize a multiple of the vector, unroll the others")


def _reduced(body: ir.Stmt) -> Iterator[str]:
    for node in ir.walk(body):
        if isinstance(node, ir.Reduce):
            yield from node.buffers


def _storage(recorder: Recorder) -> tuple[Storage, ...]:
    """Each buffer by the user's name; an array that the text has several times counts once."""
    largest: dict[tuple[str, str], Storage] = {}
    for memory in recorder.storage:
        name = ir.print_name(recorder.origin(memory.buffer))
        if memory.buffer in recorder.origins:
            name = f"tile of {name}"
        known = largest.get((name, memory.where))
        if known is None or known.size < memory.size:
            largest[name, memory.where] = Storage(name, memory.where, memory.size, memory.copies)
    return tuple(largest.values())


def _record_guards(program: ir.Program) -> None:
    """Record the conditions that are still tested in every iteration of the loop around them.

    A test between versions, of a parallel loop's body or of a tile, costs nothing beside them.
    """

    def visit(stmt: ir.Node, loop: ir.For | None) -> None:
        if isinstance(stmt, ir.For):
            loop = None if stmt.kind.is_concurrent and isinstance(stmt.body, ir.If) else stmt
        elif isinstance(stmt, ir.If) and stmt.otherwise is not None:
            loop = None
        elif isinstance(stmt, ir.If) and loop is not None and ir.mentions(stmt.condition, loop.var):
            text = f"{ir.print_expr(stmt.condition)} is tested in every iteration"
            missed("guard", loop.var, text, "" if ir.loads(stmt.condition) else NO_GUARD)
        for child in ir.children(stmt):
            if isinstance(child, (ir.For, ir.If, ir.Seq, ir.Alloc)):
                visit(child, loop)

    visit(program.body, None)
