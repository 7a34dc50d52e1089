"""How elements are held: the type they are computed in, and where they are in memory."""

from __future__ import annotations

from minitensor import ir


def is_narrow_float(dtype: ir.DType) -> bool:
    """Whether elements are floats that are computed in a wider type."""
    return dtype.is_float and dtype.bits < 32


def computed(dtype: ir.DType) -> ir.DType:
    """The type in which elements are computed: narrow floats in float32, indices in int64."""
    if dtype.is_float and dtype.bits < 32:
        return ir.DType.of("float32")
    return ir.DType.of("int64") if dtype == ir.INDEX else dtype


def lane_step(buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> int:
    """The distance in elements between neighbouring lanes of a vector access."""
    strides = zip(indices, ir.strides_of(buffer))
    return sum(index.stride * stride for index, stride in strides if isinstance(index, ir.Ramp))


def elements_of(buffer: ir.Buffer) -> int:
    """How many elements the buffer takes in memory, at least one."""
    if not buffer.shape:
        return 1
    return max(1, ir.strides_of(buffer)[0] * buffer.shape[0])


def truncation(source: str, target: ir.DType) -> str:
    """The helper that converts a float, or a vector of them, to 64-bit integers (see ir.cast)."""
    return f"truncated_{source}" + ("_to_uint64" if target == "uint64" else "")
