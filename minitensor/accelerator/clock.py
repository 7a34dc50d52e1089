"""The time that a stream takes: queues run at once, each in order, and wait for tokens.

An instruction begins when its queue is free and its tokens are there, the latest of these; so each
time follows from times before, whatever the order in which they are worked out. A queue that waits
longer than it is busy has *stalled*, and the token that came last says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import pictures
from minitensor.accelerator.draw import timeline_picture
from minitensor.accelerator.lower import QUEUES
from minitensor.accelerator.stream import Stream, by_queue
from minitensor.accelerator.tokens import deadlock
from minitensor.errors import whole

_CHANNELS: Final = [(a, b) for a in QUEUES for b in QUEUES if a != b]


@dataclass(frozen=True)
class Timing:
    """The times of a stream.

    cycles  from the first instruction to the end of the last
    busy    cycles that each queue works
    stalls  cycles that a queue waits, by (queue, the queue whose token it waits for)
    starts  of each instruction, by its number
    """

    stream: Stream
    cycles: int
    busy: Mapping[str, int]
    stalls: Mapping[tuple[str, str], int]
    starts: Sequence[int]

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
        most = whole("most", most, 1)
        rows = [
            (one.queue, start, start + one.cycles, str(one), one.at, one.operation)
            for one, start in zip(self.stream, self.starts)
            if start < most
        ]
        return timeline_picture(rows, min(self.cycles, most), self.cycles, self.utilisation)

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


def timing_of(stream: Stream) -> Timing:
    """The times of a stream. Raises ExecutionError for a deadlock."""
    queues = by_queue(stream)
    number = {channel: n for n, channel in enumerate(_CHANNELS)}
    pushed: list[list[int]] = [[] for _ in _CHANNELS]
    taken = [0] * len(_CHANNELS)
    waited = [0] * len(_CHANNELS)
    free = dict.fromkeys(QUEUES, 0)
    position = dict.fromkeys(QUEUES, 0)
    starts = [0] * len(stream)
    moved = True
    while moved:
        moved = False
        for queue, instructions in queues.items():
            now, place, last = free[queue], position[queue], len(instructions)
            while place < last:
                one = instructions[place]
                start = now
                if one.pops:
                    latest = -1
                    for source in one.pops:
                        channel = number[source, queue]
                        if taken[channel] == len(pushed[channel]):
                            break
                        ready = pushed[channel][taken[channel]]
                        taken[channel] += 1
                        if ready > start:
                            start, latest = ready, channel
                    else:
                        source = ""
                    if source:  # not all are there: give back those that were taken
                        for other in one.pops[: one.pops.index(source)]:
                            taken[number[other, queue]] -= 1
                        break
                    if latest >= 0:
                        waited[latest] += start - now
                starts[one.number] = start
                now = start + one.cycles
                for target in one.pushes:
                    pushed[number[queue, target]].append(now)
                place += 1
                moved = True
            free[queue], position[queue] = now, place
    left = [q[position[name]] for name, q in queues.items() if position[name] < len(q)]
    if left:
        raise deadlock(left, {c: len(pushed[n]) - taken[n] for c, n in number.items()})
    busy = {queue: sum(one.cycles for one in ones) for queue, ones in queues.items()}
    stalls = {(b, a): waited[n] for (a, b), n in number.items() if waited[n]}
    return Timing(stream, max(free.values(), default=0), busy, stalls, starts)
