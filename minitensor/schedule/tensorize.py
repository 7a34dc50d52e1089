"""The primitive that has loops done by an intrinsic: tensorize.

The loops stay where they are, marked, and the outermost names the intrinsic; so every analysis
reads from them what is touched, and the interpreter executes them. Only code generation writes a
call in their place. What may be done to them afterwards follows from one rule, K3: the result must
still match the intrinsic, as it did when it was tensorized.
"""

from __future__ import annotations

import difflib
from contextlib import suppress
from typing import Annotated, Any, Final, TypeAlias

from minitensor import ir
from minitensor.arith import MismatchError, carries, match_intrinsic
from minitensor.errors import ScheduleError, shown
from minitensor.schedule.arguments import LoopName, unexpected
from minitensor.schedule.batch import unchanged
from minitensor.schedule.edit import loops_around, spliced
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.signature import Argument

RULE_OF: Final = {
    "nest": "R1",
    "vector": "R2",
    "guard": "R3",
    "init": "R4",
    "statement": "R5",
    "dtype": "R6",
    "extent": "R7",
    "index": "R8",
    "alias": "R9",
    "stride": "R10",
}


def _intrinsic(program: ir.Program, name: str, value: Any) -> str:
    """The key of an intrinsic that this process has declared."""
    given = value.key if isinstance(value, ir.Intrinsic) else value
    if not isinstance(given, str):
        refuse("A2", unexpected("an intrinsic (see mt.intrinsic) or its name", name, value))
    ir.known_intrinsic(given)  # declares it if it comes with the language
    wanted, _, digest = given.partition(ir.SEPARATOR)
    alike = [key for key in ir.DECLARED if key.partition(ir.SEPARATOR)[0] == wanted]
    if given not in ir.DECLARED and (digest or len(alike) != 1):
        text = f"there is no intrinsic {shown(given)}"
        if not alike:
            text += ": declare it in this process first (mt.intrinsic, mt.intrinsics)"
            alike = difflib.get_close_matches(wanted, ir.DECLARED, 3) if len(wanted) < 80 else []
        elif digest:
            text += ": what is declared under this name has another meaning or another body"
        else:
            text += f": {len(alike)} have this name"
        refuse("A1", text, choices=sorted(alike) or sorted(ir.DECLARED)[:20])
    return str(given) if given in ir.DECLARED else alike[0]


IntrinsicLike: TypeAlias = Annotated[ir.Intrinsic | str, Argument(_intrinsic)]
"""A declared intrinsic, its name, or its key: the name and a digest, as traces have it."""


@primitive(
    rules={
        "R1": (
            "the loop and those inside it are serial, each all there is in the one before, and "
            "stand around one block that others use",
            "split and reorder until the loops of the intrinsic are innermost, and serial",
        ),
        "R2": ("no loop around it is vectorized", "tensorize in place of vectorizing"),
        "R3": (
            "the block runs under no condition (split its loops evenly)",
            "split its loops evenly",
        ),
        "R4": ("a reduction is initialised by another block", "decompose_reduction first"),
        "R5": (
            "the block does what the intrinsic means",
            "declare an intrinsic that means what the block does",
        ),
        "R6": (
            "its types are those of the intrinsic",
            "cast in the definition, or declare the intrinsic for these types",
        ),
        "R7": (
            "the loops run as far as the axes of the intrinsic",
            "split the loops to the extents of the intrinsic",
        ),
        "R8": (
            "it accesses each operand at the indices at which the intrinsic does",
            "transform_layout or cache_read so that the operand's axes match",
        ),
        "R9": ("it does not read what it writes", "cache_read what it reads"),
        "R10": (
            "the operands have the strides that the intrinsic relies on",
            "transform_layout or storage_align the buffer",
        ),
    },
    alternatives="loop",
)
def tensorize(program: ir.Program, loop: LoopName, intrinsic: IntrinsicLike) -> Rewritten[None]:
    """Have a loop, and the loops inside it, done by an intrinsic.

    tensorize("j_1", dot)                         # dot: c[j] += a[k] * b[j, k], 16 by 4
        for i, j_0, k_0 in grid(M, N/16, K/4):            for i, j_0, k_0 in grid(M, N/16, K/4):
            for j_1 in range(16):                 =>          for j_1 in tensorize(16):
                for k_1 in range(4):                              for k_1 in tensorize(4):
                    C[i, j] += A[i, k] * B[j, k]                      C[i, j] += A[i, k] * B[j, k]
    intrinsic  what mt.intrinsic returned, or its name

    The printed program keeps the loops; code generation writes a call of the intrinsic's body. The
    loops may stand in any order. In each access, the axes of the buffer that these loops move must
    be those of the operand, in order; the others are fixed. Whatever later steps do, the loops must
    still match (rule K3).

    Preserves  every output, if the body computes its meaning (`testing.check_intrinsic`; floating
               point: up to the order in which the body adds).
    """
    found = ir.DECLARED[str(intrinsic)]
    try:
        match_intrinsic(program, loop, found, ir.LoopKind.SERIAL)
    except MismatchError as problem:
        rule = RULE_OF[problem.reason]
        detail = problem.detail + _decomposition(program, problem)

        refuse(rule, detail, marks=_marks(loop, problem))
    site = ir.loop_sites(program)[loop]
    return spliced(program, {id(site.loop): _marked(site.loop, str(intrinsic))}), None


def _marked(stmt: ir.Stmt, key: str | None) -> ir.Stmt:
    """The loops as tensorized ones; the outermost names the intrinsic."""
    if not isinstance(stmt, ir.For):
        return stmt
    notes = dict(stmt.annotations)
    if key is not None:
        notes[ir.NOTE] = key
    body = _marked(stmt.body, None)
    return ir.For(stmt.var, stmt.extent, body, ir.LoopKind.TENSORIZE, tuple(notes.items()))


def _marks(loop: str, problem: MismatchError) -> ir.Marks:
    if problem.block is None:
        return ir.Marks(loops={loop: "to tensorize"})
    parts = [] if problem.part is None else [(problem.block, problem.part, "differs")]
    blocks = {problem.block: "differs"} if problem.part is None else {}
    return ir.Marks({loop: "to tensorize"}, blocks, parts)


def _decomposition(program: ir.Program, problem: MismatchError) -> str:
    """The call that initialises the reduction elsewhere, if that is missing."""
    if problem.reason != "init" or problem.block is None:
        return ""
    block = program.blocks[problem.block]
    for loop in loops_around(program, problem.block):
        if carries(block, loop.var):
            return f'; decompose_reduction("{problem.block}", "{loop.var}") takes that out'
    return ""


tensorize.on_batch(unchanged)


@tensorize.random_call(often=3)
def _call_tensorize(scene: Scene) -> None:
    """Mostly an intrinsic that means what the inner loops of a block do, in plain C."""
    schedule = scene.schedule
    block = scene.block()
    if not scene.chance(20):
        for loop in schedule.get_loops(block) if block in schedule.get_blocks() else ():
            if schedule.program.blocks[block].init is not None:
                with suppress(ScheduleError):
                    scene.do("decompose_reduction", block, loop)
    fixed = scene.chance(30)
    found = [
        (loops[start], intrinsic)
        for name in schedule.get_blocks()
        for loops in [schedule.get_loops(name)]
        for start in range(len(loops))
        if (intrinsic := scene.matching_intrinsic(name, loops[start:], fixed))
    ]
    if found and not scene.chance(10):
        scene.do("tensorize", *scene.pick(found))
    else:
        scene.do("tensorize", scene.loop(), scene.example_intrinsic())


class TensorizePrimitives:
    """The primitives of this file, as methods of a Schedule."""

    tensorize = tensorize
