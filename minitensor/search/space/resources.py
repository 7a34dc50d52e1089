"""The resources of a GPU that candidates take, for one or for many at once: no compiler is asked.

    threads    of a block
    shared     bytes of shared memory of a block: what its threads copy, as far as loops go
    registers  of a thread: the elements that it has for itself, and those of indices and operands

These are estimates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.arith import Num
from minitensor.codegen import Device
from minitensor.search.unmade import ResourceError

OTHERS: Final = 32
"""Registers of a thread besides the elements that it has for itself."""
MOST_REGISTERS: Final = 255
"""Of a thread."""
TOO_MUCH: Final = ("too many threads", "too much shared memory", "too many registers")
"""The kinds of candidates that are refused for what they take."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A temporary: the bytes of an element, at most how many there are, and the loops whose product
    is how many are written.
    """

    item: int
    most: int
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that the nests of a program take, in terms of the extents of loops.

    threads  for each block of the program, the loops over threads around it
    shared   for each nest, what is in shared memory
    own      for each nest, what a thread has for itself
    """

    threads: tuple[tuple[str, ...], ...]
    shared: tuple[tuple[Kept, ...], ...]
    own: tuple[tuple[Kept, ...], ...]

    @staticmethod
    def of(program: ir.Program) -> Resources:
        """Those of a scheduled program."""
        paths = ir.paths(program).values()
        threads = {tuple(x.var for x in path if _is_thread(x)) for path in paths}
        living = ir.lifetimes(program)
        shared, own = [], []
        for nest in ir.nests(program):
            found: dict[bool, dict[str, Kept]] = {True: {}, False: {}}
            for block in ir.blocks_of(nest):
                for name in ir.accessed_buffers(block)[1]:
                    buffer, home = program.buffers[name], living.get(name)
                    if buffer.scope is ir.Scope.GLOBAL or home is None:
                        continue
                    kept = _kept(program, block, buffer, home)
                    found[buffer.scope is ir.Scope.SHARED].setdefault(name, kept)
            shared.append(tuple(found[True].values()))
            own.append(tuple(found[False].values()))
        return Resources(tuple(threads), tuple(shared), tuple(own))

    def taken(self, extents: Mapping[str, Num]) -> tuple[Num, Num, Num]:
        """The threads, bytes and registers of the largest nest; numbers, or arrays (candidates,).

        extents  of each loop, an int or (candidates,)
        """
        threads = _most([_product(loops, extents) for loops in self.threads])
        shared, own = (
            _most([sum((_bytes(one, extents) for one in nest), 0) for nest in kept])
            for kept in (self.shared, self.own)
        )
        return threads, shared, own // 4 + OTHERS

    def wrong(self, extents: Mapping[str, Num], device: Device) -> Num:
        """For each candidate the number of the kind of TOO_MUCH, counted from 1; 0 for none."""
        threads, shared, registers = self.taken(extents)
        enough = np.minimum(MOST_REGISTERS, device.registers // np.maximum(threads, 1))
        limits = ir.MOST_THREADS, device.most_shared, enough
        found: Num = np.zeros(np.shape(threads), np.int64)
        for kind, (taken, most) in enumerate(zip((threads, shared, registers), limits), 1):
            found = np.where((found == 0) & (np.asarray(taken) > most), kind, found)
        return found

    def require(self, extents: Mapping[str, int], device: Device) -> None:
        """Raise ResourceError for a candidate that takes too much."""
        kind = int(self.wrong(extents, device))
        if kind:
            threads = int(self.taken(extents)[0])
            enough = min(MOST_REGISTERS, device.registers // max(1, threads))
            most = (ir.MOST_THREADS, device.most_shared, enough)[kind - 1]
            raise ResourceError(TOO_MUCH[kind - 1], int(self.taken(extents)[kind - 1]), most)


def _is_thread(loop: ir.For) -> bool:
    return loop.kind in ir.MOST_ALONG and loop.kind.is_thread


def _kept(program: ir.Program, block: ir.Block, buffer: ir.Buffer, home: str) -> Kept:
    """A buffer of a nest, as it is written by a block: by all threads, or by one of them."""
    path = ir.paths(program)[block.name]
    inside = path[[loop.var for loop in path].index(home) + 1 :]
    own = buffer.scope is not ir.Scope.SHARED
    carried = {
        name
        for i in block.iters
        if i.kind is not ir.IterKind.SPATIAL
        for name in ir.free_vars(i.binding)
    }
    loops = [x.var for x in inside if not (own and _is_thread(x)) and x.var not in carried]
    item = max(1, buffer.dtype.bits // 8)
    return Kept(item, math.prod(buffer.shape), tuple(loops))


def _product(loops: tuple[str, ...], extents: Mapping[str, Num]) -> Num:
    found: Num = 1
    for name in loops:
        found = found * extents[name]
    return found


def _bytes(kept: Kept, extents: Mapping[str, Num]) -> Num:
    found: Num = np.minimum(_product(kept.loops, extents), kept.most) * kept.item
    return found


def _most(numbers: list[Num]) -> Num:
    found: Num = 0
    for number in numbers:
        found = np.maximum(found, number)
    return found
