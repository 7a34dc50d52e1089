"""The other end of `Remote`: candidates arrive as text, are built and measured here, and text goes
back.

A request is JSON: a definition as text that is read and never run, the traces of candidates, what
they are built for. All of it is checked before anything is built. A worker keeps a runner for each
of the last definitions, in its own cache folder, with its own compiler.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final
from urllib.parse import urlsplit

from minitensor.codegen import Target
from minitensor.errors import (
    ArgumentError,
    MeasureError,
    MinitensorError,
    is_integer,
    is_real,
    reason_of,
)
from minitensor.lang import program_from_python
from minitensor.schedule import Trace
from minitensor.search.records import Host, this_host
from minitensor.search.runner.results import Result, Settings, Status
from minitensor.search.runner.runner import Runner
from minitensor.search.runner.task import Task, exact_target
from minitensor.version import __version__

VERSION: Final = 1
"""Of requests and replies."""
MOST: Final = 256
"""Candidates of a request."""
KEPT: Final = 2
"""Definitions whose runners are kept."""
IDLE: Final = 300.0
"""Seconds without a request after which the processes of a worker end."""
_TIMERS: Final[list[threading.Timer]] = []
_FIELDS: Final = ("version", "id", "definition", "target", "settings", "seed", "best", "traces")
_RUNNERS: Final[OrderedDict[str, Runner]] = OrderedDict()
_ALONE: Final = threading.Lock()
"""A worker measures one request at a time, whatever its threads."""


def described() -> str:
    """This machine as JSON: what candidates are built for here, by what, and where that is."""
    found: dict[str, Any] = {"minitensor": __version__, "python": platform.python_version()}
    found |= {"name": socket.gethostname(), "process": os.getpid()}
    try:
        target = exact_target("c")
        found |= {"target": target.as_dict(), "host": asdict(this_host(target))}
    except MinitensorError as failure:
        found |= {"error": failure.message}
    return json.dumps(found)


def reach(address: str, wait: float) -> None:
    """Wait until a server listens at an address. Raises OSError after `wait` seconds."""
    place, until = urlsplit(address), time.monotonic() + wait
    while True:
        try:
            with socket.create_connection((place.hostname or "", place.port or 0), max(wait, 0.1)):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def measured(text: str) -> str:
    """The reply to a request: the results of its candidates in order, or why there are none.

    "error" is what is wrong with this machine, "refused" what is wrong with the request.
    """
    with _ALONE:
        _end_later()
        reply: dict[str, Any] = {"version": VERSION, "id": ""}
        try:
            request = checked_request(text)
            reply["id"] = request["id"]
            reply["results"] = [result_as_dict(one) for one in _results(request)]
            reply["host"] = asdict(this_host(exact_target("c")))
        except ArgumentError as failure:
            reply["refused"] = failure.message
        except (MinitensorError, OSError) as failure:
            reply["error"] = reason_of(failure)
    return json.dumps(reply)


def _end_later() -> None:
    """Schedule the end of the runners' processes, IDLE seconds after the last request."""
    for timer in _TIMERS:
        timer.cancel()
    _TIMERS[:] = [threading.Timer(IDLE, _end)]
    _TIMERS[0].daemon = True
    _TIMERS[0].start()


def _end() -> None:
    with _ALONE:
        while _RUNNERS:
            _RUNNERS.popitem()[1].close()


def checked_request(text: object) -> dict[str, Any]:
    """The parts of a request. Raises ArgumentError for what is none."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or sorted(found) != sorted(_FIELDS):
        raise ArgumentError(f"a request has the parts {', '.join(_FIELDS)}, and this has not")
    if found["version"] != VERSION:
        raise ArgumentError(f"a request of version {found['version']}, and {VERSION} is read here")
    best, traces = found["best"], found["traces"]
    texts = [found["id"], found["definition"], *(traces if isinstance(traces, list) else [None])]
    good = (
        all(isinstance(one, str) for one in texts)
        and 1 <= len(traces) <= MOST
        and isinstance(found["target"], dict)
        and isinstance(found["settings"], dict)
        and found["settings"].keys() <= {field.name for field in fields(Settings)}
        and is_integer(found["seed"], 0)
        and (best is None or is_real(best, 0))
    )
    if not good:
        raise ArgumentError(
            "a part of the request does not fit: see minitensor.search.runner.there"
        )
    return found


def _results(request: Mapping[str, Any]) -> list[Result]:
    target = target_of(request["target"])
    if exact_target("c") != target:
        raise ArgumentError(f"expected candidates for {exact_target('c')}, but got {target}")
    program = program_from_python(request["definition"])
    schedules = [Trace.from_json(trace).apply(program) for trace in request["traces"]]
    parts = [request[name] for name in ("definition", "target", "settings", "seed")]
    key = json.dumps(parts, sort_keys=True)
    if key not in _RUNNERS:
        task = Task.of(program, target, None, request["seed"])
        _RUNNERS[key] = Runner(task, Settings(**request["settings"]))
        while len(_RUNNERS) > KEPT:
            _RUNNERS.popitem(last=False)[1].close()
    _RUNNERS.move_to_end(key)
    return list(_RUNNERS[key].measure(schedules, request["best"]))


def target_of(data: Mapping[str, Any]) -> Target:
    """The target that `Target.as_dict` wrote. Raises ArgumentError for what is none."""
    try:
        return Target(**data)
    except TypeError:
        raise ArgumentError(f"a target of a worker does not fit: {str(data)[:200]}") from None


# ---- replies


def result_as_dict(result: Result) -> dict[str, Any]:
    """A result as JSON has it."""
    names = ("times", "calls", "message", "early", "spoilt", "disturbed", "spent")
    return {"status": result.status.value, **{name: getattr(result, name) for name in names}}


def result_from_dict(data: object, host: Host) -> Result:
    """The result that `result_as_dict` wrote. Raises ArgumentError for anything else."""
    try:
        given = dict(data)  # type: ignore[call-overload]
        status, times = Status(given.pop("status")), tuple(float(t) for t in given.pop("times"))
        spent = float(given.pop("spent"))
        made = Result(status, times, spent=spent, host=host, **given)
    except (TypeError, ValueError, KeyError):
        raise ArgumentError(f"a result of a worker does not fit: {str(data)[:200]}") from None
    flags = isinstance(made.early, bool) and isinstance(made.disturbed, bool)
    numbers = is_integer(made.calls, 0) and is_integer(made.spoilt, 0)
    if not (flags and numbers and isinstance(made.message, str)):
        raise ArgumentError(f"a result of a worker does not fit: {str(data)[:200]}")
    return made


def results_of(reply: object, identity: str, count: int) -> list[Result]:
    """The results of a reply. Raises MeasureError for trouble of the worker, ArgumentError for what
    it refuses.
    """
    try:
        data = json.loads(reply) if isinstance(reply, str) else None
    except ValueError:
        data = None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise MeasureError("its replies are none of this version")
    if "refused" in data:
        raise ArgumentError(
            f"a worker refuses the candidates: {str(data['refused'])[:2000]}; an intrinsic or a "
            "primitive of your own needs `minitensor worker ADDRESS --trust MODULE` there"
        )
    if "error" in data:
        raise MeasureError(str(data["error"])[:2000])
    try:
        host = Host(**{**data["host"], "flags": tuple(data["host"]["flags"])})
        results = [result_from_dict(one, host) for one in data["results"]]
    except (ArgumentError, TypeError, KeyError, LookupError) as failure:
        raise MeasureError(f"its replies do not fit: {reason_of(failure)}") from None
    if data.get("id") != identity or len(results) != count:
        raise MeasureError("its replies are to another request")
    return results
