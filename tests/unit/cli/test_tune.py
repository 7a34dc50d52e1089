"""`minitensor tune`, without a compiler: its words, and what it prints of a search that is made up.

The searches themselves are in tests/run/cli/test_tune.py.
"""

import dataclasses
import json

import pytest

import minitensor as mt
from minitensor.cli import tune as command
from minitensor.looks import readable_seconds
from minitensor.search.tune import roofline
from tests.unit.search.tune.made import LIMITS, found, product

PRODUCT = ("tune", "matmul", "--size", "m=48,n=48,k=48")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Logs are made in the folder where a command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)


@pytest.fixture
def search(monkeypatch):
    """In the place of a search: what it was asked for, and how it ends."""

    class Search:
        result, told = found()
        asked = None
        tells, raises = True, None

        def __call__(self, program, target, trials, **asked):
            self.asked = {"program": program, "target": target, "trials": trials, **asked}
            if self.tells:
                for progress in self.told:
                    asked["callbacks"][0](progress)
            if self.raises is not None:
                raise self.raises
            return self.result

    search = Search()
    monkeypatch.setattr(command, "tune", search)
    monkeypatch.setattr(command, "find_toolchain", lambda: None)
    return search


# ---- words


@pytest.mark.slow
def test_words_of_the_search_reach_it(run, search):
    assert run(*PRODUCT).status == 0
    assert search.asked["sketch_policy"] == "uniform"
    assert (search.asked["mutation_policy"], search.asked["history"]) == ("fixed", None)
    words = ("--sketch-policy", "ucb", "--mutation-policy", "learned")
    assert run(*PRODUCT, *words, "--history", "a", "--history", "b").status == 0
    assert (search.asked["sketch_policy"], search.asked["mutation_policy"]) == ("ucb", "learned")
    assert search.asked["history"] == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["matmull"], "there is no operator 'matmull'; did you mean matmul"),
        (["matmul", "--trials", "0"], "--trials must be at least 1, but is 0"),
        (["matmul", "--seed", "-1"], "--seed must be at least 0, but is -1"),
        (["matmul", "--time-limit", "nan"], "--time-limit must be at least 0, but is nan"),
        (["matmul", "--patience", "0"], "--patience must be at least 1, but is 0"),
        (["matmul", "--target", "interpreter"], "the interpreter is as slow with one schedule"),
        (["matmul", "--strategy", "luck"], "invalid choice: 'luck'"),
        (["matmul", "--rules", "mine"], "invalid choice: 'mine'"),
        (["matmul", "--sketch-policy", "luck"], "invalid choice: 'luck'"),
        (["matmul", "--mutation-policy", "luck"], "invalid choice: 'luck'"),
        (["matmul", "--size", "q=3"], "matmul has no argument 'q'"),
        ([], "the following arguments are required: subject"),
    ],
)
def test_wrong_words_are_status_2(run, search, words, said):
    done = run("tune", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert search.asked is None


def test_what_has_steps_is_no_definition(run, search, user_file, trace_file):
    done = run("tune", f"{user_file}:s")
    assert done.status == 2
    assert "a search starts from a definition, and" in done.err
    done = run("tune", "matmul", "--small", "--trace", trace_file)
    assert done.status == 2
    assert "unrecognized arguments: --trace" in done.err
    assert run("tune", f"{user_file}:program").status == 0
    assert search.asked["program"].name == "product"


def test_no_compiler(run, no_compiler):
    done = run(*PRODUCT)
    assert (done.status, done.out) == (1, "")
    assert "minitensor tune: error: " in done.err
    assert "no C compiler" in done.err


@pytest.mark.parametrize("option", ["--log", "--output"])
def test_files_that_cannot_be_written_are_told_before_the_search(run, search, tmp_path, option):
    for name, said in (
        (tmp_path / "missing" / "a", f"there is no folder {tmp_path / 'missing'}"),
        (tmp_path, "it is a folder"),
        ("a" * 300, "File name too long"),
    ):
        done = run(*PRODUCT, option, name)
        assert done.status == 1
        assert f"cannot write {name}: {said}" in done.err
    assert search.asked is None


def test_plots_that_cannot_be_drawn_are_told_before_the_search(run, search, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(*PRODUCT, "--plot", tmp_path / "file")
    assert done.status == 1
    assert "file: it is a file, no folder" in done.err
    assert search.asked is None


def test_what_is_asked_of_the_search(run, search):
    run(*PRODUCT)
    asked = search.asked
    assert asked["program"] == mt.lower(mt.workloads.matmul(m=48, n=48, k=48), name="matmul")
    assert (asked["target"], asked["trials"]) == (mt.Target("c"), 64)
    assert asked["log"].path.name == "tuning.jsonl"
    assert (asked["resume"], asked["seed"]) == (True, 0)
    assert (asked["rules"], asked["strategy"], asked["progress"]) == ("default", "evolution", True)
    words = "--trials 9 --log b.jsonl --no-resume --seed 7 --rules ansor --strategy grid --quiet"
    run(*PRODUCT, *words.split(), "--cores", "3", "--vector-bits", "128")
    asked = search.asked
    assert (asked["target"], asked["trials"]) == (mt.Target("c", 3, 128), 9)
    assert asked["log"].path.name == "b.jsonl"
    assert (asked["resume"], asked["seed"]) == (False, 7)
    assert (asked["rules"], asked["strategy"], asked["progress"]) == ("ansor", "grid", False)


# ---- what is printed


def test_the_figures_and_the_schedule(run, search):
    done = run(*PRODUCT)
    assert (done.status, done.err) == (0, "")
    first, *steps, last = done.out.splitlines()
    result = search.result
    failed = sum(result.failures.values())
    assert first.startswith(f"product: {readable_seconds(result.seconds)}, ")
    assert first.endswith(
        f" % of peak, the fastest of {len(result.tried)}, of which {failed} failed"
    )
    assert [step.strip() for step in steps] == result.trace.as_python().splitlines()
    assert last == (
        "kept in tuning.jsonl; again, without a search: mt.load_best('tuning.jsonl', program)"
    )


def test_explained(run, search):
    done = run(*PRODUCT, "--explain")
    assert done.status == 0
    assert done.out.startswith(search.result.explain())


def test_json(run, search):
    done = run(*PRODUCT, "--json", "--seed", "4")
    assert (done.status, done.err) == (0, "")
    report, result = done.json(), search.result
    assert report["best_seconds"] == result.seconds
    assert report["gflops"] == pytest.approx(2 * 48**3 / result.seconds / 1e9)
    assert report["of_peak"] == pytest.approx(report["gflops"] / 100.0)
    assert report["limits"]["peak"] == 100.0
    assert (report["trials"], report["known"]) == (len(result.tried), 0)
    assert report["failures"] == dict(result.failures)
    assert report["curve"][-1] == result.seconds
    assert report["correlation"] == search.told[-1].correlation
    assert (report["seed"], report["log"]) == (4, "tuning.jsonl")
    assert mt.Trace.from_json(json.dumps(report["trace"])) == result.trace
    assert report["python"] == result.trace.as_python().splitlines()
    assert (report["interrupted"], report["plots"]) == (False, [])


def test_a_curve_that_begins_with_failures_is_json_still(run, search):
    first = dataclasses.replace(
        search.result.tried[0], status="crashed", seconds=float("inf"), error="signal 11"
    )
    tried = (first, *search.result.tried[1:])
    search.result = dataclasses.replace(search.result, tried=tried)
    assert run(*PRODUCT, "--json").json()["curve"][0] is None


def test_the_trace_is_written_where_it_is_asked_for(run, search, tmp_path):
    assert run(*PRODUCT, "-o", "best.json").status == 0
    written = mt.Trace.from_json((tmp_path / "best.json").read_text())
    assert written.apply(product()).program == search.result.schedule.program


@pytest.mark.slow
def test_plots(run, search, tmp_path):
    done = run(*PRODUCT, "--plot", "pictures")
    assert "drawn: pictures/curve.svg\n" in done.out
    assert len(list((tmp_path / "pictures").iterdir())) == done.out.count("drawn: ") == 4


# ---- Ctrl-C


def test_interrupted_with_something_found(run, search):
    search.result = dataclasses.replace(search.result, interrupted=True)
    done = run(*PRODUCT)
    assert done.status == 130
    count = len(search.result.tried)
    assert done.err == (
        f"\nstopped; {count} candidates are kept in tuning.jsonl: the same command goes on from "
        "there\n"
    )
    assert done.out.startswith("product: ")
    again = run(*PRODUCT, "--no-resume", "--json")
    assert again.status == 130
    assert again.json()["interrupted"] is True
    assert "the same command, without --no-resume, goes on from there" in again.err


def test_interrupted_before_anything_worked(run, search):
    search.raises = KeyboardInterrupt()
    done = run(*PRODUCT)
    assert (done.status, done.out) == (130, "")
    assert f"stopped; {search.told[-1].trials} candidates are kept in" in done.err
    assert done.err.endswith("\ninterrupted\n")


def test_interrupted_before_anything_was_tried(run, search):
    search.raises, search.tells = KeyboardInterrupt(), False
    done = run(*PRODUCT)
    assert (done.status, done.out) == (130, "")
    assert "stopped before anything was tried" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--history", "damaged", "--quiet"], "logs of searches as --history, but damaged is none"),
        (["--strategy", "random", "--history", "empty"], "--history is for a model"),
        (["--strategy", "random", "--sketch-policy", "ucb"], "--sketch-policy is a part of"),
    ],
)
def test_refusals_name_the_options(words, told, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged").write_text("no record\n")
    (tmp_path / "empty").touch()
    found = run(*PRODUCT, *words)
    assert found.status == 1 and told in found.err and "history=" not in found.err
