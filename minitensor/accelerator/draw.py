"""Pictures of an accelerator: its three queues over time, and utilisation against bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from minitensor import ir, pictures
from minitensor.accelerator.lower import QUEUES, Operation

Row: TypeAlias = "tuple[str, int, int, str, tuple[int, ...], Operation]"
WIDTH: Final = 860.0
_LEFT, _TOP, _LANE, _GAP = 74.0, 44.0, 34.0, 12.0
_THREADS: Final = ("blue", "orange", "green", "purple")


def _thread(at: Sequence[int], operation: Operation) -> int:
    """The virtual thread that an instruction belongs to."""
    found = 0
    for loop, value in zip(operation.loops, at):
        if loop.kind is ir.LoopKind.VTHREAD:
            found = found * loop.extent + value
    return found


def timeline_picture(
    rows: Sequence[Row], shown: int, cycles: int, utilisation: float
) -> pictures.Picture:
    """The queues as lanes; an instruction is a box, in the colour of its virtual thread.

    shown  the cycles that are drawn, of all
    """
    scale = (WIDTH - _LEFT - 20) / max(1, shown)
    parts, threads = [], {0}
    for lane, queue in enumerate(QUEUES):
        y = _TOP + lane * (_LANE + _GAP)
        parts.append(pictures.label(queue, 8, y + _LANE / 2 + 4))
        end = _LEFT + shown * scale
        line = pictures.tag("line", class_="rule", x1=_LEFT, x2=end, y1=y + _LANE, y2=y + _LANE)
        parts.append(line)
    for queue, start, end, text, at, operation in rows:
        thread = _thread(at, operation)
        threads.add(thread)
        y = _TOP + QUEUES.index(queue) * (_LANE + _GAP)
        style = "soft" if operation.kind in ("load", "store", "product") else "box"
        width = max(0.6, (min(end, shown) - start) * scale - 0.4)
        title = pictures.tag("title", pictures.escaped(text))
        parts.append(
            pictures.tag(
                "rect",
                title,
                class_=f"{_THREADS[thread % len(_THREADS)]} {style}",
                x=_LEFT + start * scale,
                y=y,
                width=width,
                height=_LANE,
            )
        )
    bottom = _TOP + len(QUEUES) * (_LANE + _GAP)
    axis = pictures.Axis(0, shown, "cycle")
    for value, text in axis.ticks():
        x = _LEFT + value * scale
        parts.append(pictures.tag("line", class_="axis", x1=x, x2=x, y1=bottom - 6, y2=bottom))
        parts.append(pictures.label(text, x, bottom + 14, "small faint", "middle"))
    x = _LEFT
    for thread in sorted(threads):
        hue = _THREADS[thread % len(_THREADS)]
        parts.append(
            pictures.tag("rect", class_=f"{hue} soft", x=x, y=12.0, width=12.0, height=12.0)
        )
        name = f"virtual thread {thread}" if len(threads) > 1 else "one thread"
        parts.append(pictures.label(name, x + 18, 22, "small"))
        x += 140
    part = "" if shown >= cycles else f", the first {shown:,} drawn"
    title = f"{cycles:,} cycles{part}; {utilisation:.0%} of the peak"
    parts.append(pictures.label(title, WIDTH - 20, 22, "small faint", "end"))
    words = [f"{queue} {start:,} to {end:,}: {text}" for queue, start, end, text, _, _ in rows[:40]]
    return pictures.Picture(
        "timeline", f"Three queues: {title}", "\n".join(words), WIDTH, bottom + 30, "".join(parts)
    )


def utilisation_picture(
    curves: Mapping[str, Sequence[tuple[float, float]]], title: str
) -> pictures.Picture:
    """Utilisation against the bandwidth of DRAM, a line for each name.

    curves  points (bytes a cycle, utilisation from 0 to 1)
    """
    places = [x for points in curves.values() for x, _ in points]
    chart = pictures.Chart(
        pictures.Axis(min(places), max(places), "bytes of DRAM a cycle", logarithm=True),
        pictures.Axis(0, 1, "part of the array's peak"),
    )
    for (name, points), colour in zip(curves.items(), (*_THREADS, "red", "brown")):
        chart.line(list(points), colour, name)
        chart.points(list(points), colour, "")
    words = [
        f"{name}: " + ", ".join(f"{y:.2f} at {x:g}" for x, y in points)
        for name, points in curves.items()
    ]
    return chart.picture("utilisation", title, "\n".join(words))
