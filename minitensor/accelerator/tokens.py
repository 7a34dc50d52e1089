"""Tokens between the queues of an accelerator: which are needed, and whether those there suffice.

An instruction *needs* the last one of each other queue that stands before it in the program and
meets it: one of the two writes an element that both touch. It is the question that places the
barriers of a GPU's kernel (`codegen.gpu.barriers`), here asked of instructions, whose loops have
values. A queue is in order, so the last one is enough, and what an earlier instruction of the same
queue has waited for need not be waited for again; nor what another queue has waited for, whose
token is popped. What is left is the fewest tokens: without any of them something is unordered.

    load     A[0]      | load A[1]     | load A[0]  pops execute>: the product of A[0] is done
    execute        A[0]  pops load>        A[1]  pops load>

What must have happened is counted: a *clock* has for each queue how many of its instructions are
done. (Fidge, Mattern: vector clocks, 1988.)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from minitensor.accelerator.lower import QUEUES
from minitensor.accelerator.stream import Box, Instruction, Stream, Token, stream_of
from minitensor.errors import ExecutionError

Clock: TypeAlias = tuple[int, ...]
"""The number of instructions of each queue that are done, in the order of QUEUES."""
_START: Final[Clock] = (0, 0, 0)
_NUMBER: Final = {queue: n for n, queue in enumerate(QUEUES)}
_STEADY: Final = 0.7
"""The odds that an adversary lets the same queue go on."""


class Needs:
    """The needs of each instruction of a stream.

    needed  for each instruction how many instructions of each queue must be done
    place   of each instruction in its queue, from 1
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.place = [0] * len(stream)
        users: dict[str, set[str]] = {}
        written: set[str] = set()
        for queue, ones in stream.queues.items():
            for place, one in enumerate(ones, start=1):
                self.place[one.number] = place
                written.add(one.writes.buffer)
                for box in (*one.reads, one.writes):
                    users.setdefault(box.buffer, set()).add(queue)
        self._shared = {name for name, queues in users.items() if len(queues) > 1} & written
        self.needed = list(self._found())

    def _found(self) -> Iterator[Clock]:
        known: dict[tuple[str, int, bool], dict[Box, int]] = {}
        for one in self.stream:
            own, needed, place = _NUMBER[one.queue], [0, 0, 0], self.place[one.number]
            here = [(box, False) for box in _read(one) if box.buffer in self._shared]
            here += [(one.writes, True)] if one.writes.buffer in self._shared else []
            for box, writes in here:
                for queue in range(len(QUEUES)):
                    for stored in (True, False) if writes else (True,):
                        earlier = known.get((box.buffer, queue, stored))
                        if earlier and queue != own:
                            needed[queue] = max(needed[queue], _last(box, earlier))
            for box, writes in here:
                same = known.setdefault((box.buffer, own, writes), {})
                if same.pop(box, None) is None:
                    for other in [other for other in same if box.holds(other)]:
                        del same[other]
                same[box] = place  # the last one is at the end
            yield tuple(needed)

    def require(self, one: Instruction, clock: Sequence[int]) -> None:
        """Raise ExecutionError if an instruction may begin before one that it needs is done."""
        for queue, count in enumerate(self.needed[one.number]):
            if count > clock[queue]:
                other = self.stream.queues[QUEUES[queue]][count - 1]
                raise ExecutionError(
                    f"nothing orders {other} before {one}: {_reason(other, one)}. A token is "
                    f"missing, pushed to {one.queue} by #{other.number} or one of {other.queue} "
                    f"behind it, and popped by #{one.number} or one of {one.queue} in front of it",
                    "race",
                )


def _read(one: Instruction) -> Sequence[Box]:
    """The reads of an instruction; of a product that is also what it adds to."""
    return (*one.reads, one.writes) if one.operation.kind == "product" else one.reads


def _last(box: Box, earlier: dict[Box, int]) -> int:
    """The place of the last access that meets a box; 0 for none."""
    for there in reversed(earlier):
        if there is box or box.meets(there):
            return earlier[there]
    return 0


def _reason(first: Instruction, second: Instruction) -> str:
    """The element that two instructions share, in words."""
    texts = {
        (True, True): "both write {}",
        (True, False): "the first writes {}, which the second reads",
        (False, True): "the first reads {}, which the second writes",
    }
    for one in (*_read(first), first.writes):
        for other in (*_read(second), second.writes):
            key = one is first.writes, other is second.writes
            if any(key) and one.buffer == other.buffer and one.meets(other):
                return texts[key].format(other)
    raise AssertionError((first, second))


# ---- which tokens


def with_tokens(stream: Stream, fewest: bool = True) -> Stream:
    """The stream with the tokens that order it.

    fewest  without those that others imply; with False, one for each need that comes later than
            the need before
    """
    needs = Needs(stream_of(stream))
    return stream.with_tokens(_fewest(needs) if fewest else _all(needs))


def _all(needs: Needs) -> Iterator[Token]:
    last: Counter[tuple[str, int]] = Counter()
    for one in needs.stream:
        for queue, count in enumerate(needs.needed[one.number]):
            if count and count >= last[one.queue, queue]:
                last[one.queue, queue] = count
                yield needs.stream.queues[QUEUES[queue]][count - 1].number, one.number


def _fewest(needs: Needs) -> Iterator[Token]:
    done: list[Clock] = []
    latest = [_START] * len(QUEUES)
    for one in needs.stream:
        own = _NUMBER[one.queue]
        clock = latest[own]
        sources = {
            queue: needs.stream.queues[QUEUES[queue]][count - 1].number
            for queue, count in enumerate(needs.needed[one.number])
            if count > clock[queue]
        }
        for queue, source in sources.items():
            others = [done[other] for q, other in sources.items() if q != queue]
            if not any(other[queue] >= needs.place[source] for other in others):
                yield source, one.number
                clock = _later(clock, done[source])
        latest[own] = _advanced(clock, own, needs.place[one.number])
        done.append(latest[own])


def _later(a: Clock, b: Clock) -> Clock:
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])


def _advanced(clock: Clock, queue: int, place: int) -> Clock:
    return (*clock[:queue], place, *clock[queue + 1 :])


# ---- orders that they allow


def in_order(stream: Stream, seed: int | None = None) -> Iterator[Instruction]:
    """The instructions in an order that the tokens allow. Raises ExecutionError where none goes on.

    seed  of an adversary, who lets one queue run ahead as far as it can, or the others, or changes
          its mind at each step; None for a queue after the other, each as far as it goes
    """
    rng = random.Random(seed)
    done = bytearray(len(stream))
    place = dict.fromkeys(QUEUES, 0)
    favourite, sources = QUEUES[0], stream.sources

    def is_ready(queue: str) -> bool:
        ones = stream.queues[queue]
        if place[queue] == len(ones):
            return False
        waits = sources.get(ones[place[queue]].number, ())
        return all(source is not None and done[source] for source in waits)

    for _ in range(len(stream)):
        if not is_ready(favourite) or (seed is not None and rng.random() > _STEADY):
            ready = [queue for queue in QUEUES if is_ready(queue)]
            if not ready:
                raise _deadlock(stream, place, done)
            favourite = ready[0] if seed is None else rng.choice(ready)
        one = stream.queues[favourite][place[favourite]]
        yield one
        place[favourite] += 1
        done[one.number] = True


def _deadlock(stream: Stream, place: dict[str, int], done: bytearray) -> ExecutionError:
    texts = []
    for queue, ones in stream.queues.items():
        if place[queue] < len(ones):
            one = ones[place[queue]]
            pairs = zip(stream.pops[one.number], stream.sources[one.number])
            lacking = [q for q, source in pairs if source is None or not done[source]]
            texts.append(f"{one} waits for a token of {' and '.join(dict.fromkeys(lacking))}")
    return ExecutionError(f"deadlock: {'; '.join(texts)}", "deadlock")


def check(stream: Stream) -> None:
    """Raise ExecutionError, of kind "race" or "deadlock", if the tokens of a stream allow an order
    that gives another result than the program, or none at all; it names the instructions, what they
    share and the token that is missing.
    """
    needs = Needs(stream_of(stream))
    done: list[Clock] = [_START] * len(stream)
    latest = [_START] * len(QUEUES)
    for one in in_order(stream):
        own = _NUMBER[one.queue]
        clock = latest[own]
        for source in stream.sources.get(one.number, ()):
            clock = _later(clock, done[source or 0])
        needs.require(one, clock)
        latest[own] = done[one.number] = _advanced(clock, own, needs.place[one.number])
    pushed = Counter((stream[n].queue, queue) for n, to in stream.pushes.items() for queue in to)
    popped = Counter((queue, stream[n].queue) for n, of in stream.pops.items() for queue in of)
    for (giver, target), left in (pushed - popped).items():
        are, them = ("is", "it") if left == 1 else ("are", "them")
        raise ExecutionError(
            f"{left} of the tokens that {giver} pushes to {target} {are} never popped: a pop in "
            f"{target} is missing, and the next program would begin with {them}",
            "race",
        )
