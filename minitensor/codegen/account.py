"""An account of one kernel: what the passes made of each loop and buffer, and what they did not do.

The program is brought through the passes and the emitter once more, with somebody listening (see
`notes`). Not here: anything that is measured; and wording for a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.codegen.c import Part, emit_c
from minitensor.codegen.notes import LOOP_KINDS, Heard, Note, Place, listening, missed
from minitensor.codegen.pipeline import lowered
from minitensor.codegen.pressure import Pressure, pressures
from minitensor.codegen.target import Emitted, Target, unsupported

NO_GUARD: Final = "decompose_reduction moves an init out; a split by a divisor needs no guard"


@dataclass(frozen=True, slots=True)
class Account:
    """What code generation made of a program.

    program    as the schedule left it
    emitted    the text and what belongs to it
    notes      what was not done
    outcomes   what each loop became, by name
    places     where each temporary lives, those that passes made among them
    pressures  the vector registers that each loop holds across its iterations
    """

    program: ir.Program
    emitted: Emitted
    notes: tuple[Note, ...]
    outcomes: dict[str, tuple[str, ...]]
    places: tuple[Place, ...]
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
    """What is computed with elements in one instance of a block; indices cost nothing."""
    count = 0
    for node in ir.walk(body):
        if isinstance(node, ir.Reduce):
            count += len(node.values)
        elif isinstance(node, (ir.Binary, ir.Call)):
            count += node.dtype.kind not in ("index", "bool")
    return count


def account_of(program: ir.Program, target: Target, registers: int | None = None) -> Account:
    """The account of a program for a target with nothing left open.

    registers  how many vector registers there are; None for what is usual with vectors so wide
    """
    if target.kind != "c":
        raise unsupported(target)
    with listening() as heard:
        after = lowered(program, target)
        _tell_guards(after)
        (emitted,) = emit_c([Part(after, program, target)])
        found = pressures(program, after, target, registers, heard)
    outcomes: dict[str, tuple[str, ...]] = {}
    for loop, text in heard.outcomes:
        outcomes[loop] = (*outcomes.get(loop, ()), text)
    return Account(program, emitted, _notes(program, heard), outcomes, _places(heard), found)


def _notes(program: ir.Program, heard: Heard) -> tuple[Note, ...]:
    """What a user can read: about what the program names, and about results that matter.

    A nest that initialises a reduction has copies of its loops, of which the same is true; a buffer
    that is no reduction's result is not updated again and again; and one that is kept in registers
    across one loop may be seen not to be across another.
    """
    results = {b for block in program.blocks.values() for b in _reduced(block.body)}
    kept = {*heard.origins.values(), *(p.buffer for p in heard.places if p.place == "registers")}
    last: dict[tuple[str, str], Note] = {}
    arrays = (
        p.buffer for p in heard.places if p.place != "registers" and p.buffer in heard.origins
    )
    for note in [*heard.notes, *map(_array_note, arrays)]:
        name = heard.origin(note.where)
        if note.kind in LOOP_KINDS and name not in ir.loop_sites(program):
            continue
        if note.kind == "promotion" and (name in kept or name not in results):
            continue
        # the loops inside are treated last: theirs is the reason that remains
        key = (name, note.kind if note.kind == "promotion" else note.text)
        last[key] = Note(note.kind, ir.print_name(name), note.text, note.advice)
    return tuple(last.values())


def _array_note(tile: str) -> Note:
    text = "its tile is an array on the stack, for a loop that is not written out indexes it"
    return Note("registers", tile, text, "vectorize a multiple of the vector, unroll the others")


def _reduced(body: ir.Stmt) -> Iterator[str]:
    for node in ir.walk(body):
        if isinstance(node, ir.Reduce):
            yield from node.buffers


def _places(heard: Heard) -> tuple[Place, ...]:
    """Each place by the user's name; an array that the text has several times counts once."""
    largest: dict[tuple[str, str], Place] = {}
    for place in heard.places:
        name = ir.print_name(heard.origin(place.buffer))
        if place.buffer in heard.origins:
            name = f"tile of {name}"
        known = largest.get((name, place.place))
        if known is None or known.size < place.size:
            largest[name, place.place] = Place(name, place.place, place.size, place.copies)
    return tuple(largest.values())


def _tell_guards(program: ir.Program) -> None:
    """Say which conditions are still tested in every iteration of the loop around them.

    The two versions of a parallel loop's body are told apart once an iteration, which is nothing.
    """

    def visit(stmt: ir.Node, loop: ir.For | None) -> None:
        if isinstance(stmt, ir.For):
            loop = None if stmt.kind.is_concurrent and isinstance(stmt.body, ir.If) else stmt
        elif isinstance(stmt, ir.If) and loop is not None and ir.mentions(stmt.condition, loop.var):
            text = f"{ir.print_expr(stmt.condition)} is tested in every iteration"
            missed("guard", loop.var, text, "" if ir.loads(stmt.condition) else NO_GUARD)
        for child in ir.children(stmt):
            if isinstance(child, (ir.For, ir.If, ir.Seq, ir.Alloc)):
                visit(child, loop)

    visit(program.body, None)
