"""Implementations of a workload: calls without arguments, ours among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.compare.work import Work
from minitensor.api import build
from minitensor.codegen import Target
from minitensor.runtime import SPIN_SECONDS, Kernel, native_target
from minitensor.search import load_best

OURS: Final = "ours"
BOUND: Final = "ours bound"
TUNED: Final = "tuned"
TUNED_BOUND: Final = "tuned bound"

LOG: Final = "log"
"""The option with the path of a log of searches."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """A call that computes a workload.

    name   in tables
    call   computes it, with everything prepared that can be; returns the result
    array  turns that into an array
    bound  the weights were given before the call, and could be laid out anew
    spin   seconds for which its threads keep the cores busy after a call
    note   a remark for the results
    """

    name: str
    call: Callable[[], object]
    array: Callable[[Any], np.ndarray]
    bound: bool = False
    spin: float = SPIN_SECONDS
    note: str = ""


def ours(work: Work, threads: int) -> Iterator[Implementation]:
    """The hand schedule: all operands as arguments; and, if there are weights, with those bound."""
    target = native_target(Target("c", num_cores=threads))
    return _both(OURS, BOUND, build(work.schedule(target), target), work)


def tuned(work: Work, threads: int, log: str) -> Iterator[Implementation]:
    """The best schedule of a log for that many threads, in the same two ways.

    Raises TuningError if the log has none.
    """
    target = native_target(Target("c", num_cores=threads))
    definition = work.schedule(target).history[0]
    schedule = load_best(log, definition, target)
    return _both(TUNED, TUNED_BOUND, build(schedule, target), work)


def _both(plain: str, bound: str, kernel: Kernel, work: Work) -> Iterator[Implementation]:
    """All operands as arguments; and, if there are weights, with those bound."""
    yield _of_kernel(plain, kernel, work.inputs, work)
    if work.constants:
        given = dict(zip(work.names, work.inputs))
        weights = {name: given.pop(name) for name in work.constants}
        yield _of_kernel(bound, kernel.bind(**weights), tuple(given.values()), work)


def _of_kernel(
    name: str, kernel: Kernel, inputs: tuple[np.ndarray, ...], work: Work
) -> Implementation:
    output = work.output()
    call = kernel.prepare(*inputs, output)
    return Implementation(name, call, lambda _: output, bound=name in (BOUND, TUNED_BOUND))
