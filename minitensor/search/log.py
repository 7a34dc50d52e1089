"""A log: the records of searches in a file, from any number of processes.

    log = Log("tuning.jsonl")
    log.append(new_record(program, target, schedule.trace, seconds=times, seed=0))
    log.measured(program, target)          # what need not be tried again
    log.definition(program)                # as Python text, where the log is all there is

A record is *acknowledged* when `append` returns: it survives the death of the process, whatever
kills it, and with fsync=True that of the machine. Lines that are no records are skipped and counted
in a Report, with one warning; no content of a file makes reading fail.
Not here: the format (`records`), locks and bytes (`logfile`), schedules of records (`best`).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from minitensor.codegen import Target
from minitensor.errors import (
    TuningError,
    printable,
    unexpected,
    whole,
)
from minitensor.ir import Program
from minitensor.runtime import native_target
from minitensor.search import logfile
from minitensor.search.records import (
    LONGEST_LINE,
    OK,
    Definition,
    Fault,
    Record,
    decode,
    encode,
    encode_definition,
)
from minitensor.search.workload import key_under, names_of, workload_key

logger = logging.getLogger("minitensor")

PathLike: TypeAlias = "str | os.PathLike[str]"
MOST_NAMED: Final = 10
"""The most damaged lines of which a report has the numbers."""


class Entry(NamedTuple):
    """A line of a log: its number, counted from 1, its bytes, and what is on it."""

    number: int
    raw: bytes
    found: Record | Definition | Fault


@dataclass
class Report:
    """The lines of a log by kind.

    good         records
    old          of these, records by version 0.1, whose loops may have other names
    unknown      records of another version of the format
    torn         lines whose writer was stopped before they were acknowledged
    unfinished   whether the last line is such a one, without a newline (the next append seals it)
    damaged      other lines that are no record
    where        the numbers of the first few damaged lines, counted from 1
    definitions  lines that hold the definition of a workload
    """

    good: int = 0
    old: int = 0
    unknown: int = 0
    torn: int = 0
    unfinished: bool = False
    damaged: int = 0
    where: list[int] = field(default_factory=list)
    definitions: int = 0

    @property
    def skipped(self) -> int:
        """The lines that gave neither a record nor a definition."""
        return self.unknown + self.torn + self.damaged

    @property
    def faults(self) -> str:
        """The lines that were skipped, as text; "" for none."""
        parts = []
        if self.damaged:
            more = ", …" if self.damaged > len(self.where) else ""
            numbers = f"{', '.join(map(str, self.where))}{more}"
            parts.append(f"{counted(self.damaged, 'damaged line')} ({numbers})")
        if self.torn:
            end = " (the file ends in one)" if self.unfinished else ""
            parts.append(f"{counted(self.torn, 'unfinished line')}{end}")
        if self.unknown:
            parts.append(f"{counted(self.unknown, 'record')} of another version")
        return ", ".join(parts)

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        match entry.found:
            case Fault.UNKNOWN:
                self.unknown += 1
            case Fault.TORN | Fault.UNFINISHED:
                self.torn += 1
                self.unfinished = entry.found is Fault.UNFINISHED
            case Fault.DAMAGED:
                self.damaged += 1
                if len(self.where) < MOST_NAMED:
                    self.where.append(entry.number)
            case Definition():
                self.definitions += 1
            case record:
                self.good += 1
                self.old += is_old(record)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The numbers of records kept and dropped by a rewrite, and the lines before it."""

    kept: int
    dropped: int
    report: Report


@dataclass(frozen=True, slots=True)
class Merged:
    """The numbers of records that were added and that were there already, and the lines read."""

    added: int
    known: int
    report: Report


class Log:
    """A log of records; the file need not exist before something is appended.

    path   of the file
    fsync  whether `append` waits for the disk, so that records survive a loss of power as well

    Holds no file open: it can be shared by threads and inherited by children.
    """

    def __init__(self, path: PathLike, *, fsync: bool = False) -> None:
        name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
        if not isinstance(name, str) or "\0" in name or not name:
            raise unexpected("the path of a file", "path", path)
        self.path = Path(name)
        self.fsync = fsync

    def __repr__(self) -> str:
        return f"Log({str(self.path)!r})"

    def append(self, record: Record) -> None:
        """Add a record. When this returns, it is in the file, whole; if it raises, it is not.

        Raises TuningError if the file cannot be written (the folder is missing, no permission, no
        space), ArgumentError if the path is no file, or for a record that has no room in a line.
        """
        line = encode(record)
        with logfile.held(self.path, sync=self.fsync) as file:
            file.append(line)

    def define(self, program: Program) -> None:
        """Keep the definition of a program, once for its workload. One that cannot be written as
        Python, or has no room in a line, is left out.

        Two processes that begin at once may both write it, which does no harm. Raises as `append`
        for a file that cannot be read or written.
        """
        line = encode_definition(program)
        if line is not None and self.definition(program) is None:
            with logfile.held(self.path, sync=self.fsync) as file:
                file.append(line)

    def definition(self, workload: str | Program) -> str | None:
        """The definition of a workload as Python text; None if the log has none.

        workload  a program, or the key of one

        The text is as trustworthy as the file: read it before you run it. Raises as `read`.
        """
        key = _key(workload)
        return next((found.text for found in self._definitions() if found.workload == key), None)

    def alike(self, program: Program) -> dict[str, tuple[str, ...]]:
        """The workloads of which the log has the names, and which are this program under these
        names: for each key the names (see `names_of`). Raises as `read`.
        """
        count = len(names_of(program))
        return {
            found.workload: found.names
            for found in self._definitions()
            if len(found.names) == count and found.workload == key_under(program, found.names)
        }

    def _definitions(self) -> Iterator[Definition]:
        with contextlib.suppress(FileNotFoundError):
            for line in logfile.lines(self.path, LONGEST_LINE):
                found = decode(line.data) if b'"definition"' in line.data else None
                if isinstance(found, Definition):
                    yield found

    def touch(self) -> None:
        """Check before much work is done that records can be appended. Raises as `append`."""
        with logfile.held(self.path, sync=self.fsync):
            pass

    def __iter__(self) -> Iterator[Record]:
        """The records in the order of the file, one at a time in memory; none without a file.

        Lines that are skipped give one logged warning at the end. Raises as `read`.
        """
        return self.records(Report())

    def read(self) -> tuple[list[Record], Report]:
        """All records in the order of the file, and the lines skipped, with one logged warning.

        Raises TuningError if the file cannot be read, ArgumentError if the path is no file.
        """
        report = Report()
        return list(self.records(report)), report

    def records(self, report: Report | None = None) -> Iterator[Record]:
        """The records as iterating over the log gives them, counted in a report if one is given."""
        report = Report() if report is None else report
        for entry in self._entries():
            report.add(entry)
            if isinstance(entry.found, Record):
                yield entry.found
        _warn(report, self.path)

    def _entries(self) -> Iterator[Entry]:
        try:
            yield from _entries(logfile.lines(self.path, LONGEST_LINE))
        except FileNotFoundError:
            return

    # ---- looking things up

    def ranked(self, workload: str | Program, target: str | Target = "c") -> list[Record]:
        """The candidates that worked, fastest first: by the median of their repeats.

        workload  a program, or the key of one
        target    what is left open is filled in from this machine; records for other numbers of
                  cores or widths of vectors are left out

        Raises as `read`; CompileError if the target is left open and there is no compiler.
        """
        found = [r for r in self._of(workload, target) if r.status == OK]
        return sorted(found, key=lambda record: record.median)

    def best(self, workload: str | Program, target: str | Target = "c") -> Record | None:
        """The fastest candidate that worked; None if there is none. Raises as `ranked`."""
        return next(iter(self.ranked(workload, target)), None)

    def measured(self, workload: str | Program, target: str | Target = "c") -> dict[str, Record]:
        """Every candidate that was tried, by the key of its trace; its fastest record if several.

        A search that resumes looks up `trace_key(trace) in measured` before it tries a candidate.
        Failures are in it too. Raises as `ranked`.
        """
        found: dict[str, Record] = {}
        for record in self._of(workload, target):
            key = record.trace_key
            if key not in found or record.median < found[key].median:
                found[key] = record
        return found

    def _of(self, workload: str | Program, target: str | Target) -> Iterator[Record]:
        key = _key(workload)
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

        keep  called with each record; None to keep all

        The definition of a workload stays once if one of its records does.
        The new file takes the place of the old one at once; if anything fails, the old one stays.
        Others may read and append all the while. Records of other versions stay.
        Raises TuningError if the file is missing, cannot be rewritten, or its file system has no
        locks; what `keep` raises.
        """
        return self._rewrite(lambda record: keep is None or keep(record), None)

    def prune(self, best: int, *, failed: bool = False) -> Rewritten:
        """Rewrite the file with the `best` fastest records of each workload and target.

        failed  whether records of failures stay as well

        A search that resumes measures again what is dropped. Raises as `compact`.
        """
        most = whole("best", best, 0)
        return self._rewrite(lambda record: failed or record.status == OK, most)

    def _rewrite(self, keep: Callable[[Record], bool], best: int | None) -> Rewritten:
        """Keep the records that `keep` wants, of those that worked the `best` of each group."""
        self.check_is_there()
        report, others, seen, defined = Report(), set[int](), set[bytes](), dict[str, int]()
        wanted: list[tuple[float, int, tuple[str, Target]]] = []
        with logfile.held(self.path, make=False) as file:
            for place, entry in enumerate(_entries(file.lines(LONGEST_LINE))):
                report.add(entry)
                digest = _digest(entry.raw)
                if digest in seen:
                    continue
                if isinstance(entry.found, Record):
                    seen.add(digest)
                    if keep(entry.found):
                        group = (entry.found.workload, entry.found.target)
                        wanted.append((entry.found.median, place, group))
                elif isinstance(entry.found, Definition):
                    defined.setdefault(entry.found.workload, place)
                elif entry.found is Fault.UNKNOWN:
                    seen.add(digest)
                    others.add(place)
            kept, taken = set[int](), Counter[tuple[str, Target]]()
            for seconds, place, group in sorted(wanted, key=lambda one: one[0]):
                taken[group] += 1
                if best is None or seconds == float("inf") or taken[group] <= best:
                    kept.add(place)
            workloads = {group[0] for _, place, group in wanted if place in kept}
            others |= {place for workload, place in defined.items() if workload in workloads}
            places = enumerate(_entries(file.lines(LONGEST_LINE)))
            file.replace(entry.raw + b"\n" for place, entry in places if place in kept | others)
        return Rewritten(len(kept), report.good - len(kept), report)

    def merge(self, paths: Iterable[PathLike]) -> Merged:
        """Add the records of other logs that are not in this one; the others stay as they are.

        The definitions of their workloads are added last, where this log has none.
        Lines that are skipped give one logged warning for all.
        Raises TuningError if one of them is missing or cannot be read, or this one not written;
        what was added before stays.
        """
        sources = [Log(path) for path in paths]
        for source in sources:
            source.check_is_there()
        report, known, added = Report(), 0, 0
        seen, workloads = set[bytes](), set[str]()
        defined, lacking = set[str](), dict[str, bytes]()
        with logfile.held(self.path, sync=self.fsync) as file:
            for entry in _entries(file.lines(LONGEST_LINE)):
                if isinstance(entry.found, Record):
                    seen.add(_digest(entry.raw))
                    workloads.add(entry.found.workload)
                elif isinstance(entry.found, Definition):
                    defined.add(entry.found.workload)
            for source in sources:
                if os.path.samefile(source.path, self.path):
                    continue
                for entry in source._entries():
                    report.add(entry)
                    if isinstance(entry.found, Definition):
                        lacking.setdefault(entry.found.workload, entry.raw)
                    if not isinstance(entry.found, Record):
                        continue
                    workloads.add(entry.found.workload)
                    digest = _digest(entry.raw)
                    if digest in seen:
                        known += 1
                        continue
                    seen.add(digest)
                    file.append(entry.raw + b"\n")
                    added += 1
            for workload, raw in lacking.items():
                if workload in workloads - defined:
                    file.append(raw + b"\n")
        _warn(report, *[source.path for source in sources])
        return Merged(added, known, report)

    def check_is_there(self) -> None:
        """Raise TuningError if there is no such file."""
        if not os.path.exists(self.path):
            raise TuningError(f"there is no log {printable(str(self.path))}")


def _key(workload: str | Program) -> str:
    return workload if isinstance(workload, str) else workload_key(workload)


def is_old(record: Record) -> bool:
    """Test for a record by version 0.1, which named the loops of later stages otherwise."""
    return record.minitensor.startswith("0.1.")


def counted(count: int, noun: str) -> str:
    """A number and what it counts, in the plural if need be."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _entries(lines: Iterable[logfile.Line]) -> Iterator[Entry]:
    for number, line in enumerate(lines, start=1):
        found = decode(line.data) if line.data else None
        if found is Fault.DAMAGED and (line.sealed or not line.ended):
            found = Fault.TORN if line.sealed else Fault.UNFINISHED
        if found is not None:
            yield Entry(number, line.data, found)


def _warn(report: Report, *paths: Path) -> None:
    if report.skipped:
        names = ", ".join(printable(str(path)) for path in paths)
        logger.warning("%s: skipped %s", names, report.faults)


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()[:16]
