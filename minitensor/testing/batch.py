"""Many pairs at once: their kernels are compiled as one text, which is what takes longest.

Each kernel runs under a sanitizer (`minitensor.sanitize`): between guard pages, with outputs and
scratch memory that hold NaN, unless another is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from minitensor.codegen import Target, generate_together
from minitensor.errors import CompileError
from minitensor.runtime import NativeKernel, find_toolchain, native_target
from minitensor.sanitize import Sanitizer, load_sanitized, run_sanitized
from minitensor.testing.oracle import compare
from minitensor.testing.pairs import (
    MOST_INTERPRETED,
    FailedError,
    Pair,
    check_meaning,
    pair_of,
    targets,
)

PATIENCE: Final = 120.0
"""Seconds for the compiler, five times and more what a user waits: what a campaign finds should not
depend on what else the machine does.
"""

Report = Callable[[str, int], None]
"""Called with what is about to be done to which pair, so that a crash can be blamed."""


@dataclass
class Counts:
    """The counts of a batch, or of a campaign.

    interpreted  of the pairs, those that the interpreter ran too (see MOST_INTERPRETED)
    attempts     primitives that were drawn, and of them those that were accepted
    """

    pairs: int = 0
    interpreted: int = 0
    kernels: int = 0
    attempts: int = 0
    accepted: int = 0


@dataclass
class Outcome:
    """The result of a batch: its counts, and its failures by number of pair."""

    counts: Counts = field(default_factory=Counts)
    failures: dict[int, FailedError] = field(default_factory=dict)


@dataclass
class _Case:
    number: int
    pair: Pair
    expected: list[np.ndarray]


def run_batch(
    seed: int | str,
    numbers: Iterable[int],
    report: Report,
    sanitizer: Sanitizer = Sanitizer.GUARDS,
) -> Outcome:
    """Check pairs of a seed, given by their numbers."""
    batch = _Batch(report, sanitizer)
    outcome, cases = batch.outcome, []
    for number in numbers:
        report("draw", number)
        outcome.counts.pairs += 1
        try:
            pair = pair_of(seed, number)
            outcome.counts.attempts += len(pair.attempts)
            outcome.counts.accepted += sum(a.refused is None for a in pair.attempts)
            cases.append(_Case(number, pair, check_meaning(pair)))
            outcome.counts.interpreted += pair.work <= MOST_INTERPRETED
        except FailedError as failed:
            outcome.failures[number] = failed
    batch.check_native(cases)
    return outcome


def check_pair(pair: Pair, sanitizer: Sanitizer = Sanitizer.GUARDS) -> None:
    """Check one pair, as a campaign does. Raises FailedError; a crash is a crash."""
    batch = _Batch(lambda what, number: None, sanitizer)
    batch.check_native([_Case(0, pair, check_meaning(pair))])
    for failed in batch.outcome.failures.values():
        raise failed


@dataclass
class _Batch:
    """One batch: the way to check it, and the outcome."""

    report: Report
    sanitizer: Sanitizer
    outcome: Outcome = field(default_factory=Outcome)

    def check_native(self, cases: list[_Case]) -> None:
        """Run the kernels of all cases, and enter what they did."""
        wanted = [(case, target) for case in cases for target in targets(case.pair)]
        for (case, target), kernel in zip(wanted, self.kernels(wanted)):
            if kernel is None or case.number in self.outcome.failures:
                continue
            self.outcome.counts.kernels += 1
            self.report("run", case.number)
            try:
                ran = run_sanitized(self.sanitizer, kernel, case.pair.arrays)
                where = f"in C ({target})"
                if ran.status:
                    raise AssertionError(f"a check fails {where}: status {ran.status}")
                scheduled = case.pair.schedule.program
                compare(case.pair.program.outputs, case.expected, ran.outputs, where, scheduled)
                if ran.faults:
                    raise AssertionError(f"{ran.faults[0]} {where}")
            except Exception as failure:
                self.outcome.failures[case.number] = FailedError("native", failure, case.pair)

    def kernels(self, wanted: list[tuple[_Case, Target]]) -> list[NativeKernel | None]:
        """The kernels, compiled together; alone where that fails. None for those that failed."""
        if not wanted:
            return []
        try:
            self.report("compile", wanted[0][0].number)
            items = [(case.pair.schedule.program, native_target(t)) for case, t in wanted]
            text = generate_together(items, hooks=self.sanitizer.hooks)
            return list(load_sanitized(self.sanitizer, text, find_toolchain(), time_limit=PATIENCE))
        except Exception as failure:
            if len(wanted) == 1:
                case = wanted[0][0]
                kind = "compile" if isinstance(failure, CompileError) else "generate"
                self.outcome.failures[case.number] = FailedError(kind, failure, case.pair)
                return [None]
        middle = len(wanted) // 2
        halves = (wanted[:middle], wanted[middle:])
        return [kernel for half in halves for kernel in self.kernels(half)]
