"""The results as a roofline (needs matplotlib): the limits of the machine, and all implementations.

Left, workloads that multiply and add: operations a second over operations per byte, on logarithmic
axes; the roof is the measured bandwidth where it rises and the measured peak where it is flat.
Right, workloads that only move memory: bytes a second, beside the measured bandwidth.

Source: Williams, Waterman, Patterson, Roofline, CACM 2009.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from benchmarks.compare.implementation import BOUND, OURS, TUNED, TUNED_BOUND
from benchmarks.compare.report import threads_text
from benchmarks.compare.results import Report, Result, Run
from minitensor.cli.errors import CommandError
from minitensor.runtime import Limits

FORMATS: Final = (".png", ".svg", ".pdf")

_OURS: Final = {
    OURS: ("#c1121f", "o"),
    BOUND: ("#c1121f", "*"),
    TUNED: ("#f77f00", "o"),
    TUNED_BOUND: ("#f77f00", "*"),
}
_COLOURS: Final = ("#1f77b4", "#2a9d8f", "#8e6bbf", "#e09f3e", "#5c677d", "#6a994e", "#b5838d")
_MARKERS: Final = ("s", "^", "v", "D", "P", "X", "<")
_GREY: Final = "#9a9a9a"

_MARGINS: Final = 1.6
"""Inches above and below all rows."""
_ROOM: Final = 2.2
"""Inches above a row, for the names of the workloads."""

Look = tuple[str, str]
"""Colour and marker."""


def check(path: str) -> None:
    """Raise CommandError if a plot cannot be drawn to that file."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise CommandError(f"--plot {path}: the name must end in {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise CommandError(f"--plot {path}: there is no folder {target.parent}")
    try:
        if target.exists():
            target.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as failure:
        raise CommandError(f"--plot {path}: it cannot be written: {failure.strerror}") from failure
    _figure_class()


def draw(report: Report, path: str) -> None:
    """Draw all runs that measured something, one above the other. Raises CommandError."""
    runs = [run for run in report.runs if run.results and run.limits is not None]
    most = max((sum(not r.flop for r in run.results) for run in runs), default=0)
    inches = _MARGINS + (_ROOM + max(4.5, 0.4 * most)) * len(runs)
    figure = _figure_class()(figsize=(17, inches))
    names = {e.name for run in runs for result in run.results for e in result.entries}
    looks = _looks(sorted(names))
    grid = figure.add_gridspec(
        max(1, len(runs)),
        5,
        left=0.05,
        right=0.98,
        top=1 - (0.5 + _ROOM) / inches,
        bottom=1.1 / inches,
        hspace=(_ROOM + 0.6) / max(4.5, 0.4 * most),
        wspace=1.5,
    )
    handles: dict[str, Any] = {}
    for row, run in enumerate(runs):
        if run.limits is not None:
            for axes in _draw_run(figure, grid, row, run, run.limits, looks):
                handles |= dict(zip(*reversed(axes.get_legend_handles_labels())))
    shown = [name for name in looks if name in handles]
    figure.legend([handles[n] for n in shown], shown, loc="lower center", ncol=len(shown) or 1)
    figure.suptitle(f"{report.about['machine']['cpu']}, {report.about['date']}", fontsize=13)
    try:
        figure.savefig(path, dpi=110)
    except OSError as failure:
        raise CommandError(f"cannot write {path}: {failure.strerror}") from failure


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional
    except ImportError:
        message = "a plot needs matplotlib: python -m pip install matplotlib"
        raise CommandError(message) from None
    return Figure


def _looks(names: Sequence[str]) -> dict[str, Look]:
    """A colour and a marker for each implementation; of a bound one, the colour of the other."""
    colours, markers = cycle(_COLOURS), cycle(_MARKERS)
    looks: dict[str, Look] = dict(_OURS)
    for name in names:
        if name not in looks:
            plain = looks.get(name.removesuffix(" bound"))
            looks[name] = (plain[0], "*") if plain else (next(colours), next(markers))
    return looks


def _draw_run(
    figure: Any, grid: Any, row: int, run: Run, limits: Limits, looks: dict[str, Look]
) -> list[Any]:
    """One row of the figure; its axes."""
    compute = [r for r in run.results if r.flop and r.entries]
    memory = [r for r in run.results if not r.flop and r.entries]
    panels = [(_roofline, compute), (_bandwidth, memory)]
    columns = [slice(0, 3), slice(3, 5)] if compute and memory else [slice(0, 5)] * 2
    drawn = []
    for (panel, results), column in zip(panels, columns):
        if results:
            axes = figure.add_subplot(grid[row, column])
            panel(axes, results, limits, looks)
            text = threads_text(run.threads)
            # above a roofline are the names, above bandwidths the machine's
            place = {"y": 0.03, "x": 0.02} if panel is _roofline else {"y": 1.04}
            axes.set_title(text, loc="left", weight="bold", **place)
            drawn.append(axes)
    return drawn


def _roofline(axes: Any, results: Sequence[Result], limits: Limits, looks: dict[str, Look]) -> None:
    intensity = {r.key: r.flop / r.bytes for r in results}
    rates = [r.rate(e) for r in results for e in r.entries]
    ridge = limits.peak / limits.bandwidth
    low = min(*intensity.values(), ridge) / 1.6
    high = max(*intensity.values(), 8 * ridge) * 1.6
    # up to the ridge memory is the roof, from there on arithmetic
    axes.plot([low, ridge, high], [low * limits.bandwidth, limits.peak, limits.peak], "k-", lw=2)
    axes.annotate(
        f"FMA peak {limits.peak:.0f} GFLOP/s",
        (high, limits.peak),
        (-4, 5),
        textcoords="offset points",
        ha="right",
        fontsize=9,
    )
    axes.annotate(
        f"memory {limits.bandwidth:.0f} GB/s",
        (low, low * limits.bandwidth),
        (16, 4),
        textcoords="offset points",
        fontsize=9,
    )
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set_ylim(min(*rates, low * limits.bandwidth) / 1.6, max(*rates, limits.peak) * 1.4)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_plain)
        axis.set_minor_formatter(_plain)
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("GFLOP/s")
    axes.grid(True, which="both", alpha=0.15)
    _labels(axes, results, intensity)
    for name, (colour, marker) in looks.items():
        found = [(r, e) for r in results if (e := r.entry(name)) is not None]
        if found:
            _points(
                axes,
                [intensity[r.key] for r, _ in found],
                [r.rate(e) for r, e in found],
                name,
                (colour, marker),
            )


def _labels(axes: Any, results: Sequence[Result], intensity: dict[str, float]) -> None:
    """The names above the axes, none on another, each led to its place."""
    ordered = sorted(results, key=lambda r: intensity[r.key])
    low, high = map(math.log, axes.get_xlim())
    wanted = [(math.log(intensity[r.key]) - low) / (high - low) for r in ordered]
    for result, place in zip(ordered, apart(wanted)):
        axes.axvline(intensity[result.key], color=_GREY, lw=0.6, alpha=0.6, zorder=0)
        axes.annotate(
            result.name,
            (intensity[result.key], 1.0),
            (place, 1.09),
            xycoords=("data", "axes fraction"),
            textcoords="axes fraction",
            rotation=35,
            ha="left",
            va="bottom",
            rotation_mode="anchor",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": _GREY, "lw": 0.6, "relpos": (0, 0)},
        )


def apart(wanted: Sequence[float]) -> list[float]:
    """Places from 0 to 0.95, in ascending order like the wanted ones, near them, with gaps."""
    gap = min(0.07, 0.95 / max(1, len(wanted)))
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + gap) if places else place)
    limit = 0.95
    for n in reversed(range(len(places))):
        places[n] = min(places[n], limit)
        limit = places[n] - gap
    return places


def _plain(value: float, place: object) -> str:
    """20, 50, 100 rather than powers of ten."""
    return f"{value:g}" if f"{value:e}"[0] in "125" else ""


def _bandwidth(
    axes: Any, results: Sequence[Result], limits: Limits, looks: dict[str, Look]
) -> None:
    places = {r.key: -n for n, r in enumerate(results)}
    axes.axvline(limits.bandwidth, color="k", lw=2)
    axes.annotate(
        f"memory {limits.bandwidth:.0f} GB/s",
        (limits.bandwidth, 1.0),
        (4, 4),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right",
        fontsize=9,
    )
    for name, look in looks.items():
        found = [(r, e) for r in results if (e := r.entry(name)) is not None]
        if found:
            rates = [r.rate(e) for r, e in found]
            _points(axes, rates, [places[r.key] for r, _ in found], name, look)
    axes.set_yticks(list(places.values()), [r.name for r in results])
    axes.set_ylim(-len(results) + 0.4, 0.6)
    fastest = max(r.rate(e) for r in results for e in r.entries)
    axes.set_xlim(0, 1.15 * max(limits.bandwidth, fastest))
    axes.set_xlabel("GB/s (bytes that must be moved at least)")
    axes.grid(True, alpha=0.2)


def _points(axes: Any, x: Sequence[float], y: Sequence[float], name: str, look: Look) -> None:
    own = name in _OURS
    axes.plot(
        x,
        y,
        linestyle="none",
        color=look[0],
        marker=look[1],
        markersize=11 if look[1] == "*" else 8,
        alpha=0.95 if own else 0.75,
        markeredgecolor="white",
        markeredgewidth=0.7,
        zorder=4 if own else 3,
        label=name,
    )
