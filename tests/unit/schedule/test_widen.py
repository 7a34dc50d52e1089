"""widen."""

import numpy as np
import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import after, chain2d, narrow_product, start


def test_widen():
    s = mt.Schedule(narrow_product())
    assert s.widen("C", "A", "int16") == "A_int16"
    golden(
        s,
        """
        A_int16 = empty(int16[5, 7])
        for ax0 in range(5):
            for ax1 in range(7):
                A_int16[ax0, ax1] = int16(A[ax0, ax1])
        for i in range(5):
            for j in range(6):
                for k in range(7):
                    if k == 0:
                        C[i, j] = 0
                    C[i, j] += int32(A_int16[i, k]) * int32(B[k, j])
        """,
    )
    s.compute_at("A_int16", "i")
    check(s)


def test_the_type_that_is_wanted_needs_no_conversion():
    s = mt.Schedule(narrow_product())
    s.widen("C", "B", "int32")
    assert "int32(A[i, k]) * B_int32[k, j]" in str(s.program)
    check(s)


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_floats(narrow):
    s = mt.Schedule(narrow_product(left=narrow, right="float32", total="float32"))
    s.widen("C", "A", "float32")
    s.split("k", [None, 4])
    check(s)


def test_every_read_is_converted_where_it_is_read_at_several_places():
    A = mt.placeholder((9,), "int8", name="A")
    B = mt.compute((8,), lambda i: A[i].astype("int32") + A[i + 1].astype("int64"), name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.widen("B", "A", "int16")
    assert "int64(int32(A_int16[i])) + int64(A_int16[i + 1])" in str(s.program)
    check(s, [np.arange(-4, 5, dtype=np.int8)])


BETWEEN = [
    ("int8", "int32", "int16", True),
    ("uint8", "int32", "int16", True),
    ("uint8", "int32", "uint16", True),
    ("int8", "int32", "uint16", False),
    ("int8", "int32", "int8", False),
    ("uint8", "int32", "int8", False),
    ("int8", "int16", "int32", False),
    ("int8", "uint8", "int16", False),
    ("int8", "float32", "float16", True),
    ("int16", "float32", "float16", False),
    ("int8", "float32", "float64", False),
    ("float16", "float64", "float32", True),
    ("float16", "float64", "bfloat16", False),
    ("bfloat16", "float64", "float16", False),
    ("float32", "float64", "int32", False),
]


@pytest.mark.parametrize(("narrow", "target", "wide", "fits"), BETWEEN)
def test_a_type_fits_between_two_others_or_not(narrow, target, wide, fits):
    A = mt.placeholder((8,), narrow, name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((8,), lambda i: A[i].astype(target), name="B")]))
    if fits:
        s.widen("B", "A", wide)
        check(s)
    else:
        refused(s, "R5", "", lambda: s.widen("B", "A", wide))


def test_all_bytes_survive():
    A = mt.placeholder((256,), "int8", name="A")
    B = mt.compute((256,), lambda i: A[i].astype("float32"), name="B")
    s = mt.Schedule(mt.lower([A, B]))
    s.widen("B", "A", "float16")
    check(s, [np.arange(-128, 128).astype(np.int8)])


def in_order():
    """W[i] = float(W[i - 1]) + 1, narrowed"""
    A = mt.placeholder((8,), "float16", name="A")
    W = mt.update(
        (8,),
        lambda W, i: mt.if_then_else(
            i > 0, (W[i - 1].astype("float32") + 1.0).astype("float16"), A[i]
        ),
        dtype="float16",
        name="W",
    )
    return mt.lower([A, W])


def halo():
    """P[i] = A[i] * A[i], narrow; C[y] = float(P[y]) + float(P[y + 1])"""
    A = mt.placeholder((9,), "float16", name="A")
    P = mt.compute((9,), lambda i: A[i] * A[i], name="P")
    wide = [lambda y, n=n: P[y + n].astype("float32") for n in (0, 1)]
    return mt.lower([A, mt.compute((8,), lambda y: wide[0](y) + wide[1](y), name="C")])


REFUSALS = [
    Refusal(
        "widen",
        "R1",
        start(chain2d),
        lambda s: s.widen("C", "B", "float64"),
        r'^widen\("C", "B", "float64"\) breaks R1: each read of the buffer is converted$',
        marks=("# <- reads it as it is",),
    ),
    Refusal(
        "widen",
        "R2",
        start(in_order),
        lambda s: s.widen("W", "W", "float32"),
        "R2: the block does not write the buffer$",
        marks=("# <- writes it",),
    ),
    Refusal(
        "widen",
        "R3",
        after(halo, lambda s: s.transform_layout("P", lambda i: (i // 3, i % 3))),
        lambda s: s.widen("C", "P", "float32"),
        "R3: the buffer is an input, or its writers index each axis by an iter of its own$",
        marks=("# <- writes P",),
    ),
    Refusal(
        "widen",
        "R4",
        after(
            halo,
            lambda s: s.split("y", [2, 4]),
            lambda s: s.compute_at("P", "y_0"),
            lambda s: s.split("P_i", [2, 4]),
        ),
        lambda s: s.widen("C", "P", "float32"),
        "R4: what is converted has been computed before$",
        marks=("# <- reads more than was computed",),
    ),
    Refusal(
        "widen",
        "R5",
        start(narrow_product),
        lambda s: s.widen("C", "A", "int64"),
        r"R5: .* \(A is converted to int32, not wider than int64\)$",
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_what_is_not_read():
    s = mt.Schedule(narrow_product())
    refused(s, "R1", "each read", lambda: s.widen("C", "C", "int64"))
    with pytest.raises(mt.ScheduleError) as caught:
        s.widen("C", "C", "int64")
    assert caught.value.choices == ("A", "B")
