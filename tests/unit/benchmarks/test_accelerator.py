"""The accelerator's benchmark: its hand schedules, its table and its pictures."""

import pytest

from benchmarks.accelerator import (
    BANDWIDTHS,
    LAYERS,
    THREADS,
    Tile,
    against_bandwidth,
    by_hand,
    expected_cycles,
    roofline,
    table,
)
from minitensor.accelerator import Machine


def test_two_threads_are_ahead_and_near_what_was_expected():
    layer, machine = LAYERS["C11"], Machine()
    one, two = (by_hand(layer, threads, machine).timing for threads in (1, 2))
    assert one.multiply_adds == two.multiply_adds == layer.multiply_adds
    assert one.utilisation < two.utilisation < min(1, layer.fed(machine))
    expected = expected_cycles(layer, Tile(7, 2, 8), 2, machine)
    assert expected == pytest.approx(two.cycles, rel=0.5)


def test_what_does_not_fit_takes_forever():
    assert expected_cycles(LAYERS["C2"], Tile(56, 4, 4), 1, Machine()) == float("inf")


def test_the_table_and_the_pictures_have_all_bandwidths():
    found = {(b, n): dict.fromkeys(LAYERS, 0.1 * n) for b in BANDWIDTHS for n in THREADS}
    lines = table(found)
    assert len(lines) == 2 + len(BANDWIDTHS)
    assert lines[-1] == "| 32 | 0.10 (0.10) | 0.20 (0.20) | 0.40 (0.40) |"
    for picture in (roofline(found), against_bandwidth(found)):
        assert "4 virtual threads" in picture.svg()
