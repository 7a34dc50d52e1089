"""A file of lines that many processes append to, each of which may be killed at any moment.

Appending is one `write` of whole lines to a descriptor opened for appending, under a lock (flock)
that all writers hold. A writer that is killed in the middle leaves a line without an end, which it
has not acknowledged; the next append ends that line with a seal. A write that the system cuts short
(a full disk) is taken back.

A file is rewritten by making another beside it and renaming that. So a process that has got the
lock checks that the name still means the file that was locked, and begins again if not.

Files are opened anew for each use: nothing is shared between threads, or with a forked child.
Not here: the meaning of a line (`records`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from minitensor.errors import ArgumentError, TuningError, printable
from minitensor.system import fcntl, is_ours

logger = logging.getLogger("minitensor")

SEAL: Final = b"#torn\n"
"""The end of a line whose writer was stopped."""
LOCK_SECONDS: Final = 60.0
"""The longest wait for the lock: others hold it for microseconds, or while they rewrite the log."""
READER_SECONDS: Final = 1.0
"""The same for readers, which continue without it and may then see an unfinished line."""

_NO_LOCKS: Final = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system by which a disk has no room."""
_NEW_MODE: Final = 0o600
_BLANK: Final = b" \t\r\n\0"
"""NULs are what a file system may leave of a block that was not written when power was lost."""
_warned: set[str] = set()
"""Files for which the warning that they cannot be locked was given."""


class Line(NamedTuple):
    """A line without its end: whether it was sealed, and whether a newline follows."""

    data: bytes
    sealed: bool
    ended: bool


@dataclass(frozen=True, slots=True)
class Held:
    """A file that this process has locked for writing, unless the file system has no locks.

    sync  whether what is appended is brought to the disk, to survive the end of the machine as well
    """

    path: str
    descriptor: int
    locked: bool
    sync: bool

    def lines(self, longest: int) -> Iterator[Line]:
        """The lines of the file (see `lines`)."""
        with open(os.dup(self.descriptor), "rb") as file:
            file.seek(0)
            yield from _split(file, os.fstat(self.descriptor).st_size, longest)

    def append(self, lines: bytes) -> None:
        """Write whole lines at the end, all or nothing.

        Raises TuningError if the system does not take all of them.
        """
        size = os.fstat(self.descriptor).st_size
        try:
            torn = size > 0 and os.pread(self.descriptor, 1, size - 1) != b"\n"
            data = SEAL + lines if torn else lines
            written = os.write(self.descriptor, data)
            while written < len(data):  # a full disk fails the second time
                written += os.write(self.descriptor, data[written:])
            if self.sync:
                os.fsync(self.descriptor)
        except BaseException as failure:
            if self.locked:  # else lines of another may follow
                with contextlib.suppress(OSError):
                    os.ftruncate(self.descriptor, size)
            if isinstance(failure, OSError):
                raise _failed("write to", self.path, failure) from failure
            raise

    def replace(self, lines: Iterable[bytes]) -> None:
        """Put a file of these lines in the place of this one, at once.

        Raises TuningError if that cannot be done; the file is then as it was.
        """
        if not self.locked:
            raise TuningError(
                f"cannot rewrite the log {printable(self.path)}: its file system has no locks, "
                "and what others append meanwhile would be lost; do it to a copy on a local disk"
            )
        target = os.path.realpath(self.path)
        folder, name = os.path.split(target)
        # the lock is held: whatever has this name was left by a process that was killed
        beside = os.path.join(folder, f".{name}.new")
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
            try:
                _write_new(beside, lines, os.fstat(self.descriptor))
                os.rename(beside, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
                raise
            _sync_folder(folder)
        except OSError as failure:
            raise _failed("rewrite", self.path, failure) from failure


@contextlib.contextmanager
def held(path: Path, *, make: bool = True, sync: bool = False) -> Iterator[Held]:
    """The file, locked for writing.

    make  whether it is made, readable by its owner alone, if it is not there
    sync  see `Held`

    Raises ArgumentError if the path names something else than a file, TuningError if the file
    cannot be opened, or others have held the lock for LOCK_SECONDS.
    """
    name = os.fspath(path)
    try:
        descriptor, locked = _open_locked(name, make, sync)
    except TimeoutError:
        raise TuningError(
            f"cannot write to the log {printable(name)}: another process has held its lock for "
            f"{LOCK_SECONDS:.0f} s; end that process, or use another file"
        ) from None
    except OSError as failure:
        raise _failed("open", name, failure) from failure
    try:
        yield Held(name, descriptor, locked, sync)
    finally:
        _close(descriptor, locked)


def lines(path: Path, longest: int) -> Iterator[Line]:
    """The lines of a file as it is now, of those beyond `longest` bytes only a part.

    Raises FileNotFoundError if there is no file, ArgumentError if the path names something else,
    TuningError if it cannot be read.
    """
    name = os.fspath(path)
    try:
        descriptor = _open(name, os.O_RDONLY)
        try:
            _check_is_file(name, descriptor)
            with open(descriptor, "rb", closefd=False) as file:
                yield from _split(file, _size(name, descriptor), longest)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as failure:
        raise _failed("read", name, failure) from failure


def _split(file: BinaryIO, left: int, longest: int) -> Iterator[Line]:
    while left > 0:
        line = piece = file.readline(min(left, longest))
        left -= len(piece)
        while left > 0 and piece and not piece.endswith(b"\n"):
            piece = file.readline(min(left, longest))
            left -= len(piece)
        if piece is not line:
            line += piece
        data = line.strip(_BLANK)
        sealed = data.endswith(SEAL[:-1])
        yield Line(data.removesuffix(SEAL[:-1]), sealed, line.endswith(b"\n"))


# ---- the system


def _open_locked(name: str, make: bool, sync: bool) -> tuple[int, bool]:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        descriptor, locked = _open_to_append(name, make, sync), False
        try:
            _check_is_file(name, descriptor)
            locked = _lock(name, descriptor, fcntl.LOCK_EX, deadline)
            if not locked or _is_at(name, descriptor):
                return descriptor, locked
        except BaseException:
            _close(descriptor, locked)
            raise
        _close(descriptor, locked)  # it was rewritten, or removed, before we had the lock


def _size(name: str, descriptor: int) -> int:
    """The size when no line was half written. What lies below it does not change any more."""
    try:
        locked = _lock(name, descriptor, fcntl.LOCK_SH, time.monotonic() + READER_SECONDS)
    except TimeoutError:
        locked = False
    size = os.fstat(descriptor).st_size
    if locked:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return size


def _open(name: str, flags: int) -> int:
    """Open a file; a pipe without a partner does not block."""
    try:
        return os.open(name, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, _NEW_MODE)
    except OSError as failure:
        if failure.errno in (errno.EISDIR, errno.ENXIO):
            raise _no_file(name) from None
        raise


def _open_to_append(name: str, make: bool, sync: bool) -> int:
    flags = os.O_RDWR | os.O_APPEND
    try:
        return _open(name, flags)
    except FileNotFoundError:
        if not make:
            raise
    descriptor = _open(name, flags | os.O_CREAT)
    if sync:
        _sync_folder(os.path.dirname(os.path.realpath(name)))
    return descriptor


def _close(descriptor: int, locked: bool) -> None:
    # a child that was forked meanwhile has the descriptor too: closing this one would not unlock
    if locked:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _lock(name: str, descriptor: int, kind: int, deadline: float) -> bool:
    """Wait for the lock; False if there is no such thing. Raises TimeoutError."""
    pause = 0.0002
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except OSError as failure:
            if failure.errno in _NO_LOCKS:
                _warn_of_no_locks(name)
                return False
            if failure.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _warn_of_no_locks(name: str) -> None:
    if name not in _warned:
        _warned.add(name)
        logger.warning(
            "%s cannot be locked, for its file system has no locks: let one process at a time "
            "write to it",
            name,
        )


def _is_at(name: str, descriptor: int) -> bool:
    """Return whether the path still names this very file."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _check_is_file(name: str, descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _no_file(name)


def _write_new(path: str, lines: Iterable[bytes], like: os.stat_result) -> None:
    """A new file on the disk, with the owner and the mode of another."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(path, flags, _NEW_MODE), "wb") as file:
        try:
            os.fchown(file.fileno(), like.st_uid, like.st_gid)
        except PermissionError:
            if not is_ours(like):  # its owner could not read it any more
                raise
        os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
        for line in lines:
            file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: str) -> None:
    """Bring a new name to the disk, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _no_file(name: str) -> ArgumentError:
    return ArgumentError(f"expected a file for the log, but {printable(name)} is something else")


def _failed(doing: str, name: str, failure: OSError) -> TuningError:
    if failure.errno in FULL:
        advice = "free some space, or use another file (what was written before is kept)"
    elif isinstance(failure, FileNotFoundError):
        advice = "make its folder first"
    else:
        advice = "use another file"
    return TuningError(f"cannot {doing} the log {printable(name)}: {failure.strerror}; {advice}")
