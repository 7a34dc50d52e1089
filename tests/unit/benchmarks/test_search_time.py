"""Times of searches compared: when one comes to what another ends with."""

from pathlib import Path

import pytest

import minitensor as mt
from benchmarks.search_time import PROGRAMS, Searched, compared, in_turns, main, searched

SLOW = Searched(2.0, 10.0, [(1.0, 8.0), (4.0, 2.04), (9.0, 2.0)], {})
FAST = Searched(1.0, 6.0, [(1.0, 3.0), (2.0, 2.0), (5.0, 1.0)], {})


def test_the_time_to_a_speed():
    assert FAST.time_to(2.5) == 2.0
    assert FAST.time_to(0.5) == 6.0  # never: its end


def test_ratios_are_to_the_time_that_the_other_takes_itself():
    times, speeds = compared([FAST], [SLOW])
    assert (times, speeds) == (2.0 / 4.0, 2.0)  # 2.04 is near enough to 2
    assert compared([SLOW], [SLOW]) == (1.0, 1.0)


def test_what_a_search_measured_is_scaled_to_a_later_time_of_its_kernel():
    scaled = SLOW.scaled(1.0)
    assert scaled == Searched(1.0, 10.0, [(1.0, 4.0), (4.0, 1.02), (9.0, 1.0)], {})


def test_the_programs_are_defined():
    for workload, sizes in PROGRAMS.values():
        assert mt.lower(getattr(mt.workloads, workload)(**sizes)).outputs


@pytest.mark.parametrize(
    ("words", "text"),
    [(["matmul 513"], "none of matmul 512"), (["--against", "/nowhere"], "no folder minitensor")],
)
def test_what_cannot_be_compared_is_named(words, text, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert text in capsys.readouterr().err


def test_a_checkout_that_fails_is_named(tmp_path):
    (tmp_path / "minitensor").mkdir()
    (tmp_path / "minitensor/__init__.py").write_text("raise ImportError('half a checkout')\n")
    with (
        pytest.raises(SystemExit, match="half a checkout"),
        searched(tmp_path, "matmul 512", 1, 0),
    ):
        pass


@pytest.mark.slow
def test_a_search_of_this_checkout():
    with searched(Path(mt.__file__).parents[1], "matmul 512", 2, 0) as (found, process):
        (seconds,) = in_turns([process])
        assert process.poll() is None
    assert process.returncode == 0 and seconds > 0
    assert found.seconds > 0 and found.points[-1][0] <= found.elapsed
    # `elapsed` includes start-up, which the ledger of the search does not
    assert 0 < sum(found.ledger.values()) <= 1.1 * found.elapsed
