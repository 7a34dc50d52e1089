"""Accesses to guard pages while somebody watches (guards.c): where they were; nothing ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from minitensor import ir
from minitensor.errors import ExecutionError
from minitensor.runtime import find_toolchain, load_function, pointer_to
from minitensor.sanitize.builds import Sanitizer, runtime_library
from minitensor.sanitize.memory import GuardedMemory

_MOST: Final = 256
_ACCESS: Final = {0: "reads", 1: "writes"}
_one_at_a_time: Final = threading.Lock()


class Hit(NamedTuple):
    """An access to a guard page.

    memory   the number of the memory whose guard it is
    address  what was touched
    access   0 for a read, 1 for a write, else it is not known
    """

    memory: int
    address: int
    access: int


def guards_library() -> Path:
    """The library that watches guard pages. Raises CompileError without a compiler."""
    return runtime_library(Sanitizer.GUARDS, find_toolchain())


@contextlib.contextmanager
def watched(library: Path, memories: Sequence[GuardedMemory]) -> Iterator[list[Hit]]:
    """Watch the guards of these memories; the list is filled at the end.

    library  what `guards_library` gave

    A page that was touched stays open. One at a time in a process. Raises ExecutionError if there
    is no memory.
    """
    start, finish = (load_function(library, f"guards_{name}", 1) for name in ("start", "finish"))
    bounds = [len(memories)]
    for memory in memories:
        bounds += [memory.before, memory.start, memory.end, memory.after]
    given, found = np.array(bounds, np.uint64), np.zeros((_MOST, 3), np.int64)
    hits: list[Hit] = []
    with _one_at_a_time:
        if start(pointer_to(given)) != 0:
            raise ExecutionError("no memory to watch guard pages", "memory")
        try:
            yield hits
        finally:
            count = finish(pointer_to(found))
            hits.extend(Hit(*hit) for hit in found[:count].tolist())


def outside(kernel: str, buffer: ir.Buffer | None, memory: GuardedMemory, hit: Hit) -> str:
    """What a kernel did, in words; `buffer` is None for its scratch memory."""
    did = f"{ir.print_name(kernel)} {_ACCESS.get(hit.access, 'touches')}"
    if buffer is None:
        return f"{did} memory outside its scratch memory"
    start: int = memory.array.__array_interface__["data"][0]
    beyond = hit.address - start - memory.array.nbytes
    far, where = (beyond, "after its end") if beyond >= 0 else (start - hit.address, "before it")
    return (
        f"{did} outside {ir.print_name(buffer.name)}: {ir.print_type(buffer)}, {far} bytes {where}"
    )
