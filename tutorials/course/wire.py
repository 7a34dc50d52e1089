"""Data that passes from a student's process to the one that judges it: JSON, and never code.

    encode(value)  numbers, texts, lists, tuples, dicts, arrays, schedules (as their traces),
                   programs and expressions; all else arrives as an `Other`, which equals nothing
    decode(data)   the value again; only classes of the loop-nest language are made

What is returned is untrusted: `decode` raises ArgumentError for all that `encode` does not write.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError, printable, reason_of
from minitensor.schedule import Schedule, Trace

MOST_BYTES: Final = 1 << 26
"""The most that an array may have."""
DEEPEST: Final = 200
"""Values inside each other."""
MOST_SHOWN: Final = 2_000
"""Characters that are kept of what an answer prints."""
_SHOWN: Final = 200
_KIND: Final = "$"


@dataclass(frozen=True)
class Other:
    """A value that does not pass: what its class is, and how it shows itself."""

    name: str
    text: str


def encode(value: Any) -> Any:
    """A value as what JSON holds."""
    return _encoded(value, 0)


def decode(data: Any) -> Any:
    """The value of `encode`. Raises ArgumentError."""
    try:
        return _decoded(data)
    except ArgumentError:
        raise
    except Exception as failure:  # what nodes refuse, numpy, base64
        raise ArgumentError(f"the answer cannot be read: {reason_of(failure)}") from None


def _encoded(value: Any, depth: int) -> Any:
    inner = depth + 1
    if depth > DEEPEST:
        return _other(value)
    if value is None or type(value) in (bool, str, int, float):
        return value
    if isinstance(value, ir.DType):
        return {_KIND: "dtype", "name": str(value)}
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, list):
        return [_encoded(v, inner) for v in value]
    if type(value) is tuple:
        return {_KIND: "tuple", "items": [_encoded(v, inner) for v in value]}
    if isinstance(value, dict):
        items = [[_encoded(k, inner), _encoded(v, inner)] for k, v in value.items()]
        return {_KIND: "dict", "items": items}
    if isinstance(value, (set, frozenset)):
        return {_KIND: "set", "items": [_encoded(v, inner) for v in sorted(value, key=repr)]}
    if isinstance(value, (np.ndarray, np.generic)):
        return _array(value)
    if isinstance(value, (Schedule, Trace)):
        trace = value.trace if isinstance(value, Schedule) else value
        return {_KIND: "trace", "text": trace.to_json()}
    return _node(value, inner)


def _node(value: Any, depth: int) -> Any:
    cls = type(value)
    if getattr(ir, cls.__name__, None) is not cls:
        return _other(value)
    if isinstance(value, enum.Enum):
        return {_KIND: "enum", "class": cls.__name__, "name": value.name}
    if not dataclasses.is_dataclass(value):
        return _other(value)
    fields = [f.name for f in dataclasses.fields(value) if f.init]
    given = {name: _encoded(getattr(value, name), depth) for name in fields}
    return {_KIND: "node", "class": cls.__name__, "fields": given}


def _array(value: np.ndarray | np.generic) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.nbytes > MOST_BYTES:
        return _other(value)
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    kind = "array" if isinstance(value, np.ndarray) else "number"
    return {_KIND: kind, "dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def _other(value: Any) -> Any:
    try:
        text = repr(value)
    except Exception:
        text = "it cannot be shown"
    name = printable(type(value).__name__[:_SHOWN])
    return {_KIND: "other", "name": name, "text": printable(text[:_SHOWN])}


def _decoded(data: Any) -> Any:
    if isinstance(data, list):
        return [_decoded(v) for v in data]
    if not isinstance(data, dict):
        return data
    match data[_KIND]:
        case "tuple":
            return tuple(_decoded(v) for v in data["items"])
        case "set":
            return {_decoded(v) for v in data["items"]}
        case "dict":
            return {_decoded(k): _decoded(v) for k, v in data["items"]}
        case "array" | "number" as kind:
            found = np.frombuffer(base64.b64decode(data["data"]), np.dtype(data["dtype"]))
            array = found.reshape(data["shape"]).copy()
            return array if kind == "array" else array[()]
        case "dtype":
            return ir.INDEX if data["name"] == "index" else ir.DType.of(data["name"])
        case "trace":
            return Trace.from_json(data["text"])
        case "other":
            return Other(str(data["name"]), str(data["text"]))
    cls = getattr(ir, data["class"], None)
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        return cls[data["name"]]
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        return cls(**{name: _decoded(v) for name, v in data["fields"].items()})
    raise ArgumentError(f"{printable(str(data['class']))} is no part of a program")
