"""A picture of an accelerator: its three queues over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minitensor import ir, pictures
from minitensor.accelerator.lower import QUEUES
from minitensor.accelerator.stream import Instruction

WIDTH: Final = 860.0
_LEFT, _TOP, _LANE, _GAP = 74.0, 44.0, 34.0, 12.0
_COLOURS: Final = ("blue", "orange", "green", "purple", "red", "brown")


def _thread(one: Instruction) -> int:
    """The virtual thread that an instruction belongs to."""
    found = 0
    for loop, value in zip(one.operation.loops, one.at):
        if loop.kind is ir.LoopKind.VTHREAD:
            found = found * loop.extent + value
    return found


def timeline_picture(
    started: Sequence[tuple[Instruction, int]], shown: int, title: str
) -> pictures.Picture:
    """The queues as lanes; an instruction is a box, in the colour of its virtual thread.

    started  instructions and the cycles at which they begin
    shown    the cycles that are drawn
    """
    scale = (WIDTH - _LEFT - 20) / max(1, shown)
    tops = {queue: _TOP + lane * (_LANE + _GAP) for lane, queue in enumerate(QUEUES)}
    end, bottom = _LEFT + shown * scale, _TOP + len(QUEUES) * (_LANE + _GAP)
    parts = [pictures.label(title, WIDTH - 20, 22, "small faint", "end")]
    for queue, y in tops.items():
        parts.append(pictures.label(queue, 8, y + _LANE / 2 + 4))
        parts.append(pictures.tag("path", d=f"M{_LEFT} {y + _LANE}H{end:.5g}", class_="rule"))
    for one, start in started:
        colour = _COLOURS[_thread(one) % len(_COLOURS)]
        strong = "soft" if one.operation.kind in ("load", "store", "product") else "box"
        box = {"x": _LEFT + start * scale, "y": tops[one.queue], "height": _LANE}
        box["width"] = max(0.6, (min(one.cycles, shown - start)) * scale - 0.4)
        words = pictures.tag("title", pictures.escaped(f"{one}, from {start:,}"))
        parts.append(pictures.tag("rect", words, class_=f"{colour} {strong}", **box))
    for value, text in pictures.Axis(0, shown, "cycle").ticks():
        x = _LEFT + value * scale
        parts.append(pictures.tag("path", d=f"M{x:.5g} {bottom - 6}V{bottom}", class_="axis"))
        parts.append(pictures.label(text, x, bottom + 14, "small faint", "middle"))
    threads = sorted({_thread(one) for one, _ in started})
    for place, thread in enumerate(threads):
        x, colour = _LEFT + 140 * place, _COLOURS[thread % len(_COLOURS)]
        key = {"x": x, "y": 12.0, "width": 12.0, "height": 12.0}
        parts.append(pictures.tag("rect", class_=f"{colour} soft", **key))
        name = f"virtual thread {thread}" if len(threads) > 1 else "one thread"
        parts.append(pictures.label(name, x + 18, 22, "small"))
    text = "\n".join(f"{one}, from {start:,}" for one, start in started[:40])
    name = f"Three queues: {title}"
    return pictures.Picture("timeline", name, text, WIDTH, bottom + 30, "".join(parts))
