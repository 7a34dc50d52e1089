"""Candidates measured on other machines, by value, through Dask: `mt.search.Remote`.

Nothing of a file system is shared. A request holds the definition, traces and settings as text, and
a worker (`there`) builds and measures in its own cache with its own compiler. Workers of one kind
are used, the same processor, cores, vector width and compiler, so that a ranking has the speeds of
one kind. Each is asked at times for the time of one candidate that all have measured, the
*yardstick*: one that is slower than another, twice, is set aside, and its last candidates are
measured elsewhere.

A request is on one worker at a time, and its answer counts once. If its worker is lost it goes to
another; a candidate that was there when three were lost has ended them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from minitensor.errors import ArgumentError, MeasureError, is_integer, reason_of, unexpected
from minitensor.lang import definition_as_python
from minitensor.schedule import Schedule
from minitensor.search.runner import there
from minitensor.search.runner.results import Result, Settings, Status
from minitensor.search.runner.workers import Request, Sent, Worker, worker_of

LOST: Final = 3
"""Workers that a candidate may be on when they are lost."""
UNLIKE: Final = 0.15
"""A worker whose yardstick takes longer than the fastest one by more, twice, is not like it."""
EACH: Final = 8
"""Requests to a worker after which the yardstick is measured there again."""
AHEAD: Final = 2
"""Requests that a worker has at once: it does the first."""
_BEAT: Final = 0.5  # seconds between two looks at which workers are there
_FETCHING: Final = 10.0  # seconds in which replies come from the workers that have them
_WITHOUT: Final = (
    "measuring on other machines needs dask.distributed: python -m pip install "
    "'minitensor[distributed]'"
)


class Remote:
    """A runner whose candidates are built and measured by Dask workers on other machines.

        remote = mt.search.Remote("tcp://server:8786")
        result = mt.tune(program, target=remote.target, runner=remote, log="tuning.jsonl")

    client    the address of a Dask scheduler, or a distributed.Client (with its own Security)
    kind      the kind of workers that measure, as `kinds` names them; None if there is one only
    settings  limits and precision of each measurement
    seed      of the inputs
    each      candidates in a request
    wait      seconds to wait for a first worker

    A worker runs code that it is sent: use a network that you trust, or Dask's TLS. Workers that
    come later are used, those that are lost are not missed while there is one.

    Raises ArgumentError for no scheduler at the address, and no worker of the kind; MeasureError,
    in a search, if there is none left.
    """

    _work = staticmethod(there.measured)
    _about = staticmethod(there.described)

    def __init__(
        self,
        client: Any,
        *,
        kind: str | None = None,
        settings: Settings | None = None,
        seed: int = 0,
        each: int = 4,
        wait: float = 10.0,
    ) -> None:
        try:
            import distributed  # noqa: PLC0415 - an extra
        except ImportError:
            raise ArgumentError(_WITHOUT) from None
        self._dask: Any = distributed
        if not is_integer(each, 1, there.MOST - 1):
            raise unexpected(f"an integer from 1 to {there.MOST - 1}", "each", each)
        if settings is not None and not isinstance(settings, Settings):
            raise unexpected("mt.search.Settings(…), or None", "settings", settings)
        self.settings, self.seed, self.each = settings or Settings(), seed, each
        self._own = isinstance(client, str)
        self._client = self._connected(client, wait) if self._own else client
        if not isinstance(self._client, distributed.Client):
            raise unexpected("an address, or a distributed.Client", "client", client)
        self._workers: dict[str, Worker] = {}
        self._yardstick: tuple[str, str] | None = None
        self._count, self._looked = 0, -1e9
        until = time.monotonic() + wait
        try:
            while not self._look(now=True) and time.monotonic() < until:
                time.sleep(_BEAT / 5)
            self.kind = self._chosen(kind)
        except BaseException:
            self.close()
            raise
        about = next(w.about for w in self._workers.values() if w.kind == self.kind)
        self.target = there.target_of(about["target"])

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scheduler, if an address was given; its workers go on."""
        if self._own:
            self._client.close()

    def _connected(self, address: str, wait: float) -> Any:
        if not re.fullmatch(r"(tcp|tls)://[^\s/]+:\d+", address):
            raise unexpected("an address such as tcp://server:8786", "client", address)
        try:
            for name in ("distributed.client", "distributed.utils"):  # it is said here
                logging.getLogger(name).setLevel(logging.CRITICAL)
            there.reach(address, wait)  # a client that fails would leave a thread behind
            return self._dask.Client(address, timeout=wait, set_as_default=False)
        except (OSError, ValueError, ImportError) as failure:
            raise ArgumentError(
                f"no Dask scheduler answers at {address}: {reason_of(failure)}; start one there "
                "with `dask scheduler`, and workers with `minitensor worker ADDRESS`"
            ) from None

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return str(self._client.scheduler.address)

    # ---- workers

    @staticmethod
    def described() -> str:
        """This machine as a worker describes it: JSON, with an "error" if it cannot measure."""
        return there.described()

    @property
    def kinds(self) -> dict[str, int]:
        """The kinds of workers that are there, each with their number."""
        self._look(now=True)
        found: dict[str, int] = {}
        for worker in self._workers.values():
            found[worker.kind] = found.get(worker.kind, 0) + 1
        return found

    @property
    def at_once(self) -> int:
        """Candidates that all workers together take."""
        return self.each * len(self._pool())

    def explain(self) -> str:
        """The workers: what they are, what they measured, and why some are set aside."""
        lines = [f"{len(self._workers)} workers; measured on {self.kind}"]
        for worker in self._workers.values():
            text = f"{worker.candidates} candidates in {worker.requests} requests"
            if worker.took:
                text += f", {self._slowness(worker):.2f} times as long as the fastest"
            state = f"set aside: {worker.reason}" if worker.reason else text
            lines.append(f"  {worker.about.get('name', '?')} {worker.address}: {state}")
        return "\n".join(lines)

    def _look(self, now: bool = False) -> list[Worker]:
        """The workers that were there lately, or are now; new ones are asked what they are."""
        if not now and time.monotonic() < self._looked + _BEAT:
            return list(self._workers.values())
        self._looked = time.monotonic()
        try:
            answer = self._client.scheduler_info(n_workers=-1)
        except TypeError:  # of an older Dask
            answer = self._client.scheduler_info()
        if (known := answer.get("workers")) is None:  # Dask has noticed first
            raise self._gone()
        for address in [a for a in self._workers if a not in known]:
            del self._workers[address]
        news = [address for address in known if address not in self._workers]
        if news:
            answers = self._client.run(self._about, workers=news, on_error="return")
            for address, answer in answers.items():
                about = json.loads(answer) if isinstance(answer, str) else {"error": str(answer)}
                self._workers[address] = worker_of(address, about)
        return list(self._workers.values())

    def _gone(self) -> MeasureError:
        """The error for a scheduler that does not answer."""
        return MeasureError(
            f"the Dask scheduler at {self.address} is gone; what was measured is in the log, "
            "and the same search goes on from there once it is back"
        )

    def _chosen(self, kind: str | None) -> str:
        usable = sorted({w.kind for w in self._workers.values() if not w.reason})
        listed = "; ".join(f"{name} ({n})" for name, n in self.kinds.items()) or "none"
        reasons = "".join(f"; {w.reason}" for w in self._workers.values() if w.reason)
        if kind is None and len(usable) == 1:
            return usable[0]
        if kind is None and usable:
            raise ArgumentError(f"there are workers of several kinds: choose kind= among {listed}")
        if kind not in usable:
            wanted = "worker" if kind is None else f"worker of kind {kind!r}"
            raise ArgumentError(
                f"there is no {wanted} that can measure: {listed}{reasons}; start one with "
                "`minitensor worker ADDRESS`"
            )
        return str(kind)

    def _pool(self) -> list[Worker]:
        found = [w for w in self._look() if w.kind == self.kind and not w.reason]
        if not found:
            raise MeasureError(f"no worker of kind {self.kind} is left\n{self.explain()}")
        return found

    def _slowness(self, worker: Worker) -> float:
        """The time of a worker's yardstick, in times of the fastest's."""
        known = [w.took for w in self._workers.values() if w.took and not w.reason]
        return worker.took / min(known) if known and worker.took else 1.0

    # ---- measurements

    def measure(self, schedules: Sequence[Schedule], best: float | None = None) -> Iterator[Result]:
        """Yield the result of each schedule, in order. Raises MeasureError if no worker is left,
        ArgumentError for what no worker accepts.
        """
        return self._measured(schedules, best, self.each)

    def together(
        self, schedules: Sequence[Schedule], best: float | None = None
    ) -> Iterator[Result]:
        """The same on one worker, for schedules that are compared with each other."""
        return self._measured(schedules, best, there.MOST - 1)

    def _measured(
        self, schedules: Sequence[Schedule], best: float | None, each: int
    ) -> Iterator[Result]:
        if not schedules:
            return
        definition = definition_as_python(schedules[0].history[0])
        traces = [schedule.trace.to_json() for schedule in schedules]
        if self._yardstick is not None and self._yardstick[0] != definition:
            self._yardstick = None
            for worker in self._workers.values():
                worker.took, worker.doubted = 0.0, False
        waiting = deque(
            Request(list(range(first, min(first + each, len(traces)))))
            for first in range(0, len(traces), each)
        )
        found: dict[int, Result] = {}
        flying: list[Sent] = []
        given = 0
        try:
            while given < len(traces):
                self._send(waiting, flying, definition, traces, best)
                self._receive(waiting, flying, found, definition, traces)
                while given in found:
                    yield found.pop(given)
                    given += 1
        except (OSError, self._dask.CancelledError, self._dask.client.FuturesCancelledError):
            raise self._gone() from None
        finally:
            for sent in flying:
                sent.future.cancel()

    def _send(
        self,
        waiting: deque[Request],
        flying: list[Sent],
        definition: str,
        traces: Sequence[str],
        best: float | None,
    ) -> None:
        """Give each worker a request, and one to go on with."""
        pool = self._pool()
        count = Counter(sent.worker.address for sent in flying)
        for worker in [w for ahead in range(AHEAD) for w in pool if count[w.address] <= ahead]:
            if not waiting:
                break
            request = waiting.popleft()
            texts = [traces[number] for number in request.numbers]
            measures = worker.doubted or worker.requests % EACH == 0
            yardstick = self._yardstick if measures else None
            if yardstick is not None:
                texts = [yardstick[1], *texts]
            self._count += 1
            identity = f"{self._count}"
            payload = json.dumps(
                {
                    "version": there.VERSION,
                    "id": identity,
                    "definition": definition,
                    "target": self.target.as_dict(),
                    "settings": asdict(self.settings),
                    "seed": self.seed,
                    "best": best,
                    "traces": texts,
                }
            )
            limits = self.settings
            seconds = AHEAD * (len(texts) * (2 * limits.time_limit + limits.compile_limit) + 60.0)
            sent = Sent(
                request, worker, identity, yardstick is not None, time.monotonic() + seconds
            )
            sent.future = self._client.submit(
                self._work, payload, workers=[worker.address], pure=False, retries=0
            )
            flying.append(sent)

    def _receive(
        self,
        waiting: deque[Request],
        flying: list[Sent],
        found: dict[int, Result],
        definition: str,
        traces: Sequence[str],
    ) -> None:
        """Take what has come, and see who is lost."""
        futures = [sent.future for sent in flying]
        try:
            with self._client.as_current():
                self._dask.wait(futures, timeout=_BEAT, return_when="FIRST_COMPLETED")
        except (self._dask.TimeoutError, TimeoutError):
            self._look()
        done = [sent for sent in flying if sent.future.status == "finished"]
        replies: dict[str, object] = {}
        until = time.monotonic() + _FETCHING
        for sent in done:  # Dask waits for ever for a reply whose worker was lost with it
            with contextlib.suppress(self._dask.TimeoutError, TimeoutError):
                left = max(0.1, until - time.monotonic())
                replies[sent.identity] = sent.future.result(timeout=left)
        first: set[str] = set()
        for sent in list(flying):
            gone = sent.worker.address not in self._workers
            late = time.monotonic() > sent.until
            ahead = sent.worker.address not in first
            first.add(sent.worker.address)
            if sent.identity in replies:
                flying.remove(sent)
                reply = replies[sent.identity]
                self._take(waiting, sent, reply, found, definition, traces)
            elif gone or late or sent.future.status in ("error", "cancelled", "lost"):
                flying.remove(sent)
                sent.future.cancel()
                if late and not gone:
                    sent.worker.reason = "it does not answer"
                self._again(waiting, sent.request, found, ahead and (gone or late))

    def _again(
        self, waiting: deque[Request], request: Request, found: dict[int, Result], was_lost: bool
    ) -> None:
        """Have a request measured again; one candidate that was there too often has failed."""
        request.lost += was_lost
        if request.lost < LOST:
            waiting.appendleft(request)
        elif len(request.numbers) > 1:  # which of them is it
            waiting.extendleft(Request([number], LOST - 1) for number in request.numbers)
        else:
            message = f"{LOST} workers were lost while they measured it"
            found[request.numbers[0]] = Result(Status.CRASH, message=message)

    def _take(
        self,
        waiting: deque[Request],
        sent: Sent,
        reply: object,
        found: dict[int, Result],
        definition: str,
        traces: Sequence[str],
    ) -> None:
        worker = sent.worker
        try:
            results = there.results_of(
                reply, sent.identity, len(sent.request.numbers) + sent.yardstick
            )
        except MeasureError as failure:
            worker.reason = failure.message
            self._again(waiting, sent.request, found, False)
            return
        worker.requests += 1
        if sent.yardstick:
            first = results.pop(0)
            worker.took = first.median if first.ok and not first.disturbed else worker.took
            slow, doubted = self._slowness(worker) > 1 + UNLIKE, worker.doubted
            worker.doubted = slow
            if slow and len(self._pool()) > 1:
                if doubted:
                    times = f"{self._slowness(worker):.2f} times as long"
                    worker.reason = f"the candidate that all measure takes {times} there"
                self._again(waiting, sent.request, found, False)
                return
        worker.candidates += len(results)
        for number, result in zip(sent.request.numbers, results):
            found[number] = result
            if self._yardstick is None and result.ok and not result.disturbed and not result.early:
                self._yardstick, worker.took = (definition, traces[number]), result.median
