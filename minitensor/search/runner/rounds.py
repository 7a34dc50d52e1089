"""One call of `Remote.measure`: who builds and measures what, until all results are there.

A request holds a few candidates. It is on one worker at a time, and its answer counts once. If its
worker is lost it goes to another; a candidate that was there when three were lost has ended them.

Building workers are served first, and return a request with its compiled libraries. Measuring
workers prefer compiled requests to others; an idle one takes a request back from a building worker.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from minitensor.errors import ArgumentError, MeasureError
from minitensor.lang import definition_as_python
from minitensor.schedule import Schedule
from minitensor.search.runner import there
from minitensor.search.runner.results import Result, Settings, Status
from minitensor.search.runner.workers import BEAT, Pool, Worker

LOST: Final = 3
"""Workers that a candidate may be on when they are lost."""
UNLIKE: Final = 0.15
"""A worker whose yardstick takes longer than the fastest one by more, twice, is not like it."""
REST: Final = 60.0
"""Seconds after which one that is not like it is asked for its yardstick again."""
EACH: Final = 8
"""Requests to a worker after which the yardstick is measured there again."""
AHEAD: Final = 2
"""Requests that a worker has at once: it does the first."""
_FETCHING: Final = 10.0  # seconds in which replies come from the workers that have them
_NUMBERS: Final = itertools.count(1)


@dataclass
class Request:
    """Candidates by their numbers.

    lost       the workers that were lost with it
    libraries  what another worker built of it; None if none did
    flags      with which it did
    alone      whether no other is to build it
    """

    numbers: list[int]
    lost: int = 0
    libraries: dict[str, str] | None = None
    flags: list[str] = field(default_factory=list)
    alone: bool = False

    @property
    def is_unbuilt(self) -> bool:
        """True if a building worker may compile it."""
        return self.libraries is None and not self.alone


@dataclass(eq=False)
class Sent:
    """A request on a worker.

    yardstick  whether its first candidate is the yardstick
    until      when an answer is late
    builds     whether it is only built there
    """

    request: Request
    worker: Worker
    identity: str
    yardstick: bool
    until: float
    builds: bool = False
    future: Any = field(repr=False, default=None)


class Round:
    """The candidates of one call.

    pool     the workers
    dask     the module `distributed`
    works    what a worker runs for a request to measure, and for one to build
    common   the parts of a request that are the same for all
    alone    whether no other worker is to build: the candidates were measured before
    """

    def __init__(
        self,
        pool: Pool,
        dask: Any,
        works: tuple[Callable[[str], str], Callable[[str], str]],
        schedules: Sequence[Schedule],
        each: int,
        settings: Settings,
        common: dict[str, Any],
        alone: bool = False,
    ) -> None:
        self.pool, self.dask, self.works, self.common = pool, dask, works, common
        self.definition = definition_as_python(schedules[0].history[0])
        # with building workers each candidate has a text of its own, the same on every machine
        self.settings = replace(settings, batch=1) if pool.building() else settings
        self.traces = [schedule.trace.to_json() for schedule in schedules]
        numbers = range(len(schedules))
        self.waiting = deque(
            Request([*numbers[first : first + each]], alone=alone) for first in numbers[::each]
        )
        self.found: dict[int, Result] = {}
        self.flying: list[Sent] = []
        if pool.yardstick is not None and pool.yardstick[0] != self.definition:
            pool.yardstick = None
            for worker in pool.workers.values():
                worker.took, worker.doubted = 0.0, False

    def results(self) -> Iterator[Result]:
        """Yield the results in order. Raises as `Remote.measure`."""
        given = 0
        try:
            while given < len(self.traces):
                self.send()
                self.receive()
                while given in self.found:
                    yield self.found.pop(given)
                    given += 1
        except (OSError, self.dask.CancelledError, self.dask.client.FuturesCancelledError):
            raise self.pool.gone() from None
        finally:
            for sent in self.flying:
                sent.future.cancel()

    # ---- out

    def send(self) -> None:
        """Give each worker a request, and those that measure one to go on with."""
        measuring, building = self.pool.measuring(), self.pool.building()
        count = Counter(sent.worker.address for sent in self.flying)
        for worker in building:
            if not count[worker.address] and (request := self._unbuilt()) is not None:
                self._build(worker, request, measuring[0])
        for ahead in range(AHEAD):
            for worker in measuring:
                if count[worker.address] > ahead:
                    continue
                if not self.waiting and not ahead:
                    self._take_back()
                # the second request of a worker is left to building workers
                if self.waiting and not (ahead and building and self.waiting[0].is_unbuilt):
                    self._measure(worker, self.waiting.popleft())

    def _unbuilt(self) -> Request | None:
        """Remove the first waiting request that a building worker may compile, and return it."""
        found = next((request for request in self.waiting if request.is_unbuilt), None)
        if found is not None:
            self.waiting.remove(found)
        return found

    def _take_back(self) -> None:
        """Return the last request of a building worker to those that wait, for an idle worker."""
        for sent in self.flying[::-1]:
            if sent.builds and not sent.future.done():
                self._drop(sent)
                sent.request.alone = True
                self.waiting.append(sent.request)
                return

    def _build(self, worker: Worker, request: Request, measuring: Worker) -> None:
        texts = [self.traces[number] for number in request.numbers]
        request.flags = measuring.flags
        parts = {"compiler": measuring.compiler, "flags": request.flags}
        self._submit(Sent(request, worker, "", False, 0.0, True), texts, parts)

    def _measure(self, worker: Worker, request: Request) -> None:
        texts = [self.traces[number] for number in request.numbers]
        measures = worker.doubted or worker.requests % EACH == 0
        yardstick = self.pool.yardstick if measures else None
        if yardstick is not None:
            texts = [yardstick[1], *texts]
        parts: dict[str, Any] = {}
        # workers that look alike may lack instructions of each other
        if request.libraries is not None and request.flags == worker.flags:
            parts = {"compiler": worker.compiler, "flags": worker.flags}
            parts |= {"libraries": request.libraries}
        self._submit(Sent(request, worker, "", yardstick is not None, 0.0), texts, parts)

    def _submit(self, sent: Sent, texts: Sequence[str], parts: dict[str, Any]) -> None:
        sent.identity, limits = f"{next(_NUMBERS)}", self.settings
        seconds = 0.0 if sent.builds else 2 * limits.time_limit
        sent.until = AHEAD * (len(texts) * (seconds + limits.compile_limit) + 60.0)
        sent.until += time.monotonic()
        payload = {
            **self.common,
            "version": there.VERSION,
            "id": sent.identity,
            "definition": self.definition,
            "settings": asdict(limits),
            "traces": texts,
            "exact": int(sent.yardstick),
            "compiler": "",
            "flags": [],
            "libraries": {},
            **parts,
        }
        sent.future = self.pool.client.submit(
            self.works[sent.builds],
            json.dumps(payload),
            workers=[sent.worker.address],
            pure=False,
            retries=0,
        )
        self.flying.append(sent)

    # ---- in

    def receive(self) -> None:
        """Take what has come, and see who is lost."""
        try:
            with self.pool.client.as_current():
                futures = [sent.future for sent in self.flying]
                self.dask.wait(futures, timeout=BEAT, return_when="FIRST_COMPLETED")
        except (self.dask.TimeoutError, TimeoutError):
            self.pool.look()
        replies = self._replies()
        first: set[str] = set()
        for sent in list(self.flying):
            gone = sent.worker.address not in self.pool.workers
            late = time.monotonic() > sent.until
            ahead = sent.worker.address not in first
            first.add(sent.worker.address)
            if sent.identity in replies:
                self.flying.remove(sent)
                (self.take_libraries if sent.builds else self.take)(sent, replies[sent.identity])
            elif gone or late or sent.future.status in ("error", "cancelled", "lost"):
                self._drop(sent)
                if late and not gone:
                    sent.worker.reason = sent.worker.idle = "it does not answer"
                sent.request.alone |= sent.builds
                self.again(sent.request, ahead and (gone or late))

    def _replies(self) -> dict[str, object]:
        found: dict[str, object] = {}
        until = time.monotonic() + _FETCHING
        for sent in self.flying:  # Dask waits for ever for a reply whose worker was lost with it
            if sent.future.status == "finished":
                with contextlib.suppress(self.dask.TimeoutError, TimeoutError):
                    left = max(0.1, until - time.monotonic())
                    found[sent.identity] = sent.future.result(timeout=left)
        return found

    def _drop(self, sent: Sent) -> None:
        self.flying.remove(sent)
        sent.future.cancel()

    def again(self, request: Request, was_lost: bool) -> None:
        """Have a request measured again; one candidate that was there too often has failed."""
        request.lost += was_lost
        if request.lost < LOST:
            self.waiting.appendleft(request)
        elif len(request.numbers) > 1:  # which of them is it
            self.waiting.extendleft(
                replace(request, numbers=[number], lost=LOST - 1) for number in request.numbers
            )
        else:
            message = f"{LOST} workers were lost while they measured it"
            self.found[request.numbers[0]] = Result(Status.CRASH, message=message)

    def take_libraries(self, sent: Sent, reply: object) -> None:
        """Take what a worker built; the request goes on to one that measures."""
        request, worker = sent.request, sent.worker
        try:
            request.libraries = there.libraries_of(reply, sent.identity)
            worker.built += len(request.libraries)
        except (MeasureError, ArgumentError) as failure:  # the measuring worker will say it
            request.alone = True
            if isinstance(failure, MeasureError):
                worker.idle = failure.message
        self.waiting.appendleft(request)

    def take(self, sent: Sent, reply: object) -> None:
        """Take what a worker measured, unless it is slower than others."""
        worker, pool, numbers = sent.worker, self.pool, sent.request.numbers
        try:
            results = there.results_of(reply, sent.identity, len(numbers) + sent.yardstick)
        except MeasureError as failure:
            worker.reason = failure.message
            self.again(sent.request, False)
            return
        worker.requests += 1
        if sent.yardstick:
            first = results.pop(0)
            worker.took = first.median if first.ok and not first.disturbed else worker.took
            slow, doubted = pool.slowness(worker) > 1 + UNLIKE, worker.doubted
            worker.doubted = slow
            if slow and len(pool.measuring()) > 1:
                if doubted:
                    times = f"{pool.slowness(worker):.2f} times as long"
                    worker.reason = f"the candidate that all measure takes {times} there"
                    worker.asked = time.monotonic() + REST
                self.again(sent.request, False)
                return
        worker.candidates += len(results)
        for number, result in zip(numbers, results):
            self.found[number] = result
            if pool.yardstick is None and result.ok and not (result.disturbed or result.early):
                pool.yardstick = (self.definition, self.traces[number])
                worker.took = result.median
