"""A hand schedule: a workload, and the steps from its definition to a fast schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from minitensor.codegen import Target
from minitensor.ir import Program
from minitensor.schedule import Schedule

Steps: TypeAlias = Iterator[tuple[str, str]]
"""The groups of steps of a schedule as they are taken: the title of each, and why it is done."""


@dataclass(frozen=True, slots=True, eq=False)
class HandSchedule:
    """A workload at one size with its schedule by hand.

    name        what a table calls it: "matmul 1024"
    define      makes the program
    steps       performs the steps on a schedule of the program for a target; yields after each
                group of steps, and the schedule is the best one when it is exhausted
    constants   parameters that are weights, which a user would bind (`Kernel.bind`)
    flop        operations of a call as the definition counts them (for Winograd's convolution those
                of the sum that it avoids); 0 where bytes are what counts
    bytes       bytes that a call must move at least: every operand once
    kind        what the baselines compute: "matmul", "conv", "softmax", …
    parameters  its sizes, as the operator in `mt.workloads` calls them
    bound       the steps where the constants are bound; None: the same
    """

    name: str
    define: Callable[[], Program]
    steps: Callable[[Schedule, Target], Steps]
    constants: tuple[str, ...]
    flop: int
    bytes: int
    kind: str
    parameters: Mapping[str, int]
    bound: Callable[[Schedule, Target], Steps] | None = None


def scheduled(
    hand: HandSchedule, target: Target, steps: int | None = None, bound: bool = False
) -> Schedule:
    """A hand schedule for a target: after all groups of steps, or the first `steps`.

    bound  its constants will be bound
    """
    s = Schedule(hand.define())
    performed = hand.bound if bound and hand.bound is not None else hand.steps
    if steps is None or steps > 0:
        for number, _ in enumerate(performed(s, target), start=1):
            if number == steps:
                break
    return s


def lanes_of(target: Target) -> int:
    """How many float32 numbers a vector of the target holds; 4 where it has none."""
    return max(128, target.vector_bits or 0) // 32


def largest_divisor(extent: int, most: int) -> int:
    """The largest number up to `most` that divides the extent."""
    return next(n for n in range(most, 0, -1) if extent % n == 0)
