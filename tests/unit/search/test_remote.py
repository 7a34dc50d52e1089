"""Requests and replies of measurements on other machines: what fits their schema, and what not."""

import json
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import minitensor as mt
from minitensor.codegen import generate_together
from minitensor.lang import definition_as_python
from minitensor.runtime import find_toolchain
from minitensor.runtime.crossing import compiler_for, spelled_flags
from minitensor.runtime.process import Finished
from minitensor.search import Host, Result, Runner, Settings, Status, Task
from minitensor.search.runner import rounds, there
from minitensor.search.runner.build import text_digest
from minitensor.search.runner.rounds import Request, Round, Sent
from minitensor.search.runner.workers import ONLY_BUILDS, Pool, Worker, worker_of

PROGRAM = mt.lower(mt.workloads.matmul(m=8, n=8, k=8))
HOST = {"cpu": "PDP-11", "cores": 1, "compiler": "cc", "flags": ["-O2"]}


def request(**changed):
    schedule = mt.Schedule(PROGRAM)
    schedule.split("i", [None, 4])
    parts = {"version": there.VERSION, "id": "1", "definition": definition_as_python(PROGRAM)}
    parts |= {"target": mt.Target("c", 1, 128).as_dict(), "settings": {}, "seed": 0, "best": None}
    parts |= {"exact": 0, "compiler": "", "flags": [], "libraries": {}}
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
        (request(exact=-1), "does not fit"),
        (request(target=[]), "does not fit"),
        (request(flags="-O2"), "does not fit"),
        (request(compiler=None), "does not fit"),
        (request(libraries=["x"]), "does not fit"),
        (request(libraries={"../kernel": "eA=="}), "does not fit"),
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
    return json.dumps(
        {"version": there.VERSION, "id": "1", "results": results, "host": HOST, **changed}
    )


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


def pool_of(*workers):
    """A pool of these, which is not looked at again."""
    pool = Pool(SimpleNamespace(scheduler=SimpleNamespace(address="tcp://server:8786")), None)
    pool.kind, pool._looked = "k", float("inf")
    pool.workers = {worker.address: worker for worker in workers}
    return pool


def round_of(pool, count=8, each=1):
    """A round whose requests stay where they are sent."""
    sent = []

    def submit(work, text, workers, **_):
        sent.append((work, json.loads(text), workers[0]))
        return SimpleNamespace(done=lambda: False, cancel=lambda: None)

    pool.client.submit = submit
    schedules, works = [mt.Schedule(PROGRAM)] * count, ("measure", "build")
    common = {"target": {}, "seed": 0, "best": None}
    return Round(pool, None, works, schedules, each, Settings(), common), sent


def test_a_worker_that_is_slower_twice_is_set_aside():
    """Its candidates are measured elsewhere, and the last worker is never set aside."""
    fast, slow = (Worker(name, "k", {}, took=1.0) for name in "ab")
    pool = pool_of(fast, slow)
    made, _ = round_of(pool)
    pool.yardstick = ("d", "t")
    for expected in ("", "takes 1.50 times as long"):
        made.waiting.clear()
        first = there.result_as_dict(Result(Status.OK, (1.5,), 1))
        sent = Sent(Request([7]), slow, "1", True, 0.0)
        made.take(sent, reply(results=[first, first]))
        assert not made.found and made.waiting[0].numbers == [7] and made.waiting[0].lost == 0
        assert expected in slow.reason and bool(expected) == bool(slow.reason)
    assert pool.measuring() == [fast] and 0 < slow.asked - time.monotonic() <= rounds.REST
    sent = Sent(Request([7]), fast, "1", True, 0.0)
    made.take(sent, reply(results=[first, first]))
    assert made.found[7].ok and not fast.reason
    slow.asked = time.monotonic() - 1  # it may have been another program
    assert pool.measuring() == [fast, slow] and slow.doubted and not slow.reason


def test_the_yardstick_is_timed_exactly_whatever_the_best(private_cache):
    """A single early time varies by more than what sets a worker aside."""
    pool = pool_of(Worker("a", "k", {}))
    for yardstick, exact, first in ((None, 0, []), ("yardstick", 1, ["yardstick"])):
        made, sent = round_of(pool, count=1)
        pool.yardstick = yardstick and (made.definition, yardstick)
        made.send()
        assert sent[0][1]["exact"] == exact and sent[0][1]["traces"] == [*first, *made.traces]

    here, text = json.loads(there.described())["target"], mt.Schedule(PROGRAM).trace.to_json()
    parts = {"target": here, "traces": [text, text], "best": 1e-12}
    for exact in (1, 0):
        answer = there.measured(request(**parts, exact=exact))
        first, second = there.results_of(answer, "1", 2)
        assert first.ok and second.ok and second.early
        assert first.early is not bool(exact)
    there._end()


def test_a_scheduler_that_dask_knows_to_be_lost_is_said():
    """Dask's description of a lost scheduler lists no workers."""
    scheduler = SimpleNamespace(address="tcp://server:8786")
    pool = Pool(SimpleNamespace(scheduler=scheduler, scheduler_info=lambda **_: {}), None)
    with pytest.raises(mt.MeasureError, match="the Dask scheduler at tcp://server:8786 is gone"):
        pool.measuring()


# ---- workers that build for others


def about(**changed):
    found = {"minitensor": mt.__version__, "host": HOST, "flags": ["-march=pdp11"]}
    return found | {"target": {"kind": "c", "num_cores": 1, "vector_bits": 128}} | changed


def round_of_two(count):
    """A round with a worker that measures and one that builds, which is returned first."""
    measures, builds = worker_of("a", about()), worker_of("b", about(measures=False))
    pool = pool_of(measures, builds)
    pool.kind = measures.kind
    return builds, *round_of(pool, count)


def test_workers_of_another_kind_build_if_they_have_the_same_compiler():
    one, wide = (
        worker_of("a", about()),
        worker_of("b", about(target=mt.Target("c", 4, 256).as_dict())),
    )
    only = worker_of("c", about(measures=False))
    clang = worker_of("d", about(host={**HOST, "cpu": "VAX", "compiler": "clang"}))
    old = worker_of("e", about(minitensor="0.0", measures=False))
    pool = pool_of(one, wide, only, clang, old)
    pool.kind = one.kind
    assert only.kind == f"{one.kind}, only builds" and only.reason == ONLY_BUILDS
    assert pool.measuring() == [one]
    assert pool.building() == [wide, only]
    assert "c: PDP-11, 1 cores, 128 bits, cc, only builds: nothing yet" in pool.explain()
    assert "e: set aside: e has minitensor 0.0" in pool.explain()
    one.about = about(flags=[])  # its compiler does not say what others would have to do
    assert pool.building() == []


def test_requests_are_built_elsewhere_and_measured_once():
    builds, made, sent = round_of_two(count=4)
    made.send()
    # the first is built elsewhere; the next is measured; what follows may be built before its turn
    assert [(work, to, len(made.waiting)) for work, _, to in sent] == [
        ("build", "b", 2),
        ("measure", "a", 2),
    ]
    assert sent[0][1]["flags"] == ["-march=pdp11"] and sent[0][1]["settings"]["batch"] == 1
    library = {"0" * 64: "eA=="}
    made.take_libraries(made.flying.pop(0), reply(id=sent[0][1]["id"], libraries=library))
    assert builds.built == 1
    made.send()  # and it is measured before others
    assert [to for *_, to in sent[2:]] == ["b", "a"]
    assert sent[3][1]["libraries"] == library and sent[3][1]["traces"] == sent[0][1]["traces"]


def test_a_library_goes_to_workers_with_the_flags_that_it_was_built_with():
    """Processors of one name may be of two generations."""
    old, new = worker_of("a", about()), worker_of("b", about(flags=["-march=pdp12"]))
    builds = worker_of("c", about(measures=False))
    pool = pool_of(old, new, builds)
    pool.kind = old.kind
    made, sent = round_of(pool, count=1)
    made.waiting = deque([Request([0], libraries={}, flags=["-march=pdp12"])])
    made._measure(old, made.waiting[0])
    made._measure(new, made.waiting[0])
    assert old.kind == new.kind
    assert [one["flags"] for _, one, _ in sent] == [[], ["-march=pdp12"]]


def test_who_measures_does_not_wait_for_who_builds():
    _, made, sent = round_of_two(count=1)
    made.send()
    assert [work for work, *_ in sent] == ["build", "measure"]
    assert [one.builds for one in made.flying] == [False]
    assert sent[1][1]["libraries"] == {} and not made.waiting


@pytest.mark.parametrize(
    "answer, idle",
    [
        ({"refused": "its text"}, ""),
        ({"error": "disk full"}, "disk full"),
        ({"libraries": {"x": "y"}}, "do not fit"),
    ],
)
def test_what_cannot_be_built_elsewhere_is_built_where_it_is_measured(answer, idle):
    builds, made, sent = round_of_two(count=2)
    made.send()
    made.take_libraries(made.flying.pop(0), reply(id=sent[0][1]["id"], **answer))
    assert idle in builds.idle and bool(idle) == bool(builds.idle)
    made.send()
    assert [work for work, *_ in sent] == ["build", "measure", "measure"]


def test_a_library_that_was_built_elsewhere_is_measured_here(private_cache):
    here = json.loads(there.described())
    common = {"target": here["target"], "flags": here["flags"]}
    common |= {"compiler": here["host"]["compiler"], "settings": {"batch": 1}}
    built = there.libraries_of(there.built(request(**common)), "1")
    (digest,) = built
    schedule = mt.Schedule(PROGRAM)
    schedule.split("i", [None, 4])
    target = there.target_of(here["target"])
    assert digest == text_digest(generate_together([(schedule.program, target)])[0].source)
    answer = there.measured(request(libraries=built, **common))
    (result,) = there.results_of(answer, "1", 1)
    assert result.ok and result.host.flags == tuple(here["flags"])
    assert "-march=native" not in result.host.flags
    # one that does not load is made here
    spoilt = {digest: there._packed(__file__)}
    (result,) = there.results_of(there.measured(request(libraries=spoilt, **common)), "1", 1)
    assert result.ok and result.host.flags == find_toolchain().flags
    for wrong in ("no base 64", "eA=="):
        answer = json.loads(there.measured(request(libraries={digest: wrong}, **common)))
        assert "a library of the request does not fit" in answer["refused"]
    there._end()


def test_only_flags_of_a_processor_are_taken():
    own = find_toolchain()
    flags = spelled_flags(own)
    if own.family != "gcc":
        assert flags == ()
        return
    assert compiler_for(flags, own.version, own).flags == flags
    assert any(flag.startswith("-march=") for flag in flags) and "-march=native" not in flags
    for flag in ("-fplugin=x", "-o", "x", "-march=x y", "-mdaz-ftz", "@x", "--param=x=1", "-B/tmp"):
        with pytest.raises(mt.ArgumentError, match="is no flag of a processor"):
            compiler_for([*flags, flag], own.version, own)
    with pytest.raises(mt.CompileError, match=r"the compiler here is .*, and not cc 1\.0"):
        compiler_for(flags, "cc 1.0", own)


def test_a_full_disk_is_no_candidates_fault(monkeypatch):
    here = json.loads(there.described())["target"]

    def full(command, folder, time_limit):
        text = "kernel.c:1: fatal error: error writing to x.s: No space left on device"
        return Finished(1, "", text)

    monkeypatch.setattr("minitensor.runtime.cache.run_compiler", full)
    builder = ThreadPoolExecutor(1)
    with Runner(Task.of(PROGRAM, "c"), builder=builder) as runner:
        schedule = mt.Schedule(PROGRAM)
        schedule.split("j", [None, 3])
        with pytest.raises(mt.MeasureError, match=r"nothing can be built: .*No space left.* full"):
            list(runner.measure([schedule]))
    monkeypatch.setattr(there, "Runner", lambda *given: Runner(*given, builder=builder))
    text = request(target=here, traces=[schedule.trace.to_json()])
    assert "nothing can be built" in json.loads(there.measured(text))["error"]
    there._end()


def test_without_the_extra_the_way_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(mt.ArgumentError, match=r"pip install 'minitensor\[distributed\]'"):
        mt.search.Remote("tcp://127.0.0.1:1")
