"""The other end of `Remote`: candidates arrive as text, are built and measured here, and text goes
back.

A request is JSON: a definition as text that is read and never run, the traces of candidates, what
they are built for. All of it is checked before anything is built. A worker keeps a runner for each
of the last definitions, in its own cache folder, with its own compiler.

A worker of another kind may only build (`built`), with the flags of those that measure: its reply
has libraries by the digests of their texts, and goes on with the request to one that measures. That
one generates the texts anew, and compiles those of which it was given no library.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import platform
import re
import socket
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from minitensor import runtime
from minitensor.codegen import Target
from minitensor.errors import (
    ArgumentError,
    MeasureError,
    MinitensorError,
    ScheduleArgumentError,
    ScheduleError,
    VerifyError,
    is_integer,
    is_real,
    reason_of,
)
from minitensor.ir import Program
from minitensor.lang import program_from_python
from minitensor.schedule import Schedule, Trace
from minitensor.search.records import Host, this_host
from minitensor.search.runner.build import Built, build_all, compiled_by, text_digest
from minitensor.search.runner.results import Result, Settings, Status
from minitensor.search.runner.runner import Runner
from minitensor.search.runner.task import Task, exact_target
from minitensor.search.runner.timing import compile_lock
from minitensor.version import __version__

VERSION: Final = 3
"""Of requests and replies."""
MOST: Final = 256
"""Candidates of a request."""
KEPT: Final = 2
"""Definitions whose runners are kept."""
IDLE: Final = 300.0
"""Seconds without a request after which the processes of a worker end."""
ONLY_BUILDS: Final = "MINITENSOR_ONLY_BUILDS"
"""The variable, of a worker's process, by which it measures nothing."""
LARGEST: Final = 1 << 24
"""Bytes of a library."""
_TIMERS: Final[list[threading.Timer]] = []
_FIELDS: Final = (
    *("version", "id", "definition", "target", "settings", "seed", "best", "traces"),
    *("exact", "compiler", "flags", "libraries"),
)
_RUNNERS: Final[OrderedDict[str, Runner]] = OrderedDict()
_ALONE: Final = threading.Lock()
"""A worker measures one request at a time, whatever its threads."""


def described() -> str:
    """This machine as JSON: what candidates are built for here, by what, and where that is.

    "measures" is False if it builds only; "flags" are those with which others may build for it.
    """
    found: dict[str, Any] = {"minitensor": __version__, "python": platform.python_version()}
    found |= {"name": socket.gethostname(), "process": os.getpid()}
    found |= {"measures": ONLY_BUILDS not in os.environ}
    try:
        target = exact_target("c")
        found |= {"target": target.as_dict(), "host": asdict(this_host(target))}
        found |= {"flags": runtime.spelled_flags(runtime.find_toolchain())}
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
        return _reply(text, _measured)


def built(text: str) -> str:
    """The reply to a request to build: the libraries of its candidates. One that does not compile
    has none; the measuring worker then reports the error.
    """
    return _reply(text, _built)


def _reply(text: str, work: Callable[[Mapping[str, Any]], dict[str, Any]]) -> str:
    reply: dict[str, Any] = {"version": VERSION, "id": ""}
    try:
        request = checked_request(text)
        reply["id"] = request["id"]
        reply |= work(request)
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
    best, traces, libraries = found["best"], found["traces"], found["libraries"]
    texts = [found["id"], found["definition"], found["compiler"]]
    texts += traces if isinstance(traces, list) else [None]
    texts += found["flags"] if isinstance(found["flags"], list) else [None]
    good = (
        all(isinstance(one, str) for one in texts)
        and 1 <= len(traces) <= MOST
        and isinstance(found["target"], dict)
        and isinstance(found["settings"], dict)
        and found["settings"].keys() <= {field.name for field in fields(Settings)}
        and is_integer(found["seed"], 0)
        and is_integer(found["exact"], 0)
        and (best is None or is_real(best, 0))
        and are_libraries(libraries)
    )
    if not good:
        raise ArgumentError(
            "a part of the request does not fit: see minitensor.search.runner.there"
        )
    return found


def are_libraries(found: object) -> bool:
    """Test whether these are libraries as a request and a reply have them."""
    return isinstance(found, dict) and all(
        isinstance(key, str) and re.fullmatch("[0-9a-f]{64}", key) and isinstance(code, str)
        for key, code in found.items()
    )


def _candidates(program: Program, traces: Sequence[str]) -> list[Schedule | Result]:
    """The candidates; the result of one whose trace makes no schedule. Their steps were checked
    where they were chosen; here what they make is.
    """
    found: list[Schedule | Result] = []
    for trace in [Trace.from_json(text) for text in traces]:
        try:
            found.append(trace.apply(program, check=False).confirm())
        except ScheduleArgumentError:  # it names what is not here
            raise
        except (ScheduleError, VerifyError) as failure:
            found.append(Result(Status.BUILD, message=reason_of(failure)))
    return found


def _built(request: Mapping[str, Any]) -> dict[str, Any]:
    compiler = runtime.compiler_for(request["flags"], request["compiler"], runtime.find_toolchain())
    settings, target = Settings(**request["settings"]), target_of(request["target"])
    candidates = _candidates(program_from_python(request["definition"]), request["traces"])
    schedules = [one for one in candidates if isinstance(one, Schedule)]
    with ThreadPoolExecutor(runtime.usable_cores()) as pool:
        found = build_all(
            schedules,
            target,
            settings,
            lambda source, limit: (
                pool.submit(compiled_by, lambda: compiler, source, limit, _beside).result
            ),
        )
    paths = {text_digest(b.emitted.source): b.library for b in found if isinstance(b, Built)}
    return {"libraries": {digest: _packed(path) for digest, path in paths.items()}}


def _beside() -> Any:
    """The lock to build under: `compile_lock`, or none where this process only builds, on cores of
    its own.
    """
    return contextlib.nullcontext() if ONLY_BUILDS in os.environ else compile_lock()


def _packed(path: str) -> str:
    return base64.b64encode(zlib.compress(Path(path).read_bytes())).decode()


def _unpacked(text: str) -> bytes:
    try:
        unpacking = zlib.decompressobj()
        code = unpacking.decompress(base64.b64decode(text, validate=True), LARGEST)
        if unpacking.eof:
            return code
    except (binascii.Error, zlib.error):
        pass
    raise ArgumentError("a library of the request does not fit")


def _measured(request: Mapping[str, Any]) -> dict[str, Any]:
    target = target_of(request["target"])
    if exact_target("c") != target:
        raise ArgumentError(f"expected candidates for {exact_target('c')}, but got {target}")
    start = time.perf_counter()
    program = program_from_python(request["definition"])
    candidates = _candidates(program, request["traces"])
    share = (time.perf_counter() - start) / len(candidates)
    parts = [request[name] for name in ("definition", "target", "settings", "seed")]
    key = json.dumps(parts, sort_keys=True)
    if key not in _RUNNERS:
        task = Task.of(program, target, None, request["seed"])
        _RUNNERS[key] = Runner(task, Settings(**request["settings"]))
        while len(_RUNNERS) > KEPT:
            _RUNNERS.popitem(last=False)[1].close()
    _RUNNERS.move_to_end(key)
    runner, sent, exact = _RUNNERS[key], request["libraries"], request["exact"]
    command = [request["compiler"], *request["flags"]]
    runner.accept({digest: _unpacked(code) for digest, code in sent.items()}, command)
    results: list[Result] = []
    # two calls: the seconds of building are shared among those of a call, and what is to be timed
    # exactly has been built before
    for some, best in ((candidates[:exact], None), (candidates[exact:], request["best"])):
        done = iter([*runner.measure([s for s in some if isinstance(s, Schedule)], best)])
        results += [one if isinstance(one, Result) else next(done) for one in some]
    results = [replace(one, spent=round(one.spent + share, 4)) for one in results]
    flags = [request["flags"] if [*one.command] == command else None for one in results]
    return {"results": [result_as_dict(one, used) for one, used in zip(results, flags)]}


def target_of(data: Mapping[str, Any]) -> Target:
    """The target that `Target.as_dict` wrote. Raises ArgumentError for what is none."""
    try:
        return Target(**data)
    except TypeError:
        raise ArgumentError(f"a target of a worker does not fit: {str(data)[:200]}") from None


# ---- replies


def result_as_dict(result: Result, flags: list[str] | None = None) -> dict[str, Any]:
    """A result as JSON has it.

    flags  with which another machine compiled it; None if this one did
    """
    names = ("times", "calls", "message", "early", "spoilt", "disturbed", "spent")
    found = {name: getattr(result, name) for name in names}
    return {"status": result.status.value, **found, "flags": flags}


def result_from_dict(data: object, host: Host) -> Result:
    """The result that `result_as_dict` wrote. Raises ArgumentError for anything else."""
    try:
        given = dict(data)  # type: ignore[call-overload]
        status, times = Status(given.pop("status")), tuple(float(t) for t in given.pop("times"))
        spent, flags = float(given.pop("spent")), given.pop("flags")
        host = host if flags is None else replace(host, flags=tuple(flags))
        made = Result(status, times, spent=spent, host=host, **given)
    except (TypeError, ValueError, KeyError):
        raise ArgumentError(f"a result of a worker does not fit: {str(data)[:200]}") from None
    flags = isinstance(made.early, bool) and isinstance(made.disturbed, bool)
    numbers = is_integer(made.calls, 0) and is_integer(made.spoilt, 0)
    if not (flags and numbers and isinstance(made.message, str)):
        raise ArgumentError(f"a result of a worker does not fit: {str(data)[:200]}")
    return made


def _checked_reply(reply: object, identity: str) -> dict[str, Any]:
    """A reply that fits. Raises MeasureError for trouble of the worker, ArgumentError for what it
    refuses.
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
    if data.get("id") != identity:
        raise MeasureError("its replies are to another request")
    return data


def results_of(reply: object, identity: str, count: int) -> list[Result]:
    """The results of a reply. Raises as `_checked_reply`."""
    data = _checked_reply(reply, identity)
    try:
        host = Host(**{**data["host"], "flags": tuple(data["host"]["flags"])})
        results = [result_from_dict(one, host) for one in data["results"]]
    except (ArgumentError, TypeError, KeyError, LookupError) as failure:
        raise MeasureError(f"its replies do not fit: {reason_of(failure)}") from None
    if len(results) != count:
        raise MeasureError("its replies are to another request")
    return results


def libraries_of(reply: object, identity: str) -> dict[str, str]:
    """The libraries of a reply. Raises as `_checked_reply`."""
    found: dict[str, str] = _checked_reply(reply, identity).get("libraries", {})
    if not are_libraries(found):
        raise MeasureError("its replies do not fit: no libraries")
    return found
