"""Definitions in a log: each once, as text that is never run, and skipped by older versions."""

import json
import threading
import zlib

import pytest

import minitensor as mt
from minitensor.lang import definition_as_python
from minitensor.search import Log, Report, records, workload_key
from minitensor.search.records import (
    LONGEST_LINE,
    Definition,
    Fault,
    decode,
    encode,
    encode_definition,
)
from minitensor.search.workload import names_of
from tests.made_records import KEY, canonical, failed, filled, made
from tests.sent import imported
from tests.unit.search.tune.made import product, tuner_of

PROGRAM = product()
OWN = workload_key(PROGRAM)


def line_of(**data):
    """A line as docs/records.md says a tool may write it."""
    body = canonical(data)
    return f'{{"crc":"{zlib.crc32(body.encode()):08x}",{body[1:]}'.encode()


def definition(workload=KEY, text="program = None"):
    return line_of(definition=text, v=2, workload=workload) + b"\n"


def lines(log):
    return log.path.read_bytes().splitlines(keepends=True)


# ---- a line


def test_the_text_makes_the_program():
    line = encode_definition(PROGRAM)
    found = decode(line[:-1])
    assert found == Definition(OWN, definition_as_python(PROGRAM), tuple(names_of(PROGRAM)))
    assert imported(f"import minitensor as mt\n{found.text}\n").program == PROGRAM
    assert line.isascii() and line.count(b"\n") == 1
    names = names_of(PROGRAM)
    assert line == line_of(definition=found.text, names=names, v=2, workload=OWN) + b"\n"


def test_every_byte_is_under_the_checksum():
    line = encode_definition(PROGRAM)[:-1]
    for at in range(0, len(line), 7):
        assert decode(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]) is Fault.DAMAGED


@pytest.mark.parametrize(
    "data",
    [
        {"definition": 1},
        {"definition": None},
        {"workload": KEY[1:]},
        {"workload": [KEY]},
        {"names": 3},
        {"names": [3]},
        {"v": 3},
        {"v": 2.0},
        {"v": True},
    ],
    ids=str,
)
def test_what_is_no_definition_is_of_another_version(data):
    whole = {"definition": "text", "v": 2, "workload": KEY}
    assert decode(line_of(**whole)) == Definition(KEY, "text")
    assert decode(line_of(**whole, mine=[1])) == Definition(KEY, "text")
    assert decode(line_of(**{**whole, **data})) is Fault.UNKNOWN


def test_a_definition_in_the_first_version_is_no_record():
    assert decode(line_of(definition="text", v=1, workload=KEY)) is Fault.DAMAGED


def test_what_cannot_be_written_is_not_kept(log, monkeypatch):
    s = mt.Schedule(PROGRAM)
    s.split(s.get_loops("C")[0], [None, 4])
    assert encode_definition(s.program) is None
    log.define(s.program)
    assert not log.path.exists()

    short = len(encode_definition(PROGRAM))
    monkeypatch.setattr(records, "LONGEST_LINE", short)
    assert encode_definition(PROGRAM) is not None
    monkeypatch.setattr(records, "LONGEST_LINE", short - 1)
    log.define(PROGRAM)
    assert not log.path.exists()

    def deep(program):
        raise RecursionError

    monkeypatch.setattr(records, "LONGEST_LINE", LONGEST_LINE)
    monkeypatch.setattr(records, "definition_as_python", deep)
    assert encode_definition(PROGRAM) is None


# ---- in a log


def test_a_log_keeps_it_once(log, caplog):
    assert log.definition(PROGRAM) is None
    for _ in range(3):
        log.define(PROGRAM)
    assert log.definition(PROGRAM) == log.definition(OWN) == definition_as_python(PROGRAM)
    assert log.definition(KEY) is None
    filled(log, made(0), made(1))
    assert len(lines(log)) == 3
    assert log.read() == ([made(0), made(1)], Report(good=2, definitions=1))
    assert log.verify().skipped == 0 and not log.verify().faults
    assert not caplog.messages


def test_the_first_of_several_is_read(log):
    log.path.write_bytes(definition(text="junk")[:-9] + b"\n" + definition(text="first"))
    filled(log, made(0, name='"definition"'))
    with open(log.path, "ab") as file:
        file.write(definition(text="second"))
    assert log.definition(KEY) == "first"
    assert log.verify() == Report(good=1, definitions=2, damaged=1, where=[1])


def test_two_writers_at_once_do_no_harm(log):
    threads = [threading.Thread(target=log.define, args=(PROGRAM,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    filled(log, made(0, workload=OWN))
    report = log.verify()
    assert report.good == 1 and 1 <= report.definitions <= 8 and not report.skipped
    log.compact()
    assert log.verify() == Report(good=1, definitions=1)
    assert log.definition(OWN) == definition_as_python(PROGRAM)


def test_rewriting_keeps_one_for_each_workload_that_has_records(log):
    first, again, idle = definition(), definition(text="again"), definition("e" * 32)
    fails = definition("f" * 32)
    slow, fast, bad = made(0, seconds=(2.0,)), made(1, seconds=(1.0,)), failed(2, workload="f" * 32)
    log.path.write_bytes(b"".join([idle, first, encode(slow), again, fails, encode(bad), first]))
    filled(log, fast)
    done = log.compact()
    assert (done.kept, done.dropped, done.report.definitions) == (3, 0, 5)
    assert lines(log) == [first, encode(slow), fails, encode(bad), encode(fast)]
    assert log.prune(1).dropped == 2
    assert lines(log) == [first, encode(fast)]
    log.prune(0)
    assert lines(log) == []


def test_merging_adds_those_that_are_missing(tmp_path):
    other, third = "e" * 32, "f" * 32
    one, two, into = (Log(tmp_path / name) for name in ("one", "two", "into"))
    one.path.write_bytes(definition() + definition(other) + definition(other) + definition(third))
    filled(one, made(0), made(1, workload=other))
    two.path.write_bytes(definition(other, "another text"))
    into.path.write_bytes(definition(text="mine"))
    merged = into.merge([one.path, two.path])
    assert (merged.added, merged.known, merged.report.definitions) == (2, 0, 5)
    assert [into.definition(key) for key in (KEY, other, third)] == ["mine", "program = None", None]
    assert into.verify() == Report(good=2, definitions=2)
    before = lines(into)
    assert into.merge([one.path, two.path]).added == 0
    assert lines(into) == before


def test_merging_finds_the_definition_of_records_that_were_there(tmp_path):
    source, into = Log(tmp_path / "source"), filled(Log(tmp_path / "into"), made(0))
    source.path.write_bytes(definition())
    into.merge([source.path])
    assert into.definition(KEY) == "program = None"


# ---- in a search


def test_a_search_adds_it_when_it_begins(log):
    for trials in (4, 8):
        tuner = tuner_of(PROGRAM, trials, fails=False, log=log)
        tuner.resume(list(log))
        tuner.run()
    data = [json.loads(line) for line in lines(log)]
    assert ["definition" in fields for fields in data] == [True] + [False] * 8
    assert {fields["workload"] for fields in data} == {OWN}
    assert log.definition(PROGRAM) == definition_as_python(PROGRAM)


def test_a_log_that_takes_none_does_not_stop_the_search(log, caplog):
    log.path.mkdir()
    tuner = tuner_of(PROGRAM, 4, fails=False, log=log)
    tuner.run()
    assert len(tuner.tried) == tuner.unrecorded == 4
    assert [text.startswith("the search goes on without its log") for text in caplog.messages] == [
        True
    ]
