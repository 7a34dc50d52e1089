"""A picture as SVG: its elements, its colours on a light and on a dark ground, its text.

Text is set in a monospaced font, so that its width is known without one. Colours are classes; a
sheet gives each of them two values, and the viewer's preference chooses. The output depends on
nothing but the input.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

SIZE: Final = 12.0
"""Of the text, in units of the picture (pixels where it is not scaled)."""
ADVANCE: Final = 0.602
"""The width of a character, as a part of the size."""
DESCRIPTION: Final = 4000
"""The most characters of the text alternative inside of a picture."""

COLOURS: Final = {
    "grey": ("#6e7781", "#9aa4ae"),
    "blue": ("#0f6cbf", "#58b0f5"),
    "orange": ("#b45f06", "#f0a43a"),
    "green": ("#0b7a5b", "#41cfa0"),
    "purple": ("#94478a", "#df98d3"),
    "red": ("#c42b1c", "#ff8579"),
    "brown": ("#7a5c1e", "#d6b25e"),
}
"""Hues by name, on a light ground and on a dark one. They differ for the colour-blind too, and what
they mean is also written."""
_GROUNDS: Final = (
    "--ground:#fff;--ink:#1f2328;--faint:#59636e;--line:#d4dae0",
    "--ground:#0d1117;--ink:#e6edf3;--faint:#9aa5b1;--line:#343b44",
)
VIRIDIS: Final = (
    "#440154", "#481769", "#472a7a", "#433d84", "#3d4e8a", "#355e8d", "#2e6d8e", "#297b8e",
    "#23898e", "#1f978b", "#21a585", "#2eb37c", "#46c06f", "#65cb5e", "#89d548", "#b0dd2f",
    "#d8e219", "#fde725",
)  # fmt: skip
"""Colours from first to last, equally far apart to the eye.

Source: van der Walt and Smith, A better default colormap for matplotlib, SciPy 2015."""


def _sheet() -> str:
    light, dark = (
        f".mt{{{ground}}}" + "".join(f".mt .{name}{{--c:{c[n]}}}" for name, c in COLOURS.items())
        for n, ground in enumerate(_GROUNDS)
    )
    return (
        f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
        f".mt text{{font:{SIZE:g}px ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',"
        "Consolas,monospace;fill:var(--ink);white-space:pre}"
        ".mt .ground{fill:var(--ground)}.mt .faint{fill:var(--faint)}.mt .bold{font-weight:700}"
        ".mt .small{font-size:10px}.mt .hue{fill:var(--c)}"
        ".mt .box{fill:var(--c);fill-opacity:.11;stroke:var(--c);stroke-width:1.2}"
        ".mt .leaf{fill:var(--ground);stroke:var(--line)}.mt .thick{stroke-width:3}"
        ".mt .solid{fill:var(--c)}.mt .soft{fill:var(--c);fill-opacity:.55}"
        ".mt .curve{fill:none;stroke:var(--c);stroke-width:2}"
        ".mt .rule{fill:none;stroke:var(--line)}.mt .axis{fill:none;stroke:var(--faint)}"
        ".mt .dash{stroke-dasharray:5 4}"
        ".mt .halo{paint-order:stroke;stroke:var(--ground);stroke-width:3px}"
    )


SHEET: Final = _sheet()
"""The sheet of every picture."""


def cleaned(text: str) -> str:
    """The text without what XML cannot hold: control codes and halves of characters as "?"."""
    return "".join(
        c
        if c in "\n\t" or (c >= " " and unicodedata.category(c) not in ("Cc", "Cs", "Cn"))
        else "?"
        for c in text
    )


def escaped(text: object) -> str:
    """Any text as it may stand between tags or in an attribute."""
    return html.escape(cleaned(str(text)))


def tag(name: str, *inside: str, **attributes: object) -> str:
    """An element. `inside` is markup already; attributes are escaped, a `_` in a name is a `-`."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_number(value)}"'
        for key, value in attributes.items()
        if value is not None and value != ""
    )
    return f"<{name}{words}>{''.join(inside)}</{name}>" if inside else f"<{name}{words}/>"


def _number(value: object) -> str:
    """A number with two digits after the point at most; anything else escaped."""
    if isinstance(value, float):
        return f"{round(value, 2):.10g}"
    return escaped(value)


def label(text: str, x: float, y: float, style: str = "", anchor: str = "") -> str:
    """A line of text whose baseline is at y; `anchor` is start, middle or end."""
    return tag("text", escaped(text) or " ", x=x, y=y, class_=style, text_anchor=anchor)


def columns(text: str) -> int:
    """The number of characters of a monospaced font that a text is wide."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in ("W", "F"))
        for c in text
    )


def width_of(text: str, size: float = SIZE) -> float:
    """The width of a line of text, rather too much than too little."""
    return (columns(text) + 0.5) * ADVANCE * size


def fitted(text: str, most: int) -> str:
    """The text on one line, in at most so many columns; an ellipsis says that it was cut."""
    line = " ".join(cleaned(text[: 4 * most + 100]).split(" ")).replace("\n", " ")
    if columns(line) <= most and len(text) <= 4 * most + 100:
        return line
    kept, room = "", most - 1
    for character in line:
        room -= columns(character)
        if room < 0:
            break
        kept += character
    return kept + "…"


@dataclass(frozen=True)
class Picture:
    """A picture.

    name    what its file is called
    title   a few words
    text    the same in words: what is read in its place
    width, height  in pixels
    body    its elements
    moves   whether it is an animation
    """

    name: str
    title: str
    text: str
    width: float
    height: float
    body: str
    moves: bool = False

    def svg(self, key: str = "") -> str:
        """The picture as an SVG document.

        key  part of the ids in it, where it stands in a page, which has the sheet already
        """
        ids = re.sub("[^a-z0-9]+", "-", (key or self.name)[:60].lower())
        text = cleaned(self.text)
        if len(text) > DESCRIPTION:
            text = text[:DESCRIPTION] + "…"
        return tag(
            "svg",
            tag("title", escaped(self.title), id=f"{ids}-title"),
            tag("desc", escaped(text), id=f"{ids}-text"),
            "" if key else f"<style>{SHEET}</style>",
            tag("rect", class_="ground", width=self.width, height=self.height),
            self.body,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {_number(float(self.width))} {_number(float(self.height))}",
            width=float(self.width),
            height=float(self.height),
            class_="mt",
            role="img",
            aria_labelledby=f"{ids}-title {ids}-text",
        )

    def __repr__(self) -> str:
        return f"<{fitted(self.title, 80)}: {self.width:.0f} x {self.height:.0f}; .text, .svg()>"

    def _repr_svg_(self) -> str:
        return self.svg()
