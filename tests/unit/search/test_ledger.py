"""The ledger: seconds by phase, of a candidate and of a search."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.search import Ledger, Log, Result, Status, new_record
from minitensor.search.records import Fault, decode, encode
from tests.unit.search.tune.made import TARGET, product, tuner_of

SECONDS = st.floats(0, 1e6)
LEDGERS = st.builds(Ledger, *[SECONDS] * 6)


@given(LEDGERS, LEDGERS)
def test_it_is_a_mapping_and_a_sum(a, b):
    assert list(a) == ["propose", "emit", "compile", "check", "run", "wait"]
    assert all(a[phase] == getattr(a, phase) for phase in a)
    assert dict(a + b) == {phase: a[phase] + b[phase] for phase in a}
    assert a.total == pytest.approx(sum(a.values()))


@given(LEDGERS, SECONDS)
def test_the_rest_of_a_total_is_in_one_phase(ledger, more):
    whole = ledger.rest_is("wait", ledger.total + more)
    assert whole.total == pytest.approx(ledger.total + more)
    assert {**whole, "wait": 0} == {**ledger, "wait": 0}
    assert ledger.rest_is("wait", 0.0) == ledger  # never less than none


@given(LEDGERS)
def test_a_record_keeps_it(ledger):
    record = new_record(product(), TARGET, mt.Trace(), seconds=(1e-3,), ledger=ledger)
    read = decode(encode(record).rstrip(b"\n"))
    assert read.ledger == Ledger.parsed(ledger.rounded())
    assert dict(read.ledger) == pytest.approx(dict(ledger), abs=1e-4)


def test_a_record_without_one_is_as_it_was():
    record = new_record(product(), TARGET, mt.Trace(), seconds=(1e-3,))
    assert b"ledger" not in encode(record)


@pytest.mark.parametrize("wrong", [[], "run", 3, {"run": -1.0}, {"run": "1"}, {"run": None}])
def test_a_line_with_another_is_damaged(wrong):
    good = encode(new_record(product(), TARGET, mt.Trace(), seconds=(1e-3,)))
    body = json.dumps({**json.loads(good), "ledger": wrong}, sort_keys=True, separators=(",", ":"))
    body = "{" + body[len('{"crc":"00000000",') :]
    line = b'{"crc":"%08x",%s' % (zlib.crc32(body.encode()), body[1:].encode())
    assert decode(line) is Fault.DAMAGED


def test_phases_of_a_later_version_are_left_out():
    assert Ledger.parsed({"run": 1.0, "think": 2.0}) == Ledger(run=1.0)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "1", None, True])
def test_what_are_no_seconds_is_refused(wrong):
    with pytest.raises(mt.ArgumentError, match="emit"):
        Ledger(emit=wrong)


def test_there_is_no_other_phase():
    with pytest.raises(KeyError):
        Ledger()["total"]


def test_shares_begin_with_the_largest():
    assert str(Ledger(propose=1, run=3)) == "run 75%, propose 25%"
    assert Ledger(1, 2, 3).shares(2) == "compile 50%, emit 33%"
    assert str(Ledger()) == ""


class Accounting:
    """A runner that keeps a ledger of what it does not do."""

    def measure(self, schedules, best=None):
        for _ in schedules:
            yield Result(Status.OK, (1e-3,), 1, spent=0.0, ledger=Ledger(emit=3.0, run=4.0))


def test_a_search_adds_up_what_its_runner_says(tmp_path):
    log = Log(tmp_path / "log.jsonl")
    tuner = tuner_of(product(), 8, log=log)
    tuner.runner = Accounting()
    tuner.run()
    asked = tuner.ledger.emit / 3.0  # the incumbent may have been measured again
    assert asked >= 8
    assert tuner.ledger.run == 4.0 * asked
    assert tuner.ledger.compile == 0.0
    assert all(record.ledger == Ledger(emit=3.0, run=4.0) for record in log)


def test_a_runner_that_keeps_none_only_runs():
    tuner = tuner_of(product(), 8)
    tuner.run()
    assert tuner.ledger.run > 0.0
    assert tuner.ledger.total == tuner.ledger.run
