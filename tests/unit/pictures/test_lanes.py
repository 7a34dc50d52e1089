"""The lanes of a warp against sectors and banks."""

from minitensor import pictures
from tests.unit.pictures.common import parsed, texts


def drawn(addresses, size=4, shared=False, name="lanes-A"):
    return pictures.lanes_picture(name, "a title", "words", addresses, size, shared)


def test_sectors():
    picture = drawn([4 * lane for lane in range(32)])
    assert (
        "4 sectors of 32 bytes:\nfrom byte 0: lanes 0-7\nfrom byte 32: lanes 8-15" in picture.text
    )
    shown = texts(parsed(picture))
    assert {"address", "byte of the sector", "28", "96", "31"} <= set(shown)


def test_a_column_has_a_word_in_each_sector():
    picture = drawn([128 * lane for lane in range(32)])
    assert "32 sectors of 32 bytes" in picture.text
    assert "from byte 3,968: lanes 31" in picture.text


def test_lanes_that_are_not_active_and_those_of_one_word():
    picture = drawn([0, 0, 64, -1])
    assert "from byte 0: lanes 0-1\nfrom byte 64: lanes 2" in picture.text
    assert "0+" in texts(parsed(picture))
    assert "0 sectors" in drawn([-1] * 32).text


def test_banks():
    picture = drawn([128 * (lane % 8) for lane in range(32)], shared=True)
    assert "8 rows of 128 bytes" in picture.text
    assert "The most words of one bank: 8 (bank 0)." in picture.text
    wide = drawn([16 * lane for lane in range(32)], size=16, shared=True)
    assert "4 rows" in wide.text and "The most words of one bank: 4 (bank 0)." in wide.text


def test_many_rows_are_left_out():
    picture = drawn([128 * lane for lane in range(32)], size=64)
    assert "64 sectors" in picture.text and "Left out: 24 rows." in texts(parsed(picture))
