"""reverse_compute_at of blocks that read windows, mirrored rows and other shapes."""

import pytest

import minitensor as mt
from tests.unit.schedule.common import check, golden, refused
from tests.unit.schedule.programs import chain2d, diagonal, matmul_relu


def pooled(n=12, window=2, stride=2, padding=0):
    """P[i] = A[i] * 2; D[x] = max over k of P[x*stride + k - padding]"""
    A = mt.placeholder((n,), name="A")
    P = mt.compute((n,), lambda i: A[i] * 2.0, name="P")
    k = mt.reduce_axis(window, name="k")

    def value(x):
        place = x * stride + k - padding
        inside = mt.logical_and(place >= 0, place < n)
        return mt.max(mt.if_then_else(inside, P[place], 0.0) if padding else P[place], axis=k)

    D = mt.compute(((n + 2 * padding - window) // stride + 1,), value, name="D")
    return mt.Schedule(mt.lower([A, D]))


def shaped(old, new):
    """P = A * 2; D holds the same elements in another shape."""
    A = mt.placeholder(old, name="A")
    P = mt.compute(old, lambda *axes: A[axes] * 2.0, name="P")

    def value(*axes):
        place = 0
        for axis, size in zip(axes, new):
            place = place * size + axis
        digits = []
        for size in old[:0:-1]:
            digits.insert(0, place % size)
            place = place // size
        return P[(place, *digits)] + 1.0

    return mt.Schedule(mt.lower([A, mt.compute(new, value, name="D")]))


def mirrored(n=8):
    """P[i] = A[i] * 2; D[x] = P[n - 1 - x] + 1"""
    A = mt.placeholder((n,), name="A")
    P = mt.compute((n,), lambda i: A[i] * 2.0, name="P")
    return mt.Schedule(mt.lower([A, mt.compute((n,), lambda x: P[n - 1 - x] + 1.0, name="D")]))


def test_windows_that_tiles_hold():
    s = pooled(8)
    s.split("i", [None, 4])
    assert s.reverse_compute_at("D", "i_0") == ("D_x", "D_k")
    golden(
        s,
        """
        P = empty(float32[8])
        for i_0 in range(2):
            for i_1 in range(4):
                P[i_0*4 + i_1] = A[i_0*4 + i_1] * 2.0
            for D_x in range(2):
                for D_k in range(2):
                    if D_k == 0:
                        D[i_0*2 + D_x] = -inf
                    D[i_0*2 + D_x] = max(D[i_0*2 + D_x], P[i_0*4 + D_x*2 + D_k])
        """,
    )


@pytest.mark.parametrize("tile", [1, 2, 3, 4, 5, 6, 8, 12])
@pytest.mark.parametrize("shape", [(12, 2, 2), (12, 3, 3), (13, 2, 2), (12, 2, 3), (13, 1, 2)])
def test_windows_under_tiles_of_each_size(shape, tile):
    """Legal where no tile cuts a window: the window may be shorter than the stride."""
    n, window, stride = shape
    s = pooled(*shape)
    s.split("i", [None, tile])
    begins = range(0, n, tile)
    cuts = any(b % stride in range(1, window) for b in begins)
    aligned = tile % stride == 0 or tile >= n
    if aligned and not cuts:
        s.reverse_compute_at("D", "i_0")
    else:
        with pytest.raises(mt.ScheduleError) as caught:
            s.reverse_compute_at("D", "i_0")
        assert caught.value.rule in ("R5", "R6")
    check(s)


def test_windows_that_overlap_belong_to_no_tile():
    s = pooled(13, 3, 2)
    s.split("i", [None, 4])
    marks = ("read here",)
    refused(s, "R5", "index 0 of P does not", lambda: s.reverse_compute_at("D", "i_0"), marks=marks)


def test_windows_of_padding_have_no_iteration():
    s = pooled(12, 2, 2, padding=1)
    s.split("i", [None, 4])
    refused(s, "R5", "index 0 of P does not", lambda: s.reverse_compute_at("D", "i_0"))


@pytest.mark.parametrize("tail", [(3, 2, 1), (2, 2, 0)])
def test_windows_that_overlap_along_an_axis_that_is_not_cut(tail):
    window, stride, padding = tail
    A = mt.placeholder((4, 9), name="A")
    P = mt.compute((4, 9), lambda i, j: A[i, j] * 2.0, name="P")
    k = mt.reduce_axis(window, name="k")

    def value(x, y):
        place = y * stride + k - padding
        inside = mt.logical_and(place >= 0, place < 9)
        return mt.sum(mt.if_then_else(inside, P[x, place], 0.0), axis=k)

    D = mt.compute((4, (9 + 2 * padding - window) // stride + 1), value, name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.split("i", [None, 3])
    s.reverse_compute_at("D", "i_0")
    s.parallel("i_0")
    check(s)


def test_neighbours_along_an_axis_that_is_not_cut():
    A = mt.placeholder((4, 8), name="A")
    P = mt.compute((4, 8), lambda i, j: A[i, j] * 2.0, name="P")
    D = mt.compute((4, 7), lambda x, y: P[x, y] + P[x, y + 1], name="D")
    s = mt.Schedule(mt.lower([A, D]))
    twin = s.copy()
    s.reverse_compute_at("D", "i")
    check(s)
    twin.reorder("j", "i")
    message = "P is read at 2 places"
    refused(twin, "R5", message, lambda: twin.reverse_compute_at("D", "j"))


@pytest.mark.parametrize("n", [0, 7, 8])
@pytest.mark.parametrize("tile", [1, 2, 3, 4])
def test_mirrored_rows(n, tile):
    s = mirrored(n)
    s.split("i", [None, tile])
    s.reverse_compute_at("D", "i_0")
    check(s)


def test_mirrored_windows():
    A = mt.placeholder((12,), name="A")
    P = mt.compute((12,), lambda i: A[i] * 2.0, name="P")
    k = mt.reduce_axis(3, name="k")
    D = mt.compute((4,), lambda x: mt.sum(P[11 - 3 * x - k], axis=k), name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.split("i", [None, 6])
    s.reverse_compute_at("D", "i_0")
    check(s)


def test_mirrored_rows_print_as_they_are_computed():
    s = mirrored()
    s.split("i", [None, 4])
    s.reverse_compute_at("D", "i_0")
    golden(
        s,
        """
        P = empty(float32[8])
        for i_0 in range(2):
            for i_1 in range(4):
                P[i_0*4 + i_1] = A[i_0*4 + i_1] * 2.0
            for D_x in range(4):
                D[D_x - i_0*4 + 4] = P[i_0*4 - D_x + 3] + 1.0
        """,
    )


def tiled(old, new, axis, tile):
    """The schedule, and the outermost loop over tiles of an axis; its own where it is, for None."""
    s = shaped(old, new)
    loops = s.get_loops("P")
    if axis and tile:
        s.reorder(loops[axis], *loops[:axis])
    loop = loops[axis]
    return s, s.split(loop, [None, tile])[0] if tile else loop


SHAPES = [
    ((4, 6), (24,), 0, None),
    ((4, 6), (24,), 0, 2),
    ((5, 6), (30,), 0, 2),
    ((4, 6), (24,), 1, None),
    ((24,), (4, 6), 0, 12),
    ((24,), (4, 6), 0, 6),
    ((24,), (4, 6), 0, 3),
    ((22,), (2, 11), 0, 11),
    ((4, 6), (8, 3), 0, None),
    ((4, 6), (2, 12), 0, 2),
    ((4, 6), (2, 12), 0, None),
    ((8, 3), (4, 6), 1, None),
    ((2, 3, 4), (6, 4), 1, None),
    ((2, 3, 4), (24,), 0, None),
    ((6, 4), (2, 3, 4), 0, None),
]


@pytest.mark.parametrize(("old", "new", "axis", "tile"), SHAPES)
def test_other_shapes(old, new, axis, tile):
    s, loop = tiled(old, new, axis, tile)
    s.reverse_compute_at("D", loop)
    check(s)


@pytest.mark.parametrize(
    ("old", "new", "axis", "tile"),
    [
        ((24,), (4, 6), 0, 4),  # a tile ends within a row
        ((4, 6), (24,), 1, 4),  # a tile ends past its row
        ((4, 6), (24,), 1, 2),  # parts of several rows
    ],
)
def test_shapes_of_which_a_tile_is_no_box(old, new, axis, tile):
    s, loop = tiled(old, new, axis, tile)
    refused(s, "R5", "of P does not", lambda: s.reverse_compute_at("D", loop))


def test_a_tile_of_each_row_of_another_shape():
    s = shaped((4, 6), (24,))
    outer, _ = s.split(s.get_loops("P")[1], [None, 3])
    s.reverse_compute_at("D", outer)
    check(s)
    s = shaped((4, 7), (28,))
    outer, _ = s.split(s.get_loops("P")[1], [None, 3])
    refused(s, "R5", "index 1 of P does not", lambda: s.reverse_compute_at("D", outer))


def test_the_diagonal_under_rows_and_under_columns():
    for order in ("ij", "ji"):
        s = mt.Schedule(diagonal())
        s.reorder(*order)
        s.reverse_compute_at("C", order[0])
        check(s)


def test_a_buffer_without_elements_computes_for_no_one():
    A = mt.placeholder((3,), name="A")
    P = mt.compute((0, 4), lambda i, j: A[j % 3] * 2.0, name="P")
    D = mt.compute((3,), lambda x: mt.if_then_else(x < 0, P[0 * x, x], 1.0), name="D")
    s = mt.Schedule(mt.lower([A, D]))
    for loop in ("i", "j"):
        refused(s, "R5", "index 0 of P does not", lambda loop=loop: s.reverse_compute_at("D", loop))


@pytest.mark.parametrize(
    "case",
    [(12, 20, 4, 4, 4), (12, 20, 4, 4, 2), (7, 13, 4, 8, 3), (9, 20, 4, 4, 4), (9, 20, 4, 4, 10)],
)
def test_a_fused_loop_of_tiles_that_was_split_unevenly(case):
    n, m, height, width, tiles = case
    s = mt.Schedule(matmul_relu(n, m, 2))
    i0, i1 = s.split("i", [None, height])
    j0, j1 = s.split("j", [None, width])
    s.reorder(i0, j0, "k", i1, j1)
    outer, inner = s.split(s.fuse(i0, j0), [None, tiles])
    whole_rows = tiles % -(-m // width) == 0
    twin = s.copy()
    s.reverse_compute_at("D", inner)
    s.parallel(outer)
    check(s)
    if whole_rows:
        twin.reverse_compute_at("D", outer)
        check(twin)
    else:
        refused(twin, "R4", "the nest of C", lambda: twin.reverse_compute_at("D", outer))


@pytest.mark.parametrize("pieces", [3, 5])
def test_pieces_of_rows_of_a_fused_loop(pieces):
    """An element at a time of a fused loop that its pieces do not divide."""
    s = mt.Schedule(chain2d(4, 7))
    _, inner = s.split(s.fuse("i", "j"), [None, pieces])
    s.reverse_compute_at("C", inner)
    check(s)
