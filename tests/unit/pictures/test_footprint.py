"""Bytes under each loop."""

import pytest

import minitensor as mt
from minitensor import pictures
from tests.unit.pictures.common import operator, parsed, product, scheduled, texts


def test_bytes_of_a_product():
    found = pictures.footprints(product(16, 12, 8), "C")
    assert [one.loop.var if one.loop else None for one in found] == [None, "i", "j", "k"]
    assert found[0].bytes == {"C": 16 * 12 * 4, "A": 16 * 8 * 4, "B": 8 * 12 * 4}
    assert found[1].bytes == {"B": 8 * 12 * 4, "C": 12 * 4, "A": 8 * 4}
    assert found[2].bytes == {"A": 32, "B": 32, "C": 4}
    assert found[3].bytes == {"A": 4, "B": 4, "C": 4}


def test_a_picture_has_bars_and_caches():
    levels = {"L1": 1 << 10, "L2": 1 << 20}
    picture = pictures.footprint_picture(scheduled().program, caches=levels)
    drawn = texts(parsed(picture))
    assert {"L1 1 KiB", "L2 1 MiB", "one i_0 of 4", "together 1.62 KiB"} <= set(drawn)
    assert "the whole nest: 1.62 KiB (C 768 B, A 512 B, B 384 B); fits L2" in picture.text
    assert "one j of 12: 12 B (C 4 B, A 4 B, B 4 B); fits L1" in picture.text


def test_without_caches():
    assert "not known" in pictures.footprint_picture(product()).text


@pytest.mark.parametrize("name", ["conv2d", "softmax", "cumsum", "conv2d_winograd"])
def test_footprints_shrink_from_loop_to_loop(name):
    program = operator(name)
    for block in program.blocks:
        totals = [one.total for one in pictures.footprints(program, block)]
        assert totals == sorted(totals, reverse=True) and totals[-1] > 0


def test_a_guard_at_the_border_stays_inside_the_buffer():
    s = mt.Schedule(product(15, 12, 8))
    s.split("i", [None, 4])
    assert pictures.footprints(s.program, "C")[0].bytes["C"] == 15 * 12 * 4
