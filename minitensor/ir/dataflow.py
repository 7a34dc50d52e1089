"""The buffers that blocks read and write, and the blocks that read and write a buffer."""

from __future__ import annotations

from typing import TypeAlias

from minitensor.ir.facts import fact
from minitensor.ir.program import Program, stored_buffers
from minitensor.ir.stmt import Block, Stmt
from minitensor.ir.summary import summary

Accessed: TypeAlias = tuple[frozenset[str], frozenset[str]]


@fact
def accessed_buffers(block: Block) -> Accessed:
    """The buffers a block reads, and those it writes or combines into."""
    read, written = _accessed_in(block.body)
    if block.init is None:
        return read, written
    more_read, more_written = _accessed_in(block.init)
    return read | more_read, written | more_written


@fact
def _accessed_in(body: Stmt) -> Accessed:
    """The accesses of a body or an init, which most steps of a schedule leave as it is."""
    return frozenset(summary(body).reads), frozenset(stored_buffers(body))


def readers(program: Program, buffer: str) -> list[Block]:
    """The blocks that read a buffer, those that only accumulate into it left out."""
    return list(_by_buffer(program)[0].get(buffer, ()))


def writers(program: Program, buffer: str) -> list[Block]:
    """The blocks that write a buffer."""
    return list(_by_buffer(program)[1].get(buffer, ()))


@fact
def _by_buffer(program: Program) -> tuple[dict[str, list[Block]], dict[str, list[Block]]]:
    """The readers of each buffer, and its writers, in the order of the text."""
    readers: dict[str, list[Block]] = {}
    writers: dict[str, list[Block]] = {}
    for block in program.blocks.values():
        read, written = accessed_buffers(block)
        for name in read:
            readers.setdefault(name, []).append(block)
        for name in written:
            writers.setdefault(name, []).append(block)
    return readers, writers
