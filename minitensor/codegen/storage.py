"""How elements are held: the type they are computed in, and where they are in memory."""

from __future__ import annotations

from minitensor.ir import INDEX, Buffer, DType, Expr, Ramp


def is_narrow_float(dtype: DType) -> bool:
    """Whether elements are floats that are computed in a wider type."""
    return dtype.is_float and dtype.bits < 32


def computed(dtype: DType) -> DType:
    """The type in which elements are computed: narrow floats in float32, indices in int64."""
    if dtype.is_float and dtype.bits < 32:
        return DType.of("float32")
    return DType.of("int64") if dtype == INDEX else dtype


def strides_of(buffer: Buffer) -> tuple[int, ...]:
    """The stride of each axis in elements, those with an alignment enlarged to have it."""
    wanted = {axis: (factor, offset) for axis, factor, offset in buffer.alignment}
    strides: list[int] = []
    stride = 1
    for axis in reversed(range(len(buffer.shape))):
        factor, offset = wanted.get(axis, (1, 0))
        stride += (offset - stride) % factor
        strides.append(stride)
        stride *= buffer.shape[axis]
    return tuple(reversed(strides))


def lane_step(buffer: Buffer, indices: tuple[Expr, ...]) -> int:
    """The distance in elements between neighbouring lanes of a vector access."""
    strides = zip(indices, strides_of(buffer))
    return sum(index.stride * stride for index, stride in strides if isinstance(index, Ramp))


def elements_of(buffer: Buffer) -> int:
    """How many elements the buffer takes in memory, at least one."""
    if not buffer.shape:
        return 1
    return max(1, strides_of(buffer)[0] * buffer.shape[0])


def truncation(source: str, target: DType) -> str:
    """The helper that converts a float, or a vector of them, to 64-bit integers (see ir.cast)."""
    return f"truncated_{source}" + ("_to_uint64" if target == "uint64" else "")
