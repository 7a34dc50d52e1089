"""Pictures of accesses."""

import pytest

from minitensor import gpu
from tests.unit.gpu.spmd import X, buffer, copied, load, loops, matmul, program, staged, store, tx
from tests.unit.pictures.common import HOSTILE, parsed


def test_each_array_has_a_picture_of_a_load_and_of_a_store():
    found = gpu.access_pictures(matmul())
    assert [picture.name for picture in found] == [
        "lanes-A", "lanes-A_shared_store", "lanes-B", "lanes-B_shared_store", "lanes-A_shared",
        "lanes-B_shared", "lanes-C_store",
    ]  # fmt: skip
    for picture in found:
        parsed(picture)


def test_the_text_has_the_place_and_the_cost():
    (column,) = gpu.access_pictures(copied(tx * 32))
    assert column.title == "Lanes of a warp: load of A, 32 sectors a request"
    assert "A load of A[tx*32] by the first warp of test_kernel, 4 bytes a lane" in column.text
    (bank,) = gpu.access_pictures(staged((tx, 0 * tx), 32, 32))
    assert bank.title.endswith("32 cycles of the banks a request, 32-way")
    assert "The most words of one bank: 32 (bank 0)." in bank.text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name):
    A, C = buffer(name, 32), buffer("C", 32)
    whole = program(loops(store(C, tx, value=load(A, tx)), ("tx", 32, X)), A, C, name=name)
    for picture in gpu.access_pictures(whole):
        assert "<script" not in picture.svg() and len(picture.svg()) < 20_000
        parsed(picture)
    text = str(gpu.cost_of(whole))
    assert "\n<script" not in text and "\0" not in text and len(text) < 20_000
