"""Work that copies of this process share, for Python computes on one core at a time.

    for number, result in share_out(work, 16, usable_cores()):      in any order
        …

A copy is forked, so it has all that this process has, and nothing is sent to it but the numbers of
its work; the results come back as JSON. It should compute only: of the threads of this process it
has one, and a lock that another held stays locked. Whatever becomes of a copy, its work is done.
"""

from __future__ import annotations

import contextlib
import gc
import select
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

from minitensor.runtime.worker import OwnTime, Parent, Worker, WorkerError

_STUCK: Final = 60.0
"""Seconds of its own for one result, after which a copy is taken for stuck."""
_TICK: Final = 0.5
"""Seconds between two looks at the clocks of copies that send nothing."""

Work = Callable[[int], dict[str, Any]]


def share_out(
    work: Work, count: int, copies: int
) -> Generator[tuple[int, dict[str, Any]], None, None]:
    """Yield the numbers below `count`, each with `work` of it, as soon as it is there.

    work    computes a JSON object, and changes nothing that others see; what it raises is raised
            here
    copies  of this process, at most; with one, or where no process can fork, there are none

    What a copy leaves undone (it was killed, has no memory, or is stuck) is done here.
    """
    left = iter(range(count))
    if min(count, copies) > 1 and sys.platform == "linux":
        undone = []
        for number, result in _shared(work, left, min(count, copies)):
            if result is None:
                undone.append(number)
            else:
                yield number, result
        left = iter((*undone, *left))
    for number in left:
        yield number, work(number)


def _shared(
    work: Work, numbers: Iterator[int], copies: int
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield numbers with their results, None where a copy was lost. It ends with the last copy."""

    def serve(parent: Parent) -> None:
        gc.freeze()  # the collector would write to every page that is shared
        for request in parent.requests():
            parent.send(work(request["number"]))

    busy: dict[Worker, tuple[int, OwnTime]] = {}
    poll = select.poll()

    def give(worker: Worker) -> None:
        if (number := next(numbers, None)) is not None:
            worker.send({"number": number})
            busy[worker] = number, OwnTime(worker.pid)
            poll.register(worker, select.POLLIN)

    with contextlib.ExitStack() as workers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, numpy's too
            with contextlib.suppress(OSError):  # no more processes: those that there are
                for _ in range(copies):
                    give(workers.enter_context(Worker.fork(serve, Path("/"))))
        while busy:
            ready = {descriptor for descriptor, _ in poll.poll(_TICK * 1000)}
            for worker, (number, own) in list(busy.items()):
                reply, lost = None, own.seconds() > _STUCK
                if worker.fileno() in ready:
                    try:
                        reply = worker.poll()
                    except WorkerError:
                        lost = True
                if reply is not None or lost:
                    del busy[worker]
                    poll.unregister(worker)
                    yield number, reply
                if reply is not None:
                    give(worker)
