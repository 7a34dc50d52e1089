"""The primitive that converts once what many iterations would convert: widen.

Products of narrow numbers are summed in a wide type, and each is read often: each element is then
converted as often as it is read. An instruction that multiplies a wider type needs its operands in
that type beforehand.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from minitensor import ir
from minitensor.errors import ArgumentError
from minitensor.schedule.arguments import BlockName, BufferName, unexpected
from minitensor.schedule.batch import Effect, StepView
from minitensor.schedule.copies import computed_first, computed_first_batch
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.signature import Argument

DTYPES: Final = (
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "bfloat16",
    "float32", "float64",
)  # fmt: skip
"""The types in which a copy may be kept."""


def _dtype(program: ir.Program, name: str, value: Any) -> str:
    """The name of a type of numbers."""
    try:
        found = ir.DType.of(value)
    except ArgumentError:
        found = None
    if found is None or str(found) not in DTYPES:
        refuse("A2", unexpected(f"one of {', '.join(map(repr, DTYPES))}", name, value))
    return str(found)


DTypeName: TypeAlias = Annotated[str, Argument(_dtype, lambda program: DTYPES)]
"""The name of a type of numbers."""


@primitive(
    rules={
        "R1": (
            "each read of the buffer is converted",
            "name a buffer whose elements the block converts wherever it reads them",
        ),
        "R2": ("the block does not write the buffer", "cache_write what it writes"),
        "R3": (
            "the buffer is an input, or its writers index each axis by an iter of its own",
            "widen before transform_layout",
        ),
        "R4": ("what is converted has been computed before", "widen before moving the block"),
        "R5": (
            "the type has all numbers of the buffer's, and those to which it is converted all of "
            "the type's",
            "name a type between the two",
        ),
    }
)
def widen(
    program: ir.Program, block: BlockName, buffer: BufferName, dtype: DTypeName
) -> Rewritten[str]:
    """Convert what a block reads of a buffer to a wider type first, and let it read that.

    widen("C", "A", "int16")
        for i in range(8):                    for ax0 in range(8):
            C[i] += int32(A[i])        =>         A_int16[ax0] = int16(A[ax0])
                                              for i in range(8):
                                                  C[i] += int32(A_int16[i])
    dtype  wider than the buffer's, and no wider than what each element is converted to

    The block of the copy stands where cache_read puts one; compute_at moves it inwards.

    Preserves  every output.
    Returns    the name of the block that copies; its buffer has the same name.
    """
    body = program.blocks[block].body
    targets, converted = _conversions(body, buffer)
    reads = sum(load.buffer == buffer for load in ir.loads(body))
    if not reads or reads > converted:
        text = "reads it as it is" if reads else "does not read it"
        choices = [b for b in ir.accessed_buffers(program.blocks[block])[0] if _is_open(body, b)]
        refuse("R1", marks=ir.Marks(blocks={block: text}), choices=sorted(choices))
    wide, narrow = ir.DType.of(dtype), program.buffers[buffer].dtype
    if wide == narrow or not holds(wide, narrow):
        refuse("R5", f"{ir.print_name(buffer)} is {narrow}, and {wide} is not wider")
    for target in sorted(targets):
        if not holds(ir.DType.of(target), wide):
            refuse("R5", f"{ir.print_name(buffer)} is converted to {target}, not wider than {wide}")

    def rerouted(stmt: Any, old: str, new: str) -> Any:
        return _rerouted(stmt, old, new, wide)

    label = f"{buffer}_{wide}"
    scope = ir.Scope.GLOBAL
    return computed_first(
        program, block, buffer, label, scope, rerouted, lambda value: ir.Cast(wide, value)
    )


def holds(wide: ir.DType, narrow: ir.DType) -> bool:
    """Return whether a type has all the numbers of another."""
    if wide.is_integer:
        whole = narrow.is_integer
        return whole and wide.min_value <= narrow.min_value and narrow.max_value <= wide.max_value
    if narrow.is_integer:
        bits = narrow.bits - (narrow.min_value < 0)
        return bits <= _PRECISION.get(str(wide), 0)
    return wide == narrow or wide.bits > narrow.bits


_PRECISION: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Bits of the integers that a type of floating-point numbers has all of."""


def _conversions(body: ir.Stmt, buffer: str) -> tuple[set[str], int]:
    """The types to which elements of a buffer are converted, and how often one is."""
    found = [
        str(node.dtype)
        for node in ir.walk(body)
        if isinstance(node, ir.Cast) and isinstance(node.a, ir.Load) and node.a.buffer == buffer
    ]
    return set(found), len(found)


def _is_open(body: ir.Stmt, buffer: str) -> bool:
    """Return whether a body converts all that it reads of a buffer."""
    reads = sum(load.buffer == buffer for load in ir.loads(body))
    return 0 < reads == _conversions(body, buffer)[1]


def _rerouted(stmt: Any, old: str, new: str, wide: ir.DType) -> Any:
    """The statement where it converts elements of another buffer, of the wide type."""

    def one(node: Any) -> Any:
        match node:
            case ir.Cast(dtype, ir.Load(buffer, indices)) if buffer == old:
                load = ir.Load(new, indices, wide)
                return load if dtype == wide else ir.Cast(dtype, load)
        return node

    return ir.rewrite(stmt, one)


@widen.on_batch
def _widen_batch(view: StepView) -> Effect:
    wide = ir.DType.of(view.argument("dtype"))
    return computed_first_batch(view, lambda stmt, old, new: _rerouted(stmt, old, new, wide))


@widen.random_call(often=2)
def _call_widen(scene: Scene) -> None:
    blocks = scene.program.blocks.items()
    found = [
        (name, buffer)
        for name, block in blocks
        for buffer in sorted(ir.accessed_buffers(block)[0])
        if _is_open(block.body, buffer)
    ]
    wide = scene.pick(["int16", "int32", "float32", "float64"])
    if found and not scene.chance(10):
        scene.do("widen", *scene.pick(found), wide)
    else:
        scene.do("widen", scene.block(), scene.buffer(), wide)
