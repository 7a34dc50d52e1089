"""Implementations of a workload: calls without arguments, ours among them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.compare.work import Arrays, Work
from minitensor.api import build
from minitensor.cli.errors import CommandError
from minitensor.codegen import Target
from minitensor.errors import TuningError
from minitensor.ir import Program
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


Source = Callable[[], Iterator[Implementation]]
"""Prepares implementations; a baseline may raise anything."""


def admitted(
    sources: Mapping[str, Source],
    work: Work,
    dropped: dict[str, str],
    entered: Callable[[str], None] = lambda name: None,
) -> Iterator[Implementation]:
    """The implementations with a right result; `dropped` gets the reasons of the others.

    entered  called with the name of each source before it is asked
    """
    for name, source in sources.items():
        if name in dropped:
            continue
        entered(name)
        try:
            for implementation in source():
                wrong = work.difference(implementation.array(implementation.call()))
                time.sleep(implementation.spin)  # the next may time itself while it is prepared
                if wrong:
                    dropped[implementation.name] = f"wrong: {wrong}"
                else:
                    yield implementation
        except CommandError as failure:
            dropped[name] = str(failure)
        except Exception as failure:  # of any library
            dropped[name] = f"{type(failure).__name__}: {failure}"[:500]


def ours(work: Work, threads: int) -> Iterator[Implementation]:
    """The hand schedule: all operands as arguments; and, if there are weights, with those bound."""
    target = native_target(Target("c", num_cores=threads))
    yield of_kernel(OURS, build(work.schedule(target), target), work)
    if work.constants:
        yield _bound(BOUND, build(work.schedule(target, bound=True), target), work)


def tuned(work: Work, threads: int, log: str) -> Iterator[Implementation]:
    """The best schedule of a log for that many threads, in the same two ways: with weights bound,
    the best of a search that knew them as constants, if the log has one.

    Raises TuningError if the log has none.
    """
    target = native_target(Target("c", num_cores=threads))
    definition = work.schedule(target).history[0]
    schedule = load_best(log, definition, target)
    yield of_kernel(TUNED, build(schedule, target), work)
    if work.constants:
        with contextlib.suppress(TuningError):
            schedule = load_best(log, with_constants(definition, work), target)
        yield _bound(TUNED_BOUND, build(schedule, target), work)


def with_constants(definition: Program, work: Work) -> Program:
    """The definition with the weights as constants: what a search is given for them to be bound."""
    return definition.replace(constants=frozenset(work.constants))


def _bound(name: str, kernel: Kernel, work: Work) -> Implementation:
    """A kernel with the weights bound."""
    given = dict(zip(work.names, work.inputs))
    weights = {name: given.pop(name) for name in work.constants}
    return of_kernel(name, kernel.bind(**weights), work, tuple(given.values()))


def of_kernel(
    name: str, kernel: Kernel, work: Work, inputs: Arrays | None = None
) -> Implementation:
    """A kernel on arrays; those of the work if none are given."""
    work.own.fill(np.nan)  # a kernel that stores nothing is not right by one before it
    call = kernel.prepare(*(work.inputs if inputs is None else inputs), work.own)
    return Implementation(name, call, lambda _: work.own, bound=name in (BOUND, TUNED_BOUND))
