"""The workers of a Dask scheduler, as `Remote` knows them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from minitensor.errors import MeasureError
from minitensor.search.runner import there
from minitensor.version import __version__

ONLY_BUILDS: Final = "it builds for others, and measures nothing"
BEAT: Final = 0.5
"""Seconds between two looks at which workers are there."""


@dataclass
class Worker:
    """A worker, and what it did.

    took      seconds of its yardstick, at last; 0 before that
    doubted   whether that was longer than it should be
    asked     when one that is set aside for that is asked again
    reason    why it does not measure; "" if it may
    built     candidates that it built for workers of another kind
    idle      why it does not build for them; "" if it may
    """

    address: str
    kind: str
    about: Mapping[str, Any]
    requests: int = 0
    candidates: int = 0
    took: float = 0.0
    doubted: bool = False
    asked: float = math.inf
    reason: str = ""
    built: int = 0
    idle: str = ""

    @property
    def compiler(self) -> str:
        """The first line of what its compiler prints for `--version`."""
        return str(self.about["host"]["compiler"])

    @property
    def flags(self) -> list[str]:
        """The flags with which others may build for it; none if they cannot."""
        return [str(flag) for flag in self.about.get("flags", ())]


def worker_of(address: str, about: Mapping[str, Any]) -> Worker:
    """A worker, from what it says of itself."""
    version, host = about.get("minitensor"), about.get("host")
    reason = idle = ""
    if "error" in about or not isinstance(host, dict):
        reason = f"{address} cannot measure: {about.get('error', 'it does not say what it is')}"
    elif version != __version__:
        reason = f"{address} has minitensor {version}, and here it is {__version__}"
    if not isinstance(host, dict):
        return Worker(address, "unknown", about, reason=reason, idle=reason)
    target, idle = there.target_of(about["target"]), reason
    kind = f"{host['cpu']}, {target.num_cores} cores, {target.vector_bits} bits, {host['compiler']}"
    if about.get("measures") is False:
        kind, reason = f"{kind}, only builds", reason or ONLY_BUILDS
    return Worker(address, kind, about, reason=reason, idle=idle)


class Pool:
    """The workers of a scheduler, looked at again and again.

    client     a distributed.Client
    about      the function that a worker describes itself with
    wait       seconds to wait for a worker where there is none: a lost one may start again
    kind       of the workers that measure
    yardstick  the definition and the trace of the candidate that all are asked for; None until
               there is one
    """

    def __init__(self, client: Any, about: Any, wait: float = 0.0) -> None:
        self.client, self._about, self._wait = client, about, wait
        self.workers: dict[str, Worker] = {}
        self.kind = ""
        self.yardstick: tuple[str, str] | None = None
        self._looked = float("-inf")

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return str(self.client.scheduler.address)

    def look(self, now: bool = False) -> list[Worker]:
        """The workers that were there lately, or are now; new ones are asked what they are."""
        if not now and time.monotonic() < self._looked + BEAT:
            return list(self.workers.values())
        self._looked = time.monotonic()
        try:
            answer = self.client.scheduler_info(n_workers=-1)
        except TypeError:  # of an older Dask
            answer = self.client.scheduler_info()
        if (known := answer.get("workers")) is None:  # Dask has noticed first
            raise self.gone()
        for address in [a for a in self.workers if a not in known]:
            del self.workers[address]
        news = [address for address in known if address not in self.workers]
        if news:
            answers = self.client.run(self._about, workers=news, on_error="return")
            for address, answer in answers.items():
                about = json.loads(answer) if isinstance(answer, str) else {"error": str(answer)}
                self.workers[address] = worker_of(address, about)
        return list(self.workers.values())

    def gone(self) -> MeasureError:
        """The error for a scheduler that does not answer."""
        return MeasureError(
            f"the Dask scheduler at {self.address} is gone; what was measured is in the log, "
            "and the same search goes on from there once it is back"
        )

    def measuring(self) -> list[Worker]:
        """The workers that measure. Raises MeasureError if there is none, and none comes back."""
        until = time.monotonic() + self._wait
        while True:
            for worker in self.look():
                if time.monotonic() > worker.asked:
                    worker.reason, worker.asked = "", math.inf  # and still doubted
            mine = [w for w in self.workers.values() if w.kind == self.kind]
            if found := [w for w in mine if not w.reason]:
                return found
            if mine or time.monotonic() > until:
                raise MeasureError(f"no worker of kind {self.kind} is left\n{self.explain()}")
            time.sleep(BEAT)

    def building(self) -> list[Worker]:
        """The workers of other kinds that build for those that measure: they have their compiler,
        and it has said what flags that takes.
        """
        first = self.measuring()[0]
        others = [w for w in self.workers.values() if w.kind != self.kind and not w.idle]
        return [w for w in others if first.flags and w.compiler == first.compiler]

    def slowness(self, worker: Worker) -> float:
        """The time of a worker's yardstick, in times of the fastest's."""
        known = [w.took for w in self.workers.values() if w.took and not w.reason]
        return worker.took / min(known) if known and worker.took else 1.0

    def explain(self) -> str:
        """The workers: what they are, what they did, and why some are set aside."""
        lines = [f"{len(self.workers)} workers; measured on {self.kind}"]
        for worker in self.workers.values():
            done = []
            if worker.kind == self.kind:
                done.append(f"{worker.candidates} candidates in {worker.requests} requests")
            if worker.took:
                done.append(f"{self.slowness(worker):.2f} times as long as the fastest")
            if worker.built:
                done.append(f"{worker.built} candidates built for others")
            if aside := worker.idle or (worker.reason != ONLY_BUILDS and worker.reason):
                done.append(f"set aside: {aside}")
            text = ", ".join(done) or f"{worker.kind}: nothing yet"
            lines.append(f"  {worker.about.get('name', '?')} {worker.address}: {text}")
        return "\n".join(lines)
