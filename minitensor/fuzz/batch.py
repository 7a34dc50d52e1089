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
from minitensor.fuzz.choices import Recorded
from minitensor.fuzz.pair import (
    MOST_INTERPRETED,
    FailedError,
    Pair,
    check_meaning,
    compare_native,
    draw_pair,
    failed_at,
    targets,
)
from minitensor.runtime import NativeKernel, find_toolchain, native_target
from minitensor.sanitize import Sanitizer, load_sanitized, run_sanitized

PATIENCE: Final = 120.0
"""Seconds for the compiler, five times and more what a user waits: what a campaign finds should not
depend on what else the machine does.
"""

Report = Callable[[str, int], None]
"""Told what is about to be done with which pair, so that a crash can be blamed."""


@dataclass
class Counts:
    """What a batch, or a campaign, has done.

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
    """What became of a batch: its counts, and what failed, by number of pair."""

    counts: Counts = field(default_factory=Counts)
    failures: dict[int, FailedError] = field(default_factory=dict)


@dataclass
class _Case:
    number: int
    pair: Pair
    expected: list[np.ndarray]


def run_batch(
    pairs: Iterable[tuple[int, Recorded]],
    report: Report,
    sanitizer: Sanitizer = Sanitizer.GUARDS,
) -> Outcome:
    """Check pairs, given by their numbers and their choices."""
    outcome = Outcome()
    cases = []
    for number, choices in pairs:
        report("draw", number)
        outcome.counts.pairs += 1
        try:
            pair = draw_pair(choices)
            outcome.counts.attempts += len(pair.attempts)
            outcome.counts.accepted += sum(a.refused is None for a in pair.attempts)
            cases.append(_Case(number, pair, check_meaning(pair)))
            outcome.counts.interpreted += pair.work <= MOST_INTERPRETED
        except FailedError as failed:
            outcome.failures[number] = failed
    wanted = [(case, target) for case in cases for target in targets(case.pair)]
    for (case, target), kernel in zip(wanted, _kernels(wanted, outcome, report, sanitizer)):
        if kernel is None or case.number in outcome.failures:
            continue
        outcome.counts.kernels += 1
        report("run", case.number)
        try:
            ran = run_sanitized(sanitizer, kernel, case.pair.arrays)
            if ran.status:
                raise AssertionError(f"a check fails in C ({target}): status {ran.status}")
            compare_native(case.pair, target, case.expected, ran.outputs)
            if ran.faults:
                raise AssertionError(f"{ran.faults[0]} ({target})")
        except FailedError as failed:
            outcome.failures[case.number] = failed
        except Exception as failure:
            outcome.failures[case.number] = failed_at("native", case.pair, failure)
    return outcome


def check_alone(choices: Recorded, sanitizer: Sanitizer = Sanitizer.GUARDS) -> None:
    """Check one pair, as a campaign does. Raises what it finds; a crash is a crash."""
    for failed in run_batch([(0, choices)], lambda what, number: None, sanitizer).failures.values():
        raise failed


def _kernels(
    wanted: list[tuple[_Case, Target]], outcome: Outcome, report: Report, sanitizer: Sanitizer
) -> list[NativeKernel | None]:
    """The kernels, compiled together; alone where that fails. None for those that failed."""
    if not wanted:
        return []
    items = []
    exact = [native_target(target) for _, target in wanted]
    try:
        report("compile", wanted[0][0].number)
        items = [(case.pair.schedule.program, t) for (case, _), t in zip(wanted, exact)]
        text = generate_together(items, hooks=sanitizer.hooks)
        return list(load_sanitized(sanitizer, text, find_toolchain(), time_limit=PATIENCE))
    except Exception as failure:
        if len(wanted) == 1:
            case = wanted[0][0]
            kind = "compile" if isinstance(failure, CompileError) else "generate"
            outcome.failures[case.number] = failed_at(kind, case.pair, failure)
            return [None]
    middle = len(wanted) // 2
    halves = (wanted[:middle], wanted[middle:])
    return [kernel for half in halves for kernel in _kernels(half, outcome, report, sanitizer)]
