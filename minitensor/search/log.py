"""A log: the records of searches in a file, from any number of processes.

    log = Log("tuning.jsonl")
    log.append(new_record(program, target, schedule.trace, seconds=times, seed=0))
    log.measured(program, target)          # what need not be tried again
    load_best("tuning.jsonl", program)     # a Schedule, no search

A record is *acknowledged* when `append` returns: it survives the death of the process, whatever
kills it, and with fsync=True that of the machine. Lines that are no records are skipped and counted
in a Report, with one warning; nothing that a file may contain makes reading fail.
Not here: the format (`records`), damaged lines (`reading`), locks and bytes (`logfile`), a schedule
from a record (`load`).
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from minitensor.codegen import Target
from minitensor.errors import TuningError, printable, unexpected
from minitensor.ir import Program
from minitensor.runtime import native_target
from minitensor.search.logfile import held
from minitensor.search.reading import Entry, Kind, Report, entries, entries_of
from minitensor.search.records import LONGEST_LINE, OK, Record, encode
from minitensor.search.workload import workload_key

logger = logging.getLogger("minitensor")

PathLike: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of the records of a log that was rewritten, and what its lines were before."""

    kept: int
    dropped: int
    report: Report


@dataclass(frozen=True, slots=True)
class Merged:
    """How many records were added, how many were there already, and what was read."""

    added: int
    known: int
    report: Report


class _Brief(NamedTuple):
    """What rewriting must know of a record."""

    number: int
    group: tuple[str, Target]
    seconds: float
    failed: bool

    @staticmethod
    def of(number: int, record: Record) -> _Brief:
        """Of the record that is the entry of that number."""
        group = (record.workload, record.target)
        return _Brief(number, group, record.median, record.status != OK)


class Log:
    """A log of records; the file need not exist before something is appended.

    path   of the file
    fsync  whether `append` waits for the disk, so that records survive a loss of power as well

    Holds no file open: it can be shared by threads and inherited by children.
    """

    def __init__(self, path: PathLike, *, fsync: bool = False) -> None:
        self.path = _checked_path(path)
        self.fsync = fsync

    def append(self, record: Record) -> None:
        """Add a record. When this returns, it is in the file, whole; if it raises, it is not.

        Raises TuningError if the file cannot be written (the folder is missing, no permission, no
        space), ArgumentError if the path is no file, or for a record that has no room in a line.
        """
        line = encode(record)
        with held(self.path, sync=self.fsync) as file:
            file.append(line)

    def touch(self) -> None:
        """Find out before much work is done whether records can be appended; raises as `append`."""
        with held(self.path, sync=self.fsync):
            pass

    def __iter__(self) -> Iterator[Record]:
        """The records in the order of the file, one at a time in memory; none without a file.

        Lines that are skipped give one logged warning at the end.
        Raises as `read`.
        """
        return self.records(Report())

    def read(self) -> tuple[list[Record], Report]:
        """All records in the order of the file, and what was skipped, with one logged warning.

        Raises TuningError if the file cannot be read, ArgumentError if the path is no file.
        """
        report = Report()
        return list(self.records(report)), report

    def records(self, report: Report) -> Iterator[Record]:
        """As iterating over the log, with what is met counted in a report. Raises as `read`."""
        for entry in self._entries():
            report.add(entry)
            if entry.record is not None:
                yield entry.record
        _warn(report, self.path)

    def _entries(self) -> Iterator[Entry]:
        try:
            yield from entries(self.path)
        except FileNotFoundError:
            return

    # ---- looking things up

    def ranked(self, workload: str | Program, target: str | Target = "c") -> list[Record]:
        """The candidates that worked, fastest first: by the median of their repeats.

        workload  a program, or the key of one
        target    what is left open is filled in from this machine; records for other numbers of
                  cores or widths of vectors are not looked at

        Raises as `read`; CompileError if this machine must be asked and has no compiler.
        """
        found = [r for r in self._of(workload, target) if r.status == OK]
        return sorted(found, key=lambda record: record.median)

    def best(self, workload: str | Program, target: str | Target = "c") -> Record | None:
        """The fastest candidate that worked; None if there is none. Raises as `ranked`."""
        found = (r for r in self._of(workload, target) if r.status == OK)
        return min(found, key=lambda record: record.median, default=None)

    def measured(self, workload: str | Program, target: str | Target = "c") -> dict[str, Record]:
        """Every candidate that was tried, by the key of its trace; its fastest record if several.

        A search that resumes asks `trace_key(trace) in measured` before it tries a candidate.
        Failures are in it too. Raises as `ranked`.
        """
        found: dict[str, Record] = {}
        for record in self._of(workload, target):
            key = record.trace_key
            if key not in found or record.median < found[key].median:
                found[key] = record
        return found

    def _of(self, workload: str | Program, target: str | Target) -> Iterator[Record]:
        key = workload if isinstance(workload, str) else workload_key(workload)
        exact = native_target(Target.of(target))
        return (r for r in self if r.workload == key and r.target == exact)

    # ---- the file as a whole

    def verify(self) -> Report:
        """Read every line; no warning is logged. Raises as `read`, and TuningError for no file."""
        self.check_is_there()
        report = Report()
        for entry in self._entries():
            report.add(entry)
        return report

    def compact(self, keep: Callable[[Record], bool] | None = None) -> Rewritten:
        """Rewrite the file without what is no record, repetitions, and records not to keep.

        keep  asked about each record; None to keep all

        The new file takes the place of the old one at once; if anything fails, the old one stays.
        Others may read and append all the while. Records of other versions stay.
        Raises TuningError if the file is missing, cannot be rewritten, or its file system has no
        locks; what `keep` raises.
        """
        return self._rewrite(lambda record: keep is None or keep(record), None)

    def prune(self, best: int, *, failed: bool = False) -> Rewritten:
        """Rewrite the file with the `best` fastest records of each workload and target.

        failed  whether records of failures stay as well

        What is dropped will be measured again by a search that resumes. Raises as `compact`.
        """
        if isinstance(best, bool) or not isinstance(best, int) or best < 0:
            raise unexpected("an integer >= 0", "best", best)
        return self._rewrite(lambda record: failed or record.status == OK, best)

    def _rewrite(self, keep: Callable[[Record], bool], best: int | None) -> Rewritten:
        """Keep what `keep` wants: failures, and of the others the `best` fastest of each kind."""
        self.check_is_there()
        report = Report()
        others: set[int] = set()
        briefs: list[_Brief] = []
        seen: set[bytes] = set()
        with held(self.path, make=False) as file:
            for number, entry in enumerate(entries_of(file)):
                report.add(entry)
                digest = _digest(entry.raw)
                if entry.kind not in (Kind.RECORD, Kind.UNKNOWN) or digest in seen:
                    continue
                seen.add(digest)
                if entry.record is None:
                    others.add(number)
                elif keep(entry.record):
                    briefs.append(_Brief.of(number, entry.record))
            kept = {brief.number for brief in briefs} if best is None else _best_of(briefs, best)
            wanted = kept | others
            file.replace(
                entry.raw + b"\n" for n, entry in enumerate(entries_of(file)) if n in wanted
            )
        return Rewritten(len(kept), report.good - len(kept), report)

    def merge(self, paths: Iterable[PathLike]) -> Merged:
        """Add the records of other logs that are not in this one; the others stay as they are.

        Lines that are skipped give one logged warning for all.
        Raises TuningError if one of them is missing or cannot be read, or this one not written;
        what was added before stays.
        """
        sources = [Log(path) for path in paths]
        for source in sources:
            source.check_is_there()
        report, known, added, lines = Report(), 0, 0, bytearray()
        with held(self.path, sync=self.fsync) as file:
            seen = {_digest(entry.raw) for entry in entries_of(file) if entry.record}
            for source in sources:
                if os.path.samefile(source.path, self.path):
                    continue
                for entry in source._entries():
                    report.add(entry)
                    if entry.record is None:
                        continue
                    if _digest(entry.raw) in seen:
                        known += 1
                        continue
                    seen.add(_digest(entry.raw))
                    if len(lines) + len(entry.raw) >= LONGEST_LINE:
                        file.append(bytes(lines))
                        lines.clear()
                    lines += entry.raw + b"\n"
                    added += 1
            if lines:
                file.append(bytes(lines))
        _warn(report, *[source.path for source in sources])
        return Merged(added, known, report)

    def check_is_there(self) -> None:
        """Raise TuningError if there is no such file."""
        if not os.path.exists(self.path):
            raise TuningError(f"there is no log {printable(str(self.path))}")


def _best_of(briefs: list[_Brief], count: int) -> set[int]:
    """The numbers of the `count` fastest of each group, and of all failures."""
    kept: set[int] = set()
    taken: Counter[tuple[str, Target]] = Counter()
    for brief in sorted(briefs, key=lambda brief: brief.seconds):
        taken[brief.group] += 1
        if brief.failed or taken[brief.group] <= count:
            kept.add(brief.number)
    return kept


def _warn(report: Report, *paths: Path) -> None:
    if report.skipped:
        names = ", ".join(printable(str(path)) for path in paths)
        logger.warning("%s: skipped %s", names, report.faults)


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()[:16]


def _checked_path(path: object) -> Path:
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str) or "\0" in name or not name:
        raise unexpected("the path of a file", "path", path)
    return Path(name)
