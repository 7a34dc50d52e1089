"""Charts of a search: the learning curve, predicted against measured, the roofline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from minitensor.looks import figure
from minitensor.pictures import Axis, Chart, Picture
from minitensor.search.log import counted
from minitensor.search.records import OK
from minitensor.search.tried import Tried, curve, foreseen
from minitensor.search.tune.roofline import Roofline

POINTS: Final = 2000
"""The most candidates that are drawn; more are thinned out evenly."""
WINDOW: Final = 16
"""Candidates whose sketches are counted together."""
LINES: Final = ("blue", "orange", "green", "purple", "brown")
"""The colours of the sketches that were tried most."""
LISTED: Final = 40
"""The most that are listed in words."""


def _thinned(tried: Sequence[Tried]) -> list[Tried]:
    step = max(1, math.ceil(len(tried) / POINTS))
    return list(tried[::step])


def _listed(lines: Sequence[str]) -> list[str]:
    more = [f"… {len(lines) - LISTED:,} more"] if len(lines) > LISTED else []
    return [*lines[:LISTED], *more]


def curve_picture(tried: Sequence[Tried], roofline: Roofline, seconds: float) -> Picture:
    """The rate of each candidate in the order of their trials, and the best until then."""
    rate, top = roofline.rate, roofline.rate(seconds)
    peak = roofline.peak
    near = peak if peak is not None and peak < 3 * top else None
    y = Axis(0, 1.12 * max(top, near or 0), roofline.unit)
    chart = Chart(Axis(0, len(tried) + 1, "candidate"), y)
    for known, colour, key in ((True, "grey", "known from the log"), (False, "blue", "measured")):
        found = [t for t in _thinned(tried) if t.status == OK and t.known is known]
        if found:
            chart.points([(t.number, rate(t.seconds)) for t in found], colour, key)
    failed = [(t.number, 0.0) for t in _thinned(tried) if t.status != OK]
    if failed:
        chart.points(failed, "orange", "failed", "cross")
    steps = list(_steps(curve(tried), roofline))
    if steps:
        chart.line(steps, "red", "best until then")
    if near is not None:
        chart.line([(0, near), (len(tried) + 1, near)], "grey", dash=True)
        chart.note(f"the machine's peak, {figure(near)} {roofline.unit}", 0, near)
    words = f"{roofline.figures(seconds)}, after {len(tried):,} candidates."
    return chart.picture("curve", "The learning curve", "\n".join([words, "", *_better(tried)]))


def _steps(best: Sequence[float], roofline: Roofline) -> Iterator[tuple[float, float]]:
    """The corners of the curve of the best."""
    last = 0.0
    for number, seconds in enumerate(best, start=1):
        if math.isfinite(seconds) and roofline.rate(seconds) != last:
            if last:
                yield number, last
            last = roofline.rate(seconds)
            yield number, last
    if last:
        yield len(best), last


def _better(tried: Sequence[Tried]) -> list[str]:
    """The candidates that were faster than all before them."""
    best, lines = math.inf, []
    for one in tried:
        if one.seconds < best:
            best = one.seconds
            lines.append(f"candidate {one.number}: {one}, the best until then")
    return _listed(lines)


def tried_picture(tried: Sequence[Tried]) -> Picture | None:
    """The part of each sketch in what was tried, over time; None if one alone was."""
    numbers = [t.candidate.sketch if t.candidate else None for t in tried]
    counts = Counter(number for number in numbers if number is not None)
    if len(counts) < 2:
        return None
    shown = sorted(number for number, _ in counts.most_common(len(LINES)))
    chart = Chart(Axis(0, len(tried) + 1, "candidate"), Axis(0, 1, f"part of the last {WINDOW}"))
    others = counts.keys() - set(shown)
    rows = [(f"{n + 1}", colour, {n}) for n, colour in zip(shown, LINES)]
    rows += [("others", "grey", others)] if others else []
    step = max(1, len(tried) // POINTS)
    for key, colour, own in rows:
        isin = list(accumulate((number in own for number in numbers), initial=0))
        ends = range(1, len(numbers) + 1, step)
        parts = [(n, (isin[n] - isin[max(0, n - WINDOW)]) / min(n, WINDOW)) for n in ends]
        chart.line(parts, colour, key)
    best, words = math.inf, []
    for one, sketch in zip(tried, numbers):
        if one.seconds < best and sketch is not None:
            words.append(f"candidate {one.number}, of sketch {sketch + 1}: the best until then")
        best = min(best, one.seconds)
    each = [f"sketch {n + 1}: {counted(count, 'candidate')}" for n, count in counts.most_common()]
    lines = [f"{len(counts)} sketches were tried.", "", *_listed(each), "", *_listed(words)]
    return chart.picture("tried", "Which sketches were tried", "\n".join(lines))


def predicted_picture(
    tried: Sequence[Tried], roofline: Roofline, how: str = "before they were measured"
) -> Picture | None:
    """The model's scores of candidates over their rates; None without scores.

    how  the way in which the scores were made
    """
    scored = [t for t in tried if t.guess is not None and math.isfinite(t.guess)]
    worked = [t for t in scored if t.status == OK]
    if not worked:
        return None
    guesses = [t.guess or 0.0 for t in scored]
    low, high = min(guesses), max(guesses)
    margin = 0.06 * (high - low) or 1.0
    most = 1.08 * max(roofline.rate(t.seconds) for t in worked)
    y = Axis(low - margin, high + margin, "score of the model")
    chart = Chart(Axis(0, most, f"measured, {roofline.unit}"), y)
    half = len(tried) / 2
    for later, colour, key in ((False, "grey", "first half"), (True, "blue", "second half")):
        found = [t for t in _thinned(worked) if (t.number > half) is later]
        if found:
            points = [(roofline.rate(t.seconds), t.guess or 0.0) for t in found]
            chart.points(points, colour, key)
    failed = [(0.0, t.guess or 0.0) for t in _thinned(scored) if t.status != OK]
    if failed:
        chart.points(failed, "orange", "failed", "cross")
    correlation = foreseen(worked)
    text = f"Scores of {len(scored):,} candidates {how}."
    if correlation is not None:
        text += f" Rank correlation with the measured speeds: {correlation:.2f}."
    rates = (f"{figure(roofline.rate(t.seconds))} {roofline.unit}" for t in worked)
    lines = [f"candidate {t.number}: score {t.guess:.3g}, {r}" for t, r in zip(worked, rates)]
    return chart.picture(
        "predicted", "Predicted and measured", "\n".join([text, "", *_listed(lines)])
    )


def roofline_picture(
    tried: Sequence[Tried],
    roofline: Roofline,
    seconds: float,
    caches: Mapping[str, float] | None = None,
) -> Picture | None:
    """All candidates under what the machine can do; None where that, or the work, is not known.

    caches  GB/s of the levels of the caches, roofs of their own
    """
    limits = roofline.limits
    if limits is None or not roofline.bytes:
        return None
    worked = _thinned([t for t in tried if t.status == OK])
    rates, best = [roofline.rate(t.seconds) for t in worked], roofline.rate(seconds)
    slopes = {level: rate for level, rate in (caches or {}).items() if rate > limits.bandwidth}
    slow = sorted((caches or {}).keys() - slopes.keys())
    slopes = {**dict(sorted(slopes.items())), "memory": limits.bandwidth}
    words = [*roofline.lines(seconds), ""]
    words += [f"{level}: {figure(rate)} GB/s" for level, rate in slopes.items()]
    if slow:
        words.append(f"Left out: {', '.join(slow)}, measured slower than memory on a busy machine.")
    text = "\n".join([roofline.figures(seconds) + ".", *words])
    if not roofline.flop:
        return _bandwidth(worked, roofline, seconds, slopes, text)
    here, peak = roofline.intensity, limits.peak
    low = min(here, peak / max(slopes.values())) / 4
    high = max(here, roofline.ridge) * 4
    bottom = min([*rates, best, low * limits.bandwidth, peak / 4]) / 1.5
    chart = Chart(
        Axis(low, high, "operations per byte of the arguments", True),
        Axis(bottom, 1.8 * max(peak, best), "GFLOP/s", True),
    )
    chart.line([(here, bottom), (here, 1.8 * max(peak, best))], "grey", dash=True)
    for level, rate in slopes.items():
        start, ridge = max(low, bottom / rate), peak / rate
        chart.line(
            [(start, start * rate), (ridge, peak)], "brown" if level != "memory" else "purple"
        )
        chart.note(f"{level} {figure(rate)} GB/s", start, start * rate, (8, 12))
    first = peak / max(slopes.values())
    chart.line([(min(first, roofline.ridge), peak), (high, peak)], "purple")
    chart.note(f"multiply-adds {figure(peak)} GFLOP/s", high, peak, (-4, -6), "end")
    chart.points([(here, rate) for rate in rates], "blue", "candidates")
    chart.points([(here, best)], "red", "the best", "best")
    chart.note(f"{figure(best)} GFLOP/s", here, best, (10, 4))
    return chart.picture("roofline", "The roofline", text)


def _bandwidth(
    worked: Sequence[Tried],
    roofline: Roofline,
    seconds: float,
    slopes: Mapping[str, float],
    text: str,
) -> Picture:
    """Bytes a second of every candidate beside what memory and the caches give."""
    rates, best = [(t.number, roofline.rate(t.seconds)) for t in worked], roofline.rate(seconds)
    most = max([n for n, _ in rates] + [1])
    values = [rate for _, rate in rates] + list(slopes.values()) + [best]
    y = Axis(min(values) / 1.6, 1.6 * max(values), "GB/s of the arguments", True)
    chart = Chart(Axis(0, most + 1, "candidate"), y)
    for level, rate in slopes.items():
        chart.line([(0, rate), (most + 1, rate)], "brown" if level != "memory" else "purple")
        chart.note(f"{level} {figure(rate)} GB/s", 0, rate)
    chart.points(rates, "blue", "candidates")
    number = min(worked, key=lambda t: t.seconds).number if worked else 0
    chart.points([(number, best)], "red", "the best", "best")
    chart.note(f"{figure(best)} GB/s", number, best, (10, 4))
    return chart.picture("roofline", "The roofline", text)
