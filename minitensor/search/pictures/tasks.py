"""A picture of a search for a network: the time of a call, a layer for each of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from minitensor.ir import print_name
from minitensor.looks import readable_seconds
from minitensor.pictures import Axis, Chart, Picture, fitted

HUES: Final = ("blue", "orange", "green", "purple", "brown", "red")
"""The colours of the tasks with the largest shares at first; the others are grey."""


@dataclass(frozen=True)
class Layer:
    """A task of the picture.

    name   of its program
    count  how many times a call runs it
    first  seconds of its kernel at first
    steps  seconds since the search began, and of its fastest kernel then
    """

    name: str
    count: int
    first: float
    steps: Sequence[tuple[float, float]]


def tasks_picture(title: str, layers: Sequence[Layer], elapsed: float) -> Picture:
    """The estimated time of a call over the seconds of a search, stacked.

    Source: Zheng et al., Ansor, OSDI 2020, Figure 10, which shows the sum alone.
    """
    ranked = sorted(layers, key=lambda layer: -layer.count * layer.first)
    shown, others = ranked[: len(HUES)], ranked[len(HUES) :]
    times = sorted({0.0, elapsed, *(at for layer in layers for at, _ in layer.steps)})
    total = 1e3 * sum(layer.count * layer.first for layer in layers)
    chart = Chart(Axis(0, elapsed or 1.0, "seconds"), Axis(0, 1.08 * total, "ms of a call"))
    below = [(at, 0.0) for at in times]
    groups = [([layer], hue) for layer, hue in zip(shown, HUES)]
    lines = []
    for members, hue in [(others, "grey"), *reversed(groups)]:
        if not members:
            continue
        heights = [sum(_at(layer, at) for layer in members) for at in times]
        top = [(at, low + 1e3 * height) for (at, low), height in zip(below, heights)]
        first, last = map(readable_seconds, (heights[0], heights[-1]))
        name = print_name(members[0].name) if hue != "grey" else f"{len(members)} other tasks"
        lines.append(f"{name}: {first} at first, {last} in the end")
        chart.area(_stairs(top), _stairs(below), hue, fitted(lines[-1], 90))
        below = top
    chart.line(_stairs(below), "red")
    return chart.picture("tasks", title, "\n".join([title, "", *reversed(lines)]))


def _at(layer: Layer, time: float) -> float:
    """Seconds of a call that a task takes, at a time."""
    known = [seconds for at, seconds in layer.steps if at <= time]
    return layer.count * min([layer.first, *known])


def _stairs(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a line that changes at the places alone."""
    corners = list(places[:1])
    for (_, before), (x, y) in pairwise(places):
        corners += [(x, before), (x, y)]
    return corners
