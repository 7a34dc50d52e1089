"""Transfer: a model of other workloads, learnt from their logs before a search measures anything.

    global model    boosted trees over the records of all other workloads, fitted once
    local model     the model of the search, which learns what the global one leaves over
    score           weight * global + local; the weight fades

A model of three operators may rank the candidates of a fourth one worse than chance. So it counts
only while it ranks what was measured here better than chance would, and less with every candidate
that is measured. Not here: the local model (`tune.learner`).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor.codegen import Target
from minitensor.errors import ArgumentError, printable, reason_of, unexpected
from minitensor.ir import Program
from minitensor.lang import program_from_python
from minitensor.runtime import cpu_name
from minitensor.search.best import applied
from minitensor.search.features import extract_features
from minitensor.search.gbt import GradientBoostedTrees, Samples
from minitensor.search.log import Log, PathLike, Report, counted
from minitensor.search.policies import History
from minitensor.search.records import OK, Record
from minitensor.search.space import Space
from minitensor.search.strategy import Doubles
from minitensor.search.tried import Tried, spearman
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")

MOST_OF_ONE: Final = 256
"""Records of a workload that are learnt from: the fastest half, and a random one."""
MOST: Final = 512
"""Records of all workloads together: to apply a trace takes 24 to 56 ms."""
MOST_WORKLOADS: Final = 32
"""Workloads that are learnt from: those with the most records."""
FADE: Final = 32
"""Candidates after which the weight of the global model is half of what it would be."""
LEAST_WEIGHT: Final = 0.1
"""Of a candidate, whose weight is its speed, here and in a search: with none at all, nothing would
be learnt from those that are slow or fail, and they could have any score."""

Logs: TypeAlias = "PathLike | Log | Sequence[PathLike | Log] | None"
Floats: TypeAlias = "npt.NDArray[np.float32]"
Found: TypeAlias = "dict[str, dict[str, Record]]"
"""Records by workload and by the key of the trace."""


@dataclass
class Pretrained:
    """A model of other workloads, and what it is worth in a search.

    trees        the global model
    records      from which it learnt
    workloads    of which these are
    weight       of its scores: 1 before anything is measured, 0 if they are of no use
    correlation  Spearman's, of its scores with what was measured in this search; None if unknown
    """

    trees: GradientBoostedTrees
    records: int
    workloads: int
    weight: float = 1.0
    correlation: float | None = None
    _shift: float = field(default=0.0, repr=False)
    _scale: float = field(default=1.0, repr=False)

    def judge(self, samples: Samples, speeds: Doubles) -> None:
        """Find the weight anew, from all that was measured: speeds (samples,), 1 for the fastest.

        It is the correlation, if chance alone would hardly give it, and fades with their number;
        scores are brought to the mean and the spread of the speeds.
        """
        count, found = len(samples), self.trees.predict(samples)
        self.correlation = spearman(found, speeds)
        rank = self.correlation or 0.0
        chance = 1 / math.sqrt(max(1, count - 1))  # the standard deviation, if there is no relation
        self.weight = rank * FADE / (FADE + count) if rank > chance else 0.0
        self._shift, spread = float(found.mean()), float(found.std())
        self._scale = float(speeds.std()) / spread if spread else 0.0

    def margin(self, samples: Samples) -> Doubles:
        """The part (samples,) of the global model in the scores."""
        if not self.weight:
            return np.zeros(len(samples))
        found: Doubles = self.trees.predict(samples) - self._shift
        return self.weight * self._scale * found


def history_logs(history: Logs) -> list[Log]:
    """The logs of a history. Raises ArgumentError for what is none, TuningError for a log that is
    missing.
    """
    given = [history] if isinstance(history, (str, os.PathLike, Log)) else history or []
    if not isinstance(given, (list, tuple)):
        raise unexpected("a list of logs, or of their paths", "history", history)
    logs = [log if isinstance(log, Log) else Log(log) for log in given]
    for log in logs:
        log.check_is_there()
    return logs


def pretrained(
    logs: Sequence[Log], program: Program, target: Target, seed: int
) -> Pretrained | None:
    """The model that the records of other workloads give; None, with a logged warning, if none of
    them can be used.

    program, target  of the search; records of the program itself are left alone
    seed             of the choice of records, where there are too many

    What is left out gives a logged warning for each reason. Raises ArgumentError for a file that
    is no log, TuningError for one that cannot be read.
    """
    if not logs:
        return None
    left = _Left()
    found = _others(logs, workload_key(program), target, left)
    most = min(MOST_OF_ONE, MOST // max(1, len(found)))
    workloads = []
    for workload, records in found.items():
        other = _definition(logs, workload, records, left)
        if other is not None:
            chosen = _chosen(list(records.values()), most, f"{seed}/{workload}")
            workloads.append(list(_features(chosen, other, target, left)))
    left.warn()
    made = global_model(workloads, seed)
    if made is None:
        names = ", ".join(printable(str(log.path)) for log in logs)
        logger.warning("history: no record of another workload in %s can be used", names)
    return made


def global_model(
    workloads: Sequence[Sequence[tuple[float, Floats]]], seed: int
) -> Pretrained | None:
    """The model of some workloads; None if nothing of them worked.

    workloads  for each the programs that were tried: seconds of a call, infinity for a failure, and
               features (statements, columns)

    A label is the speed as a part of the workload's best; all workloads have the same weight.
    """
    rows: list[Floats] = []
    labels: list[float] = []
    weights: list[float] = []
    used = 0
    for tried in workloads:
        best = min((seconds for seconds, _ in tried), default=math.inf)
        if best < math.inf:
            speeds = [best / seconds for seconds, _ in tried]
            rows += [table for _, table in tried]
            labels += speeds
            weights += [max(speed, LEAST_WEIGHT) / len(tried) for speed in speeds]
            used += 1
    if not rows:
        return None
    samples = Samples.of(rows)
    trees = GradientBoostedTrees(seed=seed)
    trees.fit(samples, labels, weight=np.array(weights) * len(rows) / used)
    return Pretrained(trees, len(rows), used)


def other_searches(logs: Sequence[Log], program: Program, target: Target) -> list[History]:
    """The searches for other programs, as policies see them: what was tried of which sketch, in
    order, as far as today's sketches of these programs have it. What else is left out `pretrained`
    gives warnings of.
    """
    left, found = _Left(), []
    workloads = _others(logs, workload_key(program), target, left)
    most = MOST // max(1, len(workloads))
    for workload, records in workloads.items():
        other = _definition(logs, workload, records, left)
        if other is None:
            continue
        tried: list[Tried] = []
        with contextlib.suppress(Exception):  # of a definition that no rule takes
            space = Space.of(other, target)
            for record in sorted(records.values(), key=lambda record: record.date)[:most]:
                with contextlib.suppress(Exception):  # of a trace that this version refuses
                    known = space.decode(applied(record, other).trace)
                    if known is not None:
                        tried.append(Tried.of(record, len(tried) + 1, record.parsed(), known))
            found.append(History(tried, space, lambda batch: np.zeros(len(batch)), 0))
    return found


class _Left:
    """Records that are left out: how many, and why, with what is known of the first."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.first: dict[str, str] = {}

    def add(self, why: str, first: str, count: int = 1) -> None:
        self.counts[why] = self.counts.get(why, 0) + count
        self.first.setdefault(why, first)

    def warn(self) -> None:
        """Log a warning for each reason."""
        for why, count in self.counts.items():
            text = "history: %s left out, %s; the first: %s"
            logger.warning(text, counted(count, "record"), why, printable(self.first[why])[:200])


def _others(logs: Sequence[Log], own: str, target: Target, left: _Left) -> Found:
    """The records of other workloads for a target on this processor, the fastest of each trace;
    the workloads with the most records.
    """
    found: Found = {}
    cpu = cpu_name()
    for log in logs:
        report = Report()
        for record in log.records(report):
            if record.workload == own:
                continue
            if record.target != target:
                left.add(f"as they are not for {_words(target)}", _words(record.target))
            elif record.host.cpu != cpu:
                left.add(f"as they were not measured on {printable(cpu)}", record.host.cpu)
            elif record.disturbed:
                left.add("as other programs disturbed their measurement", record.name)
            else:
                known = found.setdefault(record.workload, {})
                before = known.get(record.trace_key)
                if before is None or record.median < before.median:
                    known[record.trace_key] = record
        if report.damaged and not (report.good or report.definitions or report.unknown):
            raise ArgumentError(
                f"expected logs of searches as history=, but {printable(str(log.path))} is none: "
                f"none of its {counted(report.damaged, 'line')} is a record"
            )
    order = sorted(found, key=lambda workload: (-len(found[workload]), workload))
    for workload in order[MOST_WORKLOADS:]:
        records = found[workload]
        name = next(iter(records.values())).name
        left.add(f"as {MOST_WORKLOADS} other workloads have more", name, len(records))
    return {workload: found[workload] for workload in order[:MOST_WORKLOADS]}


def _definition(
    logs: Sequence[Log], workload: str, records: Mapping[str, Record], left: _Left
) -> Program | None:
    """The program of a workload from the text that a log has of it."""
    name = next(iter(records.values())).name
    text = next((t for t in (log.definition(workload) for log in logs) if t is not None), None)
    if text is None:
        left.add("as no log has the definition of their workload", name, len(records))
        return None
    try:
        program = program_from_python(text)
    except ArgumentError as refusal:
        why = "as the definition of their workload cannot be read"
        left.add(why, f"{name}: {refusal.message}", len(records))
        return None
    if workload_key(program) != workload:
        left.add("as the definition in the log is of another workload", name, len(records))
        return None
    return program


def _chosen(records: Sequence[Record], most: int, seed: str) -> list[Record]:
    """Up to so many records: the fastest half, and of the others, failures too, a random one."""
    ranked = sorted(records, key=lambda record: (record.steady, record.trace_key))
    fastest = [record for record in ranked[: (most + 1) // 2] if record.status == OK]
    others = ranked[len(fastest) :]
    return fastest + random.Random(seed).sample(others, min(len(others), most - len(fastest)))


def _features(
    records: Sequence[Record], program: Program, target: Target, left: _Left
) -> Iterator[tuple[float, Floats]]:
    """Of records whose traces can be applied, the seconds and the features."""
    for record in records:
        try:
            yield record.steady, extract_features(applied(record, program), target)
        except Exception as failure:  # of a trace that this version refuses
            left.add("as their steps cannot be applied", reason_of(failure))


def _words(target: Target) -> str:
    return f"{target.kind} on {target.num_cores} cores with vectors of {target.vector_bits} bits"
