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
from minitensor.fuzz.batch import Counts
from minitensor.fuzz.pair import FailedError, Failure, draw_pair
from minitensor.fuzz.process import Process
from minitensor.fuzz.reduce import reduced
from minitensor.fuzz.script import script_of
from minitensor.fuzz.worker import choices_of
from minitensor.version import __version__

VERSION: Final = 1
BATCH: Final = 32
"""Pairs that are compiled as one text."""
SILENCE: Final = 300.0
"""Seconds without a word after which a process hangs."""
MOST_REDUCED: Final = 10
"""How many failures of different kinds are made small; more would take all the time."""
_STATE: Final = "state.json"
_UNREADABLE: Final = (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a state raises that is none."""
_RECYCLED: Final = 100
"""Batches after which a process is replaced: libraries are never unloaded."""


@dataclass
class Found:
    """One failure, with the script that shows it (None until it is written)."""

    number: int
    failure: Failure
    script: str | None = None


@dataclass
class State:
    """What a campaign has done: batches from 0 to `next` - 1, but for those `missing`."""

    seed: int
    sanitizer: str
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
    sanitizer  what kernels run under (see `minitensor.sanitize`)

    Raises ArgumentError for a folder with the state of another campaign.
    """

    def __init__(self, folder: Path, seed: int, jobs: int, sanitizer: str) -> None:
        self.folder, self.jobs = folder, jobs
        folder.mkdir(parents=True, exist_ok=True)
        self.state = _restored(folder / _STATE, seed, sanitizer)
        self.resumed = self.state.counts.pairs
        self._selector = selectors.DefaultSelector()
        self._workers: dict[Process, _Job | None] = {}
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
                elif not any(self._workers.values()):
                    break
                self._listen()
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

    # ---- processes

    def _employ(self) -> None:
        """Give every process a job, starting those that are missing."""
        while len(self._workers) < self.jobs:
            process = self._process()
            self._workers[process] = None
            self._selector.register(process.output, selectors.EVENT_READ, process)
        for process, job in self._workers.items():
            if job is None:
                batch = self.state.missing.pop() if self.state.missing else self.state.next
                self.state.next = max(self.state.next, batch + 1)
                numbers = list(range(batch * BATCH, (batch + 1) * BATCH))
                self._assign(process, _Job(batch, numbers))

    def _process(self) -> Process:
        return Process(self.state.seed, self.state.sanitizer, self._cache)

    def _assign(self, process: Process, job: _Job) -> None:
        self._workers[process] = job
        process.send({"numbers": job.numbers})

    def _listen(self) -> None:
        """Wait for news, at most a second, and take them."""
        for key, _ in self._selector.select(timeout=1.0):
            process: Process = key.data
            for told in process.lines():
                self._take(process, told)
            if process.ended:
                self._crashed(process, "crash", process.last_words())
        for process, job in list(self._workers.items()):
            if job is not None and time.monotonic() - process.heard > SILENCE:
                self._crashed(process, "hang", f"nothing heard for {SILENCE:.0f} s")

    def _take(self, process: Process, told: Mapping[str, Any]) -> None:
        job = self._workers.get(process)
        if job is None or "done" not in told:
            return
        done = told["done"]
        self._count(done)
        process.jobs += 1
        self._workers[process] = None
        if process.jobs >= _RECYCLED:
            self._retire(process)

    def _count(self, done: Mapping[str, Any]) -> None:
        counts = self.state.counts
        for name, value in done["counts"].items():
            setattr(counts, name, getattr(counts, name) + value)
        for failure in done["failures"]:
            failed = Failure(failure["kind"], failure["message"])
            self.state.found.append(Found(failure["number"], failed))

    def _crashed(self, process: Process, kind: str, how: str) -> None:
        """Blame the pair that the process was at, and let another one do the rest."""
        job = self._workers[process]
        self._retire(process)
        if job is None:
            return
        what, number = process.at
        if number in job.numbers:
            failure = Failure(kind, f"{how} while it was to {what}")
            self.state.found.append(Found(number, failure))
            self.state.counts.pairs += 1
            job.numbers.remove(number)
        if job.numbers:
            successor = self._process()
            self._selector.register(successor.output, selectors.EVENT_READ, successor)
            self._assign(successor, job)

    def _retire(self, process: Process) -> None:
        self._selector.unregister(process.output)
        del self._workers[process]
        process.stop()

    def _dismiss(self) -> None:
        for process, job in list(self._workers.items()):
            if job is not None:
                self.state.missing.append(job.batch)
            self._retire(process)

    # ---- what is kept

    def _script(self, found: Found) -> str:
        answers = choices_of_pair(self.state.seed, found.number)
        kind = (found.failure.kind, re.sub(r"\d+|[A-Za-z_]+_?\d+", "#", found.failure.message)[:60])
        if kind not in self._reduced and len(self._reduced) < MOST_REDUCED:
            self._reduced.add(kind)
            answers = reduced(answers, found.failure, self._process)
        name = f"failure-{found.number}-{found.failure.kind}.py"
        origin = (
            f"Found by `minitensor fuzz --seed {self.state.seed}` as pair {found.number}; "
            "run it with Python: it fails as long as the fault is there."
        )
        _write(self.folder / name, script_of(answers, found.failure, origin))
        return name

    def _save(self) -> None:
        state = asdict(self.state)
        state["missing"] = self.state.missing + [j.batch for j in self._workers.values() if j]
        text = json.dumps({"version": VERSION, "minitensor": __version__, **state}, indent=1)
        _write(self.folder / _STATE, text)


@dataclass
class _Job:
    batch: int
    numbers: list[int]


def choices_of_pair(seed: int, number: int) -> tuple[int, ...]:
    """The answers from which a pair of a campaign is drawn."""
    choices = choices_of(seed, number)
    with contextlib.suppress(FailedError):
        draw_pair(choices)
    return tuple(choices.answers)


def _write(path: Path, text: str) -> None:
    """Replace a file, as a whole."""
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=".fuzz-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(scratch, path)


def _restored(path: Path, seed: int, sanitizer: str) -> State:
    """The state of the campaign, if one was there."""
    if not path.exists():
        return State(seed, sanitizer)
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
            int(kept["next"]),
            [int(n) for n in kept["missing"]],
            Counts(**{name: int(n) for name, n in kept["counts"].items()}),
            float(kept["seconds"]),
            found,
        )
        given = (kept["version"], kept["minitensor"], state.seed, state.sanitizer)
    except (
        OSError,
        ArithmeticError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as failure:
        raise ArgumentError(
            f"{path} is not the state of a campaign ({failure}); name another folder, or remove it"
        ) from None
    if given != (VERSION, __version__, seed, sanitizer):
        raise ArgumentError(
            f"{path} is of another campaign: version {given[1]}, seed {given[2]}, sanitizer "
            f"{given[3]}; name another folder, or remove it"
        )
    return state
