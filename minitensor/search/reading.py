"""Reading a log: from lines, damaged or not, to records and a count of what was skipped.

A line that is no record may still hold one: the newline between two was lost, or a record follows
what a killed writer or a crashed machine left (NULs, usually). What is undamaged is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from minitensor.search.logfile import SEAL, Held, Piece, pieces, pieces_of
from minitensor.search.records import (
    LONGEST_LINE,
    START,
    Fault,
    Record,
    decode,
    end_of_record,
)

MOST_NAMED: Final = 10
"""How many damaged lines a report tells the numbers of."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r"


class Kind(Enum):
    """What was found."""

    RECORD = "a record"
    UNKNOWN = "a record of another version"
    TORN = "a line whose writer was stopped, sealed by the next"
    UNFINISHED = "the same at the end of the file, not sealed yet"
    DAMAGED = "another line that is no record, or not one alone"


class Entry(NamedTuple):
    """One find: the number of its line, counted from 1; for records their bytes."""

    kind: Kind
    number: int
    raw: bytes = b""
    record: Record | None = None


@dataclass
class Report:
    """What reading a log met, in lines.

    good        records
    unknown     records of another version of the format
    torn        lines whose writer was stopped: nobody was told that they were written
    unfinished  whether the last line is such a one, without a newline (the next append seals it)
    damaged     other lines that are no record, or not one alone
    where       the numbers of the first few damaged lines, counted from 1
    """

    good: int = 0
    unknown: int = 0
    torn: int = 0
    unfinished: bool = False
    damaged: int = 0
    where: list[int] = field(default_factory=list)

    @property
    def skipped(self) -> int:
        """The lines that gave no record, or not one alone."""
        return self.unknown + self.torn + self.damaged

    @property
    def faults(self) -> str:
        """What was skipped, as text; "" if nothing was."""
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
        match entry.kind:
            case Kind.RECORD:
                self.good += 1
            case Kind.UNKNOWN:
                self.unknown += 1
            case Kind.TORN | Kind.UNFINISHED:
                self.torn += 1
                self.unfinished = entry.kind is Kind.UNFINISHED
            case Kind.DAMAGED:
                self.damaged += 1
                if len(self.where) < MOST_NAMED:
                    self.where.append(entry.number)


def entries(path: Path) -> Iterator[Entry]:
    """What a file holds, from its beginning, one line in memory at a time.

    Raises FileNotFoundError if there is no file, ArgumentError if the path names something else,
    TuningError if it cannot be read.
    """
    return _entries(pieces(path, LONGEST_LINE, START))


def entries_of(file: Held) -> Iterator[Entry]:
    """What a locked file holds. Raises TuningError if it cannot be read."""
    return _entries(pieces_of(file, LONGEST_LINE, START))


def _entries(found: Iterator[Piece]) -> Iterator[Entry]:
    told = 0
    for piece in found:
        line = piece.data.rstrip(_BLANK)
        if piece.number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        sealed = line.endswith(SEAL[:-1])
        line = line.removesuffix(SEAL[:-1])
        if piece.whole:
            alone = _entry(piece.number, line)
            if alone is not None:
                yield alone
            if alone is not None or not line:
                continue
        inside = [e for raw in _records_inside(line) if (e := _entry(piece.number, raw))]
        yield from inside
        if piece.number != told:  # a line may come in many pieces, and is one fault
            told = piece.number
            stopped = not inside and (sealed or not piece.ended)
            torn = Kind.TORN if sealed else Kind.UNFINISHED
            yield Entry(torn if stopped else Kind.DAMAGED, piece.number)


def _entry(number: int, line: bytes) -> Entry | None:
    found = decode(line)
    if isinstance(found, Record):
        return Entry(Kind.RECORD, number, line, found)
    return Entry(Kind.UNKNOWN, number, line) if found is Fault.UNKNOWN else None


def _records_inside(line: bytes) -> Iterator[bytes]:
    """What may be records in a line that is not one."""
    for part in line.split(START)[1:]:
        candidate = START + part
        end = end_of_record(candidate)
        if end is not None:
            yield candidate[:end]


def counted(count: int, noun: str) -> str:
    """A number and what it counts, in the plural if need be."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
