"""Runner: building together, measuring one at a time, executors, and what is said of failures."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import usable_cores
from minitensor.runtime.module import ffi
from minitensor.search.runner import (
    Built,
    Processes,
    Runner,
    Settings,
    Status,
    Task,
    failures_of,
    nothing_works,
)
from minitensor.search.runner.attempt import MOST_COPIES, Job
from minitensor.search.runner.build import TEXTS
from minitensor.search.runner.timing import compile_lock, timing_lock
from tests.run.search.bad_kernels import doubled, kernel, task

QUICK = Settings(repeats=2, most_repeats=4, budget=0.01, repeat=0.0005, noise=0.5)
REFUSED = """
int broken(const float *A, float *B, void *workspace) { return no_such_thing; }
"""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runner")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITENSOR_CACHE_DIR", str(folder))
        for variable in ("CFLAGS", "OMP_NUM_THREADS"):
            patch.delenv(variable, raising=False)
        yield folder


@pytest.fixture(scope="module")
def program():
    return mt.lower(mt.workloads.matmul(m=16, n=16, k=16))


@pytest.fixture(scope="module")
def products(program):
    return Task.of(program)


@pytest.fixture(scope="module")
def runner(products):
    with Runner(products, QUICK) as runner:
        yield runner


def measured(runner, candidates, best=None):
    return list(runner.measure(candidates, best))


def split(program, factor):
    s = mt.Schedule(program)
    s.split(s.get_loops(s.get_blocks()[0])[0], [None, factor])
    return s


def refused(program, body="int x = no_such_thing;"):
    """A schedule whose text does not compile: the body of its intrinsic is nonsense."""
    a = mt.placeholder((4,), "float32", name="a")
    c = mt.compute((4,), lambda i: a[i] * 2.0, name="c")
    bad = mt.intrinsic("bad", [a, c], c=body, strides={"a": [1], "c": [1]})
    s = mt.Schedule(program)
    (block,) = s.get_blocks()
    _, inner = s.split(s.get_loops(block)[0], [None, 4])
    s.tensorize(inner, bad)
    return s


@pytest.mark.slow
def test_schedules_are_built_together_and_measured(runner, program):
    schedules = [split(program, f) for f in range(1, 1 + 2 * TEXTS * usable_cores())]
    built = runner.build(schedules)
    size = -(-len(schedules) // (TEXTS * usable_cores()))
    assert size > 1
    assert len({b.library for b in built}) == -(-len(schedules) // size)
    results = measured(runner, schedules)
    assert [r.status for r in results] == [Status.OK] * len(schedules)
    for result in results:
        assert 0 < result.median < 0.1
        assert (len(result.times), result.calls) == (1, 1) if result.early else repeated(result)
        assert result.noise >= 0
        assert result.command
    assert not results[0].early, "the first is compared with nothing"
    assert repeated(min(results, key=lambda r: r.median))


def repeated(result):
    """Whether as many repeats were made, of several short calls each, as QUICK asks for."""
    return QUICK.repeats <= len(result.times) <= QUICK.most_repeats and result.calls > 1


@pytest.mark.slow
def test_the_seconds_of_a_candidate_are_accounted_for(runner, program):
    for result in measured(runner, [split(program, factor) for factor in (2, 8)]):
        ledger = result.ledger
        assert ledger.total == pytest.approx(result.spent, abs=2e-4)
        assert min(ledger.emit, ledger.check, ledger.run) > 0.0
        assert ledger.run >= sum(result.times) * result.calls
        assert ledger.propose == 0.0


def test_nothing_to_do(runner):
    assert measured(runner, []) == []


@pytest.mark.slow
def test_a_program_and_a_text_are_candidates_too(runner, program, products):
    results = measured(runner, [program, split(program, 4).program])
    assert [r.status for r in results] == [Status.OK] * 2


@pytest.mark.slow
def test_parallel_kernels():
    program = mt.lower(mt.workloads.matmul(m=64, n=64, k=64))
    s = mt.Schedule(program)
    s.parallel(s.get_loops(s.get_blocks()[0])[0])
    with Runner(Task.of(program, mt.Target("c", num_cores=2)), QUICK) as runner:
        first, second = measured(runner, [s, mt.Schedule(program)])
    assert first.ok, first
    assert second.ok, second


@pytest.mark.slow
def test_only_the_guilty_do_not_compile():
    program = doubled()
    good = [split(program, f) for f in (1, 2, 3, 5, 6, 7)]
    mixed = [*good[:2], refused(program), *good[2:]]
    with Runner(Task.of(program), QUICK) as runner:
        built = runner.build(mixed)
        assert [isinstance(b, Built) for b in built] == [n != 2 for n in range(7)]
        results = measured(runner, mixed)
    assert [r.ok for r in results] == [n != 2 for n in range(7)]
    (failures,) = failures_of(results)
    assert (failures.status, failures.count) == (Status.BUILD, 1)
    assert "no_such_thing" in failures.first
    assert "no_such_thing" in results[2].details


@pytest.mark.slow
def test_only_the_guilty_do_not_load():
    """A call of what is nowhere compiles and links; then the library of all does not load."""
    program = doubled()
    mixed = [split(program, 2), refused(program, "no_such_thing();"), split(program, 3)]
    with Runner(Task.of(program), QUICK) as runner:
        results = measured(runner, mixed)
    assert [r.status for r in results] == [Status.OK, Status.BUILD, Status.OK]
    assert "no_such_thing" in results[1].message


@pytest.mark.slow
def test_a_text_has_a_bound(runner, program):
    schedules = [split(program, factor) for factor in (2, 4)]
    (alone,) = runner.build(schedules[:1])
    room = int(1.2 * len(alone.emitted.source))
    built = runner.build(schedules, replace(QUICK, longest=room))
    assert all(isinstance(one, Built) for one in built)
    assert len({one.library for one in built}) == 2
    for failed in runner.build(schedules, replace(QUICK, longest=500)):
        assert failed.status is Status.BUILD
        assert failed.message.endswith("characters; the limit is 500")


@pytest.mark.slow
def test_what_was_built_and_works_is_not_built_again(products, program, monkeypatch):
    schedules, built = [split(program, factor) for factor in (2, 4)], []
    with Runner(products, QUICK) as runner:
        build = runner.build
        monkeypatch.setattr(runner, "build", lambda some, *rest: built.append(some) or build(some))
        assert [r.status for r in measured(runner, schedules)] == [Status.OK] * 2
        again = split(program, 4)
        results = measured(runner, [again, kernel("broken", products, REFUSED)])
        assert [r.status for r in results] == [Status.OK, Status.BUILD]
        assert built[0] == schedules and len(built[1]) == 1
        library = runner._kept[next(iter(runner._kept))].library
        Path(library).unlink()
        assert measured(runner, schedules[:1])[0].ok, "built anew, for its library is gone"


def test_a_text_that_does_not_compile(runner, products):
    (result,) = measured(runner, [kernel("broken", products, REFUSED)])
    assert result.status is Status.BUILD
    assert "no_such_thing" in result.message
    assert result.command


def test_a_clearly_slower_one_stops_after_its_first_runs(runner, program):
    (alone,) = measured(runner, [program])
    (result,) = measured(runner, [program], best=1e-12)
    assert result.ok
    assert result.early
    assert len(result.times) == 1
    assert not alone.early


@pytest.mark.slow
@pytest.mark.parametrize(("checks", "message"), [(("a", "b", "c"), "c"), ((), "it returned 3")])
def test_a_check_that_fails_while_running(checks, message):
    work = task()
    with Runner(work, QUICK) as runner:
        (result,) = runner.measure([replace(kernel("returns_a_check", work), checks=checks)])
    assert result.status is Status.CHECK
    assert result.message.startswith(message)


@pytest.mark.slow
def test_the_best_of_a_round_counts_within_it():
    work = task()
    with Runner(work, QUICK) as runner:
        results = measured(runner, [kernel(name, work) for name in ("ok_3", "ok_0", "ok_3")])
    assert [r.early for r in results] == [False, False, True]


@pytest.mark.slow
def test_caches_are_emptied(products, program):
    settings = Settings(flush=True, repeats=2, most_repeats=2)
    with Runner(products, settings) as runner:
        (result,) = measured(runner, [program])
    assert result.ok
    assert result.calls == 1


@pytest.mark.slow
def test_inputs_are_those_given_and_results_may_be_off_by_rounding(program):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((16, 16), np.float32) for _ in range(2)]
    with Runner(Task.of(program, inputs=inputs), QUICK) as runner:
        results = measured(runner, [split(program, f) for f in (1, 4)])
    assert [r.status for r in results] == [Status.OK] * 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "float64"])
def test_other_types(dtype):
    a = mt.placeholder((8, 5), dtype, name="A")
    program = mt.lower([a, mt.compute((8, 5), lambda i, j: a[i, j] + a[i, j], name="B")])
    with Runner(Task.of(program), QUICK) as runner:
        (result,) = measured(runner, [program])
    assert result.ok, result


@pytest.mark.slow
def test_no_elements():
    a = mt.placeholder((0, 5), "float32", name="A")
    program = mt.lower([a, mt.compute((0, 5), lambda i, j: a[i, j] + 1.0, name="B")])
    with Runner(Task.of(program), QUICK) as runner:
        (result,) = measured(runner, [program])
    assert result.ok, result


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_any_executor(pool, products, program):
    make = (
        (lambda: ThreadPoolExecutor(1))
        if pool == "threads"
        else (lambda: ProcessPoolExecutor(1, get_context("spawn")))
    )
    with make() as executor, Runner(products, QUICK, builder=executor, measurer=executor) as runner:
        results = measured(runner, [split(program, 4), kernel("broken", products, REFUSED)])
    assert [r.status for r in results] == [Status.OK, Status.BUILD]


def test_what_is_no_candidate(runner, products):
    with pytest.raises(mt.ArgumentError, match="expected a schedule, a program, or emitted text"):
        measured(runner, ["nonsense"])
    with pytest.raises(mt.ArgumentError, match=r"expected a Task \(see Task.of\)"):
        Runner("nonsense")
    with pytest.raises(mt.ArgumentError, match="expected a positive number"):
        Settings(time_limit=0)
    with pytest.raises(mt.ArgumentError, match="at least repeats=3"):
        Settings(most_repeats=2)
    with pytest.raises(mt.ArgumentError, match='expected "c"'):
        Task.of(doubled(), "interpreter")


@pytest.mark.slow
def test_closing_removes_everything(products, program, cache):
    before = {p.name for p in cache.iterdir() if p.is_dir()}
    with Runner(products, QUICK) as runner:
        assert measured(runner, [program])[0].ok
        server, compilers = runner._processes._server.worker, runner._processes._compilers.worker
    assert (server._code, compilers._code) == (0, 0)
    assert {p.name for p in cache.iterdir() if p.is_dir()} == before


@pytest.mark.slow
def test_nothing_works_and_how_to_see_it():
    schedule = refused(doubled())
    with Runner(Task.of(doubled()), QUICK) as doubling:
        results = measured(doubling, [schedule, schedule])
        error = nothing_works(doubling.task, [schedule, schedule], results)
    assert isinstance(error, mt.TuningError)
    assert "none of 2 candidates of" in error.message
    assert "2 not built" in error.message
    assert "no_such_thing" in error.message
    text = str(error)
    assert "s.tensorize(" in text
    command = text.strip().splitlines()[-1].split()
    assert command[:4] == [sys.executable, "-m", "minitensor.search.runner", "reproduce"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "not built" in done.stdout
    assert "no_such_thing" in done.stdout


@pytest.mark.slow
def test_a_failure_that_ran_is_shown_again_too():
    work = task()
    bad = kernel("crashes", work)
    with Runner(work, QUICK) as runner:
        results = measured(runner, [bad])
    error = nothing_works(work, [bad], results)
    assert error.message.startswith("the only candidate of doubled does not work (1 crashed)")
    command = str(error).strip().splitlines()[-1].split()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == f"crashed: {results[0].message}"
    with pytest.raises(mt.ArgumentError, match="all of them failures"):
        nothing_works(work, [], [])


def test_nothing_is_timed_while_something_compiles():
    """Two threads that compile, and two that time: while one times, it is alone."""
    inside, wrong = [], []

    def enter(lock, kind):
        for _ in range(20):
            with lock():
                inside.append(kind)
                seen = list(inside)
                if "timing" in seen and len(seen) > 1:
                    wrong.append(seen)
                time.sleep(0.001)
                inside.remove(kind)

    kinds = [(compile_lock, "compiling"), (compile_lock, "compiling"), (timing_lock, "timing")]
    threads = [threading.Thread(target=enter, args=k) for k in [*kinds, (timing_lock, "timing")]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_waiting_for_the_timing_lock_may_be_given_up():
    class GivenUpError(Exception):
        pass

    def give_up():
        raise GivenUpError

    with compile_lock(), pytest.raises(GivenUpError), timing_lock(give_up):
        pass
    with timing_lock():
        pass


class TestConstants:
    """What constants alone decide is computed before it is timed, and is checked with the rest."""

    @pytest.fixture
    def program(self):
        A, B = mt.placeholder((8, 16), name="A"), mt.placeholder((16, 8), name="B")
        k = mt.reduce_axis(16, name="k")
        C = mt.compute((8, 8), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
        return mt.lower([A, B, C], name="product", constants=[B])

    def packed(self, program):
        s = mt.Schedule(program)
        copy = s.cache_read("C", "B", "global")
        s.transform_layout(copy, lambda i, j: (j, i))
        return s

    @pytest.mark.slow
    def test_are_packed_before(self, program):
        with Runner(Task.of(program), QUICK) as runner:
            (built,) = runner.build([self.packed(program)])
            assert built.early is not None
            assert [b.name for b in built.emitted.params] == ["A", "C", "B_global"]
            assert [b.name for b in built.early.params] == ["B", "B_global"]
            assert built.cold == ("B_global",)
            (plain,) = runner.build([mt.Schedule(program)])
            assert plain.cold == ("B",)
            results = list(runner.measure([self.packed(program), mt.Schedule(program)]))
        assert [result.status for result in results] == [Status.OK, Status.OK]

    def test_calls_take_turns_with_copies_of_them(self, program):
        task = Task.of(program)
        names = [b.name for b in task.params]
        job = Job(Path(), "", names, None, ["B"], 0, [], Path(), QUICK, None)
        arrays = [np.ascontiguousarray(task.arrays[name]) for name in names]
        seen = []
        called = []

        def function(*pointers):
            seen.append([int(ffi().cast("uintptr_t", ffi().cast("void *", p))) for p in pointers])
            called.append([bytes(ffi().buffer(p)) for p in pointers[:-1]])
            return 0

        call = job._in_turns(function, task, arrays, {}, np.empty(8, np.uint8))
        for _ in range(2 * MOST_COPIES + 2):
            call()
        place = names.index("B")
        assert [len({one[n] for one in seen}) for n in range(3)] == [
            MOST_COPIES + 1 if n == place else 1 for n in range(3)
        ]
        assert all(one == called[0] for one in called)

    @pytest.mark.slow
    def test_a_packing_that_is_wrong_is_found(self, program):
        s = self.packed(program)
        (name,) = s.program.temporaries

        def other(node):
            if isinstance(node, mt.ir.Store) and node.buffer == name.name:
                return mt.ir.Store(
                    node.buffer, node.indices, mt.ir.Const(1.0, mt.ir.DType.of("float32"))
                )
            return node

        wrong = s.program.replace(body=mt.ir.rewrite(s.program.body, other))
        with Runner(Task.of(program), QUICK) as runner:
            (result,) = runner.measure([wrong])
        assert result.status is Status.WRONG


@pytest.mark.slow
def test_runners_in_a_context_have_the_same_processes(products, program, monkeypatch):
    other = mt.lower(mt.workloads.softmax(4, 8))
    with Processes() as shared:
        pids = []
        for task, candidate in ((products, program), (Task.of(other), other), (products, program)):
            if len(pids) == 2:  # what was started before does not know of it
                monkeypatch.setenv("CFLAGS", "-g")
            with Runner(task, QUICK) as runner:
                assert [result.status for result in runner.measure([candidate])] == [Status.OK]
            worker = shared.server(Path(), QUICK).worker
            pids.append({worker.pid, shared.compilers.worker.pid})
        assert pids[0] == pids[1] and not pids[0] & pids[2]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids[0] | pids[2])
    with Runner(products, QUICK) as runner:  # has its own again
        runner.prepare()
        assert runner._processes is not shared
