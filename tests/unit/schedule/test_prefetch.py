"""prefetch, and rule K4: what later steps may do to a loop that prefetches."""

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.intrinsics import twice
from tests.unit.schedule.programs import (
    chain2d,
    gather,
    grid,
    matmul,
    narrow_product,
    quotients,
    rowsum,
    scale,
    scan,
)


def product():
    """A product whose rows of B take several lines."""
    return mt.Schedule(matmul(4, 40, 6))


def ahead(program=grid, buffer="A", loop="i", distance=1):
    """A schedule whose loop prefetches."""
    s = mt.Schedule(program())
    s.prefetch(buffer, loop, distance)
    return s


def test_prefetch():
    s = product()
    s.reorder("k", "j")
    assert s.prefetch("B", "k", 2) is None
    golden(
        s,
        """
        for i in range(4):
            for k in range(6):  # prefetch_B = 2
                for j in range(40):
                    if k == 0:
                        C[i, j] = 0.0
                    C[i, j] += A[i, k] * B[k, j]
        """,
    )


def test_prefetching_again_replaces_the_distance():
    s = ahead(distance=1)
    s.prefetch("A", "i", 3)
    s.annotate("i", "note", 1)
    assert "range(4):  # prefetch_A = 3; note = 1\n" in str(s.program)
    check(s)


def test_it_is_taken_back_by_unannotate():
    s = ahead()
    s.unannotate("i", "prefetch_A")
    s.split("i", [None, 2])
    assert "prefetch" not in str(s.program)
    check(s)


def test_several_buffers_and_loops():
    s = product()
    s.reorder("k", "j")
    s.prefetch("A", "k", 5)
    s.prefetch("B", "k", 1)
    s.prefetch("A", "i", 1)
    assert "range(4):  # prefetch_A = 1\n" in str(s.program)
    assert "range(6):  # prefetch_A = 5; prefetch_B = 1\n" in str(s.program)
    check(s)


def test_a_temporary_that_is_complete_is_prefetched():
    s = mt.Schedule(chain2d(4, 8))
    s.prefetch("B", "x", 3)
    s.parallel("x")
    check(s)


def test_other_loops_may_change():
    s = product()
    s.reorder("k", "j")
    s.prefetch("B", "k", 2)
    j_0, j_1 = s.split("j", [None, 8])
    s.vectorize(j_1)
    s.unroll(j_0)
    s.reorder("k", "i")
    s.add_unit_loop("k")
    s.decompose_reduction("C", "k")
    s.parallel("i")
    assert str(s.program).count("prefetch_B = 2") == 1
    check(s)


def test_the_copies_that_initialise_a_reduction_prefetch_nothing():
    s = mt.Schedule(rowsum(4, 40))
    s.prefetch("A", "i", 1)
    s.decompose_reduction("C", "i")
    assert str(s.program).count("prefetch_A") == 1
    s.unroll("i")
    check(s)


def test_the_copies_of_a_loop_that_is_cut_prefetch():
    s = product()
    s.reorder("k", "j")
    s.prefetch("B", "k", 2)
    s.split("i", [None, 3], tail="cut")
    assert str(s.program).count("prefetch_B = 2") == 2
    check(s)


def test_a_note_of_a_name_that_is_no_buffer_is_a_note():
    s = mt.Schedule(grid())
    s.annotate("i", "prefetch_Z", 1)
    s.annotate("C", "prefetch_A", 1)
    s.split("i", [None, 2])
    check(s)


def test_an_annotation_is_held_to_the_rules():
    s = mt.Schedule(grid())
    s.annotate("i", "prefetch_A", 2)
    assert s.program == ahead(distance=2).program
    for value in (0, 4, True, 1.0, "1"):
        match = f"K4: .*none of them {value} ahead"
        refused(s, "K4", match, lambda value=value: s.annotate("i", "prefetch_A", value))


def test_an_odd_name_of_a_buffer():
    A = mt.placeholder((4, 8), name="A b\n")
    C = mt.compute((4, 8), lambda i, j: A[i, j] * 2, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.prefetch("A b\n", "i", 1)
    assert r"# 'prefetch_A b\n' = 1" in str(s.program)
    check(s)


def scattered(rows=70):
    """C[i] = sum over k of A[k, i]: a line for each row."""
    A = mt.placeholder((rows, 32), name="A")
    k = mt.reduce_axis(rows, name="k")
    return mt.lower([A, mt.compute((32,), lambda i: mt.sum(A[k, i], axis=k), name="C")])


def narrow():
    """P has rows of 4 elements, four to a line; C sums 256 of them a time."""
    A = mt.placeholder((512, 4), name="A")
    P = mt.compute((512, 4), lambda a, b: A[a, b] + 1, name="P")
    k, m = mt.reduce_axis(256, name="k"), mt.reduce_axis(4, name="m")
    C = mt.compute((2,), lambda i: mt.sum(P[i * 256 + k, m], axis=[k, m]), name="C")
    return mt.lower([A, C])


def vectorized():
    s = mt.Schedule(grid())
    s.vectorize("i")
    return s


def in_registers():
    s = mt.Schedule(chain2d())
    s.set_scope("B", "register")
    return s


REFUSALS = [
    Refusal(
        "prefetch",
        "R1",
        vectorized,
        lambda s: s.prefetch("A", "i", 1),
        r"\(i is vectorize\)$",
        marks=("# <- to prefetch in",),
    ),
    Refusal(
        "prefetch", "R1", vectorized, lambda s: s.prefetch("A", "j", 1), r"\(i is vectorize\)$"
    ),
    Refusal(
        "prefetch",
        "R2",
        in_registers,
        lambda s: s.prefetch("B", "x", 1),
        r"\(B is in scope register\)$",
    ),
    Refusal(
        "prefetch",
        "R3",
        lambda: mt.Schedule(chain2d()),
        lambda s: s.prefetch("A", "x", 1),
        r"\(nothing in x reads A\)$",
        ("i", "j"),
    ),
    Refusal(
        "prefetch",
        "R4",
        product,
        lambda s: s.prefetch("C", "k", 1),
        r"\(C writes C\)$",
        marks=("# <- writes it",),
    ),
    Refusal(
        "prefetch",
        "R4",
        lambda: mt.Schedule(scan()),
        lambda s: s.prefetch("W", "i", 1),
        "W writes W",
    ),
    Refusal(
        "prefetch",
        "R5",
        product,
        lambda s: s.prefetch("B", "k", 6),
        r"\(k has 6 iterations, none of them 6 ahead\)$",
    ),
    Refusal(
        "prefetch",
        "R6",
        product,
        lambda s: s.prefetch("B", "i", 1),
        "what an iteration reads of B begins where",
        ("j", "k"),
    ),
    Refusal(
        "prefetch",
        "R6",
        lambda: mt.Schedule(gather()),
        lambda s: s.prefetch("B", "x", 1),
        "what an iteration reads of B begins where",
    ),
    Refusal(
        "prefetch",
        "R7",
        lambda: mt.Schedule(scattered()),
        lambda s: s.prefetch("A", "i", 1),
        r"\(an iteration of i reads 70 lines of A\)$",
        ("k",),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_the_most_lines():
    s = mt.Schedule(scattered(64))
    s.prefetch("A", "i", 31)
    check(s)


AFTERWARDS = [
    Refusal(
        "split",
        "K4",
        ahead,
        lambda s: s.split("i", [None, 2]),
        r"\(i prefetches A, and i would be no more\)",
        marks=("<- prefetches A", 'unannotate("i", "prefetch_A") before it'),
    ),
    Refusal("fuse", "K4", ahead, lambda s: s.fuse("i", "j"), "i would be no more"),
    Refusal(
        "reorder",
        "K4",
        lambda: ahead(lambda: matmul(2, 1100, 3), "B", "k"),
        lambda s: s.reorder("k", "j"),
        "an iteration of k reads 69 lines of B",
    ),
    Refusal("vectorize", "K4", ahead, lambda s: s.vectorize("i"), r"and i is vectorize\)"),
    Refusal("bind", "K4", ahead, lambda s: s.bind("i", "blockIdx.x"), r"i is blockIdx\.x"),
    Refusal(
        "annotate", "K4", ahead, lambda s: s.annotate("i", "prefetch_A", 4), "none of them 4 ahead"
    ),
    Refusal(
        "compute_inline",
        "K4",
        lambda: ahead(chain2d, "B", "x"),
        lambda s: s.compute_inline("B"),
        "B would be no more",
    ),
    Refusal(
        "reverse_compute_inline",
        "K4",
        lambda: ahead(chain2d, "B", "x"),
        lambda s: s.reverse_compute_inline("C"),
        "x would be no more",
    ),
    Refusal(
        "compute_at",
        "K4",
        lambda: ahead(chain2d, "B", "x"),
        lambda s: s.compute_at("B", "x"),
        "B writes B",
    ),
    Refusal(
        "reverse_compute_at",
        "K4",
        lambda: ahead(chain2d, "B", "x"),
        lambda s: s.reverse_compute_at("C", "i"),
        "x would be no more",
    ),
    Refusal(
        "cache_read",
        "K4",
        ahead,
        lambda s: s.cache_read("C", "A", "global"),
        "nothing in i reads A",
    ),
    Refusal(
        "use_reciprocal",
        "K4",
        lambda: ahead(quotients, "S", "x"),
        lambda s: s.use_reciprocal("D", "S"),
        "nothing in x reads S",
    ),
    Refusal(
        "widen",
        "K4",
        lambda: ahead(narrow_product, "A", "i"),
        lambda s: s.widen("C", "A", "int16"),
        "nothing in i reads A",
    ),
    Refusal(
        "set_scope",
        "K4",
        lambda: ahead(chain2d, "B", "x"),
        lambda s: s.set_scope("B", "local"),
        "B is in scope local",
    ),
    Refusal(
        "storage_align",
        "K4",
        lambda: ahead(narrow, "P", "i"),
        lambda s: s.storage_align("P", 0, 16),
        "an iteration of i reads 256 lines of P",
    ),
    Refusal(
        "transform_layout",
        "K4",
        lambda: ahead(narrow, "P", "i"),
        lambda s: s.transform_layout("P", lambda a, b: (a % 256, a // 256, b)),
        "an iteration of i reads 128 lines of P",
    ),
    Refusal(
        "tensorize",
        "K4",
        lambda: ahead(lambda: scale(8), "A", "i", 2),
        lambda s: s.tensorize("i", twice(8)),
        "i is tensorize",
    ),
]


@each(AFTERWARDS)
def test_what_later_steps_may_not_do(case):
    run_refusal(case)
