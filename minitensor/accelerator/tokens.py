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

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from minitensor.accelerator.lower import QUEUES
from minitensor.accelerator.stream import Box, Instruction, Stream, Token, by_queue
from minitensor.errors import ExecutionError, unexpected

Clock: TypeAlias = tuple[int, int, int]
"""The number of instructions of each queue that are done, in the order of QUEUES."""
_NUMBER: Final = {queue: n for n, queue in enumerate(QUEUES)}


class Needs:
    """The needs of each instruction of a stream.

    needed  for each instruction and queue how many instructions of the queue must be done
    place   of each instruction in its queue, from 1
    queues  the instructions of each queue
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.queues = by_queue(stream)
        self.place = [0] * len(stream)
        for queue in self.queues.values():
            for place, one in enumerate(queue, start=1):
                self.place[one.number] = place
        self.needed = list(self._found())

    def _found(self) -> Iterator[Clock]:
        users: dict[str, set[str]] = {}
        written: set[str] = set()
        for one in self.stream:
            for box in (*one.reads, one.writes):
                users.setdefault(box.buffer, set()).add(one.queue)
            written.add(one.writes.buffer)
        shared = {name for name, queues in users.items() if len(queues) > 1} & written
        known: dict[tuple[str, int, bool], list[tuple[Box, int]]] = {}
        for one in self.stream:
            own, needed = _NUMBER[one.queue], [0, 0, 0]
            here = [(box, False) for box in _touched(one)] + [(one.writes, True)]
            here = [(box, writes) for box, writes in here if box.buffer in shared]
            for box, writes in here:
                for queue in range(len(QUEUES)):
                    for other in (True, False) if queue != own else ():
                        if writes or other:
                            earlier = known.get((box.buffer, queue, other), ())
                            needed[queue] = max(needed[queue], _last(box, earlier))
            for box, writes in here:
                same = known.setdefault((box.buffer, own, writes), [])
                same[:] = [pair for pair in same if not box.holds(pair[0])]
                same.append((box, self.place[one.number]))
            yield needed[0], needed[1], needed[2]

    def reason(self, one: Instruction, other: Instruction) -> str:
        """The element that two instructions share, in words."""
        for box in (*_touched(one), one.writes):
            for there in (*_touched(other), other.writes):
                if box.buffer == there.buffer and box.meets(there):
                    if box is one.writes and there is other.writes:
                        return f"both write {box}"
                    if box is one.writes:
                        return f"the first writes {box}, which the second reads"
                    if there is other.writes:
                        return f"the first reads {box}, which the second writes"
        return "they do not meet"


def _touched(one: Instruction) -> Sequence[Box]:
    """The reads of an instruction; of a product that is also what it adds to."""
    return (*one.reads, one.writes) if one.operation.kind == "product" else one.reads


def _last(box: Box, earlier: Sequence[tuple[Box, int]]) -> int:
    """The place of the last access that meets a box; 0 for none."""
    return next((place for there, place in reversed(earlier) if box.meets(there)), 0)


# ---- which tokens


def with_tokens(stream: Stream, fewest: bool = True) -> Stream:
    """The stream with the tokens that order it.

    fewest  without those that others imply; with False, one for each need that comes later than
            the need before
    """
    needs = Needs(stream)
    return stream.with_tokens(_fewest(needs) if fewest else _all(needs))


def _all(needs: Needs) -> Iterator[Token]:
    last: dict[tuple[int, int], int] = {}
    for one in needs.stream:
        own = _NUMBER[one.queue]
        for queue, count in enumerate(needs.needed[one.number]):
            if count and count >= last.get((own, queue), 0):
                last[own, queue] = count
                yield needs.queues[QUEUES[queue]][count - 1].number, one.number


def _fewest(needs: Needs) -> Iterator[Token]:
    done: list[Clock] = []
    latest: list[Clock] = [(0, 0, 0)] * len(QUEUES)
    for one in needs.stream:
        own = _NUMBER[one.queue]
        clock = latest[own]
        sources = {
            queue: needs.queues[QUEUES[queue]][count - 1].number
            for queue, count in enumerate(needs.needed[one.number])
            if count > clock[queue]
        }
        for queue, source in sources.items():
            others = [done[other] for q, other in sources.items() if q != queue]
            if not any(other[queue] >= needs.place[source] for other in others):
                yield source, one.number
                clock = _later(clock, done[source])
        latest[own] = after = _advanced(clock, own, needs.place[one.number])
        done.append(after)


def _later(a: Clock, b: Clock) -> Clock:
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])


def _advanced(clock: Clock, queue: int, place: int) -> Clock:
    found = list(clock)
    found[queue] = place
    return found[0], found[1], found[2]


# ---- whether they suffice


def check(stream: Stream) -> None:
    """Raise ExecutionError, of kind "race" or "deadlock", if the tokens of a stream allow an order
    that gives another result than the program, or none at all; it names the instructions, what they
    share and the token that is missing.
    """
    if not isinstance(stream, Stream):
        raise unexpected("the stream of a kernel (kernel.stream)", "stream", stream)
    needs = Needs(stream)
    position = dict.fromkeys(QUEUES, 0)
    tokens: dict[tuple[str, str], list[Clock]] = {}
    taken: dict[tuple[str, str], int] = {}
    clocks: dict[str, Clock] = dict.fromkeys(QUEUES, (0, 0, 0))
    moved = True
    while moved:
        moved = False
        for queue, instructions in needs.queues.items():
            while position[queue] < len(instructions):
                one = instructions[position[queue]]
                if not _can_pop(one, tokens, taken):
                    break
                clock = clocks[queue]
                for source in one.pops:
                    channel = source, queue
                    clock = _later(clock, tokens[channel][taken.get(channel, 0)])
                    taken[channel] = taken.get(channel, 0) + 1
                _require_order(needs, one, clock)
                position[queue] += 1
                clocks[queue] = _advanced(clock, _NUMBER[queue], position[queue])
                for target in one.pushes:
                    tokens.setdefault((queue, target), []).append(clocks[queue])
                moved = True
    waiting = [q[position[name]] for name, q in needs.queues.items() if position[name] < len(q)]
    if waiting:
        raise deadlock(waiting, {c: len(t) - taken.get(c, 0) for c, t in tokens.items()})
    for (source, target), pushed in tokens.items():
        left = len(pushed) - taken.get((source, target), 0)
        if left:
            raise ExecutionError(
                f"{left} of the tokens that {source} pushes to {target} {_are(left)} never popped: "
                f"a pop in {target} is missing, and the next program would begin with {_it(left)}",
                "race",
            )


def _can_pop(
    one: Instruction,
    tokens: dict[tuple[str, str], list[Clock]],
    taken: dict[tuple[str, str], int],
) -> bool:
    for source in set(one.pops):
        channel = source, one.queue
        if len(tokens.get(channel, ())) - taken.get(channel, 0) < one.pops.count(source):
            return False
    return True


def _require_order(needs: Needs, one: Instruction, clock: Clock) -> None:
    for queue, count in enumerate(needs.needed[one.number]):
        if count > clock[queue]:
            raise race(needs, one, needs.queues[QUEUES[queue]][count - 1])


def race(needs: Needs, one: Instruction, other: Instruction) -> ExecutionError:
    """The error of an instruction that may begin before another is done that it needs."""
    return ExecutionError(
        f"nothing orders {other} before {one}: {needs.reason(other, one)}. A token is missing, "
        f"pushed to {one.queue} by #{other.number} or one of {other.queue} behind it, and popped "
        f"by #{one.number} or one of {one.queue} in front of it",
        "race",
    )


def deadlock(waiting: Sequence[Instruction], left: dict[tuple[str, str], int]) -> ExecutionError:
    """The error of queues that wait for each other, or for nothing."""
    texts = []
    for one in waiting:
        lacking = [q for q in dict.fromkeys(one.pops) if left.get((q, one.queue), 0) < 1]
        texts.append(f"{one} waits for a token of {' and '.join(lacking)}")
    return ExecutionError(f"deadlock: {'; '.join(texts)}", "deadlock")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _it(count: int) -> str:
    return "it" if count == 1 else "them"
