"""A campaign: processes that check pairs until the time is over, and what they found.

What is done is kept in a folder (`state.json`), so that the same campaign goes on where it was
stopped; each failure becomes a script there. A process that crashes or hangs is blamed on the pair
that it was at, and replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from minitensor.errors import ArgumentError
from minitensor.runtime import Worker, WorkerError, find_toolchain
from minitensor.sanitize import Sanitizer, environment
from minitensor.testing.batch import Counts
from minitensor.testing.pairs import FailedError, Failure, Pair, pair_of
from minitensor.testing.reduce import BUDGET, PATIENCE, script_of
from minitensor.version import __version__

VERSION: Final = 1
WORKER: Final = "minitensor.testing.worker"
BATCH: Final = 32
"""Pairs that are compiled as one text."""
SILENCE: Final = 300.0
"""Seconds without a reply after which a worker hangs."""
MOST_REDUCED: Final = 10
"""The most failures of different kinds that are reduced; more would take all the time."""
_STATE: Final = "state.json"
_UNREADABLE: Final = (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions that reading a damaged state raises."""
_RECYCLED: Final = 100
"""Batches after which a worker is replaced: libraries are never unloaded."""


@dataclass
class Found:
    """One failure, with the script that shows it (None until it is written)."""

    number: int
    failure: Failure
    script: str | None = None

    def pair_of(self, seed: int, target: str) -> Pair | None:
        """The pair that failed, as it was drawn; None if there is no program."""
        try:
            return pair_of(seed, self.number, target)
        except FailedError as failed:
            return failed.pair


@dataclass
class State:
    """The progress of a campaign: batches from 0 to `next` - 1, but for those `missing`."""

    seed: int
    sanitizer: str
    target: str = "c"
    next: int = 0
    missing: list[int] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    found: list[Found] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Pairs an hour."""
        return self.counts.pairs / self.seconds * 3600 if self.seconds else 0.0

    @property
    def acceptance(self) -> float:
        """The fraction of drawn primitives that were accepted."""
        return self.counts.accepted / max(1, self.counts.attempts)


class Campaign:
    """Checks the pairs of a seed, one batch after the other, in several processes.

    folder     where state and scripts are kept; what a campaign with the same seed left there is
               gone on with
    jobs       how many processes
    sanitizer  what kernels of a CPU run under (see `minitensor.sanitize`)
    target     "c" or "cuda-emulator", which schedules are drawn for

    Raises ArgumentError for a folder with the state of another campaign.
    """

    def __init__(
        self, folder: Path, seed: int, jobs: int, sanitizer: str, target: str = "c"
    ) -> None:
        self.folder, self.jobs = folder, jobs
        folder.mkdir(parents=True, exist_ok=True)
        self.state = _restored(folder / _STATE, seed, sanitizer, target)
        self.resumed = self.state.counts.pairs
        self._selector = selectors.DefaultSelector()
        self._employed: list[_Employed] = []
        self._cache = tempfile.mkdtemp(prefix="minitensor-fuzz-")
        self._reduced: set[tuple[str, str]] = set()

    def run(self, seconds: float, progress: Callable[[State], None]) -> State:
        """Check pairs for so many seconds; what has been done, by this call and earlier ones.

        progress  called about once a second

        What was found is made small at the end, which takes some time more. KeyboardInterrupt
        leaves everything in the folder.
        """
        start, before, last = time.monotonic(), self.state.seconds, 0.0
        try:
            while True:
                elapsed = time.monotonic() - start
                self.state.seconds = before + elapsed
                if elapsed < seconds:
                    self._employ()
                elif not any(one.job for one in self._employed):
                    break
                self._receive()
                if time.monotonic() - last >= 1:
                    last = time.monotonic()
                    self._save()
                    progress(self.state)
        finally:
            self._dismiss()
            self._save()
        progress(self.state)
        return self.state

    def reduce(self, progress: Callable[[Found], None]) -> None:
        """Write a script for each failure, the first of each kind with a pair made small."""
        for found in self.state.found:
            if found.script is None:
                progress(found)
                found.script = self._script(found)
                self._save()

    def close(self) -> None:
        """Remove what was compiled."""
        self._dismiss()
        shutil.rmtree(self._cache, ignore_errors=True)

    # ---- workers

    def _employ(self) -> None:
        """Give every worker a batch, starting those that are missing."""
        while len(self._employed) < self.jobs:
            self._hire()
        for one in self._employed:
            if one.job is None:
                batch = self.state.missing.pop() if self.state.missing else self.state.next
                self.state.next = max(self.state.next, batch + 1)
                one.assign(_Job(batch, list(range(batch * BATCH, (batch + 1) * BATCH))))

    def _start(self, what: str) -> Worker:
        kind = self.state.sanitizer
        variables = environment(Sanitizer(kind), find_toolchain())
        variables["MINITENSOR_CACHE_DIR"] = self._cache
        return Worker.start(
            WORKER, str(self.state.seed), kind, self.state.target, what, variables=variables
        )

    def _hire(self) -> _Employed:
        one = _Employed(self._start("check"))
        self._employed.append(one)
        self._selector.register(one.worker, selectors.EVENT_READ, one)
        return one

    def _receive(self) -> None:
        """Wait for replies, at most a second, and take them."""
        for key, _ in self._selector.select(timeout=1.0):
            one: _Employed = key.data
            try:
                self._take(one)
            except WorkerError as failure:
                self._failed(one, "crash", failure.message)
        for one in list(self._employed):
            if one.job is not None and time.monotonic() - one.heard > SILENCE:
                self._failed(one, "hang", f"gave no reply for {SILENCE:.0f} s")

    def _take(self, one: _Employed) -> None:
        while (reply := one.worker.poll()) is not None:
            one.heard = time.monotonic()
            if "at" in reply:
                one.at = tuple(reply["at"])
                continue
            self._count(reply["done"])
            one.job = None
            one.batches += 1
            if one.batches >= _RECYCLED:
                self._retire(one)
                break

    def _count(self, done: Mapping[str, Any]) -> None:
        counts = self.state.counts
        for name, value in done["counts"].items():
            setattr(counts, name, getattr(counts, name) + value)
        for failure in done["failures"]:
            failed = Failure(failure["kind"], failure["message"])
            self.state.found.append(Found(failure["number"], failed))

    def _failed(self, one: _Employed, kind: str, how: str) -> None:
        """Blame the pair that the worker was at, and let another one do the rest."""
        self._retire(one)
        job, (what, number) = one.job, one.at
        if job is None:
            return
        if number in job.numbers:
            failure = Failure(kind, f"the process {how}; it was to {what}")
            self.state.found.append(Found(number, failure))
            self.state.counts.pairs += 1
            job.numbers.remove(number)
        if job.numbers:
            self._hire().assign(job)

    def _retire(self, one: _Employed) -> None:
        self._selector.unregister(one.worker)
        self._employed.remove(one)
        one.worker.close()

    def _dismiss(self) -> None:
        for one in list(self._employed):
            if one.job is not None:
                self.state.missing.append(one.job.batch)
            self._retire(one)

    # ---- what is kept

    def _script(self, found: Found) -> str:
        seed, target, text = self.state.seed, self.state.target, None
        kind = (found.failure.kind, re.sub(r"\d+|[A-Za-z_]+_?\d+", "#", found.failure.message)[:60])
        if kind not in self._reduced and len(self._reduced) < MOST_REDUCED:
            self._reduced.add(kind)
            text = self._reduce(found)
        if text is None:
            pair = found.pair_of(seed, target)
            text = script_of(pair, found.failure, seed, found.number, target)
        name = f"failure-{found.number}-{found.failure.kind}.py"
        _write(self.folder / name, text)
        return name

    def _reduce(self, found: Found) -> str | None:
        """The script of a smaller pair; None if there is none, or it takes too long."""
        with self._start("reduce") as worker, contextlib.suppress(WorkerError):
            worker.send({"number": found.number, "failure": asdict(found.failure)})
            text: str | None = worker.receive(BUDGET + 2 * PATIENCE)["script"]
            return text
        return None

    def _save(self) -> None:
        state = asdict(self.state)
        state["missing"] = self.state.missing + [e.job.batch for e in self._employed if e.job]
        text = json.dumps({"version": VERSION, "minitensor": __version__, **state}, indent=1)
        _write(self.folder / _STATE, text)


@dataclass
class _Job:
    batch: int
    numbers: list[int]


@dataclass(eq=False)
class _Employed:
    """A worker of a campaign.

    job      the batch it checks; None if it waits for one
    at       what it was last about to do, and with which pair
    heard    when it last replied, by time.monotonic()
    batches  how many it has checked
    """

    worker: Worker
    job: _Job | None = None
    at: tuple[str, int] = ("start", -1)
    heard: float = 0.0
    batches: int = 0

    def assign(self, job: _Job) -> None:
        self.job, self.heard = job, time.monotonic()
        self.worker.send({"numbers": job.numbers})


def _write(path: Path, text: str) -> None:
    """Replace a file, as a whole."""
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=".fuzz-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(scratch, path)


def _restored(path: Path, seed: int, sanitizer: str, target: str) -> State:
    """The state of the campaign, if one was there."""
    if not path.exists():
        return State(seed, sanitizer, target)
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        found = [
            Found(
                int(f["number"]),
                Failure(str(f["failure"]["kind"]), str(f["failure"]["message"])),
                f["script"],
            )
            for f in kept["found"]
        ]
        state = State(
            kept["seed"],
            kept["sanitizer"],
            kept.get("target", "c"),
            int(kept["next"]),
            [int(n) for n in kept["missing"]],
            Counts(**{name: int(n) for name, n in kept["counts"].items()}),
            float(kept["seconds"]),
            found,
        )
        given = (kept["version"], kept["minitensor"], state.seed, state.sanitizer, state.target)
    except _UNREADABLE as failure:
        raise ArgumentError(
            f"{path} is not the state of a campaign ({failure}); name another folder, or remove it"
        ) from None
    if given != (VERSION, __version__, seed, sanitizer, target):
        raise ArgumentError(
            f"{path} is of another campaign: version {given[1]}, seed {given[2]}, sanitizer "
            f"{given[3]}, target {given[4]}; name another folder, or remove it"
        )
    return state
