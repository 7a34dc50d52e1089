"""The roofline: the least time of a program on this machine.

A call does so many operations and moves at least so many bytes (each argument once); the machine
does and moves so many a second at most, which `known_limits` has measured. Whichever takes longer
is the roof.

Source: Williams, Waterman, Patterson, Roofline, CACM 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from minitensor.codegen import Target
from minitensor.errors import ArgumentError, CompileError
from minitensor.ir import Program
from minitensor.looks import figure, readable_seconds
from minitensor.runtime import Limits, known_limits, measure_limits, remember_limits
from minitensor.search.workload import operations


@dataclass(frozen=True, slots=True)
class Roofline:
    """A program under its roof.

    flop    operations of a call; 0 if the definition counts none, then bytes are what counts
    bytes   that a call moves at least
    limits  of the machine, with the target's threads; None if they cannot be measured
    """

    flop: int
    bytes: int
    limits: Limits | None

    @staticmethod
    def of(program: Program, target: Target) -> Roofline:
        """The roofline of a definition on a target with nothing left open.

        The machine is measured where its limits are unknown, which takes a second or two.
        """
        sizes = (b.dtype.bits // 8 * math.prod(b.shape) for b in program.params)
        limits = None
        if target.kind == "c":
            try:
                limits = known_limits(target.num_cores)
            except (CompileError, ArgumentError):  # no compiler, or one thread is all it can have
                limits = None
        return Roofline(operations(program), sum(sizes), limits)

    def corrected(self, seconds: float) -> Roofline:
        """The same; measured anew, once, if a call cannot be so fast: then the machine was busy
        when it was measured.
        """
        part = self.part(seconds)
        if self.limits is None or not self.flop or part is None or part <= 1:
            return self
        return replace(self, limits=remember_limits(measure_limits(self.limits.threads)))

    @property
    def unit(self) -> str:
        """The unit of rates."""
        return "GFLOP/s" if self.flop else "GB/s"

    @property
    def peak(self) -> float | None:
        """The machine's rate at most, in that unit: multiply-adds, or bytes."""
        if self.limits is None:
            return None
        return self.limits.peak if self.flop else self.limits.bandwidth

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flop / self.bytes if self.bytes else math.inf

    @property
    def ridge(self) -> float:
        """The operations per byte from which on arithmetic is the limit. Needs limits."""
        assert self.limits is not None
        return self.limits.peak / self.limits.bandwidth

    @property
    def least(self) -> float:
        """Seconds that a call takes at least, if its arguments come from memory. Needs limits."""
        assert self.limits is not None
        return max(self.flop / self.limits.peak, self.bytes / self.limits.bandwidth) / 1e9

    def rate(self, seconds: float) -> float:
        """Of a call that takes so long."""
        return (self.flop or self.bytes) / seconds / 1e9

    def part(self, seconds: float) -> float | None:
        """Of the peak, as a fraction; None if it is not known, or nothing is counted."""
        counted = self.flop or self.bytes
        return self.rate(seconds) / self.peak if self.peak and counted else None

    def figures(self, seconds: float) -> str:
        """A time in words: itself, the rate, and the part of the peak."""
        words = [readable_seconds(seconds)]
        if self.flop or self.bytes:
            words.append(f"{figure(self.rate(seconds))} {self.unit}")
        part = self.part(seconds)
        if part is not None and part > 1 and self.flop:
            words.append("more than the peak that was measured (the machine was busy)")
        elif part is not None:  # out of a cache, bytes may come faster than from memory
            words.append(f"{figure(100 * part)} % of {'peak' if self.flop else 'bandwidth'}")
        return ", ".join(words)

    def lines(self, seconds: float) -> list[str]:
        """The meaning of a time, a sentence a line."""
        found = []
        if self.flop:
            found.append(
                f"{quantity(self.flop)} operations on {quantity(self.bytes)} bytes of arguments: "
                f"{figure(self.intensity)} operations a byte"
            )
        else:
            found.append(
                f"{quantity(self.bytes)} bytes of arguments; the definition sums no products, so "
                "bytes are counted"
            )
        limits = self.limits
        if limits is None:
            return [*found, "what this machine does at most could not be measured"]
        threads = f"{limits.threads} thread{'' if limits.threads == 1 else 's'}"
        found.append(
            f"this machine does at most {figure(limits.peak)} GFLOP/s with {threads}, and moves "
            f"{figure(limits.bandwidth)} GB/s from and to memory (both measured)"
        )
        if self.flop and self.intensity >= self.ridge:
            bound = f"arithmetic is the limit (memory below {figure(self.ridge)} operations a byte)"
        elif self.flop:
            bound = (
                f"memory is the limit (up to {figure(self.ridge)} operations a byte), unless the "
                "arguments stay in caches"
            )
        else:
            bound = "memory is the limit, unless the arguments stay in caches"
        found.append(f"{bound}: {readable_seconds(self.least)} at least")
        if not self.least:
            return found
        part = figure(100 * (self.part(seconds) or 0))
        found.append(
            f"{figure(self.rate(seconds))} {self.unit} is {part} % of {figure(self.peak or 0)}; "
            f"{figure(seconds / self.least)} times as long as the limit"
        )
        return found


def quantity(count: int) -> str:
    """A large number in words, such as 2.15 billion."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:,}"
