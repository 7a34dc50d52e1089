"""The workers that `Remote` knows, and the requests that are on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minitensor.search.runner import there
from minitensor.version import __version__


@dataclass
class Worker:
    """A worker of the pool, and what it did.

    took    seconds of its yardstick, at last; 0 before that
    doubted whether that was longer than it should be
    reason  why it is set aside; "" if it is not
    """

    address: str
    kind: str
    about: Mapping[str, Any]
    requests: int = 0
    candidates: int = 0
    took: float = 0.0
    doubted: bool = False
    reason: str = ""


@dataclass
class Request:
    """Candidates by their numbers; `lost` counts the workers that were lost with it."""

    numbers: list[int]
    lost: int = 0


@dataclass(eq=False)
class Sent:
    """A request on a worker."""

    request: Request
    worker: Worker
    identity: str
    yardstick: bool
    until: float
    future: Any = field(repr=False, default=None)


def worker_of(address: str, about: Mapping[str, Any]) -> Worker:
    """A worker, from what it says of itself."""
    version, host = about.get("minitensor"), about.get("host")
    reason = ""
    if "error" in about or not isinstance(host, dict):
        reason = f"{address} cannot measure: {about.get('error', 'it does not say what it is')}"
    elif version != __version__:
        reason = f"{address} has minitensor {version}, and here it is {__version__}"
    if not isinstance(host, dict):
        return Worker(address, "unknown", about, reason=reason)
    target = there.target_of(about["target"])
    kind = f"{host['cpu']}, {target.num_cores} cores, {target.vector_bits} bits, {host['compiler']}"
    return Worker(address, kind, about, reason=reason)
