"""The demonstration from beginning to end."""

import pytest

from minitensor.cli.demo import command, race


@pytest.fixture
def brief(monkeypatch):
    """As little as shows all of it."""
    monkeypatch.setattr(command, "QUICK", command.Effort(size=64, trials=3, rounds=1))
    monkeypatch.setattr(race, "TURN_SECONDS", 0.001)
    monkeypatch.setattr(race, "PAUSE_SECONDS", 0.0)


@pytest.mark.slow
def test_the_story_is_told_and_every_kernel_is_right(run, brief):
    done = run("demo", "--quick")
    assert (done.status, done.err) == (0, "")
    assert "\x1b[" not in done.out
    for heading in ("1  A dense layer", "2  The same layer", "3  A convolution", "Summary"):
        assert f"\n{heading}" in done.out
    assert "    i_0, i_1, i_2 = s.split('i', [None, " in done.out
    assert done.out.count("=> ") == 7 + 1 + 6
    assert "best so far" in done.out
    assert max(map(len, done.out.splitlines())) <= 110


@pytest.mark.slow
def test_json(run, brief):
    done = run("demo", "--quick", "--json", "--threads", "1")
    assert done.status == 0
    report = done.json()
    assert report["machine"]["threads"] == 1
    dense, convolution = report["workloads"]
    assert dense["flop"] == 2 * 64**3
    titles = [stage["title"] for stage in convolution["stages"]]
    assert titles == ["as written", "Tiles", "Vectors", "Fusion", "Padding", "Threads"]
    for stage in dense["stages"] + convolution["stages"]:
        assert stage["ms"] > 0
        assert stage["gflops"] > 0
        assert stage["times_numpy"] > 0
    assert report["search"]["trials"] == 3
    assert report["search"]["python"][0].startswith("v0 = s.sample_categorical(")


def test_ctrl_c_during_the_search_ends_it_all(run, brief, monkeypatch):
    def interrupted(trial, flop, is_best, console):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_trial_line", interrupted)
    done = run("demo", "--quick")
    assert done.status == 130
    assert done.err == "\ninterrupted\n"
    assert "Traceback" not in done.out
    assert "3  A convolution" not in done.out


@pytest.mark.slow
def test_quick_as_users_run_it(run):
    done = run("demo", "--quick")
    assert done.status == 0
    assert "512 x 512 x 512" in done.out
