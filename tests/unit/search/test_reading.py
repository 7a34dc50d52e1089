"""Logs that were cut, flipped, overwritten: every undamaged record is found, with one warning."""

import json
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitensor.search import Log, Report
from minitensor.search.logfile import CHUNK, SEAL
from minitensor.search.records import LONGEST_LINE, START, encode
from tests.made_records import canonical, failed, made, records

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


@pytest.mark.slow
def test_a_thousand_flipped_bits(read):
    """Each in turn: the record that it is in is lost, and no other; a newline is in none."""
    rng = random.Random(0)
    spans = []
    at = 0
    for line in LINES:
        spans.append((at, at + len(line) - 1))
        at += len(line)
    for _ in range(1000):
        where, bit = rng.randrange(len(TEXT)), rng.randrange(8)
        damaged = bytearray(TEXT)
        damaged[where] ^= 1 << bit
        hit = [n for n, (start, end) in enumerate(spans) if start <= where < end]
        found, report = read(bytes(damaged))
        assert found == [r for n, r in enumerate(RECORDS) if n not in hit], (where, bit)
        last = where == len(TEXT) - 1
        # a newline in the middle of a record makes two bad lines of it
        assert report.skipped in ((1, 2) if hit else (1,)), (where, bit)
        assert report.damaged + report.torn == report.skipped
        assert report.torn == 0 or hit == [len(LINES) - 1] or last


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
        if not any(at in flips for at in range(starts[n], starts[n + 1] - 1))
    ]
    found, report = read(bytes(damaged))
    assert found == whole
    assert 1000 < len(found) < 2000
    assert report.damaged > 500


@pytest.mark.parametrize("size", [1, 3, 4096, 1 << 20, 3 << 20])
def test_blocks_of_nul(read, size):
    """What is left of appended blocks that a file system had not written when power was lost."""
    nul = b"\0" * size
    assert read(TEXT + nul)[0] == RECORDS
    assert read(TEXT + nul)[1].unfinished or size >= LONGEST_LINE
    assert read(nul + TEXT) == (RECORDS, Report(good=3, damaged=1, where=[1]))
    assert read(TEXT + nul + TEXT) == (
        RECORDS + RECORDS,
        Report(good=6, damaged=1, where=[4]),
    )
    middle = len(LINES[0]) + 100
    found, report = read(TEXT[:middle] + nul + TEXT[middle:])
    assert found == [RECORDS[0], RECORDS[2]]
    assert report == Report(good=2, damaged=1, where=[2])
    overwritten = LINES[0] + LINES[1][:-1] + nul + LINES[2]
    assert read(overwritten)[0] == RECORDS[:3]


def test_windows_line_ends(read):
    assert read(TEXT.replace(b"\n", b"\r\n")) == (RECORDS, Report(good=3))
    assert read(b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n")) == (RECORDS, Report(good=3))


def test_old_line_ends(read):
    found, report = read(TEXT.replace(b"\n", b"\r"))
    assert found == RECORDS
    assert report.damaged == 1


def test_newlines_lost(read):
    assert read(TEXT.replace(b"\n", b"")) == (RECORDS, Report(good=3, damaged=1, where=[1]))


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


LONG = LONGEST_LINE + 300_000


@pytest.mark.parametrize(
    "long",
    {
        "blanks": b" " * LONG,
        "a string": START + b"x" * LONG,
        "brackets": b"[" * LONG,
        "beginnings": START * (LONG // len(START)),
        "quotes": b'"\\' * (LONG // 2),
        "digits": b"7" * LONG,
    }.items(),
    ids=lambda item: item[0],
)
def test_a_long_line(read, long):
    found, report = read(LINES[0] + long[1] + b"\n" + LINES[1])
    assert found == RECORDS[:2]
    assert report == Report(good=2, damaged=1, where=[2])
    # and records around it on the same line
    found, report = read(LINES[0][:-1] + long[1] + LINES[1])
    assert found == RECORDS[:2]
    assert report == Report(good=2, damaged=1, where=[1])


def test_the_longest_records_with_a_lost_newline(read):
    """Together they are longer than what is kept in memory."""
    room = LONGEST_LINE - len(encode(made(trace='{"x":""}')))
    longest = [made(n, trace=canonical({"x": "xyz"[n] * room})) for n in range(3)]
    text = b"".join(map(encode, longest))
    assert read(text) == (longest, Report(good=3))
    found, report = read(text.replace(b"\n", b""))
    assert found == longest
    assert report == Report(good=3, damaged=1, where=[1])


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


def test_a_record_where_a_long_line_is_cut(read):
    """Lines are read in chunks; wherever a chunk ends, what begins a record is recognised."""
    for shift in range(len(START) + 2):
        junk = b"x" * ((LONGEST_LINE // CHUNK + 1) * CHUNK - shift)
        assert read(junk + TEXT)[0] == RECORDS, shift


def test_a_line_of_100_megabytes(log):
    """Memory stays below what a few of the longest records take."""
    with open(log.path, "wb") as file:
        file.write(LINES[0])
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\n" + LINES[1])
    tracemalloc.start()
    found, report = log.read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == RECORDS[:2]
    assert report == Report(good=2, damaged=1, where=[2])
    assert peak < 8 * LONGEST_LINE


@given(
    st.lists(
        st.one_of(
            records().map(lambda record: (encode(record), record)),
            st.binary(max_size=30).map(lambda junk: (junk.replace(b"\n", b"") + b"\n", None)),
        ),
        max_size=6,
    )
)
def test_records_between_anything(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("logs") / "log"
    path.write_bytes(b"".join(text for text, _ in parts))
    found, _ = Log(path).read()
    assert found == [record for _, record in parts if record is not None]
