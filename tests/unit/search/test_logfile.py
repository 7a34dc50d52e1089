"""A log whose file is no file, whose disk is full, whose lock is held or does not exist."""

import errno
import fcntl
import os
import socket
import threading
import time

import pytest

from minitensor.errors import ArgumentError, TuningError
from minitensor.search import Log, Report
from minitensor.search import logfile as files
from tests.made_records import KEY, TARGET, filled, made


@pytest.mark.parametrize("path", [None, 3, b"bytes", "", "a\0b", [], ("a",)])
def test_no_path(path):
    with pytest.raises(ArgumentError, match="expected the path of a file, but got path="):
        Log(path)


def uses(log):
    return [
        lambda: log.append(made()),
        log.read,
        log.verify,
        log.compact,
        lambda: log.best(KEY, TARGET),
        lambda: log.merge([log.path]),
    ]


def test_a_folder_is_no_log(tmp_path):
    for use in uses(Log(tmp_path)):
        with pytest.raises(
            ArgumentError, match=r"expected a file for the log, but .* is something else"
        ):
            use()


def test_a_pipe_a_device_a_socket_is_no_log(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path / "socket"):
        for use in uses(Log(path)):
            with pytest.raises((ArgumentError, TuningError), match="something else"):
                use()


def test_a_folder_that_is_not_there(tmp_path):
    log = Log(tmp_path / "no" / "tuning.jsonl")
    with pytest.raises(TuningError, match=r"No such file or directory; make its folder first"):
        log.append(made())
    assert log.read() == ([], Report())
    for use in (log.verify, log.compact, lambda: log.prune(1)):
        with pytest.raises(TuningError, match="there is no log"):
            use()
    assert not (tmp_path / "no").exists()


def test_what_is_to_be_rewritten_is_not_made(tmp_path):
    path = tmp_path / "gone"
    with pytest.raises(TuningError, match="cannot open the log"), files.held(path, make=False):
        pass
    assert not path.exists()


def test_a_link_to_itself(tmp_path):
    log = Log(tmp_path / "loop")
    log.path.symlink_to(log.path)
    with pytest.raises(TuningError, match=r"cannot open the log .*symbolic links"):
        log.append(made())
    with pytest.raises(TuningError, match=r"cannot read the log .*symbolic links"):
        log.read()


def test_no_permission(log, monkeypatch):
    filled(log, made())

    def forbid(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", forbid)
        with pytest.raises(TuningError, match=r"open the log .+: Permission denied; use another"):
            log.append(made())
        with pytest.raises(TuningError, match=r"read the log .+: Permission denied; use another"):
            log.read()
    assert list(log) == [made()]


def short_writes(monkeypatch, most, failure):
    """Each write takes at most some bytes, and fails after that."""
    write, taken = os.write, []

    def short(descriptor, data):
        if sum(taken) >= most:
            raise OSError(failure, os.strerror(failure))
        taken.append(write(descriptor, data[: most - sum(taken)]))
        return taken[-1]

    monkeypatch.setattr(os, "write", short)


@pytest.mark.parametrize("most", [0, 1, 100])
def test_a_full_disk_takes_nothing(log, monkeypatch, most):
    filled(log, made(0))
    before = log.path.read_bytes()
    with monkeypatch.context() as patched:
        short_writes(patched, most, errno.ENOSPC)
        with pytest.raises(TuningError) as caught:
            log.append(made(1))
    assert str(caught.value) == (
        f"cannot write to the log {log.path}: No space left on device; free some space, or use "
        "another file (what was written before is kept)"
    )
    assert log.path.read_bytes() == before
    log.append(made(2))
    assert log.read() == ([made(0), made(2)], Report(good=2))


def test_a_write_in_two_parts_is_finished(log, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:100]))
    log.append(made(0))
    assert log.read() == ([made(0)], Report(good=1))


def test_an_interrupt_between_the_parts_takes_them_back(log, monkeypatch):
    filled(log, made(0))
    write, calls = os.write, []

    def interrupted(descriptor, data):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return write(descriptor, data[:10])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(made(1))
    assert log.read() == ([made(0)], Report(good=1))


# ---- locks


@pytest.fixture
def no_locks(monkeypatch):
    def refuse(descriptor, kind):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(files, "_warned", set())


def test_a_file_system_without_locks(log, no_locks, caplog):
    filled(log, made(0), made(1))
    assert list(log) == [made(0), made(1)]
    assert caplog.messages == [
        f"{log.path} cannot be locked, for its file system has no locks: let one process at a "
        "time write to it"
    ]
    with pytest.raises(TuningError, match=r"cannot rewrite the log .* has no locks"):
        log.compact()


def test_without_locks_a_torn_line_stays(log, no_locks, monkeypatch):
    """What follows it could be another's: it is not cut off, and sealed later."""
    filled(log, made(0))
    with monkeypatch.context() as patched:
        short_writes(patched, 100, errno.ENOSPC)
        with pytest.raises(TuningError, match="No space left"):
            log.append(made(1))
    log.append(made(2))
    assert log.read() == ([made(0), made(2)], Report(good=2, torn=1))


def test_a_lock_that_is_never_released(log, monkeypatch):
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(files, "READER_SECONDS", 0.05)
    filled(log, made(0))
    with files.held(log.path):
        for use in (lambda: log.append(made(1)), log.compact):
            with pytest.raises(TuningError, match=r"process has held its lock for 0 s; end"):
                use()
        assert list(log) == [made(0)]
    log.append(made(1))
    assert list(log) == [made(0), made(1)]


def test_a_reader_waits_for_a_line_to_be_finished(log, monkeypatch):
    filled(log, made(0))
    write, half_written = os.write, threading.Event()

    def slow(descriptor, data):
        if half_written.is_set():
            time.sleep(0.2)
            return write(descriptor, data)
        written = write(descriptor, data[:100])
        half_written.set()
        return written

    monkeypatch.setattr(os, "write", slow)
    writer = threading.Thread(target=log.append, args=(made(1),))
    writer.start()
    half_written.wait()
    assert log.read() == ([made(0), made(1)], Report(good=2))
    writer.join()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_lock(log):
    """It inherits the descriptor of a lock that is held while it is made."""
    reader, writer = os.pipe()
    with files.held(log.path):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    try:
        log.append(made(0))  # would wait for a minute
        assert list(log) == [made(0)]
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
