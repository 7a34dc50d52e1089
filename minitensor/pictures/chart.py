"""Charts: an axis of numbers or of their logarithms, points, lines, and words at a point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from minitensor.pictures.svg import Picture, escaped, label, tag, width_of

WIDTH: Final = 640.0
HEIGHT: Final = 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 74.0, 22.0, 34.0, 46.0


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`.

    title      what it counts, with the unit
    logarithm  whether equal distances are equal ratios
    """

    low: float
    high: float
    title: str
    logarithm: bool = False

    def part(self, value: float) -> float:
        """The place of a value, from 0 to 1; what is outside is at the end."""
        low, high = self.low, self.high
        if self.logarithm:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return min(1.0, max(0.0, (value - low) / ((high - low) or 1.0)))

    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers along it, at most about eight, with their texts."""
        if self.logarithm:
            return [(v, number(v)) for v in self._decades()]
        raw = (self.high - self.low) / 6 or 1.0
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(n * step, number(n * step)) for n in range(first, last + 1)]

    def _decades(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits in ((1, 2, 5), (1,)):
            found = [d * 10.0**e for e in range(first, last + 1) for d in digits]
            found = [v for v in found if self.low <= v * 1.0001 and v <= self.high * 1.0001]
            if len(found) <= 9:
                return found
        return found[:: math.ceil(len(found) / 8)]


def number(value: float) -> str:
    """A number as a tick shows it: 0.25, 20, 5,000, 1e+07."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"


@dataclass
class Chart:
    """A chart that is being drawn; `picture` ends it."""

    x: Axis
    y: Axis
    parts: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point in the picture."""
        across, down = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
        return _LEFT + self.x.part(x) * across, HEIGHT - _BOTTOM - self.y.part(y) * down

    def points(
        self, places: Iterable[tuple[float, float]], colour: str, key: str = "", sign: str = "dot"
    ) -> None:
        """Points as dots, as crosses (failures), or as the one that is best."""
        for place in places:
            x, y = self.at(*place)
            if sign == "cross":
                path = f"M{x - 4:.5g} {y - 4:.5g}l8 8m0-8l-8 8"
                self.parts.append(tag("path", d=path, class_=f"curve {colour}"))
            else:
                size, look = (6.5, "solid") if sign == "best" else (3.2, "soft")
                self.parts.append(tag("circle", cx=x, cy=y, r=size, class_=f"{look} {colour}"))
        self._key(f"{sign} {colour}", key)

    def line(
        self, places: Sequence[tuple[float, float]], colour: str, key: str = "", dash: bool = False
    ) -> None:
        """A line from point to point."""
        corners = " ".join(f"{x:.5g},{y:.5g}" for x, y in (self.at(*place) for place in places))
        style = f"curve {colour}{' dash' if dash else ''}"
        self.parts.append(tag("polyline", points=corners, class_=style))
        self._key(f"line {colour}", key)

    def area(
        self,
        places: Sequence[tuple[float, float]],
        below: Sequence[tuple[float, float]],
        colour: str,
        words: str,
    ) -> None:
        """The area between two lines; its words are shown under the pointer."""
        corners = (self.at(*place) for place in (*places, *reversed(below)))
        points = " ".join(f"{x:.5g},{y:.5g}" for x, y in corners)
        inner = tag("title", escaped(words))
        self.parts.append(tag("polygon", inner, points=points, class_=f"{colour} soft"))

    def note(
        self, text: str, x: float, y: float, by: tuple[float, float] = (6, -6), side: str = "start"
    ) -> None:
        """Words beside a point."""
        left, top = self.at(x, y)
        self.words.append(label(text, left + by[0], top + by[1], "halo", side))

    def _key(self, sign: str, text: str) -> None:
        if text and (sign, text) not in self.keys:
            self.keys.append((sign, text))

    def picture(self, name: str, title: str, text: str) -> Picture:
        """The finished chart."""
        body = "".join([*self._axes(), *self.parts, *self.words, *self._legend()])
        return Picture(name, title, text, WIDTH, HEIGHT, body)

    def _axes(self) -> Iterable[str]:
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        for value, text in self.x.ticks():
            x, _ = self.at(value, self.y.low)
            yield tag("path", d=f"M{x:.5g} {_TOP}V{bottom}", class_="rule")
            yield label(text, x, bottom + 16, "faint", "middle")
        for value, text in self.y.ticks():
            _, y = self.at(self.x.low, value)
            yield tag("path", d=f"M{_LEFT} {y:.5g}H{right}", class_="rule")
            yield label(text, _LEFT - 7, y + 4, "faint", "end")
        yield tag("path", d=f"M{_LEFT} {_TOP}V{bottom}H{right}", class_="axis")
        yield label(self.x.title, right, HEIGHT - 8, "", "end")
        yield label(self.y.title, 6, 16)

    def _legend(self) -> Iterable[str]:
        x = WIDTH - _RIGHT
        for sign, text in reversed(self.keys):
            x -= width_of(text)
            yield label(text, x, 16, "faint")
            x -= 14
            kind, colour = sign.split()
            if kind == "line":
                yield tag("path", d=f"M{x - 6:.5g} 12h16", class_=f"curve {colour}")
            elif kind == "cross":
                yield tag("path", d=f"M{x - 1:.5g} 8l8 8m0-8l-8 8", class_=f"curve {colour}")
            else:
                yield tag("circle", cx=x + 4, cy=12, r=4, class_=f"solid {colour}")
            x -= 16
