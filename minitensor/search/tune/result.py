"""Results of a search: the best schedule, all that was tried, and an explanation in words."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from minitensor.api import build, gpu_cost
from minitensor.codegen import Target
from minitensor.errors import printable, whole
from minitensor.ir import Program, print_name
from minitensor.looks import Shown, Text, figure, readable_count, readable_seconds
from minitensor.phrasebook import unknown_name
from minitensor.pictures import Gallery, folder_of, write
from minitensor.runtime import Kernel
from minitensor.schedule import Schedule, Trace
from minitensor.search.alike import ALIKE
from minitensor.search.features import FEATURE_NAMES, extract_features
from minitensor.search.gbt import GradientBoostedTrees
from minitensor.search.ledger import PHASES, Ledger
from minitensor.search.log import counted
from minitensor.search.pictures import Searched
from minitensor.search.policies import Arm, arms_of
from minitensor.search.records import OK
from minitensor.search.space import Candidate, Space, decisions, move_name
from minitensor.search.strategy import Shares
from minitensor.search.transfer import Pretrained
from minitensor.search.tried import Tried, curve, fastest, foreseen
from minitensor.search.tune.learner import Model
from minitensor.search.tune.progress import clock
from minitensor.search.tune.roofline import Roofline
from minitensor.search.unmade import Unmade
from minitensor.search.workload import operations

FEATURES: Final = 10
"""The number of features of the model that an explanation lists."""
MOVES: Final = 4
"""The number of moves that it lists, those that were made most; and of those made least."""


@dataclass(frozen=True, repr=False)
class TuneResult(Shown):
    """The best schedule of a search, and everything that was tried.

    program      the definition
    schedule     the fastest candidate
    seconds      its time per call: the median of its repeats
    tried        every candidate in order, those of earlier searches in the log first
    target       what was built for, with nothing left open
    space        what was searched
    model        what was learnt; None if nothing was
    elapsed      seconds that the search took
    time         the phases of these, a mapping and attributes: propose, emit, compile, check, run,
                 wait (mt.search.Ledger)
    interrupted  whether Ctrl-C ended it early
    stopped      the exception that ended it early; "" if none did
    ended        which of time_limit and patience ended it early, in words; "" if none did
    unmade       proposals of which no schedule could be made
    unscored     what the model could not learn from or score
    unrecorded   how many candidates the log did not take
    unchosen     answers of a policy that could not be used
    shares       the part of each round that a sketch policy gave each sketch; none without one
    odds         of the moves of each sketch, as multiples of the fixed ones, in the last generation
                 that a mutation policy was asked about; none without one
    history      the model of other workloads, and its weight at the end; None if there was none
    written      the program as it is written, number 0, if it won the finals; it is none of `tried`
    estimated    where times are estimates, as nothing was measured: what the emulator says of the
                 best; "" where they were measured
    """

    program: Program
    schedule: Schedule
    seconds: float
    tried: tuple[Tried, ...]
    target: Target
    space: Space
    model: Model | None
    elapsed: float
    time: Ledger
    interrupted: bool = False
    stopped: str = ""
    ended: str = ""
    unmade: Unmade = field(default_factory=Unmade)
    unscored: Unmade = field(default_factory=Unmade)
    unrecorded: int = 0
    unchosen: Unmade = field(default_factory=Unmade)
    shares: tuple[Shares, ...] = ()
    odds: Mapping[int, Sequence[float]] = field(default_factory=dict)
    written: Tried | None = None
    history: Pretrained | None = None
    estimated: str = ""

    if not TYPE_CHECKING:  # a checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_name("result", name, "a TuneResult", dir(type(self)))

    def __str__(self) -> str:
        failed = sum(self.failures.values())
        rate = f", {readable_count(self.gflops * 1e9, 'FLOP/s')}" if self.gflops else ""
        best = self.written if self.written is not None else self.best()[0]
        sketch = best.candidate.sketch if best.candidate is not None else None
        found = "as it is written" if sketch is None else self.space.sketches[sketch].rules
        return (
            f"{print_name(self.program.name)}: {self.shown_time} a call{rate}, the "
            f"fastest of {len(self.tried):,} ({failed:,} failed) in "
            f"{readable_seconds(self.elapsed)}\n    {found}\n"
            "    .schedule, .kernel(), .best(count), .explain(), .report(path)"
        )

    @property
    def measuring(self) -> float:
        """Seconds of building, checking and running: all phases but `propose`."""
        return self.time.total - self.time.propose

    @property
    def shown_time(self) -> str:
        """The time of a call in words: of an estimate, that it is none that was measured."""
        text = readable_seconds(self.seconds)
        if not self.estimated:
            return text
        if self.target.kind == "accelerator":
            return f"a simulated {text}"
        return f"an estimated {text} on {self.target.device} (nothing was measured)"

    @property
    def trace(self) -> Trace:
        """The steps of the best schedule."""
        return self.schedule.trace

    @property
    def gflops(self) -> float | None:
        """Billions of operations a second of the best; None if the definition counts none."""
        flop = operations(self.program)
        return flop / self.seconds / 1e9 if flop else None

    @property
    def failures(self) -> Counter[str]:
        """The number of candidates that failed, by kind."""
        return Counter(t.status for t in self.tried if t.status != OK)

    def kernel(self) -> Kernel:
        """The best schedule as a kernel. Raises CompileError as `mt.build`."""
        return build(self.schedule, self.target)

    def explain(self) -> str:
        """In words: how fast it is and could be, the sketch and its decisions, what the model
        thinks matters, what was tried, where the time went.

        Measures the machine where its limits are unknown: a second or two.
        """
        return Text(explanation(self, self.roofline()))

    def roofline(self) -> Roofline:
        """The program under the limits of this machine, measured where they are unknown."""
        found = Roofline.of(self.program, self.target)
        return found if self.interrupted else found.corrected(self.seconds)

    def plot(self, folder: str | os.PathLike[str] | None = None) -> Gallery:
        """The learning curve, which sketches were tried, predicted against measured, and the
        roofline, shown in a notebook; what cannot be drawn, as there is no model, is left out.

        folder  where each is written as NAME.svg too; made if it is missing

        Raises ArgumentError if the files cannot be written.
        """
        drawn = Gallery(self._searched().charts())
        if folder is not None:
            place = folder_of(folder)
            for picture in drawn:
                write(place / f"{picture.name}.svg", picture.svg())
        return drawn

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write an HTML file with the pictures of the search, each with its text: no extra is
        needed, and nothing is loaded from elsewhere (see docs/pictures.md). Returns its path.

        Raises ArgumentError if it cannot be written.
        """
        return write(path, self._searched().page())

    def _searched(self) -> Searched:
        return Searched(
            self.program.name,
            self.tried,
            self.seconds,
            self.roofline(),
            self.schedule,
            self.model,
            self.space.sketches,
            str(self.trace),
        )

    def best(self, count: int = 1) -> list[Tried]:
        """The fastest candidates, fastest first, and the program as it is written if it won."""
        return fastest(self.tried, self.written)[: whole("count", count, 1)]

    def curve(self) -> list[float]:
        """After each trial, the seconds of the fastest until then; infinity while there is none."""
        return curve(self.tried)

    @property
    def candidate(self) -> Candidate | None:
        """The best candidate; None for a record that the space does not hold."""
        return self.best()[0].candidate


# ---- the explanation


def explanation(result: TuneResult, roofline: Roofline) -> str:
    """The text: headings, and under each lines that are indented."""
    name = print_name(result.program.name)
    tried = len(result.tried)
    head = f"{name}: {result.shown_time} a call, the fastest of {tried:,}"
    if result.interrupted:
        head += "; the search was interrupted"
    if result.stopped or result.ended:
        head += f"; the search ended early: {result.stopped or result.ended}"
    sections = [
        ("how fast", _how_fast(result, roofline)),
        *_chosen(result),
        ("the schedule", result.trace.as_python().splitlines() or ["as it is written: no steps"]),
        ("what the model learnt", list(_learnt(result))),
        *_asked_for(result),
        ("what was tried", list(_tried(result))),
        ("where the time went", list(_time(result))),
    ]
    lines = [head]
    for heading, text in sections:
        lines += ["", heading, *(f"  {line}".rstrip() for line in text)]
    return "\n".join(lines)


def _how_fast(result: TuneResult, roofline: Roofline) -> list[str]:
    """The time beside that of the roofline; of an estimate, what it is made of."""
    if not result.estimated:
        return roofline.lines(result.seconds)
    if result.target.kind == "accelerator":
        kernel: Any = result.kernel()
        cost: object = kernel.timing
    else:
        cost = gpu_cost(result.schedule, result.target.device or "")
    return [*str(cost).splitlines(), f"the schedule is {result.estimated}"]


# ---- the sketch and its decisions


def _chosen(result: TuneResult) -> Iterator[tuple[str, list[str]]]:
    candidate = result.candidate
    if candidate is None:
        text = "the schedule comes from the log, and is none of those that the rules derive now"
        if not result.trace.steps:
            text = "none: no schedule that was tried is faster than the program as it is written"
        yield "the sketch", [text]
        return
    space = result.space
    derived = space.sketches[candidate.sketch].explain().splitlines()
    yield (
        f"the sketch, number {candidate.sketch + 1} of {len(space.sketches)}",
        derived or ["a template's: no rule was applied"],
    )
    yield "its decisions", list(decisions(space, candidate)) or ["none: nothing is left open"]


# ---- the model


def importances(model: Model | None) -> list[tuple[str, float]]:
    """The features that matter to a model, the most important first, each with its part of the
    whole; none of a model that has no method `importance`.
    """
    method = getattr(model, "importance", None)
    gain = np.asarray(method(), np.float64) if callable(method) else np.zeros(0)
    total = float(gain.sum())
    order = np.argsort(-gain, kind="stable")
    return [(_feature(n), float(gain[n]) / total) for n in order if gain[n] > 0]


def _feature(column: int) -> str:
    known = column < len(FEATURE_NAMES)
    return FEATURE_NAMES[column] if known else f"column {column}"


def _learnt(result: TuneResult) -> Iterator[str]:
    yield from _transferred(result.history)
    model, ranked = result.model, importances(result.model)
    trees = len(model.trees) if isinstance(model, GradientBoostedTrees) else None
    if model is None or trees == 0:
        yield "nothing: the strategy has no model, or there was too little to learn from"
        return
    kind = type(model).__name__ if trees is None else f"{trees} trees"
    if ranked:
        yield f"{kind}; of what it explains, the features that explain most:"
    else:
        yield f"{kind}, which does not say what matters to it"
    for name, part in ranked[:FEATURES]:
        yield f"  {100 * part:5.1f} %  {name}"
    found = foreseen(result.tried)
    if found is not None:
        yield f"rank correlation of its scores with the measured speeds: {found:.2f}"
    scores = statement_scores(result, model)
    if scores:
        yield "what it gives to each statement of this schedule (higher is faster):"
        width = max(len(name) for name, _ in scores)
        yield from (f"  {name:{width}}  {score:+.4f}" for name, score in scores)


def _transferred(history: Pretrained | None) -> Iterator[str]:
    """The part of other workloads in the scores."""
    if history is None:
        return
    learnt, of = counted(history.records, "record"), counted(history.workloads, "other workload")
    weight, rank = f"{history.weight:.2f}", history.correlation
    yield f"at first, from {learnt} of {of}; their weight in the scores at the end: {weight}"
    if rank is not None:
        yield f"  rank correlation of what they say with the measured speeds: {rank:.2f}"


def statement_scores(result: TuneResult, model: Model) -> list[tuple[str, float]]:
    """The parts of each statement of the best schedule in its score; none but of trees."""
    rows = extract_features(result.schedule, result.target)
    if not isinstance(model, GradientBoostedTrees) or rows.shape[1] != model.columns:
        return []
    names = map(print_name, result.schedule.program.blocks)
    return [(name, float(score)) for name, score in zip(names, model.predict_rows(rows))]


def _asked_for(result: TuneResult) -> Iterator[tuple[str, list[str]]]:
    """The moves that a mutation policy made more and less of, those of the best sketch."""
    candidate = result.candidate
    odds = result.odds.get(candidate.sketch) if candidate is not None else None
    if candidate is None or odds is None:
        return
    ranked = sorted(zip(odds, result.space.moves(candidate.sketch)), key=lambda pair: -pair[0])
    shown = ranked if len(ranked) <= 2 * MOVES else [*ranked[:MOVES], *ranked[-MOVES:]]
    lines = [
        f"{times:5.2f} times as often: {move_name(result.space, candidate.sketch, move)}"
        for times, move in shown
    ]
    yield f"what the mutation policy asked for, of sketch {candidate.sketch + 1}", lines


# ---- the search


def first_failures(result: TuneResult) -> list[tuple[str, int, str]]:
    """The kinds of failures, each with its number and its first message, most frequent first."""
    first = {t.status: t.error for t in reversed(result.tried)}
    return [(status, count, first[status]) for status, count in result.failures.most_common()]


def _tried(result: TuneResult) -> Iterator[str]:
    worked = sum(t.status == OK for t in result.tried)
    known = sum(t.known for t in result.tried)
    text = f"{counted(len(result.tried), 'candidate')}, of which {worked:,} worked"
    yield text + (f"; {known:,} were in the log already" if known else "")
    alike = [t for t in result.tried if t.change == ALIKE]
    if alike:
        best = min(alike, key=lambda t: t.seconds)
        time = f"{readable_seconds(best.seconds)} at best" if best.status == OK else "none worked"
        yield f"{len(alike):,} of them have the decisions of other programs' schedules: {time}"
    yield from _sketches(result)
    for status, count, message in first_failures(result):
        yield f"{count:,} {printable(status)}; the first: {printable(message)}"
    yield from _lost(result)


def _lost(result: TuneResult) -> Iterator[str]:
    """The exceptions that a search went on after, a line for each kind."""
    for what, unmade in (
        ("parts of the space could not be made", result.space.unmade),
        ("proposals could not be made", result.unmade),
        ("times the model raised", result.unscored),
        ("answers of a policy could not be used", result.unchosen),
    ):
        if unmade:
            yield f"{len(unmade):,} {what}:"
            yield from (f"  {line}" for line in unmade.lines())
    if result.unrecorded:
        yield f"{counted(result.unrecorded, 'candidate')} could not be written to the log"


def _sketches(result: TuneResult) -> Iterator[str]:
    """The number of trials of each sketch, and its best."""
    found: dict[int, list[float]] = {}
    for tried in result.tried:
        if tried.candidate is not None:
            found.setdefault(tried.candidate.sketch, []).append(tried.seconds)
    if len(found) < 2:
        return
    arms = arms_of(result.tried, result.space)
    for number, seconds in sorted(found.items(), key=lambda item: min(item[1])):
        best = min(seconds)
        text = f"{readable_seconds(best)} at best" if math.isfinite(best) else "none worked"
        yield f"  sketch {number + 1}: {counted(len(seconds), 'candidate')}, {text}"
        if result.shares:
            yield f"    {_share(result, arms[number])}"


def _share(result: TuneResult, arm: Arm) -> str:
    """The share of a sketch, and what it rests on."""
    first, *_, last = (shares.values[arm.number] for shares in result.shares * 2)
    gained, cost = math.exp(sum(arm.gains)), sum(arm.costs) / len(result.tried)
    text = f"made the best {gained:.2f} times as fast" if gained > 1.005 else "gained nothing"
    return f"its share {first:.0%} at first, {last:.0%} at last; {text} in {cost:.0%} of the time"


def _time(result: TuneResult) -> Iterator[str]:
    yield f"{clock(result.elapsed)} in all"
    for phase, seconds in result.time.items():
        yield f"{_seconds(seconds, result.elapsed):>16}  {phase}: {PHASES[phase]}"
    busy = sum(t.busy for t in result.tried)
    if busy:
        yield f"{counted(busy, 'candidate')} interrupted again and again: other programs ran"
    measured = sum(not t.known for t in result.tried)
    if measured and result.elapsed:
        yield f"{figure(measured / result.elapsed)} candidates a second"


def _seconds(part: float, whole: float) -> str:
    text = f"{part:.1f} s"
    return f"{text} ({100 * part / whole:.0f} %)" if whole else text
