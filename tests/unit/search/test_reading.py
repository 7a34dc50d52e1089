"""Logs that were cut, flipped, overwritten: every undamaged record is found, with one warning."""

import json
import random
import zlib

import pytest

from minitensor.search import Report
from minitensor.search.logfile import SEAL
from minitensor.search.records import LONGEST_LINE, encode
from tests.made_records import canonical, failed, made

RECORDS = [made(0), failed(1, name='"quoted" \\ ü \n'), made(2, error='\\"[{"}\\')]
LINES = [encode(record) for record in RECORDS]
TEXT = b"".join(LINES)


@pytest.fixture
def read(log, caplog):
    """Reads bytes as a log: the records, the report, and how many warnings there were."""

    def reading(content):
        log.path.write_bytes(content)
        caplog.clear()
        found, report = log.read()
        assert report.good == len(found)
        warnings = [r for r in caplog.records if r.name == "minitensor"]
        assert len(warnings) == (1 if report.skipped else 0)
        return found, report

    return reading


def test_a_whole_log(read):
    assert read(TEXT) == (RECORDS, Report(good=3))


def test_an_empty_log(read):
    assert read(b"") == ([], Report())
    assert read(b"\n\r\n \n") == ([], Report())


@pytest.mark.slow
def test_cut_at_every_byte(read):
    ends = [len(b"".join(LINES[:n])) for n in range(len(LINES) + 1)]
    for cut in range(len(TEXT) + 1):
        found, report = read(TEXT[:cut])
        # a record is there without its newline, too
        whole = sum(end - 1 <= cut for end in ends[1:])
        assert found == RECORDS[:whole], cut
        clean = cut in ends or cut + 1 in ends
        assert report.unfinished != clean
        assert (report.torn, report.damaged, report.unknown) == (0 if clean else 1, 0, 0)


def test_cut_at_every_byte_and_continued(log):
    """What the next writer appends is on a line of its own, and the torn one is known as such."""
    ends = [len(b"".join(LINES[:n])) for n in range(len(LINES) + 1)]
    more = made(9)
    for cut in range(0, len(TEXT) + 1, 7):
        log.path.write_bytes(TEXT[:cut])
        log.append(more)
        found, report = log.read()
        whole = sum(end - 1 <= cut for end in ends[1:])
        assert found == [*RECORDS[:whole], more], cut
        clean = cut in ends or cut + 1 in ends
        assert report == Report(good=whole + 1, torn=0 if clean else 1)


@pytest.mark.slow
def test_cut_at_every_byte_from_the_front(read):
    for cut in range(len(TEXT) + 1):
        found, report = read(TEXT[cut:])
        lost = sum(len(b"".join(LINES[:n])) < cut for n in range(len(LINES)))
        assert found == RECORDS[lost:], cut
        assert report.torn == 0 or lost == len(LINES)


def test_a_thousand_flipped_bits_at_once(read):
    """In a log of many records: those without a flip are there, in order."""
    rng = random.Random(1)
    many = [made(seed) for seed in range(2000)]
    lines = [encode(record) for record in many]
    damaged = bytearray(b"".join(lines))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    flips = {rng.randrange(len(damaged)): 1 << rng.randrange(8) for _ in range(1000)}
    for at, bit in flips.items():
        damaged[at] ^= bit
    whole = [
        record
        for n, record in enumerate(many)
        if not any(at in flips for at in range(starts[n] - 1, starts[n + 1]))
    ]
    found, report = read(bytes(damaged))
    assert found == whole
    assert 1000 < len(found) < 2000
    assert report.damaged > 500


def test_windows_line_ends(read):
    assert read(TEXT.replace(b"\n", b"\r\n")) == (RECORDS, Report(good=3))


def test_text_of_others(read):
    text = b"[INFO] starting\n" + LINES[0] + b'{"cost": 1.0}\n\n' + LINES[1] + b"bye"
    found, report = read(text)
    assert found == RECORDS[:2]
    assert report == Report(good=2, damaged=2, where=[1, 3], torn=1, unfinished=True)


def test_other_versions(read, caplog):
    body = canonical({**json.loads(LINES[0]), "v": 2}).partition(",")[2].encode()
    newer = b'{"crc":"%08x",%s\n' % (zlib.crc32(b"{" + body), body)
    found, report = read(LINES[0] + newer + newer + LINES[1])
    assert found == RECORDS[:2]
    assert report == Report(good=2, unknown=2)
    assert report.faults == "2 records of another version"


def test_the_warning_sums_up(log, caplog):
    log.path.write_bytes(b"x\n" * 12 + LINES[0] + b"half" + SEAL + b"half")
    log.read()
    (warning,) = caplog.messages
    assert warning == (
        f"{log.path}: skipped 12 damaged lines (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …), "
        "2 unfinished lines (the file ends in one)"
    )


def test_a_record_that_is_too_long(read):
    """Whether it would be seen whole depends on where the file is cut for reading: it never is."""
    room = LONGEST_LINE - len(encode(made(trace='{"x":""}')))
    line = encode(made(trace=canonical({"x": "x" * room})))
    body = b"{" + line.partition(b",")[2].replace(b'"x"', b'"xx"').rstrip()
    longer = b'{"crc":"%08x",%s\n' % (zlib.crc32(body), body[1:])
    assert len(longer) == LONGEST_LINE + 1
    assert read(LINES[0] + longer + LINES[1]) == (
        RECORDS[:2],
        Report(good=2, damaged=1, where=[2]),
    )


@pytest.mark.parametrize("size", [1, 4096, 3 << 20])
def test_blocks_of_nul(read, size):
    """A file system may leave blocks that it had not written when power was lost."""
    nul = b"\0" * size
    assert read(TEXT + nul)[0] == RECORDS
    found, report = read(LINES[0] + LINES[1][:100] + nul + LINES[1][100:] + LINES[2])
    assert found == [RECORDS[0], RECORDS[2]]
    assert report == Report(good=2, damaged=1, where=[2])


def test_a_line_that_is_longer_than_any_record(read):
    long = b"x" * (LONGEST_LINE + 300_000)
    assert read(LINES[0] + long + b"\n" + LINES[1]) == (
        RECORDS[:2],
        Report(good=2, damaged=1, where=[2]),
    )
    found, report = read(LINES[0] + long)
    assert found == RECORDS[:1] and report.unfinished
