"""A record: one candidate of a search that was tried, as a line of JSON.

A line begins with the checksum of the rest, then come the other fields, sorted by name:

    {"crc":"5d0c1b7e","date":"2025-03-01T12:00:00.000Z","error":"",…,"v":1,"workload":"9a…"}

`crc` is the CRC-32 of the line without `"crc":"…",`. Every version begins so: a line with a right
checksum and another `v` comes from another version, any other line is damaged. A line of `v` 2 may
hold a definition; versions that know none leave it alone. docs/records.md has each field. A trace
stays text until it is applied, through the same checks as a user's calls.
Not here: the file (`log`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import numbers
import re
import statistics
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Final

from minitensor.codegen import Target
from minitensor.errors import (
    ArgumentError,
    CompileError,
    MinitensorError,
    printable,
    real,
    unexpected,
)
from minitensor.ir import Program, print_name
from minitensor.lang import definition_as_python
from minitensor.looks import readable_seconds
from minitensor.runtime import cpu_name, find_toolchain, native_target, usable_cores
from minitensor.schedule import Trace
from minitensor.search.ledger import LONGEST, NO_SECONDS, Ledger
from minitensor.search.workload import KEY_DIGITS, names_of, operations, workload_key
from minitensor.version import __version__

VERSION: Final = 1
DEFINITIONS: Final = 2
"""The version that lines of definitions have."""
OK: Final = "ok"
"""The status of a candidate that worked."""
STEADY: Final = 1.0
"""The drift of a machine that is as fast as it was; records do not mention it."""
LONGEST_LINE: Final = 1 << 20
"""Bytes of a line, its end included; longer ones are neither written nor read."""
LONGEST_TEXT: Final = 1_000
"""Characters that are kept of an error, and of what changed."""
MOST_PARENTS: Final = 2
"""The most candidates that one is said to come from."""

_HEAD: Final = re.compile(rb'\{"crc":"([0-9a-f]{8})",')
_KEY: Final = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a workload as Python text, for people and tools; it is never run here.

    names  those that its traces may mention (see `names_of`), by which the same program is found
           under others; () in a log of an earlier version
    """

    workload: str
    text: str
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_key("workload", self.workload)
        _check_texts(self, "text")
        object.__setattr__(self, "names", _checked_tuple("names", self.names))
        if not all(isinstance(name, str) for name in self.names):
            raise unexpected("texts", "names", self.names)


class Fault(Enum):
    """The reasons why a line is no record."""

    UNKNOWN = "a record of another version"
    TORN = "a line whose writer was stopped, sealed by the next"
    UNFINISHED = "the same at the end of the file, not sealed yet"
    DAMAGED = "another line that is no record"


@dataclass(frozen=True, slots=True)
class Host:
    """The machine of a candidate, its compiler and the flags; "" and () for none."""

    cpu: str
    cores: int
    compiler: str = ""
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_texts(self, "cpu", "compiler")
        _check_number("cores", self.cores)
        object.__setattr__(self, "flags", _checked_tuple("flags", self.flags))
        if not all(isinstance(flag, str) for flag in self.flags):
            raise unexpected("texts", "flags", self.flags)


@dataclass(frozen=True, slots=True)
class Record:
    """One candidate that was tried; `new_record` makes one.

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
    disturbed   whether the time may be too long: other programs never left the machine alone
    drift       how many times as long as at first the same program took then in this search
    parents     the keys of the traces that it was made from, two at most; () if it was drawn
    change      what differs from the first of them, or its source; "" if it was drawn
    spent       seconds that building and running it took; 0 if that is not known
    ledger      the phases of these; all 0 if they are not known

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
    disturbed: bool = False
    drift: float = STEADY
    parents: tuple[str, ...] = ()
    change: str = ""
    spent: float = 0.0
    ledger: Ledger = NO_SECONDS

    def __post_init__(self) -> None:
        _check_key("workload", self.workload)
        _check_texts(self, "name", "status", "error", "minitensor", "trace", "change")
        if not isinstance(self.target, Target) or None in (
            self.target.num_cores,
            self.target.vector_bits,
        ):
            raise unexpected("a target with nothing left open", "target", self.target)
        if not isinstance(self.host, Host):
            raise unexpected("a Host", "host", self.host)
        object.__setattr__(self, "seconds", checked_seconds(self.seconds))
        if (self.status == OK) != bool(self.seconds) or not self.status:
            raise unexpected(f'a status, which is "{OK}" if there are times', "status", self.status)
        if self.seed is not None:
            _check_number("seed", self.seed)
        if not isinstance(self.date, str) or not _DATE.fullmatch(self.date):
            raise unexpected("a date such as 2025-03-01T12:00:00.000Z", "date", self.date)
        _check_number("flop", self.flop)
        if not isinstance(self.disturbed, bool):
            raise unexpected("True or False", "disturbed", self.disturbed)
        if not is_positive(self.drift):
            raise unexpected("a finite number above 0", "drift", self.drift)
        real("spent", self.spent, 0, LONGEST)
        if not isinstance(self.ledger, Ledger):
            raise unexpected("a Ledger", "ledger", self.ledger)
        object.__setattr__(self, "parents", _checked_tuple("parents", self.parents))
        for key in self.parents:
            _check_key("parents", key)
        if len(self.parents) > MOST_PARENTS:
            raise unexpected(f"at most {MOST_PARENTS} keys", "parents", self.parents)
        if len(self.change) > LONGEST_TEXT:
            raise unexpected(f"at most {LONGEST_TEXT:,} characters", "change", self.change)

    def __repr__(self) -> str:
        time = readable_seconds(self.median) if self.seconds else self.status
        return f"<record of {print_name(self.name)[:60]}: {time}, {self.date[:16]}>"

    @property
    def fastest(self) -> float:
        """The least of the times, in seconds; infinity for a failure."""
        return min(self.seconds, default=math.inf)

    @property
    def median(self) -> float:
        """The median of the times, in seconds; infinity for a failure."""
        return statistics.median(self.seconds) if self.seconds else math.inf

    @property
    def steady(self) -> float:
        """The same without the drift of the machine."""
        return self.median / self.drift

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


_USUAL: Final = {"disturbed": False, "drift": STEADY, "parents": (), "change": "", "spent": 0.0,
                 "ledger": {}}  # fmt: skip
"""The fields that are not written where they are so; earlier versions had none of them."""
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
    disturbed: bool = False,
    drift: float = STEADY,
    parents: Sequence[str] = (),
    change: str = "",
    spent: float = 0.0,
    ledger: Ledger = NO_SECONDS,
    host: Host | None = None,
) -> Record:
    """The record of a candidate that was tried now.

    program  the definition that the trace was applied to
    target   what was built for; what is left open is filled in from this machine
    trace    the steps, decisions taken
    seconds  per call, one number for each repeat; none for a failure
    status   "ok", or what kind of failure it was
    error    what went wrong; the first line of it is kept
    seed     of the search
    disturbed, drift, parents, change, spent, ledger  see Record
    host     where it was measured; None for this machine

    Raises ArgumentError for what cannot be recorded, CompileError if the target is C, something of
    it is left open, and there is no compiler.
    """
    if not isinstance(error, str):
        raise unexpected("text", "error", error)
    key, lines = workload_key(program), error.splitlines()
    exact, flop = native_target(Target.of(target)), operations(program)
    return Record(
        workload=key,
        name=program.name,
        target=exact,
        trace=canonical_trace(trace),
        seconds=tuple(seconds),
        status=status,
        error=printable(lines[0])[:LONGEST_TEXT] if lines else "",
        host=host or this_host(exact),
        seed=seed,
        date=datetime.now(timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z",
        flop=flop,
        minitensor=__version__,
        disturbed=disturbed,
        drift=drift,
        parents=tuple(parents),
        change=change,
        spent=spent,
        ledger=ledger,
    )


def trace_key(trace: Trace) -> str:
    """The key of a trace: 32 hexadecimal digits, shared by equal traces alone."""
    return _digest(canonical_trace(trace))


def canonical_trace(trace: Trace) -> str:
    """A trace as records hold it: its JSON with sorted keys and no spaces."""
    if not isinstance(trace, Trace):
        raise unexpected("a trace (see Schedule.trace)", "trace", trace)
    return _canonical(json.loads(trace.to_json()))


def encode(record: Record) -> bytes:
    """The record as a line, its end included. Raises ArgumentError if it has no room in one."""
    data = {name: getattr(record, name) for name in _FIELDS}
    data["ledger"] = record.ledger.rounded()
    for name, usual in _USUAL.items():
        if data[name] == usual:
            del data[name]
    data["target"], data["host"] = record.target.as_dict(), asdict(record.host)
    try:
        data["trace"] = _object(json.loads(record.trace))
    except (ValueError, RecursionError) as problem:
        raise ArgumentError(f"the trace of a record is not JSON: {problem}") from None
    line = _line({**data, "v": VERSION})
    if len(line) > LONGEST_LINE:
        raise ArgumentError(
            f"expected a record of at most {LONGEST_LINE:,} bytes, but this one has {len(line):,}; "
            "its trace is too long"
        )
    return line


def encode_definition(program: Program) -> bytes | None:
    """The definition of a program as a line, its end included; None for one that cannot be written
    as Python, or has no room in a line.
    """
    try:
        text = definition_as_python(program)
    except (MinitensorError, RecursionError):
        return None
    data = {"definition": text, "v": DEFINITIONS, "workload": workload_key(program)}
    data["names"] = names_of(program)
    line = _line(data)
    return line if len(line) <= LONGEST_LINE else None


def _line(data: dict[str, Any]) -> bytes:
    body = _canonical(data).encode("ascii")
    return b'{"crc":"%08x",%s\n' % (zlib.crc32(body), body[1:])


def decode(line: bytes) -> Record | Definition | Fault:
    """The record or the definition on a line (without its end), or why there is none. Raises
    nothing.
    """
    head = _HEAD.match(line)
    if head is None or len(line) >= LONGEST_LINE:
        return Fault.DAMAGED
    body = b"{" + line[head.end() :]
    if zlib.crc32(body) != int(head[1], 16):
        return Fault.DAMAGED
    try:
        data = _object(json.loads(body))
        version = data["v"] if type(data["v"]) is int else None
        if version == DEFINITIONS:
            return _definition(data)
        return _record(data) if version == VERSION else Fault.UNKNOWN
    except (ValueError, LookupError, TypeError, RecursionError):
        return Fault.DAMAGED


def _definition(data: dict[str, Any]) -> Definition | Fault:
    """The definition; what else a later version may keep on such lines is left alone."""
    try:
        return Definition(data["workload"], data["definition"], data.get("names", ()))
    except (LookupError, ArgumentError):
        return Fault.UNKNOWN


def _record(data: dict[str, Any]) -> Record:
    target, host = data["target"], data["host"]
    sizes = target["num_cores"], target["vector_bits"]
    data = {**_USUAL, **data}
    made = {
        "ledger": Ledger.parsed(_object(data["ledger"])),
        "target": Target(target["kind"], *sizes, target.get("device"), target.get("features")),
        "trace": _canonical(_object(data["trace"])),
        "host": Host(host["cpu"], host["cores"], host["compiler"], host["flags"]),
    }
    return Record(**{name: data[name] for name in _FIELDS} | made)


def _object(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    return data


def this_host(target: Target) -> Host:
    """This machine, and the compiler that builds for a target here, if it needs one."""
    host = Host(cpu_name(), usable_cores())
    if target.kind != "interpreter":
        with contextlib.suppress(CompileError):  # a runner may need no compiler
            toolchain = find_toolchain()
            return replace(host, compiler=toolchain.version, flags=tuple(toolchain.flags))
    return host


def _canonical(data: Any) -> str:
    """JSON in one way only: sorted keys, no spaces, ASCII. Raises ArgumentError for NaN and inf."""
    try:
        return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise ArgumentError("a record cannot hold numbers that are not finite") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii", "backslashreplace")).hexdigest()[:KEY_DIGITS]


# ---- fields


def _check_texts(record: object, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(record, name), str):
            raise unexpected("text", name, getattr(record, name))


def _check_key(name: str, value: object) -> None:
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise unexpected(f"{KEY_DIGITS} hexadecimal digits", name, value)


def _check_number(name: str, value: object) -> None:
    if type(value) is not int or value < 0:
        raise unexpected("an integer >= 0", name, value)


def _checked_tuple(name: str, values: object) -> tuple[Any, ...]:
    if not isinstance(values, (tuple, list)):
        raise unexpected("a list", name, values)
    return tuple(values)


def checked_seconds(values: object) -> tuple[float, ...]:
    """The times of a candidate, in seconds. Raises ArgumentError for what are none."""
    seconds = _checked_tuple("seconds", values)
    if not all(map(is_positive, seconds)):
        raise unexpected("finite numbers above 0", "seconds", values)
    return tuple(map(float, seconds))


def is_positive(value: object) -> bool:
    """Test for a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return 0 < float(value) < math.inf
    except OverflowError:
        return False
