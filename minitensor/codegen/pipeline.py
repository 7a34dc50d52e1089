"""From a scheduled program to text: the passes, in order.

Each pass takes a program that verifies and gives one that verifies and means the same; with
`check` on, that is tested after each. `lowered` is the program that is emitted. All passes but
those of `REQUIRED` only make it faster and can be left out, to find which one a fault comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from minitensor import ir
from minitensor.codegen.emit.c import Part, emit_c
from minitensor.codegen.passes.check_bounds import check_bounds
from minitensor.codegen.passes.erase_blocks import erase_blocks
from minitensor.codegen.passes.name_registers import name_registers
from minitensor.codegen.passes.partition_loops import partition_loops
from minitensor.codegen.passes.promote_accumulators import promote_accumulators
from minitensor.codegen.passes.shrink_storage import shrink_storage
from minitensor.codegen.passes.simplify import simplify_program
from minitensor.codegen.passes.unroll_loops import unroll_loops
from minitensor.codegen.passes.vectorize_loops import vectorize_loops
from minitensor.codegen.target import Emitted, Target, unsupported
from minitensor.errors import unexpected

Pass: TypeAlias = Callable[[ir.Program, Target], ir.Program]

PASSES: Final[tuple[tuple[str, Pass], ...]] = (
    ("check_bounds", lambda program, target: check_bounds(program)),
    ("erase_blocks", lambda program, target: erase_blocks(program)),
    ("shrink_storage", lambda program, target: shrink_storage(program)),
    ("simplify", lambda program, target: simplify_program(program)),
    ("partition_loops", lambda program, target: partition_loops(program)),
    (
        "promote_accumulators",
        lambda program, target: promote_accumulators(program, target.vector_bits or 0),
    ),
    ("vectorize_loops", lambda program, target: vectorize_loops(program, target.vector_bits or 0)),
    ("unroll_loops", lambda program, target: unroll_loops(program)),
    ("simplify again", lambda program, target: simplify_program(program)),
    ("name_registers", lambda program, target: name_registers(program)),
)
"""Every pass by name, in the order in which they run."""


LONGEST_HEADER: Final = 500
"""How many lines of a header are put in front."""
REQUIRED: Final = ("check_bounds", "erase_blocks")
"""What no program goes without: the first makes it safe, the second leaves plain statements."""


def lowered(
    program: ir.Program, target: Target, check: bool = False, without: Collection[str] = ()
) -> ir.Program:
    """The program after all passes, those called `without` left out.

    Raises ArgumentError for a name that is no pass, or a pass of REQUIRED, and for a program that
    is too large.
    """
    ir.make_room(program.body, around=len(program.temporaries))
    for _, run in passes(without):
        program = run(program, target)
        if check:
            ir.verify(program)
    return program


def passes(without: Collection[str] = ()) -> tuple[tuple[str, Pass], ...]:
    """The passes that run where those called `without` are left out; raises as `lowered`."""
    optional = [name for name, _ in PASSES if name not in REQUIRED]
    for name in without:
        if name not in optional:
            raise unexpected("one of " + ", ".join(map(repr, optional)), "without", name)
    return tuple((name, run) for name, run in PASSES if name not in without)


def generate(
    program: ir.Program,
    target: Target,
    header: str = "",
    check: bool = False,
    without: Collection[str] = (),
    hooks: bool = False,
) -> Emitted:
    """The text of a kernel.

    target   with nothing left open (see `Target.resolved`)
    header   what stands in front as a comment: usually the schedule as Python
    check    whether every pass is followed by the verifier
    without  the passes to leave out (see `lowered`)
    hooks    whether the function tells what it does as it runs (see `codegen.emit.hooks`)
    """
    return emit_c([_part(program, target, check, without)], _cut(header), hooks)[0]


def _cut(header: str) -> str:
    lines = header.splitlines()
    if len(lines) <= LONGEST_HEADER:
        return header
    left = f"... and {len(lines) - LONGEST_HEADER} more lines"
    return "\n".join([*lines[:LONGEST_HEADER], left])


def generate_together(
    wanted: Sequence[tuple[ir.Program, Target]], without: Collection[str] = (), hooks: bool = False
) -> tuple[Emitted, ...]:
    """One text with a kernel for each program: what takes the compiler longest is to start.

    wanted   programs, each with its target (nothing left open)
    without  the passes to leave out (see `lowered`)
    hooks    whether the functions tell what they do as they run (see `codegen.emit.hooks`)
    """
    parts = [_part(program, target, False, without) for program, target in wanted]
    return emit_c(parts, hooks=hooks)


def _part(program: ir.Program, target: Target, check: bool, without: Collection[str]) -> Part:
    if target.kind != "c":
        raise unsupported(target)
    return Part(lowered(program, target, check, without), program, target)
