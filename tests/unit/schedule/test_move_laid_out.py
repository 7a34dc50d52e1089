"""compute_at and reverse_compute_at of buffers that transform_layout has laid out."""

import itertools

import pytest

import minitensor as mt
from tests.parts import some
from tests.unit.schedule.common import check, golden, refused
from tests.unit.schedule.programs import chain, chain2d, matmul_relu, padded, stencil, three

MAPS = {
    "panels": lambda i, j: (j // 4, i, j % 4),
    "uneven panels": lambda i, j: (j // 3, i, j % 3),
    "tiles": lambda i, j: (i // 2, j // 4, i % 2, j % 4),
    "columns": lambda i, j: (j, i),
    "flat": lambda i, j: (i * 8 + j,),
    "flat tiles": lambda i, j: ((i // 2) * 4 + j // 4, (i % 2) * 4 + j % 4),
    "three digits": lambda i, j: (i, j // 4, j // 2 % 2, j % 2),
    "mirrored": lambda i, j: (j // 4, 5 - i, j % 4),
    "far apart": lambda i, j: (i * 2, j),
}
TILES = [(None, None), (2, None), (None, 4), (3, 3), (4, 8), (2, 2)]


def test_compute_at_of_panels():
    s = mt.Schedule(chain(16))
    s.transform_layout("B", lambda i: (i // 8, i % 8))
    s.split("j", [None, 4])
    assert s.compute_at("B", "j_0") == ("B_i",)
    golden(
        s,
        """
        B = empty(float32[2, 8])
        for j_0 in range(4):
            for B_i in range(4):
                B[j_0//2, j_0%2*4 + B_i] = A[j_0*4 + B_i] * 2.0
            for j_1 in range(4):
                C[j_0*4 + j_1] = B[j_0//2, j_0%2*4 + j_1] + 1.0
        """,
    )


def tiled(s, block, tiles):
    """The outer loops of tiles of both axes of a block, outermost."""
    loops = s.get_loops(block)
    parts = [
        s.split(loop, [None, tile]) if tile else (loop, None)
        for loop, tile in zip(loops[:2], tiles, strict=True)
    ]
    outer = [outer for outer, _ in parts]
    s.reorder(*outer, *[inner for _, inner in parts if inner], *loops[2:])
    return outer


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, tiles", some(itertools.product(MAPS, TILES), lambda n: n % 2 == n // len(TILES) % 2)
)
@pytest.mark.parametrize("level", [0, 1])
def test_what_is_laid_out_moves_as_what_is_not(name, tiles, level):
    """As the tile of a row-major buffer, and with the same loops."""
    for move, block in (("compute_at", "C"), ("reverse_compute_at", "B")):
        plain, laid = mt.Schedule(chain2d(6, 8)), mt.Schedule(chain2d(6, 8))
        moved = "B" if move == "compute_at" else "C"
        loops = []
        for s in (plain, laid):
            where = tiled(s, block, tiles)[level]
            if s is laid:
                s.transform_layout("B", MAPS[name])
            names = getattr(s, move)(moved, where)
            loops.append([x.extent for x in mt.ir.paths(s.program)[moved]])
            assert len(names) == 2
        assert loops[0] == loops[1]
        check(laid)


@pytest.mark.parametrize("name", ["panels", "tiles", "flat", "columns"])
def test_a_decomposed_product_that_is_laid_out(name):
    s = mt.Schedule(matmul_relu(6, 8, 3))
    s.transform_layout("C", MAPS[name])
    s.decompose_reduction("C", "i")
    x0, _ = s.split("x", [None, 2])
    s.compute_at("C", x0)
    check(s)
    s = mt.Schedule(matmul_relu(6, 8, 3))
    s.transform_layout("C", MAPS[name])
    i0, _ = s.split("i", [None, 4])
    s.decompose_reduction("C", "k")
    s.reverse_compute_at("D", i0)
    check(s)


@pytest.mark.parametrize("width", [2, 4, 16])
def test_neighbours_and_padding_read_of_panels(width):
    s = mt.Schedule(stencil(8))
    s.transform_layout("P", lambda i: (i // width, i % width))
    s.split("y", [None, 4])
    s.compute_at("P", "y_0")
    check(s)
    s = mt.Schedule(padded(8))
    s.transform_layout("B", lambda i: (i % width, i // width))
    s.split("y", [None, 3])
    s.compute_at("B", "y_0")
    check(s)


def test_what_is_read_of_panels_must_be_there():
    """Of the panel that another iteration computes, nothing is; the digit alone would not tell."""
    s = mt.Schedule(three(8))
    s.split("j", [None, 2])
    s.compute_at("B", "j_0")
    s.transform_layout("C", lambda i: (i // 4, i % 4))
    s.reverse_compute_at("D", "j_0")
    check(s)


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_another_tile_of_the_same_panel_is_not_there_yet(shift):
    A = mt.placeholder((8,), name="A")
    B = mt.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = mt.compute((8,), lambda j: B[j] + 1.0, name="C")
    X = mt.compute((8,), lambda x: B[(x // 4) * 4 + (x + shift) % 4] * 3.0, name="X")
    D = mt.compute((8,), lambda y: C[y] + X[y], name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.split("i", [None, 2])
    s.transform_layout("B", lambda i: (i // 4, i % 4))
    s.reverse_compute_at("C", "i_0")
    if shift == 0:
        s.reverse_compute_at("X", "i_0")
    else:
        refused(s, "R5", "index 0 of B does not", lambda: s.reverse_compute_at("X", "i_0"))
    check(s)


def test_a_layout_that_is_laid_out_again():
    s = mt.Schedule(chain(16))
    s.transform_layout("B", lambda i: (i // 4, i % 4))
    s.transform_layout("B", lambda a, b: (b, a // 2, a % 2))
    s.split("i", [None, 4])
    s.reverse_compute_at("C", "i_0")
    s.parallel("i_0")
    check(s)


def test_a_layout_that_is_not_undone():
    s = mt.Schedule(chain(16))
    s.transform_layout("B", lambda i: (i // 2, i % 4))
    refused(s, "R6", "digits of them", lambda: s.compute_at("B", "j"))
    refused(s, "R4", "the nest of B", lambda: s.reverse_compute_at("C", "i"))
