"""Many pairs at once: their kernels are compiled as one text, which is what takes longest.

Each kernel runs under a sanitizer (`minitensor.sanitize`): between guard pages, with outputs and
scratch memory that hold NaN, unless another is asked for. Kernels for a GPU run in the emulator,
checked, in each order of their threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Target, generate_together
from minitensor.errors import CompileError
from minitensor.runtime import (
    ORDERS,
    EmulatedKernel,
    NativeKernel,
    find_toolchain,
    load_emulated,
    native_target,
)
from minitensor.sanitize import Sanitizer, load_sanitized, run_sanitized
from minitensor.testing.oracle import compare, listed
from minitensor.testing.pairs import (
    MOST_INTERPRETED,
    FailedError,
    Pair,
    check_mapping,
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
Runnable = NativeKernel | tuple[EmulatedKernel, ...]
"""A kernel of a CPU, or one of a GPU for each order of threads."""


@dataclass
class Counts:
    """The counts of a batch, or of a campaign.

    interpreted  of the pairs, those that the interpreter ran too (see MOST_INTERPRETED)
    attempts     primitives that were drawn, and of them those that were accepted
    refused      for a GPU: schedules that none runs
    shared, barriers, combined  of the kernels for a GPU, those with shared memory, with barriers,
                 with threads that combine what they hold
    """

    pairs: int = 0
    interpreted: int = 0
    kernels: int = 0
    attempts: int = 0
    accepted: int = 0
    refused: int = 0
    shared: int = 0
    barriers: int = 0
    combined: int = 0

    def count(self, program: ir.Program) -> None:
        """Enter what the kernels of a GPU have."""
        stmts = list(ir.stmts_of(program.body))
        scopes = {stmt.buffer.scope for stmt in stmts if isinstance(stmt, ir.Alloc)}
        self.shared += ir.Scope.SHARED in scopes
        self.barriers += any(isinstance(stmt, ir.Barrier) for stmt in stmts)
        self.combined += any(isinstance(stmt, ir.ThreadReduce) for stmt in stmts)


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
    target: str = "c",
) -> Outcome:
    """Check pairs of a seed for a target, given by their numbers."""
    batch = _Batch(report, sanitizer)
    outcome, cases = batch.outcome, []
    for number in numbers:
        report("draw", number)
        outcome.counts.pairs += 1
        try:
            pair = pair_of(seed, number, target)
            outcome.counts.attempts += len(pair.attempts)
            outcome.counts.accepted += sum(a.refused is None for a in pair.attempts)
            expected = check_meaning(pair)
            outcome.counts.interpreted += pair.work <= MOST_INTERPRETED
            if batch.is_kernel(pair, expected):
                cases.append(_Case(number, pair, expected))
        except FailedError as failed:
            outcome.failures[number] = failed
    batch.check_native(cases)
    return outcome


def check_pair(pair: Pair, sanitizer: Sanitizer = Sanitizer.GUARDS) -> None:
    """Check one pair, as a campaign does. Raises FailedError; a crash is a crash."""
    batch = _Batch(lambda what, number: None, sanitizer)
    expected = check_meaning(pair)
    if batch.is_kernel(pair, expected):
        batch.check_native([_Case(0, pair, expected)])
    for failed in batch.outcome.failures.values():
        raise failed


@dataclass
class _Batch:
    """One batch: the way to check it, and the outcome."""

    report: Report
    sanitizer: Sanitizer
    outcome: Outcome = field(default_factory=Outcome)

    def is_kernel(self, pair: Pair, expected: list[np.ndarray]) -> bool:
        """Tell whether a pair has kernels: for a GPU, run the passes. Raises FailedError."""
        if pair.target == "c" or not targets(pair):
            return True
        mapped = check_mapping(pair, expected)
        if mapped is None:
            self.outcome.counts.refused += 1
        else:
            self.outcome.counts.count(mapped)
        return mapped is not None

    def check_native(self, cases: list[_Case]) -> None:
        """Run the kernels of all cases, and enter what they did."""
        wanted = [(case, target) for case in cases for target in targets(case.pair)]
        for (case, target), kernel in zip(wanted, self.kernels(wanted)):
            if kernel is None or case.number in self.outcome.failures:
                continue
            self.outcome.counts.kernels += 1
            self.report("run", case.number)
            try:
                self.run(case, target, kernel)
            except Exception as failure:
                self.outcome.failures[case.number] = FailedError("native", failure, case.pair)

    def run(self, case: _Case, target: Target, kernel: Runnable) -> None:
        """Run a kernel. Raises AssertionError or ExecutionError if it does anything wrong."""
        outputs, scheduled = case.pair.program.outputs, case.pair.schedule.program
        if isinstance(kernel, NativeKernel):
            ran = run_sanitized(self.sanitizer, kernel, case.pair.arrays)
            where = f"in C ({target})"
            if ran.status:
                raise AssertionError(f"a check fails {where}: status {ran.status}")
            compare(outputs, case.expected, ran.outputs, where, scheduled)
            if ran.faults:
                raise AssertionError(f"{ran.faults[0]} {where}")
            return
        for one in kernel:
            got = one(*case.pair.arrays)
            where = f"in the emulator, {one.order}"
            compare(outputs, case.expected, listed(got), where, scheduled)

    def kernels(self, wanted: list[tuple[_Case, Target]]) -> list[Runnable | None]:
        """The kernels, compiled together; alone where that fails. None for those that failed."""
        if not wanted:
            return []
        try:
            self.report("compile", wanted[0][0].number)
            return self.compiled([(case.pair.schedule.program, t) for case, t in wanted])
        except Exception as failure:
            if len(wanted) == 1:
                case = wanted[0][0]
                kind = "compile" if isinstance(failure, CompileError) else "generate"
                self.outcome.failures[case.number] = FailedError(kind, failure, case.pair)
                return [None]
        middle = len(wanted) // 2
        halves = (wanted[:middle], wanted[middle:])
        return [kernel for half in halves for kernel in self.kernels(half)]

    def compiled(self, items: list[tuple[ir.Program, Target]]) -> list[Runnable | None]:
        """The kernels of programs, each with its target, all for a CPU or all for a GPU."""
        exact, tools = (
            [(program, native_target(target)) for program, target in items],
            find_toolchain(),
        )
        if items[0][1].is_gpu:
            text = generate_together(exact)
            orders = [
                load_emulated(text, tools, check=True, order=order, seed=1, time_limit=PATIENCE)
                for order in ORDERS
            ]
            return list(zip(*orders))
        text = generate_together(exact, hooks=self.sanitizer.hooks)
        return list(load_sanitized(self.sanitizer, text, tools, time_limit=PATIENCE))
