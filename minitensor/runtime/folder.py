"""The cache: a private folder of entries, which any number of processes use without locks.

What lies in it is loaded into the process and executed. So the folder must belong to the user, be
no link, be writable by no one else, and lie where no one else can replace it. A default folder that
is unfit gives way to a temporary one, with a warning; one that the user named is refused.

An entry is a JSON document <name>.json, and files of the same name that it describes. The name is
a kind and a digest of all that the entry depends on. Files are made elsewhere and moved into place
whole, the document last. A document that is cut, damaged or under another's name counts as missing;
two processes that make the same entry at once replace each other's, and either is good. The folder
may be deleted at any time. Between the check of a library and its loading only its owner can change
it, so that is not guarded against.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import json
import logging
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minitensor.errors import CompileError, unexpected
from minitensor.runtime.machine import cpu_fingerprint
from minitensor.system import ALONE, is_ours
from minitensor.version import __version__

logger = logging.getLogger("minitensor")

VARIABLE = "MINITENSOR_CACHE_DIR"
_SCRATCH = "build-"
_STALE_SECONDS = 3600.0
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_temporary: set[Path] = set()


def cache_folder() -> Path:
    """The cache folder, created if need be: `MINITENSOR_CACHE_DIR`, or the user's cache folder.

    Raises ArgumentError if MINITENSOR_CACHE_DIR names a folder that others could write to, or that
    cannot be created. Without that variable an unusable folder is replaced, with a logged warning,
    by a temporary one that ends with the process; CompileError if that cannot be had either.
    """
    named = os.environ.get(VARIABLE)
    if named:
        folder = Path(os.path.abspath(os.path.expanduser(named)))
        fault = _fault_of(folder)
        if fault is not None:
            raise unexpected(
                f"a folder of your own that no one else can write to (this one {fault}; "
                "create one with mode 700, or unset the variable)",
                VARIABLE,
                named,
            )
        return folder
    default = _default_folder()
    if isinstance(default, str):
        return _temporary_folder(os.getpid(), f"the cache folder is not known, for {default}")
    fault = _fault_of(default)
    if fault is not None:
        return _temporary_folder(os.getpid(), f"the cache folder {default} {fault}")
    return default


def is_temporary(folder: Path) -> bool:
    """Test whether `cache_folder` gave this folder in place of one that could not be used."""
    return folder in _temporary


@contextlib.contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A new empty folder inside the cache folder, removed with all it holds at the end.

    An OSError in its creation or its use becomes a CompileError with the place and what to do.
    """
    try:
        _sweep(parent)
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as failure:
        raise CompileError(
            f"cannot work in the cache folder {parent}: {failure.strerror}; free some space, or "
            f"name another folder in {VARIABLE}"
        ) from failure


def keep(made: Path, path: Path) -> None:
    """Move a file into the cache folder, whole; only we can write to it, whatever the umask."""
    os.chmod(made, stat.S_IMODE(os.stat(made).st_mode) & ~_OTHERS | stat.S_IRUSR | stat.S_IWUSR)
    if path.is_dir():
        raise CompileError(f"{path} is a folder where a file of the cache belongs; remove it")
    os.replace(made, path)


def read_entry(path: Path) -> bytes:
    """The content of a file of the cache folder; OSError if it is missing, a link, no plain file,
    another user's, or writable by others.
    """
    with open(path, "rb", opener=_open_entry) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or not is_ours(found):
            raise PermissionError(errno.EPERM, "no plain file of this user", str(path))
        if found.st_mode & _OTHERS:
            raise PermissionError(errno.EPERM, "others could have written to it", str(path))
        return file.read()


def _open_entry(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe is not waited for


def entry_name(kind: str, *facts: object) -> str:
    """The name of an entry: its kind, and a digest of what it depends on, this CPU and version
    among it.
    """
    text = json.dumps([__version__, cpu_fingerprint(), *facts])
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()}"


def recall(name: str) -> dict[str, Any] | None:
    """The document of an entry; None if it is missing or not as it was written."""
    path = cache_folder() / f"{name}.json"
    try:
        digest, _, content = read_entry(path).partition(b"\n")
        document = json.loads(content)
    except (OSError, ValueError, RecursionError):
        return None
    return document if digest == _seal(name, content) and isinstance(document, dict) else None


def store(name: str, document: dict[str, Any], scratch: Path, *files: Path) -> None:
    """Move files into the cache as an entry, and write its document.

    scratch  a scratch folder of the cache

    Raises OSError or CompileError; there is no such entry then.
    """
    content = json.dumps(document).encode()
    written = scratch / f"{name}.json"
    written.write_bytes(_seal(name, content) + b"\n" + content)
    for file in (*files, written):
        keep(file, scratch.parent / (name + file.suffix))


def remember(name: str, document: dict[str, Any]) -> None:
    """Store an entry without files. Where that cannot be done, the next process makes it again."""
    with contextlib.suppress(CompileError), scratch_folder(cache_folder()) as scratch:
        store(name, document, scratch)


def _seal(name: str, content: bytes) -> bytes:
    """The digest that the document of an entry begins with."""
    return hashlib.sha256(f"{name}\n".encode() + content).hexdigest().encode()


def _default_folder() -> Path | str:
    """The user's cache folder, or why there is none. A home that is not there is not made."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        return Path(chosen, "minitensor")
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        return f"HOME={home!r} is not an absolute path" if home else "HOME is not set"
    if not os.path.isdir(home):
        return f"HOME={home!r} is not a folder"
    caches = Path("Library", "Caches") if sys.platform == "darwin" else Path(".cache")
    return Path(home, caches, "minitensor")


def _fault_of(folder: Path) -> str | None:
    """The reason why a folder is unfit to hold code, to follow its name; None if it is fit."""
    if not _is_utf8(folder):
        return "has a name that is not UTF-8, as the names of libraries must be"
    try:
        _create(folder)
        found, loose = os.lstat(folder), _loose_parent(folder)
    except OSError as failure:
        return f"cannot be created: {failure.strerror}"
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if not is_ours(found):
        return "belongs to another user"
    if found.st_mode & _OTHERS:
        return "is writable by others"
    if loose is not None:
        return f"lies in {loose}, where everyone may put another in its place"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return "is not writable"
    return None


def _loose_parent(folder: Path) -> Path | None:
    """A folder on the way to this one that everyone may write to, and change what others put there
    (not so where the sticky bit is set, as in /tmp); None if there is none.
    """
    for parent in (*folder.parents, *folder.resolve().parents) if not ALONE else ():
        mode = os.stat(parent).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return parent
    return None


def _is_utf8(path: Path | str) -> bool:
    """Test whether a path is text; other bytes are surrogates in it."""
    return not any("\ud800" <= letter <= "\udfff" for letter in str(path))


def _create(folder: Path) -> None:
    """Make the folder and what is missing above it, each with mode 0700 whatever the umask."""
    if os.path.lexists(folder):
        return
    _create(folder.parent)
    with contextlib.suppress(FileExistsError):  # another process was faster
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)


@functools.cache
def _temporary_folder(process: int, reason: str) -> Path:
    """The folder that `process` uses instead; a forked child has another number and its own."""
    try:
        if not _is_utf8(tempfile.gettempdir()):
            raise OSError(errno.EILSEQ, "TMPDIR is not UTF-8")
        folder = Path(tempfile.mkdtemp(prefix="minitensor-"))
        if _loose_parent(folder) is not None:
            os.rmdir(folder)
            raise PermissionError(errno.EPERM, f"everyone may change what lies in {folder.parent}")
    except OSError as failure:
        raise CompileError(
            f"{reason}, and there is no folder for temporary files either ({failure.strerror}); "
            f"name one in {VARIABLE}"
        ) from None
    _temporary.add(folder)
    logger.warning("%s; kernels are kept in %s until this process ends", reason, folder)

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@functools.cache
def _sweep(folder: Path) -> None:
    """Once a process: remove what killed processes could not."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may remove it first
                if entry.name.startswith(_SCRATCH) and (
                    time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE_SECONDS
                ):
                    shutil.rmtree(entry.path)
