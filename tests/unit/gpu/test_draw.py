"""Pictures of accesses."""

import pytest

import minitensor as mt
from minitensor import gpu, pictures
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


def doubled(threads):
    A = mt.placeholder((4096,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((4096,), lambda i: A[i] * 2.0, name="C")]))
    outer, inner = s.split("i", [None, threads])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    return s


def test_the_page_of_a_schedule_for_a_gpu_has_them(tmp_path):
    doubled(128).show(html=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Lanes of a warp: load of A, 4 sectors a request" in page
    assert "Lanes of a warp: store to C, 4 sectors a request" in page


def test_a_note_says_why_there_are_none():
    def refuse(_):
        raise mt.ArgumentError("no such kernel")

    drawn, notes = pictures.program_pictures(doubled(128).program, lanes=refuse)
    assert "The lanes of warps are not drawn: no such kernel" in notes
    assert not any(picture.name.startswith("lanes") for picture in drawn)
