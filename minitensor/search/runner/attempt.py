"""One candidate, seen from the server: a child is forked, watched, judged and ended."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from minitensor.ir import print_name
from minitensor.search.runner.channel import ForgedError, Reader, new_secret
from minitensor.search.runner.check import Arena
from minitensor.search.runner.child import Job, run_child
from minitensor.search.runner.family import end_children, kill_group
from minitensor.search.runner.results import Result, Status
from minitensor.search.runner.settings import MOST_REPEATS

_TICK: Final = 0.05
COLD, COLDER = 0.1, 3.0
"""A first call may take so many seconds more, and so many times as long, as later ones."""
MOST_CALLS: Final = 8
"""That many calls must be possible in the time of a candidate; else the first is its time."""
_CAN_PEEK: Final = hasattr(os, "waitid")
"""Whether it can be seen that a child has ended before it is waited for; not on older macOS."""
_GRACE: Final = 0.5
"""Seconds for a child to end after its channel has."""
_TRUSTED_CLOCKS: Final = 1.02
"""What a child says its repeats took, at most, as a multiple of what the server saw pass."""
_NEARLY: Final = 0.75
"""Of the memory that it may have: a candidate that dies with so much had no more."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a child ended that gave no answer.

    status    as of os.wait
    resident  bytes of memory that it had at most
    """

    status: int
    resident: int


class _FailedError(Exception):
    """The candidate failed: why is known."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class _EndedError(Exception):
    """The child has ended without an answer: why is to be found out."""


class Attempt:
    """A job in a child of its own, from the fork to its end.

    job, arena  what is run, on which arrays
    scratch     an empty folder to run in
    meanwhile   called some twenty times a second; it may raise, and the child is ended
    """

    def __init__(
        self, job: Job, arena: Arena, scratch: Path, meanwhile: Callable[[], None]
    ) -> None:
        self.job, self.arena, self.scratch, self.meanwhile = job, arena, scratch, meanwhile
        self.name = print_name(arena.task.name)
        self.pid = 0

    def result(self) -> Result:
        """Run it. No process is left when this returns, or raises."""
        self.arena.reset()
        self._give(self.job.settings.first_limit(self.job.best))
        ours, theirs = socket.socketpair()
        secret = new_secret()
        before = _resident()
        with ours, theirs:
            parent = os.getpid()
            self.pid = os.fork()
            if self.pid == 0:
                with contextlib.suppress(OSError):
                    os.chdir(self.scratch)
                run_child(theirs, secret, self.job, self.arena, parent)
            theirs.close()
            ours.setblocking(False)
            result: Result | None
            try:
                result = self._judged(ours, secret)
            except _FailedError as failed:
                result = Result(failed.status, message=str(failed))
            except _EndedError:
                result = None
            except ForgedError as forged:
                text = f"{self.name} wrote on the channel of the measurement: {forged}"
                result = Result(Status.LIED, message=text)
            finally:
                ended, left = self._end()
        if result is None:
            return self._explained(ended, before)
        if result.ok and left:
            text = f"{self.name} left {left} process{'es' if left > 1 else ''} running"
            result = Result(Status.PROCESSES, message=text)
        return result

    def _give(self, seconds: float) -> None:
        """Let the child live for so many seconds from now."""
        self.limit, self.deadline = seconds, time.monotonic() + seconds

    def _end(self) -> tuple[_Ended, int]:
        """Kill the child and all it started: how it ended, and how many others there were."""
        kill_group(self.pid)
        _, status, usage = os.wait4(self.pid, 0)
        return _Ended(status, usage.ru_maxrss << 10), end_children()

    def _judged(self, channel: socket.socket, secret: bytes) -> Result:
        reader, start = Reader(channel), time.perf_counter()
        ran = self._line(reader, channel, secret)
        status, hits, took = ran.get("status"), ran.get("hits"), ran.get("took")
        if not (_is_int(status) and isinstance(hits, list) and isinstance(took, float)):
            raise ForgedError("an answer of another form")
        fault = self.arena.fault(hits)
        if status and (fault is None or fault[0] is not Status.BOUNDS):
            fault = Status.CHECK, str(status)
        if fault is None and not ran.get("alone"):
            fault = Status.PROCESSES, f"{self.name} leaves processes behind"
        if fault is None and not ran.get("steady"):
            fault = Status.WRONG, f"{self.name} changes how the processor rounds"
        if fault is not None:
            raise _FailedError(*fault)
        best = self.job.best
        if best is not None and took > COLD + self.job.settings.slower * COLDER * best:
            only = {"times": [took], "calls": 1, "early": True}
            return self._believed(only, time.perf_counter() - start)
        if took > self.job.settings.time_limit / MOST_CALLS:
            only = {"times": [took], "calls": 1, "early": False}
            return self._believed(only, time.perf_counter() - start)
        self.arena.reset()
        self._give(self.job.settings.time_limit)
        secret, start = new_secret(), time.perf_counter()
        with contextlib.suppress(OSError):
            channel.send(secret + b"\n")
        told = self._line(reader, channel, secret)
        result = self._believed(told, time.perf_counter() - start)
        if result.early:
            return result
        fault = self.arena.fault()
        if fault is not None:
            kind, text = fault
            raise _FailedError(kind, f"{text}, when it is called again")
        return result

    def _line(self, reader: Reader, channel: socket.socket, secret: bytes) -> dict[str, Any]:
        """The next line of the child; _FailedError if there is none."""
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        while True:
            if poll.poll(int(_TICK * 1000)):
                told = reader.line(secret)
                if told == {}:
                    raise self._ended_or_closed()
                if told is not None:
                    return self._line_of(told)
            self.meanwhile()
            if self._is_over() and not poll.poll(0):
                raise _EndedError
            if time.monotonic() > self.deadline:
                text = f"{self.name} did not end within {self.limit:.3g} s and was stopped"
                raise _FailedError(Status.TIMEOUT, text)

    def _line_of(self, told: dict[str, Any]) -> dict[str, Any]:
        if isinstance(told.get("memory"), str):
            raise _FailedError(Status.MEMORY, f"{self.name}: {told['memory']}")
        if isinstance(told.get("failed"), str):
            raise _FailedError(Status.BUILD, told["failed"])
        return told

    def _ended_or_closed(self) -> _EndedError | _FailedError:
        """Why the channel is closed: the child ends in a moment, or it has closed it."""
        if not _CAN_PEEK:
            time.sleep(_TICK)
            return _EndedError()
        until = time.monotonic() + _GRACE
        while time.monotonic() < until:
            if self._is_over():
                return _EndedError()
            time.sleep(0.001)
        return _FailedError(Status.EXIT, f"{self.name} closed what it was to answer on")

    def _is_over(self) -> bool:
        """Whether the child has ended, while others may hold its channel."""
        if not _CAN_PEEK:
            return False
        how = os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        seen = os.waitid(os.P_PID, self.pid, how)
        if seen is not None and seen.si_code == os.CLD_STOPPED:
            text = f"{self.name} was stopped by {_signal_name(seen.si_status)}"
            raise _FailedError(Status.STOPPED, text)
        return seen is not None

    def _believed(self, told: dict[str, Any], passed: float) -> Result:
        """The times that a child tells, if they can be true.

        passed  seconds that the server saw pass
        """
        times, calls, early = told.get("times"), told.get("calls"), told.get("early")
        if not (
            isinstance(times, list)
            and 0 < len(times) <= MOST_REPEATS
            and all(isinstance(t, float) and math.isfinite(t) for t in times)
            and isinstance(calls, int)
            and calls > 0
            and isinstance(early, bool)
        ):
            raise ForgedError("times of another form")
        least, floor = min(times), self.arena.task.floor
        if least <= floor:
            text = (
                f"{self.name} tells a time of {least:.3g} s; nothing takes less than {floor:.3g} s"
            )
            raise _FailedError(Status.LIED, text)
        if early and (self.job.best is None or least <= self.job.best):
            text = f"{self.name} gives up being timed, and tells a time of {least:.3g} s"
            raise _FailedError(Status.LIED, text)
        if sum(times) * calls > passed * _TRUSTED_CLOCKS:
            text = f"{self.name} tells of {sum(times) * calls:.3g} s, while {passed:.3g} s passed"
            raise _FailedError(Status.LIED, text)
        return Result(Status.OK, tuple(times), calls, early=early)

    def _explained(self, ended: _Ended, before: int) -> Result:
        """What a child died of.

        before  bytes of memory that the server had, which a child has from its start
        """
        own = 2 * (self.arena.size + self.job.workspace)
        much = ended.resident - before - own > _NEARLY * self.job.settings.memory
        code = os.waitstatus_to_exitcode(ended.status)
        if code >= 0 and not much:
            text = f"{self.name} ended its process with status {code}, without an answer"
            return Result(Status.EXIT, message=text)
        if code == -signal.SIGXCPU:
            text = f"{self.name} took more processor time than {self.job.settings.time_limit:g} s"
            return Result(Status.TIMEOUT, message=text)
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with status {code}"
        if much:
            text = f"{self.name} was {how} when it had {ended.resident >> 20} MiB of memory"
            return Result(Status.MEMORY, message=text)
        hint = "; the system does that when memory runs out" if code == -signal.SIGKILL else ""
        return Result(Status.CRASH, message=f"{self.name} was {how}{hint}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _resident() -> int:
    """Bytes of memory that this process has; 0 if it is not known."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0
