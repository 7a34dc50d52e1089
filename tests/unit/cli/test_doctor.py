"""`minitensor doctor`."""

import pytest

from minitensor.cli import doctor
from minitensor.runtime import Finding, Limits

GOOD = [
    Finding("python", True, "3.11"),
    Finding("numpy", True, "2.0"),
    Finding("cffi", True, "1.17"),
    Finding("C compiler", True, "gcc"),
    Finding("OpenMP", True, "-fopenmp"),
]


def with_finding(finding):
    return [finding if f.name == finding.name else f for f in GOOD]


@pytest.fixture
def findings(monkeypatch):
    def use(found):
        monkeypatch.setattr(doctor, "diagnose", lambda: found)

    use(GOOD)
    return use


def test_everything_there(run, findings):
    done = run("doctor")
    assert done.status == 0
    assert "ok      numpy" in done.out
    assert done.out.endswith("minitensor is ready.\n")


def test_no_compiler_is_not_fatal_and_says_what_works(run, findings):
    findings(with_finding(Finding("C compiler", False, "none is found", "apt install gcc")))
    done = run("doctor")
    assert done.status == 0
    assert "FAILED  C compiler  none is found" in done.out
    assert "apt install gcc" in done.out
    assert 'target="interpreter"' in done.out


def test_something_required_is_fatal(run, findings):
    findings(with_finding(Finding("numpy", False, "1.19", "pip install numpy")))
    done = run("doctor")
    assert done.status == 1
    assert "numpy must be repaired" in done.out
    assert run("doctor", "--json").json()["ready"] is False


def test_what_could_be_better_is_named(run, findings):
    findings(with_finding(Finding("OpenMP", False, "does not work", "install libgomp1")))
    done = run("doctor")
    assert done.status == 0
    assert "could do better: see OpenMP" in done.out


def test_json(run, findings):
    done = run("doctor", "--json")
    assert done.status == 0
    report = done.json()
    assert report["ready"] is True
    assert report["findings"][0] == {"name": "python", "ok": True, "detail": "3.11", "advice": ""}


def test_the_real_machine_without_a_compiler(run, no_compiler):
    done = run("doctor")
    assert done.status == 0
    assert "no C compiler is found on PATH" in done.out


def test_measuring_without_a_compiler_says_why_not(run, no_compiler):
    done = run("doctor", "--measure")
    assert done.status == 0
    assert "-       limits" in done.out
    assert run("doctor", "--measure", "--json").json()["limits"] is None


def test_what_was_measured_is_a_line_and_numbers(run, findings, monkeypatch):
    limits = Limits(2, 512, 236.0, 118.0, 31.5, 29.25, 30.0)
    monkeypatch.setattr(doctor, "measure_limits", lambda: limits)
    done = run("doctor", "--measure")
    assert "limits      236 GFLOP/s with 2 threads (118 with one), vectors of 512 bits" in done.out
    assert run("doctor", "--measure", "--json").json()["limits"]["peak"] == 236.0
