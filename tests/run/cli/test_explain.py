"""`minitensor explain` with a compiler."""

import pytest


def test_spills_are_measured(run, user_file):
    done = run("explain", f"{user_file}:s")
    assert (done.status, done.err) == (0, "")
    assert "not measured" not in done.out
    report = run("explain", f"{user_file}:s", "--json").json()
    assert report["unmeasured"] == "" and isinstance(report["spills"], list)


def test_a_compiler_that_fails_leaves_the_rest(run, user_file, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    done = run("explain", f"{user_file}:s")
    assert done.status == 0
    assert "spills are not measured" in done.out


@pytest.mark.slow
def test_doctor_tells_how_many_registers_there_are(run):
    done = run("doctor")
    assert "minitensor explain" in done.out
