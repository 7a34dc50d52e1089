"""The processes below this one: none outlives it, and none outlives the one that started it.

Code that may do anything may fork, take a session of its own, or stop. On Linux a process can be
made the "subreaper" of its descendants: those that lose their parent become its children, so all
are found by ending children until there are none. Those of a process that was killed are found by a
variable of the environment that all of them inherit. On other systems a descendant that left its
process group is not found.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Final

from minitensor.system import ctypes

MARK: Final = "MINITENSOR_WORKER"
"""The variable that a worker's descendants inherit."""

_IS_LINUX: Final = sys.platform.startswith("linux")
_DEATH_SIGNAL: Final = 1
_SUBREAPER: Final = 36
_PATIENCE: Final = 5.0
_SCANS, _SCANS_OF_STARTING = 100, 25


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def inherit_orphans() -> None:
    """Make this process the parent of its descendants that lose theirs."""
    if _IS_LINUX:
        _libc().prctl(_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies; its number is given, for it may have died already."""
    if _IS_LINUX:
        _libc().prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def kill_group(leader: int) -> None:
    """Kill a process group, and its leader, which may not have made the group yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(leader, signal.SIGKILL)


def end_children() -> int:
    """Kill all children, and all that become children by that; how many there were.

    Waits for them, some seconds at most: a process that the kernel holds on to is left.
    """
    ended = 0
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            ended += 1
            continue
        for child in children(os.getpid()):
            kill_group(child)
        time.sleep(0.001)
    return ended


def children(parent: int) -> list[int]:
    """The children of a process, those that have ended among them."""
    return [pid for pid, stat in processes("stat") if _parent(stat) == parent]


def marked(token: str) -> list[int]:
    """The processes that have inherited a mark (see MARK)."""
    wanted = f"{MARK}={token}".encode()
    return [pid for pid, found in processes("environ") if wanted in found.split(b"\0")]


def kill_marked(token: str) -> None:
    """Kill all processes that have inherited a mark; for when their parent has been killed."""
    for attempt in range(_SCANS):
        starting = attempt < _SCANS_OF_STARTING and _is_any_starting()
        found = marked(token)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found and not starting:
            return
        time.sleep(0.01)


def _is_any_starting() -> bool:
    """Test whether a process may just begin a program: its environment is empty for a moment."""
    return any(not found and _has_program(pid) for pid, found in processes("environ"))


def _has_program(pid: int) -> bool:
    """Test whether a process is neither the kernel's nor at its end."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False


def processes(file: str) -> Iterator[tuple[int, bytes]]:
    """The numbers of all processes, each with a file of /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/{file}", "rb") as stream:
                yield int(name), stream.read()


def _parent(stat: bytes) -> int:
    """The parent in /proc/*/stat: the second field after the name, which may hold anything."""
    fields = stat[stat.rindex(b")") + 1 :].split() if b")" in stat else []
    return int(fields[1]) if len(fields) > 1 else -1
