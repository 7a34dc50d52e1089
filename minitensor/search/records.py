"""A record: one candidate of a search that was tried, as a line of JSON.

A line begins with the checksum of the rest, then come the other fields, sorted by name:

    {"crc":"5d0c1b7e","date":"2025-03-01T12:00:00.000Z","error":"",…,"v":1,"workload":"9a…"}

`crc` is the CRC-32 of the line without `"crc":"…",`. Every version begins so: a line whose checksum
is right and whose `v` is not ours comes from another version, any other line is damaged. Lines are
ASCII, so that what is no record cannot look like one. docs/records.md has each field.

Nothing in a line is trusted. It is parsed with bounds, its fields are checked, and its trace is
text until somebody applies it, through the same checks as a user's calls.
Not here: files (`logfile`), and finding records in them (`log`).
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import re
import statistics
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from enum import Enum
from itertools import accumulate
from typing import Any, Final

from minitensor.codegen import Target
from minitensor.errors import ArgumentError, printable, unexpected
from minitensor.ir import Program
from minitensor.runtime import cpu_name, find_toolchain, native_target, usable_cores
from minitensor.schedule import Trace
from minitensor.search.workload import KEY_DIGITS, multiply_adds, workload_key
from minitensor.version import __version__

VERSION: Final = 1
OK: Final = "ok"
"""The status of a candidate that worked."""
LONGEST_LINE: Final = 1 << 20
"""Bytes of a line, its end included; longer ones are neither written nor read."""
LONGEST_TEXT: Final = 1_000
"""Characters of an error, a name, a flag."""
MOST_TIMES: Final = 1_000
"""Times, and flags, in a record."""
LARGEST_NUMBER: Final = 1 << 512
LONGEST_TIME: Final = 1e18
"""Seconds."""
DEEPEST: Final = 200
"""How deep brackets may nest in a line."""
LONGEST_INT: Final = 1_000
"""Digits of an integer."""

START: Final = b'{"crc":"'
"""What a record begins with and what occurs nowhere else in one: quotes in strings are escaped."""
_HEAD: Final = re.compile(rb'\{"crc":"([0-9a-f]{8})",')
_KEY: Final = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
_BRACKET: Final = re.compile(rb"[\[\]{}]")
_NOT_BRACKETS: Final = bytes(b for b in range(256) if b not in b"[]{}")
_DIGITS: Final = bytes(b if b in b"0123456789" else 32 for b in range(256))
"""A table for bytes.translate that leaves digits and makes everything else blank."""


class Fault(Enum):
    """Why a line is no record."""

    DAMAGED = "damaged"
    UNKNOWN = "of an unknown version"


@dataclass(frozen=True, slots=True)
class Host:
    """Where a candidate was tried: the machine, its compiler and the flags; "" and () for none."""

    cpu: str
    cores: int
    compiler: str = ""
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_text("cpu", self.cpu)
        _check_number("cores", self.cores)
        _check_text("compiler", self.compiler)
        object.__setattr__(self, "flags", _checked_tuple("flags", self.flags))
        for flag in self.flags:
            _check_text("flags", flag)


@dataclass(frozen=True, slots=True)
class Record:
    """One candidate that was tried; `new_record` makes one of what a search knows.

    workload    the key of the definition (see `workload_key`)
    name        the name of the program, for people
    target      what was built for, with nothing left open
    trace       the steps, decisions taken, as JSON with sorted keys and no spaces; not yet checked
    seconds     per call, one number for each repeat; none for a failure
    status      "ok", or what kind of failure it was
    error       the first line of what went wrong; "" for a success
    host        where
    seed        of the search; None if there was none
    date        when, in UTC, such as 2025-03-01T12:00:00.000Z
    flop        operations of one call as the definition counts them; 0 if it counts none
    minitensor  the version of this package

    Raises ArgumentError for a field that cannot be written or does not fit the others.
    """

    workload: str
    name: str
    target: Target
    trace: str
    seconds: tuple[float, ...]
    status: str
    error: str
    host: Host
    seed: int | None
    date: str
    flop: int
    minitensor: str

    def __post_init__(self) -> None:
        if not isinstance(self.workload, str) or not _KEY.fullmatch(self.workload):
            raise unexpected(f"{KEY_DIGITS} hexadecimal digits", "workload", self.workload)
        for field in ("name", "status", "error", "minitensor"):
            _check_text(field, getattr(self, field))
        if not isinstance(self.trace, str):
            raise unexpected("JSON text", "trace", self.trace)
        if not isinstance(self.target, Target) or None in (
            self.target.num_cores,
            self.target.vector_bits,
        ):
            raise unexpected("a target with nothing left open", "target", self.target)
        if not isinstance(self.host, Host):
            raise unexpected("a Host", "host", self.host)
        object.__setattr__(self, "seconds", _checked_seconds(self.seconds))
        if (self.status == OK) != bool(self.seconds) or not self.status:
            raise unexpected(f'a status, which is "{OK}" if there are times', "status", self.status)
        if self.seed is not None:
            _check_number("seed", self.seed)
        if not isinstance(self.date, str) or not _DATE.fullmatch(self.date):
            raise unexpected("a date such as 2025-03-01T12:00:00.000Z", "date", self.date)
        _check_number("flop", self.flop)

    @property
    def fastest(self) -> float:
        """The least of the times, in seconds; infinity for a failure."""
        return min(self.seconds, default=math.inf)

    @property
    def median(self) -> float:
        """The median of the times, in seconds; infinity for a failure."""
        return statistics.median(self.seconds) if self.seconds else math.inf

    @property
    def gflops(self) -> float | None:
        """Billions of operations a second; None if operations are not counted or it failed."""
        return self.flop / self.median / 1e9 if self.flop and self.seconds else None

    @property
    def trace_key(self) -> str:
        """The key of the trace (see the function of that name)."""
        return _digest(self.trace)

    def parsed(self) -> Trace:
        """The trace, to be applied. Raises ArgumentError if the text is no trace."""
        return Trace.from_json(self.trace)


_FIELDS: Final = tuple(field.name for field in fields(Record))


def new_record(
    program: Program,
    target: str | Target,
    trace: Trace,
    *,
    seconds: Sequence[float] = (),
    status: str = OK,
    error: str = "",
    seed: int | None = None,
) -> Record:
    """The record of a candidate that was tried now, on this machine.

    program  the definition that the trace was applied to
    target   what was built for; what is left open is filled in from this machine
    trace    the steps, decisions taken
    seconds  per call, one number for each repeat; none for a failure
    status   "ok", or what kind of failure it was
    error    what went wrong; the first line of it is kept
    seed     of the search

    Raises ArgumentError for what cannot be recorded, CompileError if the target is C and there is
    no compiler.
    """
    if not isinstance(error, str):
        raise unexpected("text", "error", error)
    key, lines = workload_key(program), error.splitlines()
    exact, flop = native_target(Target.of(target)), multiply_adds(program)
    return Record(
        workload=key,
        name=program.name[:LONGEST_TEXT],
        target=exact,
        trace=canonical_trace(trace),
        seconds=tuple(seconds),
        status=status,
        error=printable(lines[0])[:LONGEST_TEXT] if lines else "",
        host=_this_host(exact),
        seed=seed,
        date=datetime.now(timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z",
        flop=flop if flop < LARGEST_NUMBER else 0,
        minitensor=__version__,
    )


def trace_key(trace: Trace) -> str:
    """What a trace is known by: 32 hexadecimal digits, shared by equal traces alone."""
    return _digest(canonical_trace(trace))


def canonical_trace(trace: Trace) -> str:
    """A trace as records hold it: its JSON with sorted keys and no spaces."""
    if not isinstance(trace, Trace):
        raise unexpected("a trace (see Schedule.trace)", "trace", trace)
    return _canonical(json.loads(trace.to_json()))


def encode(record: Record) -> bytes:
    """The record as a line, its end included. Raises ArgumentError if it has no room in one."""
    data = {name: getattr(record, name) for name in _FIELDS}
    data["target"], data["host"] = asdict(record.target), asdict(record.host)
    try:
        data["trace"] = _parse(record.trace.encode())
    except (ValueError, RecursionError) as problem:
        raise ArgumentError(f"the trace of a record is not JSON: {problem}") from None
    body = _canonical({**data, "v": VERSION}).encode("ascii")
    line = b'{"crc":"%08x",%s\n' % (zlib.crc32(body), body[1:])
    if len(line) > LONGEST_LINE:
        raise ArgumentError(
            f"expected a record of at most {LONGEST_LINE:,} bytes, but this one has {len(line):,}; "
            "its trace is too long"
        )
    return line


def decode(line: bytes) -> Record | Fault:
    """The record on a line (without its end), or why there is none. Raises nothing."""
    head = _HEAD.match(line)
    if head is None or len(line) >= LONGEST_LINE:
        return Fault.DAMAGED
    body = b"{" + line[head.end() :]
    if zlib.crc32(body) != int(head[1], 16):
        return Fault.DAMAGED
    try:
        data = _parse(body)
        if data["v"] != VERSION or type(data["v"]) is not int:
            return Fault.UNKNOWN
        return _record(data)
    except (ValueError, LookupError, TypeError, RecursionError):
        return Fault.DAMAGED


def end_of_record(text: bytes) -> int | None:
    """Where the JSON object ends that a text begins with; None if it has no end."""
    plain = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    at = depth = 0
    for number, part in enumerate(plain.split(b'"')):
        if number % 2 == 0:  # outside strings
            for bracket in _BRACKET.finditer(part):
                depth += 1 if bracket[0] in b"[{" else -1
                if depth == 0:
                    return at + bracket.end()
        at += len(part) + 1
    return None


def _record(data: dict[str, Any]) -> Record:
    target, host = data["target"], data["host"]
    if not isinstance(data["trace"], dict):
        raise unexpected("an object", "trace", data["trace"])
    return Record(
        workload=data["workload"],
        name=data["name"],
        target=Target(target["kind"], target["num_cores"], target["vector_bits"]),
        trace=_canonical(data["trace"]),
        seconds=data["seconds"],
        status=data["status"],
        error=data["error"],
        host=Host(host["cpu"], host["cores"], host["compiler"], host["flags"]),
        seed=data["seed"],
        date=data["date"],
        flop=data["flop"],
        minitensor=data["minitensor"],
    )


def _this_host(target: Target) -> Host:
    if target.kind == "interpreter":
        return Host(cpu_name()[:LONGEST_TEXT], usable_cores())
    toolchain = find_toolchain()
    flags = tuple(flag[:LONGEST_TEXT] for flag in toolchain.flags[:MOST_TIMES])
    return Host(cpu_name()[:LONGEST_TEXT], usable_cores(), toolchain.version[:LONGEST_TEXT], flags)


# ---- JSON, with bounds

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(data: Any) -> str:
    """JSON in one way only: sorted keys, no spaces, ASCII. Raises ArgumentError for NaN and inf."""
    try:
        return _ENCODER.encode(data)
    except ValueError:
        raise ArgumentError("a record cannot hold numbers that are not finite") from None


def _parse(text: bytes) -> dict[str, Any]:
    """A JSON object; ValueError for anything else, and for what goes beyond the bounds."""
    _check_bounds(text)
    data = _DECODER.decode(text.decode("utf-8"))
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    return data


def _check_bounds(text: bytes) -> None:
    """Raise ValueError for what takes json more than its length: it recurses where brackets nest,
    and a stack has an end; and long integers take their length squared.
    """
    if max(map(len, text.translate(_DIGITS).split()), default=0) > LONGEST_INT:
        raise ValueError(f"an integer of more than {LONGEST_INT} digits")
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return
    outside = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(outside).translate(None, _NOT_BRACKETS)
    if max(accumulate(1 if b in b"[{" else -1 for b in brackets), default=0) > DEEPEST:
        raise ValueError(f"brackets nest more than {DEEPEST} deep")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii", "backslashreplace")).hexdigest()[:KEY_DIGITS]


# ---- fields


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise unexpected(f"text of at most {LONGEST_TEXT} characters", name, value)


def _check_number(name: str, value: object) -> None:
    if type(value) is not int or not 0 <= value < LARGEST_NUMBER:
        raise unexpected("an integer from 0 to 2**512", name, value)


def _checked_tuple(name: str, values: object) -> tuple[Any, ...]:
    if not isinstance(values, (tuple, list)) or len(values) > MOST_TIMES:
        raise unexpected(f"a list of at most {MOST_TIMES}", name, values)
    return tuple(values)


def _checked_seconds(values: object) -> tuple[float, ...]:
    seconds = _checked_tuple("seconds", values)
    for value in seconds:
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not 0 < value < LONGEST_TIME:
            raise unexpected("finite numbers above 0", "seconds", values)
    return tuple(map(float, seconds))
