"""The process that measures: `python -m benchmarks.compare.worker`, started by `launch`.

Its environment and its cores are chosen before it starts. It takes one request, a job, and replies
with events, of which {"event": "end"} is the last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.implementation import (
    LOG,
    OURS,
    TUNED,
    Implementation,
    Source,
    admitted,
    ours,
    tuned,
)
from benchmarks.compare.results import Entry, Result, lost, result_to_json
from benchmarks.compare.work import Work
from minitensor.runtime import (
    Pace,
    Parent,
    Probe,
    compute_probe,
    interleave,
    measure_limits,
    memory_probes,
)

Report = Callable[[Mapping[str, Any]], None]

ROOF = "\nroof "
"""A prefix of the probes' names among the implementations."""


def main() -> None:
    """Do one job."""
    with Parent.connected(watched=False) as parent:  # no thread of ours beside what is timed
        work_off(next(parent.requests()), parent.send)
        parent.send({"event": "end"})
    os._exit(0)  # not through the exits of every library: some hang or crash there


def work_off(job: Mapping[str, Any], report: Report) -> None:
    """Measure the machine and every workload of a job.

    job  threads, keys (of hand schedules), baselines (names), options (for them), pace, limits
         (true to measure the machine first), without (implementations to leave out, by key and
         name, and why)
    """
    threads: int = job["threads"]
    if job["limits"]:
        limits = asdict(measure_limits(threads))
        report({"event": "limits", "limits": limits, "cores": pinned_to()})
    roofs = Roofs(threads)
    for key in job["keys"]:
        report({"event": "begin", "key": key})
        result = measured(key, job, roofs, report)
        report({"event": "result", "result": result_to_json(result)})


def pinned_to() -> list[int]:
    """The numbers of the cores this process may run on; [] where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class Roofs:
    """The probes that take turns with the implementations, made when they are first needed."""

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


def measured(key: str, job: Mapping[str, Any], roofs: Roofs, report: Report) -> Result:
    """One workload: all implementations are prepared, checked, and take turns."""
    threads, pace = job["threads"], Pace(**job["pace"])
    dropped: dict[str, str] = dict(job["without"].get(key, {}))
    try:
        work = Work.of(key)
    except MemoryError as failure:  # numpy says how many bytes, and for which shape
        reason = f"too large for memory: {failure or 'none is left'}; time it with smaller sizes"
        return lost(key, {**dropped, key: reason})

    def entered(name: str) -> None:
        report({"event": "enter", "key": key, "name": name})

    implementations = list(admitted(sources_of(work, job), work, dropped, entered))
    probes = roofs.of(work)
    timed = [*implementations, *(Implementation(ROOF + p.name, p.call, _nothing) for p in probes)]

    def started(number: int) -> None:
        report({"event": "round", "key": key, "number": number, "rounds": pace.rounds})

    turns = interleave(timed, pace, pause=threads > 1, started=started)
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


def sources_of(work: Work, job: Mapping[str, Any]) -> dict[str, Source]:
    """Ours, those of the log, and the baselines of a job, by name."""
    threads, options = job["threads"], job["options"]
    sources: dict[str, Source] = {OURS: partial(ours, work, threads)}
    if options.get(LOG):
        sources[TUNED] = partial(tuned, work, threads, options[LOG])
    for name in job["baselines"]:
        sources[name] = partial(BASELINES[name].enter, name, work, threads, options)
    return sources


def _nothing(result: object) -> Any:
    return result


if __name__ == "__main__":
    main()
