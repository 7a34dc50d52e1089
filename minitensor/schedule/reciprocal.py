"""The primitive that divides once and multiplies often: use_reciprocal.

A division takes a processor five to ten times as long as a multiplication. Where many elements are
divided by one (those of a row by its sum), one reciprocal will do. It is a rounding more, so it is
for a schedule to say.
"""

from __future__ import annotations

from typing import Any, Final

from minitensor import ir
from minitensor.schedule.arguments import BlockName, BufferName
from minitensor.schedule.batch import Effect, StepView
from minitensor.schedule.copies import computed_first, computed_first_batch
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

LEAST_BITS: Final = 32
"""Of numbers that are as good as their reciprocals: narrower ones have too few exponents."""


@primitive(
    rules={
        "R1": (
            "the block divides by elements of the buffer, of float32 or float64",
            "name the buffer of a divisor",
        ),
        "R2": ("the block does not write the buffer", "cache_write what it writes"),
        "R3": (
            "the buffer is an input, or its writers index each axis by an iter of its own",
            "use_reciprocal before transform_layout",
        ),
        "R4": (
            "the divisors have been computed before",
            "use_reciprocal before moving the block",
        ),
    }
)
def use_reciprocal(program: ir.Program, block: BlockName, buffer: BufferName) -> Rewritten[str]:
    """Multiply by reciprocals, computed first, where a block divides by elements of a buffer.

    use_reciprocal("C", "S")
        for i in range(8):                    for ax0 in range(8):
            for j in range(64):        =>         S_reciprocal[ax0] = 1.0 / S[ax0]
                C[i, j] = A[i, j] / S[i]      for i in range(8):
                                                  for j in range(64):
                                                      C[i, j] = A[i, j] * S_reciprocal[i]

    The block of the reciprocals stands where cache_read puts a copy; compute_at moves it inwards.
    A product has an error of up to 1.5 units in the last place, a quotient of half a unit; more
    where a divisor or its reciprocal is subnormal, and 1 / 1e-39 is an infinity in float32.

    Preserves  every output (floating point: up to rounding).
    Returns    the name of the block of the reciprocals; its buffer has the same name.
    """
    body = program.blocks[block].body
    if buffer not in (divisors := _divisors(body)):
        marks = ir.Marks(blocks={block: f"does not divide by {ir.print_name(buffer)}"})
        refuse("R1", marks=marks, choices=divisors)
    label = f"{buffer}_reciprocal"
    one = ir.Const(1.0, program.buffers[buffer].dtype)
    return computed_first(
        program,
        block,
        buffer,
        label,
        ir.Scope.GLOBAL,
        _multiplied,
        lambda element: ir.Binary("/", one, element),
    )


def _divisors(body: ir.Stmt) -> list[str]:
    """The buffers by whose elements a body divides, of types that have reciprocals."""
    divided = {
        node.b.buffer
        for node in ir.walk(body)
        if isinstance(node, ir.Binary) and node.op == "/" and isinstance(node.b, ir.Load)
        if node.dtype.bits >= LEAST_BITS
    }
    return sorted(divided)


def _multiplied(stmt: Any, old: str, new: str) -> Any:
    """The statement with products where it divides by elements of a buffer."""

    def one(node: Any) -> Any:
        match node:
            case ir.Binary("/", a, ir.Load(buffer, indices, dtype)) if buffer == old:
                return ir.Binary("*", a, ir.Load(new, indices, dtype))
        return node

    return ir.rewrite(stmt, one)


@use_reciprocal.on_batch
def _use_reciprocal_batch(view: StepView) -> Effect:
    return computed_first_batch(view, _multiplied)


@use_reciprocal.random_call(often=2)
def _call_use_reciprocal(scene: Scene) -> None:
    blocks = scene.program.blocks.items()
    dividing = [(name, buffer) for name, b in blocks for buffer in _divisors(b.body)]
    if dividing and not scene.chance(10):
        scene.do("use_reciprocal", *scene.pick(dividing))
    else:
        scene.do("use_reciprocal", scene.block(), scene.buffer())
