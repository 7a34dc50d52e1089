"""The lanes of a warp against the memory that they access: sectors of device memory, or banks of
shared memory.

Each row is a sector of 32 bytes, or 128 bytes of shared memory, one word of each of the 32 banks.
What a lane accesses has its colour and number; words of one bank in several rows are read one after
the other. The addresses come from elsewhere (`gpu`): this only draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minitensor.pictures.svg import VIRIDIS, Picture, label, tag

LANES: Final = 32
SECTOR: Final = 32
BANKS: Final = 32
WORD: Final = 4
ROWS: Final = 40
"""The most rows that are drawn."""
_CELL, _HIGH, _LEFT, _TOP = 26.0, 18.0, 96.0, 46.0


def lanes_picture(
    name: str, title: str, words: str, addresses: Sequence[int], size: int, shared: bool
) -> Picture:
    """The picture of one access of a warp.

    name       of the picture
    title      of it
    words      on the access, for the text
    addresses  the first byte that each lane accesses; -1 of one that is not active
    size       bytes that a lane accesses
    shared     whether memory is shared memory
    """
    width = BANKS * WORD if shared else SECTOR
    touched: dict[int, dict[int, list[int]]] = {}
    for lane, address in enumerate(addresses):
        for byte in range(address, address + size, WORD) if address >= 0 else ():
            cells = touched.setdefault(byte // width, {})
            cells.setdefault(byte % width // WORD, []).append(lane)
    rows = sorted(touched)
    parts = [_head(width, shared)]
    for place, row in enumerate(rows[:ROWS]):
        y = _TOP + place * _HIGH
        gap = place > 0 and row != rows[place - 1] + 1
        if gap:
            x = _LEFT + width // WORD * _CELL
            parts.append(tag("path", d=f"M10 {y:.5g}H{x:.5g}", class_="rule dash"))
        parts.append(label(f"{row * width:,}", _LEFT - 8, y + 13, "small faint", "end"))
        for column in range(width // WORD):
            parts.append(_cell(touched[row].get(column, []), _LEFT + column * _CELL, y))
    end = _TOP + min(len(rows), ROWS) * _HIGH
    if len(rows) > ROWS:
        parts.append(label(f"Left out: {len(rows) - ROWS} rows.", 10, end + 14, "bold"))
        end += 18
    text = "\n".join([words, *_lines(touched, rows, width, shared)])
    wide = _LEFT + width // WORD * _CELL + 16
    return Picture(name, title, text, max(wide, 340.0), end + 10, "".join(parts))


def _head(width: int, shared: bool) -> str:
    """The names of the columns."""
    what = "bank" if shared else "byte of the sector"
    step = 1 if shared else WORD
    numbers = [
        label(str(n * step), _LEFT + (n + 0.5) * _CELL, _TOP - 6, "small faint", "middle")
        for n in range(width // WORD)
    ]
    return label("address", _LEFT - 8, 20, "small faint", "end") + "".join(
        [label(what, _LEFT, 20, "small faint"), *numbers]
    )


def _cell(lanes: Sequence[int], x: float, y: float) -> str:
    """A word, with the first lane that accesses it, and a sign that there are more."""
    box = {"x": x, "y": y, "width": _CELL - 2, "height": _HIGH - 2}
    if not lanes:
        return tag("rect", **box, class_="leaf")
    hue = VIRIDIS[min(lanes[0], LANES - 1) * (len(VIRIDIS) - 1) // (LANES - 1)]
    text = f"{lanes[0]}+" if len(lanes) > 1 else str(lanes[0])
    told = tag("title", f"lanes {_listed(lanes)}")
    return tag("rect", told, **box, fill=hue, fill_opacity=0.45) + label(
        text, x + (_CELL - 2) / 2, y + 12, "small halo", "middle"
    )


def _lines(
    touched: dict[int, dict[int, list[int]]], rows: Sequence[int], width: int, shared: bool
) -> list[str]:
    """The same in words: the lanes of each row, and of the bank that is asked for most words."""
    unit = "rows of 128 bytes" if shared else "sectors of 32 bytes"
    lines = [f"{len(rows):,} {unit}:"]
    for row in rows[:ROWS]:
        lanes = sorted({lane for cell in touched[row].values() for lane in cell})
        lines.append(f"from byte {row * width:,}: lanes {_listed(lanes)}")
    if shared and rows:
        depth = [sum(column in touched[row] for row in rows) for column in range(BANKS)]
        most = max(depth)
        lines.append(f"The most words of one bank: {most} (bank {depth.index(most)}).")
    return lines


def _listed(lanes: Sequence[int]) -> str:
    """Numbers as ranges: 0-3, 8, 12-15."""
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)
