"""The command: its words, its output and files; the events of processes are given."""

import errno
import json
import sys
from dataclasses import asdict

import pytest

from benchmarks.compare import __main__ as command
from benchmarks.compare import launch, measure
from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.launch import Died
from benchmarks.compare.results import Report, result_to_json
from minitensor.runtime import usable_cores
from tests.unit.benchmarks.compare.made_up import ABOUT, LIMITS, matmul
from tutorials.schedules import HAND_SCHEDULES

KEY = next(iter(HAND_SCHEDULES))


class Processes:
    """The events of processes, and the jobs they were given.

    scripts  one for each process: events, or an exception that it ends with; the usual events for
             all keys where there is no script left
    """

    def __init__(self):
        self.jobs = []
        self.scripts = []

    def events(self, job):
        self.jobs.append(job)
        for event in self.scripts.pop(0) if self.scripts else usual(job):
            if isinstance(event, BaseException):
                raise event
            yield event


def usual(job):
    if job["limits"]:
        yield {"event": "limits", "limits": asdict(LIMITS), "cores": [0]}
    for key in job["keys"]:
        yield {"event": "begin", "key": key}
        yield {"event": "enter", "key": key, "name": "ours"}
        yield {"event": "round", "key": key, "number": 0, "rounds": 3}
        dropped = job["without"].get(key, {})
        yield {"event": "result", "result": result_to_json(matmul(key=key, dropped=dropped))}


@pytest.fixture
def processes(monkeypatch):
    made = Processes()
    monkeypatch.setattr(measure, "events", made.events)
    monkeypatch.setattr(command, "about", lambda pace, baselines: dict(ABOUT))
    return made


def test_a_run_prints_the_machine_the_workload_and_a_summary(run, processes):
    done = run(KEY, "--threads", "1", "--quick")
    assert done.status == 0
    for part in (
        "Some CPU",
        "100 GFLOP/s with 1 thread",
        "matmul 8, 1 thread",
        "Summary, 1 thread",
    ):
        assert part in done.out
    assert f"[1/1] {KEY}, 1 thread" in done.err
    (job,) = processes.jobs
    assert (job["threads"], job["keys"], job["pace"]["rounds"]) == (1, [KEY], 3)
    assert "numpy" in job["baselines"]
    assert "inductor" not in job["baselines"]


def test_no_names_are_all_of_them_and_stars_stand_for_anything(run, processes):
    assert run("--threads", "1").status == 0
    assert run(KEY[:3] + "*", KEY, "--threads", "1").status == 0
    assert processes.jobs[0]["keys"] == list(HAND_SCHEDULES)
    assert processes.jobs[1]["keys"].count(KEY) == 1


def test_json_is_a_report(run, processes):
    done = run(KEY, "--threads", "1", "--json", "--rounds", "5")
    report = Report.from_json(done.out)
    assert report.runs[0].limits == LIMITS
    assert processes.jobs[0]["pace"]["rounds"] == 5


def test_saving(run, processes, tmp_path):
    folder = tmp_path / "new" / "results"
    done = run(KEY, "--threads", "1", "--save", folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["some-cpu-r-9-20261121-1305.json", "some-cpu-r-9-20261121-1305.md"]
    assert done.err.count("written: ") == 2
    assert Report.from_json((folder / names[0]).read_text()).runs[0].threads == 1


def test_interrupted_shows_and_saves_what_was_finished(run, processes, tmp_path):
    job = {"limits": True, "keys": [KEY], "without": {}}
    processes.scripts = [[*usual(job), KeyboardInterrupt()]]
    done = run(KEY, "--threads", "1", "--save", tmp_path)
    assert done.status == 130
    assert "Interrupted" in done.out
    (saved,) = tmp_path.glob("*.json")
    assert Report.from_json(saved.read_text()).interrupted


def test_interrupted_before_anything_was_finished_saves_nothing(run, processes, tmp_path):
    processes.scripts = [[KeyboardInterrupt()]]
    assert run(KEY, "--threads", "1", "--save", tmp_path).status == 130
    assert list(tmp_path.iterdir()) == []


def test_a_baseline_that_kills_the_process_is_left_out(run, processes):
    first = [
        {"event": "limits", "limits": asdict(LIMITS), "cores": [0]},
        {"event": "begin", "key": KEY},
        {"event": "enter", "key": KEY, "name": "tvm"},
        Died("its process ended with signal 11"),
    ]
    processes.scripts = [first]
    done = run(KEY, "--threads", "1")
    assert done.status == 0
    assert processes.jobs[1]["without"] == {KEY: {"tvm": "its process ended with signal 11"}}
    assert processes.jobs[1]["limits"] is False
    assert "tvm: its process ended with signal 11" in done.out


def test_a_workload_that_kills_the_process_is_given_up(run, processes):
    dying = [
        {"event": "limits", "limits": asdict(LIMITS), "cores": [0]},
        {"event": "begin", "key": KEY},
        {"event": "round", "key": KEY, "number": 0, "rounds": 3},
        Died("its process ended with signal 9"),
    ]
    processes.scripts = [dying]
    keys = list(HAND_SCHEDULES)
    done = run("--threads", "1")
    assert done.status == 0
    assert processes.jobs[1]["keys"] == [k for k in keys if k != KEY]
    assert "all: its process ended with signal 9" in done.out


def test_a_process_that_dies_at_once_is_an_error(run, processes):
    processes.scripts = [[Died("its process ended with status 1: no numpy")]]
    done = run(KEY, "--threads", "1")
    assert done.status == 1
    assert "no numpy" in done.err


def test_list(run):
    done = run("--list")
    assert done.status == 0
    for name in (*HAND_SCHEDULES, *BASELINES):
        assert name in done.out
    listed = run("--list", "--json").json()
    assert [w["key"] for w in listed["workloads"]] == list(HAND_SCHEDULES)
    assert listed["baselines"][0]["missing"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["matmull-512"], "there is no workload 'matmull-512'; did you mean matmul-512"),
        (["zzz"], "see --list"),
        (["nosuch"], "there is no workload 'nosuch'; see --list"),
        (["--threads", "0"], "expected numbers of threads such as 1,2"),
        (["--threads", "-1"], "expected numbers of threads"),
        (["--threads", "1,,2"], "expected numbers of threads"),
        (["--threads", "two"], "expected numbers of threads"),
        (["--threads", "9999"], f"cannot be pinned to {usable_cores()} usable"),
        (["--baselines", "numpi"], "there is no baseline 'numpi'; choose from numpy"),
        (["--rounds", "0"], "expected at least one round"),
        (["--rounds", "x"], "invalid int value"),
    ],
)
def test_bad_usage(run, processes, words, said):
    done = run(*words)
    assert done.status == 2
    assert done.out == ""
    assert said in done.err
    assert processes.jobs == []


def test_a_log_is_found_from_any_folder(run, processes, tmp_path, monkeypatch):
    (tmp_path / "log.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    assert run(KEY, "--log", "log.jsonl").status == 0
    assert processes.jobs[0]["options"]["log"] == str(tmp_path / "log.jsonl")


def test_a_log_that_is_not_there(run, processes):
    done = run(KEY, "--log", "nowhere.jsonl")
    assert done.status == 1 and "there is no log nowhere.jsonl" in done.err
    assert processes.jobs == []


def test_a_baseline_that_is_not_installed(run, processes, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = run(KEY, "--baselines", "torch")
    assert done.status == 1
    assert "torch is not installed: pip install torch" in done.err


def test_a_folder_for_the_plot_that_takes_no_files(run, processes, tmp_path, monkeypatch):
    def refuse(**options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    done = run(KEY, "--plot", tmp_path / "plot.png")
    assert (done.status, done.out) == (1, "")
    assert "plot.png: it cannot be written: Permission denied" in done.err
    assert processes.jobs == []


def test_places_are_checked_before_anything_is_measured(run, processes, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    folder = tmp_path / "folder.png"
    folder.mkdir()
    said = {
        ("--save", file / "below"): "Not a directory",
        ("--save", file): "File exists",
        ("--tvm-records", file): "there is no such folder",
        ("--plot", tmp_path / "plot.docx"): "must end in .png",
        ("--plot", tmp_path / "nowhere" / "plot.png"): "there is no folder",
        ("--plot", folder): "it cannot be written: Is a directory",
    }
    for words, reason in said.items():
        done = run(KEY, *words)
        assert (done.status, done.out) == (1, "")
        assert reason in done.err
    assert processes.jobs == []


def test_a_folder_that_cannot_be_written_to(run, processes, tmp_path, monkeypatch):
    monkeypatch.setattr(command.os, "access", lambda path, mode: False)  # root may write anywhere
    done = run(KEY, "--save", tmp_path)
    assert done.status == 1
    assert "cannot be written to" in done.err


def test_a_plot_without_matplotlib(run, processes, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    done = run(KEY, "--threads", "1", "--plot", tmp_path / "plot.png")
    assert done.status == 1
    assert "pip install matplotlib" in done.err
    assert processes.jobs == []


def test_no_compiler(run, no_compiler):
    done = run(KEY)
    assert done.status == 1
    assert "no C compiler is found" in done.err


def test_the_environment_states_the_number_of_threads():
    made = launch.environment(3)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        assert made[name] == "3"


@pytest.mark.slow
def test_a_process_that_fails_says_its_last_words(monkeypatch):
    monkeypatch.setattr(launch, "WORKER", "minitensor.no_such_module")
    with pytest.raises(Died, match=r"status 1.*: .*No module named minitensor\.no_such"):
        list(launch.events({"threads": 1}))


def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(launch, "WORKER", "tests.unit.benchmarks.compare.silent")
    monkeypatch.setattr(launch, "SILENCE_SECONDS", 0.3)
    with pytest.raises(Died, match=r"did not end within 0\.3 s"):
        list(launch.events({"threads": 1}))


def test_the_file_of_a_real_report_can_be_written(tmp_path):
    made = command.save(Report(dict(ABOUT)), tmp_path)
    assert json.loads(made[0].read_text())["runs"] == []
