"""pad."""

import numpy as np
import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, run_refusal
from tests.unit.schedule.programs import after, chain2d, copied_product, horner, matmul, start


def test_pad():
    s = copied_product()
    s.pad("k", 4)
    s.pad("j", 4)
    golden(
        s,
        """
        C_global = empty(int32[5, 8])
        A_global = empty(uint8[5, 8])
        B_global = empty(int8[8, 8])
        for A_global_ax0 in range(5):
            for A_global_ax1 in range(8):
                A_global[A_global_ax0, A_global_ax1] = """
        """if_then_else(A_global_ax1 < 7, A[A_global_ax0, A_global_ax1], 0)
        for B_global_ax0 in range(8):
            for B_global_ax1 in range(8):
                B_global[B_global_ax0, B_global_ax1] = if_then_else(B_global_ax1 < 6, """
        """if_then_else(B_global_ax0 < 7, B[B_global_ax0, B_global_ax1], 0), 0)
        for i in range(5):
            for j in range(8):
                for k in range(8):
                    if k == 0:  # block C
                        C_global[i, j] = 0
                    C_global[i, j] += int32(A_global[i, k]) * int32(B_global[k, j])
        for ax0 in range(5):
            for ax1 in range(6):
                C[ax0, ax1] = C_global[ax0, ax1]  # block C_global
        """,
    )


def test_what_is_a_multiple_stays():
    s = copied_product()
    before = str(s.program)
    for multiple in (1, 7):
        s.pad("k", multiple)
    assert str(s.program) == before
    check(s)


@pytest.mark.parametrize("axes", ["i", "j", "k", "ij", "kj", "kik"])
def test_steps_after_it(axes):
    s = copied_product()
    for axis, multiple in zip(axes, (4, 8, 3)):
        s.pad(axis, multiple)
    s.transform_layout("B_global", lambda k, j: (j // 4, k, j % 4))
    i_0, i_1 = s.split("i", [None, 2])
    k_0, _ = s.split("k", [None, 4])
    s.reorder(i_0, "j", k_0, i_1)
    s.compute_at("A_global", i_0)
    s.reverse_compute_at("C_global", "j")
    s.parallel(i_0)
    check(s)


def test_floats_of_which_no_term_is_changed():
    s = copied_product("float32", "float32", "float64")
    s.pad("k", 8)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 7), np.float32), rng.standard_normal((7, 6), np.float32)
    a[0, 0], b[3, 3] = -0.0, np.inf
    check(s, [a, b])


def test_one_factor_is_enough_for_integers():
    s = mt.Schedule(after_widening().program)
    s.pad("k", 4)
    check(s)


def after_widening(left="uint8", right="int8", total="int32"):
    """A sum whose second factor does not depend on k"""
    A, B = mt.placeholder((5, 7), left, name="A"), mt.placeholder((6,), right, name="B")
    k = mt.reduce_axis(7, name="k")
    C = mt.compute(
        (5, 6), lambda i, j: mt.sum(A[i, k].astype(total) * B[j].astype(total), axis=k), name="C"
    )
    s = mt.Schedule(mt.lower([A, B, C]))
    s.cache_write("C", "global")
    s.widen("C", "A", total)
    return s


def test_an_elementwise_block():
    s = mt.Schedule(chain2d())
    s.cache_read("B", "A", "global")
    s.pad("j", 16)
    assert s.program.buffers["B"].shape[1] == 16
    check(s)


def read_twice():
    s = copied_product()
    s.cache_read("C", "A_global", "local")
    s.split("A_global_local_ax1", [None, 2])
    return s


def two_readers():
    """D reads what C reads"""
    A = mt.placeholder((6,), name="A")
    P = mt.compute((6,), lambda i: A[i] + 1.0, name="P")
    C = mt.compute((6,), lambda x: P[x] * 2.0, name="C")
    D = mt.compute((6,), lambda y: P[y] + C[y], name="D")
    return mt.lower([A, D])


def windows():
    """C[y] = P[y] + P[y + 1]"""
    A = mt.placeholder((7,), name="A")
    P = mt.compute((7,), lambda i: A[i] + 1.0, name="P")
    C = mt.compute((6,), lambda y: P[y] + P[y + 1], name="C")
    return mt.lower([A, mt.compute((6,), lambda x: C[x] * 2.0, name="D")])


REFUSALS = [
    Refusal(
        "pad",
        "R1",
        lambda: (s := copied_product(), s.split("k", [None, 4]))[0],
        lambda s: s.pad("k_1", 8),
        r'^pad\("k_1", 8\) breaks R1: the loop alone drives an axis of the one block under it',
        marks=("# <- to pad", "instead: pad before the loop is split"),
    ),
    Refusal(
        "pad",
        "R2",
        start(matmul),
        lambda s: s.pad("k", 4),
        "R2: the block alone writes one temporary",
        marks=("# <- to pad", "instead: cache_write the block first"),
    ),
    Refusal(
        "pad",
        "R3",
        after(matmul, lambda s: s.cache_write("C", "global")),
        lambda s: s.pad("k", 4),
        r"R3: .*\(A is no copy for it alone\)$",
        marks=("; <- reads A",),
    ),
    Refusal(
        "pad",
        "R4",
        lambda: after_widening("float16", "float16", "float32"),
        lambda s: s.pad("k", 4),
        "R4: along an axis that is not spatial, terms beyond its end are zero",
        marks=("; <- adds other terms",),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


@pytest.mark.parametrize(
    ("make", "loop", "text"),
    [
        (start(two_readers), "x", "P is no copy for it alone"),
        (start(windows), "y", "P is read or written at other places"),
        (read_twice, "k", "A_global_local is not written by a loop of its own"),
    ],
)
def test_what_is_no_copy(make, loop, text):
    s = make()
    with pytest.raises(mt.ScheduleError, match=f"R3: .*{text}"):
        s.pad(loop, 4)


def test_other_reductions_are_not_padded():
    A = mt.placeholder((5, 7), name="A")
    k = mt.reduce_axis(7, name="k")
    s = mt.Schedule(mt.lower([A, mt.compute((5,), lambda i: mt.max(A[i, k], axis=k), name="C")]))
    s.cache_write("C", "global")
    s.cache_read("C", "A", "global")
    s.pad("i", 4)
    check(s)
    with pytest.raises(mt.ScheduleError, match="breaks R4"):
        s.pad("k", 4)


def test_steps_that_are_no_sum():
    s = mt.Schedule(horner())
    s.cache_write("W", "global")
    s.cache_read("W", "A", "global")
    with pytest.raises(mt.ScheduleError, match="breaks R4"):
        s.pad("k", 4)


def test_a_layout_with_elements_of_its_own():
    s = copied_product()
    s.transform_layout("C_global", lambda i, j: (i, j * 2))
    with pytest.raises(mt.ScheduleError, match="breaks R2"):
        s.pad("j", 4)
