"""A process that runs code which may crash, and the messages it exchanges with its parent.

    with Worker.start("minitensor.testing.worker") as worker:      in the parent
        worker.send({"numbers": [1, 2, 3]})
        reply = worker.receive(60.0)                            a reply, else WorkerError

    with Parent.connected() as parent:                          in the module that is started
        for request in parent.requests():
            parent.send({"done": …})

A message is a JSON object on a line of a socket that nothing else is written to; arrays go through
files or inherited memory. `start` runs a module in a new interpreter. `fork` runs a function in a
copy of this process: a millisecond in place of half a second, but only where this process has one
thread and has loaded no kernel.

A worker leads a process group of its own, so Ctrl-C is for its parent. It ends when its parent
closes it, or has died. What it started ends with it: by its group, by a variable of its environment
where it left the group, and by adoption (see `descendants`).
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import secrets
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final, NoReturn

from minitensor.errors import MeasureError, printable
from minitensor.runtime.descendants import (
    MARK,
    die_with_parent,
    end_children,
    inherit_orphans,
    kill_group,
    kill_marked,
)
from minitensor.runtime.folder import cache_folder
from minitensor.system import subprocess

_TICK: Final = 0.05
"""Seconds between two looks at a process whose channel others may hold open."""
_GRACE: Final = 0.5
"""Seconds for a process to end after its channel has."""
_CHUNK: Final = 1 << 16
_LONGEST_MESSAGE: Final = 1 << 28
_LONGEST_ERRORS: Final = 1 << 20
_LONGEST_LINE: Final = 400


class Reason(enum.Enum):
    """The reason why a worker gives no reply."""

    CRASH = "crashed"
    """A signal ended it."""
    EXIT = "exited"
    """It ended by itself, or closed its channel."""
    TIMEOUT = "timed out"
    """It gave no reply in time."""
    STOPPED = "stopped"
    """It got SIGSTOP or its like."""
    GARBLED = "garbled"
    """It wrote something else than a message, or only a part of one."""


class WorkerError(MeasureError):
    """A worker failed. The message continues a sentence that begins with what it was to run.

    reason  how it failed
    code    its exit status, or minus the number of the signal; None while it runs
    memory  bytes of memory that it had at most; 0 if that is not known
    errors  what it wrote to standard error
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        code: int | None = None,
        memory: int = 0,
        errors: str = "",
    ) -> None:
        super().__init__(message)
        self.reason, self.code, self.memory, self.errors = reason, code, memory, errors


class Worker:
    """A process that was started, seen from its parent. Made by `start` and `fork`.

    pid  its number, and that of its process group
    """

    def __init__(
        self,
        pid: int,
        channel: socket.socket,
        token: str = "",
        errors: IO[bytes] | None = None,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.pid, self._channel, self._token = pid, channel, token
        self._errors, self._process = errors, process
        self._rest = b""
        self._code: int | None = None
        self._memory = 0
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    @classmethod
    def start(
        cls, module: str, *arguments: str, variables: Mapping[str, str | None] = {}
    ) -> Worker:
        """Run a module in a new interpreter, with the cache folder of this process.

        variables  of its environment, beside those of this process; None removes one

        Raises MeasureError if it cannot be started.
        """
        popen, token = subprocess.Popen, secrets.token_hex(16)
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        ours, theirs = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        own = {"MINITENSOR_CACHE_DIR": str(cache_folder()), "PYTHONPATH": path, MARK: token}
        merged: dict[str, str | None] = {**os.environ, **own, **variables}
        try:
            process = popen(
                [sys.executable, "-m", module, *arguments],
                stdin=theirs.fileno(),
                stdout=errors,
                stderr=errors,
                env={k: v for k, v in merged.items() if v is not None},
                start_new_session=True,
            )
        except BaseException as failure:
            ours.close()
            errors.close()
            if isinstance(failure, OSError):
                text = f"cannot start {sys.executable}: {failure.strerror}"
                raise MeasureError(text) from failure
            raise
        finally:
            theirs.close()
        return cls(process.pid, ours, token, errors, process)

    @classmethod
    def fork(cls, function: Callable[[Parent], object], folder: Path) -> Worker:
        """Run a function in a copy of this process, without its open files, in a folder."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        with theirs, contextlib.ExitStack() as unless_forked:
            unless_forked.enter_context(ours)
            if (pid := os.fork()) == 0:
                _run_forked(function, theirs, folder, parent)
            unless_forked.pop_all()
        return cls(pid, ours)

    def fileno(self) -> int:
        """The descriptor that is readable when there is news, for selectors."""
        return self._channel.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a request. One that has ended takes none, which `receive` reports."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def receive(
        self, timeout: float, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, Any]:
        """The next reply. Raises WorkerError if the process fails, or gives none in time.

        timeout    seconds in which it runs or sleeps: while it waits for a processor, or the whole
                   machine stands still, it is not late
        meanwhile  called some twenty times a second; what it raises is raised
        """
        own = OwnTime(self.pid)
        while (reply := self.poll(_TICK)) is None:
            meanwhile()
            if own.seconds() > timeout:
                text = f"did not end within {timeout:.3g} s and was stopped"
                raise self._error(Reason.TIMEOUT, text)
        return reply

    def poll(self, timeout: float = 0.0) -> dict[str, Any] | None:
        """The next reply; None if there is none yet. Raises WorkerError if the process fails."""
        until = time.monotonic() + timeout
        searched = 0
        while self._rest.find(b"\n", searched) < 0:
            searched = len(self._rest)
            if not self._poll.poll(timeout * 1000):
                if self._has_ended() and not self._poll.poll(0):
                    raise self._failure()
                return None
            try:
                read = self._channel.recv(_CHUNK)
            except ConnectionError:
                read = b""
            if not read:
                raise self._failure()
            self._rest += read
            if len(self._rest) > _LONGEST_MESSAGE:
                raise self._error(Reason.GARBLED, "wrote a message that is too long")
            if b"\n" not in read and time.monotonic() > until:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict):
                return message
        raise self._error(Reason.GARBLED, "wrote what is no message")

    def close(self, grace: float = 0.0) -> None:
        """End it and all that it started.

        grace  seconds in which it may end by itself, after the end of the requests
        """
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        until = time.monotonic() + grace
        while not self._has_ended(stopped_too=False) and time.monotonic() < until:
            time.sleep(0.005)
        kill_group(self.pid)
        self._wait(0)
        if self._token and self._code != 0:
            kill_marked(self._token)
        self._channel.close()
        if self._errors is not None:
            self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _has_ended(self, stopped_too: bool = True) -> bool:
        """Test whether the process has ended. Raises WorkerError if it was stopped by a signal."""
        status = self._wait(os.WNOHANG | os.WUNTRACED)
        if stopped_too and status is not None and os.WIFSTOPPED(status):
            name = _signal_name(os.WSTOPSIG(status))
            raise self._error(Reason.STOPPED, f"was stopped by {name}")
        return self._code is not None

    def _wait(self, options: int) -> int | None:
        """The status of os.wait4; None if there is none, or it was reported before."""
        if self._code is not None:
            return None
        try:
            pid, status, usage = os.wait4(self.pid, options)
        except ChildProcessError:  # it was waited for by others
            pid, status, usage = self.pid, 0, None
        if not pid:
            return None
        if not os.WIFSTOPPED(status):
            self._code = os.waitstatus_to_exitcode(status)
            self._memory = usage.ru_maxrss * _MAXRSS_UNIT if usage is not None else 0
            if self._process is not None:
                self._process.returncode = self._code
        return status

    def _failure(self) -> WorkerError:
        """The reason why the channel has ended."""
        until = time.monotonic() + _GRACE
        while not self._has_ended() and time.monotonic() < until:
            time.sleep(0.001)
        if self._code is None:
            return self._error(Reason.EXIT, "closed its channel, without a reply")
        if self._code < 0:
            return self._error(Reason.CRASH, f"was killed by {_signal_name(-self._code)}")
        if self._rest:
            return self._error(Reason.GARBLED, "ended in the middle of a reply")
        return self._error(Reason.EXIT, f"ended with status {self._code}, without a reply")

    def _error(self, reason: Reason, message: str) -> WorkerError:
        errors = self._read_errors()
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        found = [line for line in lines if "ERROR: " in line or "runtime error" in line]
        last = printable((found or lines[-1:] or [""])[0][:_LONGEST_LINE])
        text = f"{message}: {last}" if last else message
        return WorkerError(reason, text, self._code, self._memory, errors)

    def _read_errors(self) -> str:
        if self._errors is None:
            return ""
        return os.pread(self._errors.fileno(), _LONGEST_ERRORS, 0).decode("utf-8", "replace")


class OwnTime:
    """A clock of the time in which a process runs or sleeps, as far as one that looks often can
    tell: without that for which a thread of it waits for a processor, and without halts of the
    machine.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._seconds = pid, 0.0
        self._now, self._waits = time.monotonic(), waits_of(pid)

    def seconds(self) -> float:
        """The time since the clock was made. Between two calls it grows by half a second at most:
        where more has passed, this process stood still too.
        """
        (then, before), now, waits = (self._now, self._waits), time.monotonic(), waits_of(self._pid)
        waited = max((waits[t] - before.get(t, waits[t]) for t in waits), default=0.0)
        self._seconds += max(0.0, min(now - then, _GRACE) - waited)
        self._now, self._waits = now, waits
        return self._seconds


def waits_of(process: int | str) -> dict[str, float]:
    """Seconds for which each thread of a process waited for a processor, though it could run.

    process  its number, or "self"

    Threads are left out where the system does not say.
    """
    found = {}
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[thread.name] = int((thread / "schedstat").read_bytes().split()[1]) / 1e9
    return found


class ParentGoneError(Exception):
    """The parent has died, or wants no more replies."""


class Parent:
    """The process that started this one, seen from the worker."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._pid = os.getppid()
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    @classmethod
    @contextlib.contextmanager
    def connected(cls, watched: bool = True) -> Iterator[Parent]:
        """The parent of a module that `Worker.start` started; at the end no descendant is left.

        watched  whether a thread ends this process as soon as its parent has died. Without, and
                 with no thread at all, that is found by `requests` and `check` only
        """
        channel = socket.socket(fileno=os.dup(0))
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        signal.signal(signal.SIGTERM, _raise_gone)
        inherit_orphans()
        parent = cls(channel)
        if watched:
            threading.Thread(target=parent._watch, daemon=True).start()
        try:
            yield parent
        except ParentGoneError:
            pass
        finally:
            end_children()

    def requests(self) -> Iterator[dict[str, Any]]:
        """The requests as they come, until the parent sends no more."""
        rest = b""
        while True:
            *whole, rest = rest.split(b"\n")
            for line in whole:
                yield json.loads(line)
            while b"\n" not in rest:
                if not self._poll.poll(4 * _TICK * 1000):
                    self._check_alive()
                    continue
                read = self._channel.recv(_CHUNK)
                if not read:
                    return
                rest += read

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a reply; from any thread. Raises ParentGoneError if nothing takes it."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._lock:
                self._channel.sendall(line)
        except OSError:
            raise ParentGoneError from None

    def check(self) -> None:
        """Raises ParentGoneError if the parent has died, or waits for no reply."""
        self._check_alive()
        events = self._poll.poll(0)
        if events and not self._channel.recv(1, socket.MSG_PEEK):
            raise ParentGoneError

    def _check_alive(self) -> None:
        """A channel stays open as long as any process holds its other end, forked ones too."""
        if os.getppid() != self._pid:
            raise ParentGoneError

    def _watch(self) -> None:
        while os.getppid() == self._pid:
            time.sleep(10 * _TICK)
        end_children()
        os.killpg(0, signal.SIGKILL)


def _run_forked(
    function: Callable[[Parent], object], channel: socket.socket, folder: Path, parent: int
) -> NoReturn:
    """The forked process, from its first instruction to its last: nothing returns from it."""
    status = 1
    try:
        os.setsid()
        die_with_parent(parent)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        kept = channel.fileno()
        os.closerange(3, kept)
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        function(Parent(channel))
        status = 0
    finally:
        os._exit(status)


def _raise_gone(number: int, frame: FrameType | None) -> None:
    raise ParentGoneError


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


_MAXRSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
