"""`TuneResult.explain()`: what was found, why it is fast, and what the search did with its time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from minitensor.errors import printable
from minitensor.ir import print_name
from minitensor.search.features import FEATURE_NAMES, extract_features
from minitensor.search.gbt import Model
from minitensor.search.records import OK
from minitensor.search.space import Choices, Knob, Space, Value
from minitensor.search.tune.roofline import Roofline, figure
from minitensor.search.tune.standing import clock

if TYPE_CHECKING:
    from minitensor.search.tune.result import TuneResult

FEATURES: Final = 10
"""How many features of the model are listed."""


def explanation(result: TuneResult, roofline: Roofline) -> str:
    """The text: headings, and under each lines that are indented."""
    name = print_name(result.program.name)
    tried = len(result.tried)
    head = f"{name}: {result.seconds * 1e3:.4g} ms a call, the fastest of {tried:,}"
    if result.interrupted:
        head += "; the search was interrupted"
    sections = [
        ("how fast", roofline.lines(result.seconds)),
        *_chosen(result),
        ("the schedule", result.trace.as_python().splitlines() or ["as it is written: no steps"]),
        ("what the model learnt", list(_learnt(result))),
        ("what was tried", list(_tried(result))),
        ("where the time went", list(_time(result))),
    ]
    lines = [head]
    for heading, text in sections:
        lines += ["", heading, *(f"  {line}".rstrip() for line in text)]
    return "\n".join(lines)


# ---- the sketch and its decisions


def _chosen(result: TuneResult) -> Iterator[tuple[str, list[str]]]:
    choices = result.choices
    if choices is None:
        text = "the schedule comes from the log, and is none of those that the rules derive now"
        yield "the sketch", [text]
        return
    space = result.space
    derived = space.sketches[choices.sketch].explain().splitlines()
    yield (
        f"the sketch, number {choices.sketch + 1} of {len(space.sketches)}",
        derived or ["a template's: no rule was applied"],
    )
    yield "its decisions", list(decisions(space, choices)) or ["none: nothing is left open"]


def decisions(space: Space, choices: Choices) -> Iterator[str]:
    """What a candidate chose where its sketch is open, a line for each decision."""
    knobs = space.knobs[choices.sketch]
    rows = [(_subject(knob), _value(knob, v)) for knob, v in zip(knobs, choices.values)]
    for block, place in zip(space.movable[choices.sketch], choices.locations):
        where = "in a loop nest of its own" if place == "root" else f"inside {print_name(place)}"
        rows.append((print_name(block), f"computed {where}"))
    if space.annotate:
        threads = f"at least {choices.parallel} iterations for each core"
        copies = f"at most {choices.unroll} copies"
        rows.append(("threads", threads if choices.parallel else "none"))
        rows.append(("unrolling", copies if choices.unroll else "none"))
    width = max((len(subject) for subject, _ in rows), default=0)
    for subject, value in rows:
        yield f"{subject:{width}}  {value}"


def _subject(knob: Knob) -> str:
    if knob.loop:
        return f"{print_name(knob.loop)} of {print_name(knob.block)}"
    return print_name(knob.block) if knob.block else f"step {knob.step + 1}"


def _value(knob: Knob, value: Value) -> str:
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    chosen = printable(str(knob.candidates[value]))
    if knob.is_place:
        return f"computed at {chosen}"
    return f"{chosen} (of {', '.join(printable(str(c)) for c in knob.candidates)})"


# ---- the model


def importances(model: Model) -> list[tuple[str, float]]:
    """The features that a model asks for, the most important first, each with its part of the
    gain of all.
    """
    gain = model.importance()
    total = float(gain.sum())
    order = np.argsort(-gain, kind="stable")
    return [(_feature(n), float(gain[n]) / total) for n in order if gain[n] > 0]


def _feature(column: int) -> str:
    known = column < len(FEATURE_NAMES)
    return FEATURE_NAMES[column] if known else f"column {column}"


def _learnt(result: TuneResult) -> Iterator[str]:
    model = result.model
    if model is None or not model.trees:
        yield "nothing: the strategy has no model, or there was too little to learn from"
        return
    ranked = importances(model)
    yield f"{len(model.trees)} trees; of what they explain, the features that explain most:"
    for name, part in ranked[:FEATURES]:
        yield f"  {100 * part:5.1f} %  {name}"
    scores = statement_scores(result, model)
    if scores:
        yield "what it gives to each statement of this schedule (higher is faster):"
        width = max(len(name) for name, _ in scores)
        yield from (f"  {name:{width}}  {score:+.4f}" for name, score in scores)


def statement_scores(result: TuneResult, model: Model) -> list[tuple[str, float]]:
    """What a model gives to each statement of the best schedule."""
    rows = extract_features(result.schedule, result.target)
    if rows.shape[1] != model.columns:
        return []
    names = map(print_name, result.schedule.program.blocks)
    return [(name, float(score)) for name, score in zip(names, model.predict_rows(rows))]


# ---- the search


def first_failures(result: TuneResult) -> list[tuple[str, int, str]]:
    """The kinds of failures, each with its number and its first message, most frequent first."""
    counts = Counter(t.status for t in result.tried if t.status != OK)
    first = {t.status: t.error for t in reversed(result.tried)}
    return [(status, count, first[status]) for status, count in counts.most_common()]


def _tried(result: TuneResult) -> Iterator[str]:
    worked = sum(t.status == OK for t in result.tried)
    known = sum(t.known for t in result.tried)
    text = f"{counted(len(result.tried), 'candidate')}, of which {worked:,} worked"
    yield text + (f"; {known:,} were in the log already" if known else "")
    yield from _sketches(result)
    for status, count, message in first_failures(result):
        yield f"{count:,} {printable(status)}; the first: {printable(message)}"


def _sketches(result: TuneResult) -> Iterator[str]:
    """How often each sketch was tried, and its best."""
    found: dict[int, list[float]] = {}
    for tried in result.tried:
        if tried.choices is not None:
            found.setdefault(tried.choices.sketch, []).append(tried.seconds)
    if len(found) < 2:
        return
    for number, seconds in sorted(found.items(), key=lambda item: min(item[1])):
        best = min(seconds)
        text = f"{best * 1e3:.4g} ms at best" if math.isfinite(best) else "none worked"
        yield f"  sketch {number + 1}: {counted(len(seconds), 'candidate')}, {text}"


def _time(result: TuneResult) -> Iterator[str]:
    searching = max(0.0, result.elapsed - result.measuring)
    yield f"{clock(result.elapsed)} in all"
    yield f"{_seconds(result.measuring, result.elapsed)} building and running candidates"
    yield f"{_seconds(searching, result.elapsed)} searching and learning"
    measured = sum(not t.known for t in result.tried)
    if measured and result.elapsed:
        yield f"{figure(measured / result.elapsed)} candidates a second"


def _seconds(part: float, whole: float) -> str:
    text = f"{part:.1f} s"
    return f"{text} ({100 * part / whole:.0f} %)" if whole else text


def counted(count: int, noun: str) -> str:
    """A number and what it counts, in the plural if need be."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
