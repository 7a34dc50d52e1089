"""`minitensor log`, without a compiler."""

import json
from pathlib import Path

import pytest

import minitensor as mt
from minitensor.search import Log, new_record
from tests.made_records import TARGET, failed, filled, made


@pytest.fixture
def path(tmp_path):
    """Two workloads: one with a schedule and a failure, one with two records of no steps."""
    program = mt.lower(mt.workloads.matmul(m=8, n=8, k=8), name="product")
    s = mt.Schedule(program)
    s.split("i", [None, 4])
    log = Log(tmp_path / "tuning.jsonl")
    log.append(new_record(program, TARGET, s.trace, seconds=[2e-6, 1e-6]))
    log.append(new_record(program, TARGET, s.trace, status="not built", error="no\x1b[31m room"))
    filled(log, made(0, flop=0), made(1, flop=0, seconds=(0.125,)))
    return log.path


def damage(path):
    with open(path, "ab") as file:
        file.write(b"junk\n")


def test_show(run, path):
    done = run("log", "show", path)
    assert (done.status, done.err) == (0, "")
    heading, first, second = done.out.splitlines()
    assert heading.split() == ["workload", "target", "records", "failed", "best", "GFLOP/s", "last"]
    assert first.split()[0] == "product"
    assert "c, 2 cores, 256 bits" in first
    assert first.split()[-7:-2] == ["2", "1", "1.5", "µs", "0.6827"]
    assert "0123456789ab" in second
    assert second.split()[-7:] == ["2", "0", "125", "ms", "-", "2025-03-01", "12:00"]


def test_show_records(run, path):
    done = run("log", "show", path, "--records")
    assert done.status == 0
    assert len(done.out.splitlines()) == 5
    assert done.out.splitlines()[2].endswith("-        -  not built: no?[31m room")


def test_show_as_json(run, path):
    groups = run("log", "show", path, "--json").json()
    assert [g["records"] for g in groups] == [2, 2]
    assert groups[0]["best_seconds"] == 1.5e-6
    assert groups[0]["target"] == {"kind": "c", "num_cores": 2, "vector_bits": 256}
    assert groups[1]["gflops"] is None
    records = run("log", "show", path, "--json", "--records", "--workload", "product").json()
    assert [r["status"] for r in records] == ["ok", "not built"]
    assert records[1]["best_seconds"] is None


def test_best(run, path):
    done = run("log", "best", path)
    assert (done.status, done.err) == (0, "")
    first, second = done.out.split("\n\n")
    assert first.startswith("product  ")
    assert "1.5 µs, 0.6827 GFLOP/s (best of 2), on " in first
    assert first.splitlines()[-1] == "    i_0, i_1 = s.split('i', [None, 4])"
    assert "125 ms (best of 2), on a CPU, 2025-03-01T12:00:00.000Z" in second
    assert second.splitlines()[-1] == "    # no steps"


@pytest.mark.parametrize("name", ["product", "0123", "01"])
def test_best_of_one_workload(run, path, name):
    (best,) = run("log", "best", path, "--workload", name, "--json").json()
    assert best["seconds"] == ([2e-6, 1e-6] if name == "product" else [0.125])
    assert mt.Trace.from_json(json.dumps(best["trace"])).as_python().splitlines() == best["python"]


def test_best_with_a_trace_that_cannot_be_read(run, tmp_path):
    log = filled(Log(tmp_path / "log"), made(trace='{"x":"\\u001b[2J"}'))
    done = run("log", "best", log.path)
    assert done.status == 0
    assert "its trace cannot be read: not a trace" in done.out
    assert "\x1b" not in done.out
    assert run("log", "best", log.path, "--json").json()[0]["python"] is None


def test_names_cannot_write_to_the_terminal(run, tmp_path):
    log = filled(Log(tmp_path / "log"), made(name="\x1b[2Jname\n"), failed(0, status="\x07"))
    for words in (["show"], ["show", "--records"], ["best"]):
        done = run("log", *words[:1], log.path, *words[1:])
        assert done.status == 0
        assert not set(done.out) & {"\x1b", "\x07"}


def test_only_failures(run, tmp_path):
    log = filled(Log(tmp_path / "log"), failed())
    assert run("log", "best", log.path).out == "no records of candidates that worked\n"
    assert run("log", "best", log.path, "--json").json() == []
    assert "-" in run("log", "show", log.path).out.splitlines()[1].split()


def test_an_empty_log(run, tmp_path):
    (tmp_path / "log").touch()
    assert run("log", "show", tmp_path / "log").out == "no records\n"
    assert run("log", "show", tmp_path / "log", "--json").json() == []
    assert run("log", "verify", tmp_path / "log").status == 0


def test_several_files(run, path, tmp_path):
    other = filled(Log(tmp_path / "other"), made(2, flop=0, seconds=(0.0625,)))
    (best,) = run("log", "best", path, other.path, "--workload", "matmul", "--json").json()
    assert best["seed"] == 2


def test_a_damaged_log_is_shown_with_a_warning(run, path, caplog):
    damage(path)
    done = run("log", "show", path)
    assert done.status == 0
    assert len(done.out.splitlines()) == 3
    assert caplog.messages == [f"{path}: skipped 1 damaged line (5)"]


def test_merge(run, path, tmp_path):
    into = tmp_path / "all.jsonl"
    done = run("log", "merge", path, path, "--into", into)
    assert (done.status, done.out) == (0, f"{into}: 4 records added, 4 were there already\n")
    merged = run("log", "merge", path, "--into", into, "--json").json()
    assert (merged["added"], merged["known"], merged["good"]) == (0, 4, 4)
    assert into.read_bytes() == path.read_bytes()


def test_prune(run, path):
    damage(path)
    done = run("log", "prune", path, "--best", "1")
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{path}: 2 records kept, 2 dropped, and 1 damaged line\n"
    assert [r.seed for r in Log(path)] == [None, 1]
    (told,) = run("log", "prune", path, "--json").json()
    assert (told["kept"], told["dropped"], told["damaged"]) == (2, 0, 0)


def test_prune_that_keeps_failures(run, path):
    assert run("log", "prune", path, "--failed", "--best", "0").status == 0
    assert [r.status for r in Log(path)] == ["not built"]


def test_verify(run, path, tmp_path):
    done = run("log", "verify", path)
    assert (done.status, done.out) == (0, f"{path}: 4 records, nothing damaged\n")
    damage(path)
    done = run("log", "verify", path)
    assert (done.status, done.out) == (1, f"{path}: 4 records, 1 damaged line (5)\n")
    (told,) = run("log", "verify", path, "--json").json()
    assert told["whole"] is False and told["where"] == [5] and told["good"] == 4


def test_definitions_are_no_records(run, path, caplog):
    shown = run("log", "show", path).out
    Log(path).define(mt.lower(mt.workloads.matmul(m=8, n=8, k=8)))
    assert run("log", "show", path).out == shown
    done = run("log", "verify", path)
    assert (done.status, done.out) == (0, f"{path}: 4 records, 1 definition, nothing damaged\n")
    (told,) = run("log", "verify", path, "--json").json()
    assert (told["good"], told["definitions"], told["whole"]) == (4, 1, True)
    assert not caplog.messages


def test_verify_says_which_records_may_be_too_old(run):
    old = Path(__file__).parents[1] / "search/recorded/stages.jsonl"
    done = run("log", "verify", old)
    assert done.status == 0 and "by version 0.1, too old for load_best if" in done.out
    (told,) = run("log", "verify", old, "--json").json()
    assert 0 < told["old"] == told["good"]


def test_verify_a_line_that_was_not_finished(run, path):
    path.write_bytes(path.read_bytes()[:-50])
    done = run("log", "verify", path)
    assert (done.status, done.out) == (
        1,
        f"{path}: 3 records, 1 unfinished line (the file ends in one)\n",
    )
    filled(Log(path), made(9))
    done = run("log", "verify", path)
    assert (done.status, done.out) == (0, f"{path}: 4 records, 1 unfinished line\n")


def test_verify_goes_on_after_a_file_that_is_missing(run, path, tmp_path):
    done = run("log", "verify", tmp_path / "nothing", path)
    assert done.status == 1
    assert done.out == f"{path}: 4 records, nothing damaged\n"
    assert done.err == f"minitensor log verify: error: there is no log {tmp_path / 'nothing'}\n"


@pytest.mark.parametrize(
    "words, status, said",
    [
        ((), 2, "required: COMMAND"),
        (("dance",), 2, "invalid choice"),
        (("show",), 2, "required: FILE"),
        (("show", "no-such-log"), 1, "there is no log no-such-log"),
        (("best", "no-such-log"), 1, "there is no log no-such-log"),
        (("prune", "no-such-log"), 1, "there is no log no-such-log"),
        (("merge", "no-such-log", "--into", "x"), 1, "there is no log no-such-log"),
        (("merge", "log"), 2, "required: --into"),
        (("show", "."), 1, "expected a file for the log, but . is something else"),
        (("prune", "log", "--best", "-1"), 2, "--best must be at least 0"),
        (("prune", "log", "--best", "few"), 2, "invalid int"),
        (("best", "log", "--workload", "none"), 1, "no record of a workload 'none'"),
    ],
)
def test_bad_input(run, tmp_path, monkeypatch, words, status, said):
    monkeypatch.chdir(tmp_path)
    filled(Log("log"), made())
    done = run("log", *words)
    assert (done.status, done.out) == (status, "")
    assert said in done.err and "Traceback" not in done.err
