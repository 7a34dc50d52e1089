"""Requests and replies of measurements on other machines: what fits their schema, and what not."""

import json
import sys
from collections import deque
from types import SimpleNamespace

import pytest

import minitensor as mt
from minitensor.lang import definition_as_python
from minitensor.search import Host, Result, Status
from minitensor.search.runner import remote, there
from minitensor.search.runner.workers import Request, Sent, Worker, worker_of

PROGRAM = mt.lower(mt.workloads.matmul(m=8, n=8, k=8))
HOST = {"cpu": "PDP-11", "cores": 1, "compiler": "cc", "flags": ["-O2"]}


def request(**changed):
    schedule = mt.Schedule(PROGRAM)
    schedule.split("i", [None, 4])
    parts = {"version": there.VERSION, "id": "1", "definition": definition_as_python(PROGRAM)}
    parts |= {"target": mt.Target("c", 1, 128).as_dict(), "settings": {}, "seed": 0, "best": None}
    return json.dumps({**parts, "traces": [schedule.trace.to_json()], **changed})


@pytest.mark.parametrize(
    "text, message",
    [
        ("no JSON", "a request has the parts version, id"),
        (3, "a request has the parts"),
        ("[]", "a request has the parts"),
        (request(more=1), "a request has the parts"),
        (request(version=7), "a request of version 7"),
        (request(traces=[]), "does not fit"),
        (request(traces=[3]), "does not fit"),
        (request(traces="x"), "does not fit"),
        (request(seed=-1), "does not fit"),
        (request(settings={"no_such": 1}), "does not fit"),
        (request(best="fast"), "does not fit"),
        (request(target=[]), "does not fit"),
    ],
)
def test_what_is_no_request_is_refused(text, message):
    with pytest.raises(mt.ArgumentError, match=message):
        there.checked_request(text)
    assert message in json.loads(there.measured(text))["refused"]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"definition": "import os"}, "an import is not of the language"),
        ({"target": mt.Target("c", 999, 128).as_dict()}, "expected candidates for"),
        ({"target": {"kind": "c", "cores": 1}}, "a target of a worker does not fit"),
        ({"traces": ["{}"]}, "not a trace"),
    ],
)
def test_what_cannot_be_made_here_is_refused(changed, message):
    here = json.loads(there.described())["target"]
    assert message in json.loads(there.measured(request(**{"target": here} | changed)))["refused"]


def test_a_result_goes_there_and_back():
    result = Result(Status.OK, (1e-3, 2e-3), 7, "", True, 1, True, spent=0.5)
    sent = json.loads(json.dumps(there.result_as_dict(result)))
    back = there.result_from_dict(sent, Host("PDP-11", 1))
    assert back == Result(Status.OK, (1e-3, 2e-3), 7, "", True, 1, True, spent=0.5, host=back.host)
    assert back.host.cpu == "PDP-11"


def reply(**changed):
    results = [there.result_as_dict(Result(Status.OK, (1e-3,), 1))]
    return json.dumps({"version": 1, "id": "1", "results": results, "host": HOST, **changed})


@pytest.mark.parametrize(
    "text, error, message",
    [
        (None, mt.MeasureError, "none of this version"),
        ("{}", mt.MeasureError, "none of this version"),
        (reply(refused="why"), mt.ArgumentError, "refuses the candidates: why.*--trust MODULE"),
        (reply(error="disk full"), mt.MeasureError, "disk full"),
        (reply(id="2"), mt.MeasureError, "another request"),
        (reply(results=[]), mt.MeasureError, "another request"),
        (reply(results=[3]), mt.MeasureError, "do not fit"),
        (reply(results=[{"status": "fine"}]), mt.MeasureError, "do not fit"),
        (reply(host={}), mt.MeasureError, "do not fit"),
    ],
)
def test_a_reply_that_does_not_fit_is_the_workers_fault(text, error, message):
    with pytest.raises(error, match=message):
        there.results_of(text, "1", 1)
    assert len(there.results_of(reply(), "1", 1)) == 1


def test_unlike_workers_are_of_other_kinds_and_old_ones_are_not_used():
    about = {"minitensor": mt.__version__, "host": HOST, "target": {"kind": "c", "num_cores": 1}}
    about["target"]["vector_bits"] = 128
    one = worker_of("a", about)
    assert not one.reason and one.kind == "PDP-11, 1 cores, 128 bits, cc"
    wide = {**about, "target": {**about["target"], "vector_bits": 256}}
    assert worker_of("b", wide).kind != one.kind
    assert "has minitensor 0.0" in worker_of("c", {**about, "minitensor": "0.0"}).reason
    assert "cannot measure: no compiler" in worker_of("d", {"error": "no compiler"}).reason


def test_a_worker_that_is_slower_twice_is_set_aside():
    """Its candidates are measured elsewhere, and the last worker is never set aside."""
    pool = object.__new__(remote.Remote)
    pool.kind, pool._looked, pool._yardstick = "k", float("inf"), ("d", "t")
    fast, slow = (Worker(name, "k", {}, took=1.0) for name in "ab")
    pool._workers = {"a": fast, "b": slow}
    for expected in ("", "takes 1.50 times as long"):
        found, waiting = {}, deque()
        first = there.result_as_dict(Result(Status.OK, (1.5,), 1))
        sent = Sent(Request([7]), slow, "1", True, 0.0)
        pool._take(waiting, sent, reply(results=[first, first]), found, "d", ["t"] * 8)
        assert not found and waiting[0].numbers == [7] and waiting[0].lost == 0
        assert expected in slow.reason and bool(expected) == bool(slow.reason)
    sent = Sent(Request([7]), fast, "1", True, 0.0)
    pool._take(waiting, sent, reply(results=[first, first]), found, "d", ["t"] * 8)
    assert found[7].ok and not fast.reason


def test_a_scheduler_that_dask_knows_to_be_lost_is_said():
    """Dask's description of a lost scheduler lists no workers."""
    pool = object.__new__(remote.Remote)
    scheduler = SimpleNamespace(address="tcp://server:8786")
    pool._client = SimpleNamespace(scheduler=scheduler, scheduler_info=lambda **_: {})
    pool._looked, pool._workers = float("-inf"), {}
    with pytest.raises(mt.MeasureError, match="the Dask scheduler at tcp://server:8786 is gone"):
        pool._pool()


def test_without_the_extra_the_way_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(mt.ArgumentError, match=r"pip install 'minitensor\[distributed\]'"):
        mt.search.Remote("tcp://127.0.0.1:1")
