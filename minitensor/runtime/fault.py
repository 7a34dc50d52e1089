"""Faults of kernels, as sanitizers and the emulator of CUDA find them, and where they are."""

from __future__ import annotations

from dataclasses import dataclass

from minitensor import ir


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing a kernel did wrong.

    kind     "race", "out of bounds", "unwritten", "unsteady", "input changed", "undefined",
             "crash"; on a GPU also "uninitialised", "misaligned", "barrier"
    message  what happened, in one line
    buffer   the name of the buffer it happened to, "" if that is not known
    index    the element, () if it is not known or there is only one
    line     the line of the kernel's text, 0 if it is not known
    """

    kind: str
    message: str
    buffer: str = ""
    index: tuple[int, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        return self.message


def element_at(buffer: ir.Buffer, offset: int) -> tuple[int, ...]:
    """The indices of the element that holds a byte of a buffer; () where that is between two."""
    rest = offset // (ir.numpy_dtype(buffer.dtype).itemsize * buffer.dtype.lanes)
    index = []
    for extent, stride in zip(buffer.shape, ir.strides_of(buffer)):
        index.append(rest // stride)
        rest %= stride
        if not 0 <= index[-1] < extent:
            return ()
    return tuple(index)


def element_name(buffer: ir.Buffer, index: tuple[int, ...]) -> str:
    """The element as messages show it."""
    name = ir.print_name(buffer.name)
    return f"{name}[{', '.join(map(str, index))}]" if index else name
