"""A log as its users see it: appending, looking up, rewriting, merging, and what goes wrong."""

import errno
import json
import logging
import os
import stat
import threading
import zlib

import pytest

import minitensor as mt
from minitensor.errors import ArgumentError, TuningError
from minitensor.search import Log, Report, new_record, trace_key, workload_key
from minitensor.search import logfile as files
from minitensor.search.logfile import SEAL
from minitensor.search.records import encode
from tests.made_records import KEY, TARGET, failed, filled, made

OTHER = "f" * 32
NARROW = mt.Target("c", num_cores=2, vector_bits=128)


# ---- appending and reading


def test_what_is_appended_is_read(log):
    records = [made(0), failed(1), made(2)]
    filled(log, *records)
    assert log.read() == (records, Report(good=3))
    assert list(log) == records


def test_no_file_is_an_empty_log(log):
    assert log.read() == ([], Report())
    assert list(log) == []
    assert log.best(KEY, TARGET) is None
    assert log.measured(KEY, TARGET) == {}
    assert not log.path.exists()


def test_the_file_is_its_owners_alone(log):
    before = os.umask(0)
    try:
        log.append(made())
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_a_file_with_another_mode_keeps_it(log):
    log.path.touch()
    log.path.chmod(0o644)
    filled(log, made(), made()).compact()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o644


def test_one_write_for_a_record(log, monkeypatch):
    written = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(data) or write(fd, data))
    log.append(made(0))
    assert written == [encode(made(0))]
    with open(log.path, "ab") as file:
        file.write(b"torn")
    written.clear()
    log.append(made(1))
    assert written == [SEAL + encode(made(1))]
    assert log.read() == ([made(0), made(1)], Report(good=2, torn=1))


def test_fsync(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    Log(tmp_path / "plain").append(made())
    assert synced == []
    Log(tmp_path / "sure", fsync=True).append(made())
    assert len(synced) == 2  # the folder, for the file is new, and the file
    Log(tmp_path / "sure", fsync=True).append(made())
    assert len(synced) == 3


def test_threads_share_a_log(log):
    def work(number):
        for n in range(50):
            log.append(made(number * 1000 + n))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records, report = log.read()
    assert sorted(r.seed for r in records) == [t * 1000 + n for t in range(4) for n in range(50)]
    assert report == Report(good=200)


def test_no_descriptor_is_left_open(log):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    filled(log, made(0), made(1)).read()
    log.best(KEY, TARGET)
    log.compact()
    log.prune(1)
    log.verify()
    next(iter(log))
    os.mkfifo(log.path.with_name("pipe"))
    for path in (log.path.parent, log.path.with_name("pipe")):
        with pytest.raises(ArgumentError):
            Log(path).append(made())
        with pytest.raises(ArgumentError):
            Log(path).read()
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


# ---- looking up


def test_the_best_of_a_workload_and_a_target(log):
    records = [
        made(0, seconds=(0.5, 0.2)),
        made(1, seconds=(0.3,)),
        failed(2),
        made(3, seconds=(0.1,), workload=OTHER),
        made(4, seconds=(0.1,), target=NARROW),
    ]
    filled(log, *records)
    assert log.best(KEY, TARGET) == records[1]  # by the median: one lucky repeat wins nothing
    assert log.ranked(KEY, TARGET) == [records[1], records[0]]
    assert log.best(OTHER, TARGET) == records[3]
    assert log.best(KEY, NARROW) == records[4]
    assert log.best(OTHER, NARROW) is None


def test_only_failures(log):
    filled(log, failed(0))
    assert log.best(KEY, TARGET) is None
    assert list(log.measured(KEY, TARGET).values()) == [failed(0)]


def test_nothing_is_measured_twice(log):
    """A search that resumes sees what was tried, failures too, under the key of the trace."""
    program = mt.lower(mt.workloads.matmul(m=8, n=8, k=8))
    traces = []
    for factor in (1, 2, 4, 8):
        s = mt.Schedule(program)
        s.split("i", [None, factor])
        traces.append(s.trace)
    log.append(new_record(program, TARGET, traces[0], seconds=[1.0]))
    log.append(new_record(program, TARGET, traces[1], status="not built", error="why"))
    log.append(new_record(program, TARGET, traces[1], seconds=[2.0]))
    log.append(new_record(program, TARGET, traces[1], status="not built", error="why"))
    log.append(new_record(program, NARROW, traces[2], seconds=[1.0]))
    measured = log.measured(program, TARGET)
    assert [trace_key(t) in measured for t in traces] == [True, True, False, False]
    assert measured[trace_key(traces[1])].seconds == (2.0,)
    assert measured == log.measured(workload_key(program), TARGET)
    assert trace_key(traces[2]) in log.measured(program, NARROW)


def test_a_target_that_is_no_target(log):
    with pytest.raises(ArgumentError, match="target"):
        log.best(KEY, "gpu")
    with pytest.raises(ArgumentError, match="a program"):
        log.best(3, TARGET)


# ---- rewriting


def lines(log):
    return log.path.read_bytes().splitlines(keepends=True)


def damaged(log):
    """Two records, one of them twice, among what is no record."""
    newer = b'{"crc":"%08x","v":2}\n' % zlib.crc32(b'{"v":2}')
    first, second = encode(made(0)), encode(made(1))
    log.path.write_bytes(
        b"junk\n" + first + newer + b"\0\0" + second + first + b"to" + SEAL + newer + b"tail"
    )
    return [first, newer, second]


def test_compact(log):
    wanted = damaged(log)
    done = log.compact()
    assert lines(log) == wanted
    assert (done.kept, done.dropped) == (2, 1)
    assert done.report == Report(good=3, unknown=2, torn=2, unfinished=True, damaged=1, where=[1])
    assert log.verify() == Report(good=2, unknown=1)
    assert log.compact().dropped == 0
    assert lines(log) == wanted


def test_compact_keeps_what_is_asked_for(log):
    filled(log, *[made(n) for n in range(6)])
    done = log.compact(lambda record: record.seed % 2 == 0)
    assert [r.seed for r in log] == [0, 2, 4]
    assert (done.kept, done.dropped) == (3, 3)


def test_a_question_that_fails_leaves_the_log(log):
    filled(log, made(0))

    def fail(record):
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        log.compact(fail)
    assert list(log) == [made(0)]
    assert os.listdir(log.path.parent) == [log.path.name]


def test_fields_of_others_survive(log):
    line = encode(made(0))
    body = json.dumps({**json.loads(line), "zebra": 1}, separators=(",", ":")).encode()
    rest = body.partition(b",")[2]
    log.path.write_bytes(b'{"crc":"%08x",%s\n' % (zlib.crc32(b"{" + rest), rest))
    before = lines(log)
    assert log.compact().kept == 1
    assert lines(log) == before
    assert b'"zebra":1' in before[0]


def test_prune(log):
    times = (0.5, 0.1, 0.4, 0.2, 0.3)
    filled(log, *[made(n, seconds=(t,)) for n, t in enumerate(times)], failed(5))
    filled(log, made(6, workload=OTHER), made(7, target=NARROW))
    done = log.prune(2)
    assert [r.seed for r in log] == [1, 3, 6, 7]
    assert (done.kept, done.dropped) == (4, 4)
    assert log.prune(0).kept == 0
    assert log.path.read_bytes() == b""


def test_prune_that_keeps_failures(log):
    filled(log, failed(0), made(1, seconds=(0.2,)), made(2, seconds=(0.1,)), failed(3))
    assert log.prune(1, failed=True).kept == 3
    assert [r.seed for r in log] == [0, 2, 3]


@pytest.mark.parametrize("best", [-1, 1.0, True, None, "1"])
def test_a_number_that_makes_no_sense(log, best):
    filled(log, made())
    with pytest.raises(ArgumentError, match="best"):
        log.prune(best)


def test_writers_find_the_file_that_took_the_place(log, monkeypatch):
    """A writer that had opened the old file when it was replaced begins again."""
    filled(log, made(0), made(0))
    lock, calls = files._lock, []

    def replaced_meanwhile(name, descriptor, kind, deadline):
        if not calls:
            calls.append(descriptor)
            Log(log.path).compact()
        return lock(name, descriptor, kind, deadline)

    monkeypatch.setattr(files, "_lock", replaced_meanwhile)
    log.append(made(1))
    assert calls
    assert list(log) == [made(0), made(1)]


def test_writers_make_a_file_that_was_removed(log, monkeypatch):
    filled(log, made(0))
    lock, calls = files._lock, []

    def removed_meanwhile(name, descriptor, kind, deadline):
        if not calls:
            calls.append(log.path.unlink())
        return lock(name, descriptor, kind, deadline)

    monkeypatch.setattr(files, "_lock", removed_meanwhile)
    log.append(made(1))
    assert list(log) == [made(1)]


def test_a_reader_keeps_the_file_that_it_began_with(log):
    filled(log, *[made(n) for n in range(3)])
    reader = iter(log)
    assert next(reader) == made(0)
    log.prune(0)
    log.append(made(9))
    assert list(reader) == [made(1), made(2)]


def test_a_reader_sees_what_was_there_when_it_began(log):
    filled(log, made(0), made(1))
    reader = iter(log)
    assert next(reader) == made(0)
    log.append(made(2))
    assert list(reader) == [made(1)]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    target = tmp_path / "disk" / "real.jsonl"
    link = Log(tmp_path / "tuning.jsonl")
    link.path.symlink_to(target)
    filled(link, made(0), made(0))
    link.compact()
    assert link.path.is_symlink() and not target.is_symlink()
    assert list(Log(target)) == [made(0)]
    assert sorted(os.listdir(tmp_path / "disk")) == ["real.jsonl"]


def test_what_a_killed_process_left_beside_is_swept(log):
    filled(log, made(0))
    beside = log.path.with_name(f".{log.path.name}.new")
    beside.write_bytes(b"half")
    log.compact()
    assert not beside.exists()
    assert list(log) == [made(0)]


def test_a_rewrite_that_fails_leaves_the_log(log, monkeypatch):
    filled(log, made(0), made(0))
    before = log.path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(TuningError, match=r"cannot rewrite .*: No space left on device; free"):
        log.compact()
    assert log.path.read_bytes() == before
    assert os.listdir(log.path.parent) == [log.path.name]


# ---- merging


def test_merge(tmp_path, caplog):
    one = filled(Log(tmp_path / "one"), made(0), made(1))
    two = filled(Log(tmp_path / "two"), made(1), made(2), made(2))
    with open(two.path, "ab") as file:
        file.write(b"junk\n")
    into = filled(Log(tmp_path / "into"), made(0))
    merged = into.merge([one.path, str(two.path), into.path])
    assert list(into) == [made(0), made(1), made(2)]
    assert (merged.added, merged.known) == (2, 3)
    assert merged.report == Report(good=5, damaged=1, where=[4])
    assert caplog.messages == [f"{one.path}, {two.path}, {into.path}: skipped 1 damaged line (4)"]
    assert into.merge([one.path, two.path]).added == 0
    assert list(one) == [made(0), made(1)]


def test_merge_of_what_is_not_there(tmp_path):
    into = Log(tmp_path / "into")
    with pytest.raises(TuningError, match=r"there is no log .+nothing"):
        into.merge([tmp_path / "nothing"])
    assert not into.path.exists()


def test_merge_seals_what_it_follows(tmp_path):
    one = filled(Log(tmp_path / "one"), made(0))
    into = Log(tmp_path / "into")
    into.path.write_bytes(b"torn")
    into.merge([one.path])
    assert lines(into) == [b"torn" + SEAL, encode(made(0))]


def test_a_damaged_log_warns_once(log, caplog):
    caplog.set_level(logging.DEBUG, "minitensor")
    damaged(log)
    for use in (log.read, lambda: log.best(KEY, TARGET), lambda: log.measured(KEY, TARGET)):
        caplog.clear()
        use()
        assert len(caplog.messages) == 1
    caplog.clear()
    assert log.verify().damaged == 1
    assert caplog.messages == []
