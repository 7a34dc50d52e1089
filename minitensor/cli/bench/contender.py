"""Who takes part: something that computes a workload when it is called without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitensor.api import build
from minitensor.cli.bench.work import Work
from minitensor.codegen import Target
from minitensor.runtime import Kernel, native_target
from minitensor.search import load_best

OURS: Final = "ours"
BOUND: Final = "ours bound"
TUNED: Final = "tuned"
TUNED_BOUND: Final = "tuned bound"
DEFINED: Final = "as defined"

LOG: Final = "log"
"""The option with the path of a log of searches."""

SPIN_SECONDS: Final = 0.02
"""How long threads of OpenMP wait in a busy loop after a call; measured: 10 ms."""
BLAS_SPIN_SECONDS: Final = 0.15
"""The same for OpenBLAS; measured: 105 ms.

Whoever shares its cores with threads that spin can take a hundred times as long.
"""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that computes a workload.

    name   in tables
    call   computes it, with everything done that can be done before; returns the result
    array  the result as an array
    bound  whether it knew the weights beforehand, and could lay them out as it likes
    spin   for how many seconds its threads keep the cores busy after a call
    note   a word about how it was made
    """

    name: str
    call: Callable[[], object]
    array: Callable[[Any], np.ndarray]
    bound: bool = False
    spin: float = SPIN_SECONDS
    note: str = ""


def ours(work: Work, threads: int) -> Iterator[Contender]:
    """Our schedule: all operands as arguments; and, if there are weights, with those bound."""
    target = native_target(Target("c", num_cores=threads))
    return _both(OURS, BOUND, build(work.schedule(target), target), work)


def tuned(work: Work, threads: int, log: str) -> Iterator[Contender]:
    """The best that a log of a search knows for so many threads, in the same two ways.

    Raises TuningError if it knows nothing.
    """
    target = native_target(Target("c", num_cores=threads))
    definition = work.schedule(target).history[0]
    schedule = load_best(log, definition, target)
    return _both(TUNED, TUNED_BOUND, build(schedule, target), work)


def _both(plain: str, bound: str, kernel: Kernel, work: Work) -> Iterator[Contender]:
    """All operands as arguments; and, if there are weights, with those bound."""
    yield _of_kernel(plain, kernel, work.inputs, work)
    if work.constants:
        given = dict(zip(work.names, work.inputs))
        weights = {name: given.pop(name) for name in work.constants}
        yield _of_kernel(bound, kernel.bind(**weights), tuple(given.values()), work)


def as_defined(work: Work, threads: int) -> Iterator[Contender]:
    """The program before the first step: what a user's own schedule is measured against."""
    target = native_target(Target("c", num_cores=threads))
    definition = work.schedule(target).history[0]
    yield _of_kernel(DEFINED, build(definition, target), work.inputs, work)


def _of_kernel(name: str, kernel: Kernel, inputs: tuple[np.ndarray, ...], work: Work) -> Contender:
    output = work.output()
    call = kernel.prepare(*inputs, output)
    return Contender(name, call, lambda _: output, bound=name in (BOUND, TUNED_BOUND))
