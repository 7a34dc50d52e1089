"""`TuneResult.plot()`: a search as pictures (extra `[ui]`).

curve.png       how fast each candidate was, and the best until then
predicted.png   what the model thought of candidates before they were measured
importance.png  which features the model asks for
roofline.png    all candidates under what the machine can do
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from minitensor.errors import ArgumentError, MinitensorError, printable, unexpected
from minitensor.search.records import OK
from minitensor.search.strategy import Tried
from minitensor.search.tune.roofline import Roofline, figure
from minitensor.search.tune.tried import curve, foreseen

FEATURES: Final = 15
"""The most features that are shown."""
LEAST: Final = 0.0005
"""The part of the gain that a feature must have to be shown."""
INCHES: Final = (8.0, 5.0)
DPI: Final = 120

_BEST: Final = "#c1121f"
_TRIED: Final = "#1f77b4"
_FAILED: Final = "#e09f3e"
_GREY: Final = "#9a9a9a"


@dataclass(frozen=True)
class Pictures:
    """The pictures of a search.

    name         of the program
    tried        every candidate in order
    seconds      of the best one
    roofline     of the program
    importances  features and their parts of what the model explains, the largest first
    """

    name: str
    tried: Sequence[Tried]
    seconds: float
    roofline: Roofline
    importances: Sequence[tuple[str, float]]

    def draw(self, directory: Path) -> list[Path]:
        """Draw into files of a folder; their paths. What cannot be drawn is left out.

        Raises ArgumentError for a file that cannot be written.
        """
        pictures: dict[str, Callable[[Any], str | None]] = {
            "curve": self._curve,
            "predicted": self._predicted,
            "importance": self._importance,
            "roofline": self._roofline,
        }
        drawn = []
        for name, picture in pictures.items():
            sheet = figure_class()(figsize=INCHES, layout="constrained")
            axes = sheet.add_subplot()
            title = picture(axes)
            if title is not None:
                name_shown = self.name.replace("$", r"\$")
                axes.set_title(f"{name_shown}: {title}", loc="left", fontsize=11)
                axes.spines[["top", "right"]].set_visible(False)
                path = directory / f"{name}.png"
                try:
                    sheet.savefig(path, dpi=DPI)
                except OSError as failure:
                    raise _unwritable(path, failure) from failure
                drawn.append(path)
        return drawn

    # ---- the learning curve

    def _curve(self, axes: Any) -> str | None:
        """The rate of each candidate in the order of their trials, and the best until then."""
        roofline, rate = self.roofline, self.roofline.rate
        for known, label, alpha in ((True, "known from the log", 0.3), (False, "measured", 0.6)):
            found = [t for t in self.tried if t.status == OK and t.known is known]
            if found:
                x, y = [t.number for t in found], [rate(t.seconds) for t in found]
                axes.plot(x, y, "o", color=_TRIED, ms=4, alpha=alpha, mew=0, label=label)
        failed = [t.number for t in self.tried if t.status != OK]
        if failed:
            axes.plot(
                failed, [0] * len(failed), "x", color=_FAILED, ms=5, label="failed", clip_on=False
            )
        best = [rate(s) if math.isfinite(s) else math.nan for s in curve(self.tried)]
        numbers = range(1, len(best) + 1)
        axes.step(numbers, best, where="post", color=_BEST, lw=2, label="best until then")
        top = rate(self.seconds)
        axes.set(xlabel="candidate", ylabel=roofline.unit, xlim=(0, len(best) + 1))
        axes.set_ylim(0, 1.12 * top)
        if roofline.peak is not None and roofline.peak < 3 * top:
            axes.axhline(roofline.peak, color="k", lw=1, ls="--")
            text = f"the machine's peak, {figure(roofline.peak)} {roofline.unit}"
            _note(axes, text, (0, roofline.peak), (4, 3))
            axes.set_ylim(0, 1.12 * max(top, roofline.peak))
        axes.grid(True, alpha=0.2)
        axes.legend(loc="lower right", framealpha=0.9)
        return f"{self.roofline.figures(self.seconds)}, after {len(best):,} candidates"

    # ---- predicted against measured

    def _predicted(self, axes: Any) -> str | None:
        """The scores of candidates before they were measured, over their rates."""
        found = [t for t in self.tried if t.guess is not None and t.status == OK]
        failed = [t for t in self.tried if t.guess is not None and t.status != OK]
        if not found:
            return None
        x, y = [self.roofline.rate(t.seconds) for t in found], _guesses(found)
        dots = axes.scatter(x, y, c=[t.number for t in found], cmap="viridis_r", s=22, alpha=0.85)
        axes.figure.colorbar(dots, ax=axes, label="candidate (later ones are darker)")
        if failed:
            nothing = [0] * len(failed)
            axes.plot(nothing, _guesses(failed), "x", color=_FAILED, label="failed", clip_on=False)
            axes.legend(loc="lower right")
        axes.set(
            xlabel=f"measured, {self.roofline.unit}",
            ylabel="the model's score before it was measured",
        )
        axes.set_xlim(left=0)
        axes.grid(True, alpha=0.2)
        correlation = foreseen(found)
        text = "what the model foresaw"
        if correlation is not None:
            text += f" (rank correlation of all {len(found):,}: {correlation:.2f})"
        return text

    # ---- what the model asks for

    def _importance(self, axes: Any) -> str | None:
        """The features with the largest parts of the gain, the most important on top."""
        ranked = [(name, part) for name, part in self.importances[:FEATURES] if part >= LEAST]
        if not ranked:
            return None
        names, parts = [name for name, _ in ranked], [100 * part for _, part in ranked]
        places = range(len(ranked), 0, -1)
        axes.barh(places, parts, color=_TRIED, height=0.7)
        for place, part in zip(places, parts):
            axes.annotate(
                f"{part:.1f} %", (part, place), (4, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(list(places), names)
        axes.set_xlim(0, 1.15 * max(parts))
        axes.set_xlabel("part of what the trees explain, %")
        axes.tick_params(axis="y", length=0)
        return "what the model asks for"

    # ---- the roofline

    def _roofline(self, axes: Any) -> str | None:
        """All candidates under the roof; bytes a second where no operations are counted."""
        worked = [t for t in self.tried if t.status == OK]
        limits = self.roofline.limits
        if limits is None or not self.roofline.bytes:
            return None
        rates = [self.roofline.rate(t.seconds) for t in worked]
        best = self.roofline.rate(self.seconds)
        if not self.roofline.flop:
            return self._bandwidth(axes, worked)
        here, ridge = self.roofline.intensity, self.roofline.ridge
        low, high = min(here, ridge) / 4, max(here, ridge) * 4
        roof = [low * limits.bandwidth, limits.peak, limits.peak]
        axes.plot([low, ridge, high], roof, "k-", lw=2)
        axes.axvline(here, color=_GREY, lw=0.8, zorder=0)
        axes.plot([here] * len(rates), rates, "o", color=_TRIED, ms=5, alpha=0.35, mew=0)
        axes.plot(here, best, "*", color=_BEST, ms=15, mec="white", zorder=3)
        axes.set(xscale="log", yscale="log", xlim=(low, high))
        axes.set_ylim(
            min(*rates, low * limits.bandwidth, limits.peak / 4) / 1.5,
            1.6 * max(limits.peak, best),
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_plain)
            axis.set_minor_formatter(_plain)
        text = f"multiply-adds: {figure(limits.peak)} GFLOP/s"
        _note(axes, text, (high, limits.peak), (-4, 5), "right")
        _note(axes, f"memory: {figure(limits.bandwidth)} GB/s", (low, roof[0]), (16, -8))
        _note(axes, f"the best: {figure(best)} GFLOP/s", (here, best), (10, -4))
        axes.set(xlabel="operations per byte of the arguments", ylabel="GFLOP/s")
        axes.grid(True, which="both", alpha=0.15)
        return self.roofline.figures(self.seconds)

    def _bandwidth(self, axes: Any, worked: Sequence[Tried]) -> str:
        """Bytes a second of every candidate, the first on top, beside the measured bandwidth."""
        best, limit = min(worked, key=lambda t: t.seconds), self.roofline.peak or 0.0
        rates = [self.roofline.rate(t.seconds) for t in worked]
        top = self.roofline.rate(best.seconds)
        axes.axvline(limit, color="k", lw=2)
        axes.plot(rates, [t.number for t in worked], "o", color=_TRIED, ms=5, alpha=0.5, mew=0)
        axes.plot(top, best.number, "*", color=_BEST, ms=15, mec="white")
        _note(axes, f"the best: {figure(top)} GB/s", (top, best.number), (10, -4))
        axes.set(xlim=(0, 1.15 * max(limit, top)), ylim=(len(self.tried) + 1, 0))
        axes.set(xlabel="GB/s of the arguments, each read or written once", ylabel="candidate")
        axes.grid(True, axis="x", alpha=0.2)
        _note(axes, f"memory: {figure(limit)} GB/s", (limit, len(self.tried)), (-5, 4), "right")
        return self.roofline.figures(self.seconds)


def check(folder: str | os.PathLike[str]) -> Path:
    """The folder that pictures go to, made if it is missing.

    Raises MinitensorError without matplotlib, ArgumentError if there can be no such folder.
    """
    name = os.fspath(folder) if isinstance(folder, (str, os.PathLike)) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise unexpected("the path of a folder", "folder", folder)
    figure_class()
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise _unwritable(Path(name), failure) from failure
    return Path(name)


def figure_class() -> Any:
    """matplotlib's Figure. Raises MinitensorError where it is not installed."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional
    except ImportError:
        message = "plots need matplotlib: python -m pip install 'minitensor[ui]'"
        raise MinitensorError(message) from None
    return Figure


def _unwritable(path: Path, failure: OSError) -> ArgumentError:
    return ArgumentError(f"{printable(str(path))} cannot be written: {failure.strerror}")


def _guesses(tried: Sequence[Tried]) -> list[float]:
    return [t.guess for t in tried if t.guess is not None]


def _note(
    axes: Any, text: str, at: tuple[float, float], by: tuple[int, int], side: str = "left"
) -> None:
    axes.annotate(text, at, by, textcoords="offset points", ha=side, fontsize=9)


def _plain(value: float, place: object) -> str:
    """20, 50, 100 rather than powers of ten."""
    return f"{value:g}" if f"{value:e}"[0] in "125" else ""
