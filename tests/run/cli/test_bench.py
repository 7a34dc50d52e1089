"""`minitensor bench` and `minitensor demo` with native kernels."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import runtime
from minitensor.cli import bench, demo
from minitensor.cli.errors import CommandError
from minitensor.runtime import Pace
from minitensor.search import Log, new_record
from minitensor.search.tune import roofline
from tests.unit.search.tune.made import LIMITS

pytestmark = pytest.mark.usefixtures("processes")

BRIEF = Pace(rounds=2, burst=0.0, warm=0.0, least_calls=1)
NAMES = ["scheduled", "as defined", "numpy"]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(runtime, "QUICK", BRIEF)
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)


@pytest.mark.slow
def test_a_schedule_against_its_definition(run, user_file):
    done = run("bench", f"{user_file}:s", "--quick", "--json")
    assert done.status == 0, done.err
    found = done.json()
    assert list(found["seconds"]) == NAMES
    assert found["flop"] == 2 * 8 * 8 * 4
    assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in found["rounds"].values())
    assert found["times_as_fast_as"]["as defined"] > 0


@pytest.mark.slow
def test_an_operator_is_timed_as_rules_schedule_it(run, user_file, monkeypatch):
    compared, real = [], bench.compare
    monkeypatch.setattr(bench, "compare", lambda *a: compared.append(a[1]) or real(*a))
    done = run("bench", "matmul", "--small", "--quick")
    assert done.status == 0, done.err
    assert "as defined" in done.out and "scheduled by rules, without a trial" in done.out
    assert compared[0].trace == mt.schedule_for(compared[0].history[0]).trace
    assert len(compared[0].trace) > 0
    own = run("bench", f"{user_file}:s", "--quick")
    assert "by rules" not in own.out
    assert run("bench", "matmul", "--small", "--quick", "--json").json()["by_rules"]
    assert not run("bench", f"{user_file}:s", "--quick", "--json").json()["by_rules"]


def test_the_best_of_a_log(run, user_file, tmp_path):
    target = mt.runtime.native_target(mt.Target("c", num_cores=1))
    program = mt.lower(mt.workloads.matmul(m=8, n=8, k=4), name="product")
    s = mt.Schedule(program)
    s.unroll(s.get_loops("C")[2])
    log = Log(tmp_path / "log.jsonl")
    log.append(new_record(program, target, s.trace, seconds=[1e-6]))
    words = ["bench", f"{user_file}:program", "--log", log.path, "--quick"]
    done = run(*words, "--cores", "1")
    assert done.status == 0, done.err
    assert f"{user_file}:program, 1 thread\n" in done.out
    other = run(*words, "--cores", "2")
    assert other.status == 1
    assert "num_cores=2" in other.err


def test_a_wrong_kernel_is_refused():
    definition = mt.lower(mt.workloads.matmul(m=2, n=2, k=2))
    right = [np.zeros((2, 2), "float32")]
    bench.check(definition, right, right, "scheduled")
    with pytest.raises(CommandError, match=r"'scheduled' is wrong: C\[0, 0\] is nan"):
        bench.check(definition, [np.full((2, 2), np.nan, "float32")], right, "scheduled")


def test_a_definition_that_numpy_has_no_words_for(run):
    done = run("bench", "cumsum", "--small", "--quick", "--json")
    found = done.json()
    assert list(found["seconds"]) == NAMES[:2]
    assert "no expression of whole arrays" in found["dropped"]["numpy"]


@pytest.mark.slow
def test_the_demo(run, monkeypatch):
    monkeypatch.setattr(demo, "SIZES", {True: (32, 2), False: (32, 2)})
    done = run("demo", "--quick", "--threads", "1")
    assert done.status == 0, done.err
    for part in ("A definition\n", "trials=2)\n", "Measured in turns\n", "dense, 1 thread\n"):
        assert part in done.out
    found = run("demo", "--quick", "--json").json()
    one = found["python"] == []  # the program as written may be the fastest of two
    assert list(found["seconds"]) == [name for name in NAMES if name != bench.DEFINED or not one]
