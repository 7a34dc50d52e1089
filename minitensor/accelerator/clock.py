"""The time that a stream takes: queues run at once, each in order, and wait for tokens.

An instruction begins when its queue is free and its tokens are there, the latest of these; so each
time follows from times before, whatever the order in which they are worked out. A queue that waits
longer than it is busy has *stalled*, and the token that came last says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitensor import pictures
from minitensor.accelerator.draw import timeline_picture
from minitensor.accelerator.lower import QUEUES
from minitensor.accelerator.stream import Stream, stream_of
from minitensor.accelerator.tokens import in_order
from minitensor.errors import whole


@dataclass(frozen=True)
class Timing:
    """The times of a stream.

    cycles   from the first instruction to the end of the last
    busy     cycles that each queue works
    stalls   cycles that a queue waits, by (queue, the queue whose token it waits for)
    starts   of each instruction, by its number
    outputs  the arrays of the outputs in call order, if the stream was also executed
    """

    stream: Stream
    cycles: int
    busy: Mapping[str, int]
    stalls: Mapping[tuple[str, str], int]
    starts: Sequence[int]
    outputs: tuple[np.ndarray, ...] = ()

    @property
    def multiply_adds(self) -> int:
        """Of all products, padding included."""
        return sum(one.operation.multiply_adds for one in self.stream)

    @property
    def utilisation(self) -> float:
        """The part of the array's peak that products reach, from 0 to 1."""
        return self.multiply_adds / (self.stream.machine.peak * max(1, self.cycles))

    @property
    def seconds(self) -> float:
        """The time at the machine's clock rate."""
        return self.stream.machine.seconds(self.cycles)

    def timeline(self, most: int = 4000) -> pictures.Picture:
        """The three queues over time, as a picture.

        most  cycles from the start that are drawn

        Raises ArgumentError for no whole number from 1.
        """
        shown = min(self.cycles, whole("most", most, 1))
        part = "" if shown >= self.cycles else f", the first {shown:,} drawn"
        title = f"{self.cycles:,} cycles{part}; {self.utilisation:.0%} of the peak"
        started = ((one, start) for one, start in zip(self.stream, self.starts) if start < most)
        return timeline_picture(list(started), shown, title)

    def __str__(self) -> str:
        lines = [
            f"{self.cycles:,} cycles, {self.seconds * 1e6:,.1f} us at "
            f"{self.stream.machine.megahertz:g} MHz; {self.utilisation:.1%} of the array's peak; "
            f"{len(self.stream):,} instructions, {len(self.stream.tokens):,} tokens"
        ]
        for queue in QUEUES:
            waits = [
                f"{self.stalls[queue, other] / self.cycles:.1%} waiting for {other}"
                for other in QUEUES
                if self.stalls.get((queue, other))
            ]
            share = self.busy[queue] / max(1, self.cycles)
            lines.append(f"  {queue:<8}{share:>6.1%} busy  {', '.join(waits)}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__


def timing_of(stream: Stream) -> Timing:
    """The times of a stream. Raises ExecutionError for a deadlock."""
    sources: Mapping[int, tuple[Any, ...]] = stream_of(stream).sources
    is_forward = all(s is not None and s < n for n, ones in sources.items() for s in ones)
    free = dict.fromkeys(QUEUES, 0)
    stalls: Counter[tuple[str, str]] = Counter()
    starts, ends = [0] * len(stream), [0] * len(stream)
    for number, queue, _, _, _, _, cycles in stream if is_forward else in_order(stream):
        start = now = free[queue]
        if number in sources:
            for source in sources[number]:
                if ends[source] > start:
                    last, start = source, ends[source]
            if start > now:
                stalls[queue, stream.instructions[last].queue] += start - now
        starts[number] = start
        ends[number] = free[queue] = start + cycles
    busy = {queue: sum(one.cycles for one in ones) for queue, ones in stream.queues.items()}
    return Timing(stream, max(free.values()), busy, stalls, starts)
