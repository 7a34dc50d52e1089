"""The process that measures: `python -m benchmarks.compare.worker`, started by `launch`.

Its environment and its cores were chosen before it was born. It reads a job as JSON from its
standard input and writes what happens as JSON, a line for each event. What libraries print on
standard output goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.implementation import LOG, OURS, TUNED, Implementation, ours, tuned
from benchmarks.compare.results import Entry, Result, lost, result_to_json
from benchmarks.compare.work import Work
from minitensor.cli.errors import CommandError
from minitensor.runtime import Pace, Probe, compute_probe, interleave, measure_limits, memory_probes

Tell = Callable[[Mapping[str, Any]], None]
Source = Callable[[], Iterator[Implementation]]

ROOF = "\nroof "
"""Begins the names of the machine's own limits among the implementations."""


def main() -> None:
    """Do the job that standard input describes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this one ends it
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(event: Mapping[str, Any]) -> None:
        print(json.dumps(event), file=events, flush=True)

    try:
        work_off(json.loads(sys.stdin.read()), tell)
    except BrokenPipeError:  # nobody listens any more
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # not through the exits of every library: some hang or crash there


def work_off(job: Mapping[str, Any], tell: Tell) -> None:
    """Measure the machine and every workload of a job.

    job  threads, keys (of hand schedules), baselines (names), options (for them), pace, limits
         (true to measure the machine first), without (implementations to leave out, by key and
         name, and why)
    """
    threads: int = job["threads"]
    if job["limits"]:
        limits = asdict(measure_limits(threads))
        tell({"event": "limits", "limits": limits, "cores": pinned_to()})
    roofs = Roofs(threads)
    for key in job["keys"]:
        tell({"event": "begin", "key": key})
        result = measured(key, job, roofs, tell)
        tell({"event": "result", "result": result_to_json(result)})


def pinned_to() -> list[int]:
    """The numbers of the cores this process may run on; [] where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class Roofs:
    """The probes that go round with the implementations, made when they are first needed."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._compute: list[Probe] = []
        self._memory: list[Probe] = []

    def of(self, work: Work) -> list[Probe]:
        """The limits of a workload: multiply-adds, or bytes."""
        if work.flop:
            self._compute = self._compute or [compute_probe(self._threads)]
            return self._compute
        self._memory = self._memory or memory_probes(self._threads)
        return self._memory


def measured(key: str, job: Mapping[str, Any], roofs: Roofs, tell: Tell) -> Result:
    """One workload: everybody enters, is checked, and takes turns with the others."""
    threads, pace = job["threads"], Pace(**job["pace"])
    dropped: dict[str, str] = dict(job["without"].get(key, {}))
    try:
        work = Work.of(key)
    except MemoryError as failure:  # numpy says how many bytes, and for which shape
        reason = f"too large for memory: {failure or 'none is left'}; time it with smaller sizes"
        return lost(key, {**dropped, key: reason})
    implementations = list(entered(work, job, dropped, tell))
    probes = roofs.of(work)
    playing = [*implementations, *(Implementation(ROOF + p.name, p.call, _nothing) for p in probes)]

    def started(number: int) -> None:
        tell({"event": "round", "key": key, "number": number, "rounds": pace.rounds})

    turns = interleave(playing, pace, pause=threads > 1, started=started)
    rates = [[p.work / s for s in turns[ROOF + p.name].fastest] for p in probes]
    return Result(
        work.key,
        work.name,
        work.kind,
        work.parameters,
        work.flop,
        work.bytes,
        [
            Entry(c.name, turns[c.name].fastest, turns[c.name].typical, c.bound, c.note)
            for c in implementations
        ],
        [max(at_once) for at_once in zip(*rates)],
        dropped,
    )


def entered(
    work: Work, job: Mapping[str, Any], dropped: dict[str, str], tell: Tell
) -> Iterator[Implementation]:
    """Everybody who computes the work, and computes it right; the others are written down."""
    sources: dict[str, Source] = {OURS: lambda: ours(work, job["threads"])}
    if job["options"].get(LOG):
        sources[TUNED] = lambda: tuned(work, job["threads"], job["options"][LOG])
    sources |= {name: _source(name, work, job) for name in job["baselines"]}
    for name, source in sources.items():
        if name in dropped:
            continue
        tell({"event": "enter", "key": work.key, "name": name})
        try:
            for implementation in source():
                wrong = _first_result(implementation, work)
                if wrong:
                    dropped[implementation.name] = f"wrong: {wrong}"
                else:
                    yield implementation
        except CommandError as failure:
            dropped[name] = str(failure)
        except Exception as failure:  # other people's libraries: they may raise anything
            dropped[name] = f"{type(failure).__name__}: {failure}"[:500]


def _source(
    name: str, work: Work, job: Mapping[str, Any]
) -> Callable[[], Iterator[Implementation]]:
    enter = BASELINES[name].enter
    return lambda: enter(name, work, job["threads"], job["options"])


def _first_result(implementation: Implementation, work: Work) -> str:
    """What is wrong with what it computes; "" if nothing is."""
    wrong = work.difference(implementation.array(implementation.call()))
    time.sleep(
        implementation.spin
    )  # the next one is being prepared, perhaps timed by its own tuner
    return wrong


def _nothing(result: object) -> Any:
    return result


if __name__ == "__main__":
    main()
