"""A search seen again from the records of a log: what was tried, and a model trained anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from minitensor.codegen import Target
from minitensor.errors import ArgumentError, CompileError, MinitensorError, TuningError
from minitensor.ir import Program, print_name
from minitensor.looks import readable_seconds
from minitensor.runtime import cpu_name, known_limits
from minitensor.schedule import Schedule, Trace
from minitensor.search.best import applied
from minitensor.search.features import extract_features
from minitensor.search.gbt import GradientBoostedTrees, Samples
from minitensor.search.log import counted
from minitensor.search.pictures.report import Searched
from minitensor.search.records import OK, Record
from minitensor.search.sketch import Sketch, generate_sketches
from minitensor.search.transfer import LEAST_WEIGHT, Floats
from minitensor.search.tried import Tried
from minitensor.search.tune.roofline import Roofline

MOST: Final = 256
"""The most candidates that a model is trained with again: the first ones."""
FIRST: Final = 8
"""Candidates that it knows when it scores the next; their number doubles from fit to fit."""
GUESSED: Final = "by a model trained with those before them (8, 16, 32, …)"


def searched_of(records: Sequence[Record], program: Program | None = None) -> Searched:
    """The report of the records of one workload and target, in the order of the log.

    program  the definition, without which neither loops nor a model nor a roofline are drawn

    Raises TuningError if none of the candidates worked, or there is none.
    """
    worked = [r for r in records if r.status == OK]
    if not worked:
        count = counted(len(records), "record")
        raise TuningError(f"nothing to report: {count}, and no candidate that worked")
    best = min(worked, key=lambda r: r.median)
    notes = []
    tried = [Tried.of(r, number, Trace(), known=False) for number, r in enumerate(records, start=1)]
    roofline, why = _roofline(best, program)
    notes += [why] if why else []
    schedule: Schedule | None = None
    model: GradientBoostedTrees | None = None
    sketches: Sequence[Sketch] = ()
    if program is None:
        notes.append(
            "Without the definition the loops, the sketches, the model and bytes are left out."
        )
    else:
        sketches, said = _sketches(program, best.target)
        notes += said
        schedule, model, tried, said = _replayed(records, tried, best, program)
        notes += said
    try:
        steps = str(best.parsed())
    except MinitensorError as problem:
        steps = f"# the trace cannot be read: {problem.message}"
    return Searched(
        best.name, tried, best.median, roofline, schedule, model, sketches, steps, notes, GUESSED
    )


def _roofline(best: Record, program: Program | None) -> tuple[Roofline, str]:
    """The roof of the program on this machine, if it is the one of the records."""
    size = sum(buffer.nbytes for buffer in program.params) if program is not None else 0
    if best.host.cpu != cpu_name():
        cpu = best.host.cpu or "another machine"
        return Roofline(best.flop, size, None), f"No roofline: it was measured on {cpu}."
    if best.target.kind != "c":
        return Roofline(best.flop, size, None), ""
    try:
        return Roofline(best.flop, size, known_limits(best.target.num_cores)), ""
    except (CompileError, ArgumentError) as problem:
        return Roofline(best.flop, size, None), f"No roofline: {problem.message}."


def _sketches(program: Program, target: Target) -> tuple[list[Sketch], list[str]]:
    try:
        return generate_sketches(program, target), []
    except MinitensorError as problem:
        return [], [f"No sketches: {problem.message}"]


def _replayed(
    records: Sequence[Record], tried: list[Tried], best: Record, program: Program
) -> tuple[Schedule | None, GradientBoostedTrees | None, list[Tried], list[str]]:
    """The best schedule, a model of the candidates, and what it foresaw of each."""
    rows: list[Floats] = []
    speeds: list[float] = []
    places: list[int] = []
    schedule, refused = None, 0
    for place, record in enumerate(records):
        if record is not best and (len(places) >= MOST or record.disturbed):
            continue
        try:
            one = applied(record, program)
            features = extract_features(one, record.target)
        except MinitensorError:
            refused += 1
            continue
        if record is best:
            schedule = one
        if len(places) < MOST and not record.disturbed:
            rows.append(features)
            speeds.append(1 / record.steady)
            places.append(place)
    notes = [f"{counted(refused, 'record')} cannot be applied to it now."] if refused else []
    if len(records) > MOST:
        notes.append(f"The model is of the first {MOST} candidates.")
    if len(rows) < 2 or not any(speeds):
        return schedule, None, tried, notes
    tried = _foreseen(rows, speeds, places, tried)
    return schedule, _fitted(rows, speeds), tried, notes


def _foreseen(
    rows: Sequence[Floats], speeds: Sequence[float], places: Sequence[int], tried: list[Tried]
) -> list[Tried]:
    """The candidates with the scores of models that know those before them."""
    found, known = list(tried), FIRST
    while known < len(rows):
        model = _fitted(rows[:known], speeds[:known])
        scores = model.predict(Samples.of(rows[known : 2 * known]))
        for place, score in zip(places[known : 2 * known], scores):
            found[place] = replace(found[place], guess=float(score))
        known *= 2
    return found


def _fitted(rows: Sequence[Floats], speeds: Sequence[float]) -> GradientBoostedTrees:
    y = np.array(speeds) / (max(speeds) or 1.0)
    weight = np.maximum(y, LEAST_WEIGHT)
    return GradientBoostedTrees(seed=0).fit(Samples.of(rows), y, weight=weight)


def groups_of(records: Sequence[Record]) -> list[list[Record]]:
    """The records by workload and target, the last group that was added to first."""
    found: dict[tuple[str, Target], list[Record]] = {}
    for record in records:
        found.setdefault((record.workload, record.target), []).append(record)
    return sorted(found.values(), key=lambda group: max(r.date for r in group), reverse=True)


def about(group: Sequence[Record]) -> str:
    """A group of records in words."""
    best = min(record.median for record in group)
    time = readable_seconds(best) if math.isfinite(best) else "none worked"
    return f"{print_name(group[0].name)} ({counted(len(group), 'record')}, {time})"
