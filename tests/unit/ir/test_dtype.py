import copy

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.ir import (
    FLOAT32,
    INDEX,
    USER_DTYPES,
    DType,
    lacking_in_numpy,
    numpy_dtype,
    pack,
    unpack,
)
from tests.sent import sent

API = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
]


def test_the_types_a_user_can_name():
    assert list(USER_DTYPES) == API
    assert "index" not in USER_DTYPES


@pytest.mark.parametrize("name", API)
def test_a_dtype_is_its_own_name(name):
    dtype = DType.of(name)
    assert dtype == name
    assert hash(dtype) == hash(name)
    assert DType.of(dtype) is dtype
    assert dtype.lanes == 1
    assert dtype.scalar is dtype


@pytest.mark.parametrize("name", ["index", "float", "float32x4", "Float32", "", " float32", "half"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ArgumentError, match=r"expected one of float64, .*, bool, but got dtype="):
        DType.of(name)


@pytest.mark.parametrize("value", [None, 3, 1.5, ["float32"], object])
def test_what_is_no_name_is_refused(value):
    with pytest.raises(ArgumentError, match=r"expected one of .*dtype="):
        DType.of(value)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("int8", -128, 127),
        ("int16", -(2**15), 2**15 - 1),
        ("int32", -(2**31), 2**31 - 1),
        ("int64", -(2**63), 2**63 - 1),
        ("uint8", 0, 255),
        ("uint16", 0, 2**16 - 1),
        ("uint32", 0, 2**32 - 1),
        ("uint64", 0, 2**64 - 1),
    ],
)
def test_limits(name, low, high):
    assert (DType.of(name).min_value, DType.of(name).max_value) == (low, high)


def test_categories():
    assert [d for d in API if DType.of(d).is_float] == API[:4]
    assert [d for d in API if DType.of(d).is_integer] == API[4:12]
    assert INDEX.is_integer
    assert not INDEX.is_float


def test_vectors_are_interned_and_know_their_element():
    four = FLOAT32.with_lanes(4)
    assert four == "float32x4"
    assert four is FLOAT32.with_lanes(4)
    assert (four.lanes, four.scalar, four.bits, four.kind) == (4, FLOAT32, 32, "float")
    assert four.with_lanes(8) == "float32x8"
    assert four.with_lanes(1) is FLOAT32


@pytest.mark.parametrize("dtype", [FLOAT32, INDEX, FLOAT32.with_lanes(4)])
def test_a_copy_keeps_what_a_dtype_knows(dtype):
    for again in (sent(dtype), copy.deepcopy(dtype)):
        assert again == dtype
        assert (again.kind, again.bits, again.lanes) == (dtype.kind, dtype.bits, dtype.lanes)
        assert again.scalar == dtype.scalar


# ---- the table


@pytest.mark.parametrize("dtype", USER_DTYPES.values())
def test_a_row_has_conversions_that_keep_small_values(dtype):
    values = np.array([0, 1] if dtype.kind in ("bool", "uint") else [-4, 0, 3])
    array = pack(values, dtype)
    assert array.dtype == numpy_dtype(dtype) and array.itemsize * 8 == dtype.bits
    np.testing.assert_array_equal(unpack(array, dtype), values)
    assert dtype.is_packed == (unpack(array, dtype).dtype != array.dtype)


@pytest.mark.parametrize("dtype", [d for d in USER_DTYPES.values() if d.is_float])
def test_a_float_has_two_quiet_nans_and_a_tolerance(dtype):
    bits = np.array(dtype.row.nans, f"uint{dtype.bits}")
    assert np.isnan(unpack(bits.view(numpy_dtype(dtype)), dtype)).all()
    assert bits[0] != bits[1] and 0 < dtype.tolerance < 1


def test_types_that_numpy_lacks():
    assert lacking_in_numpy(USER_DTYPES[n] for n in ("int8", "bfloat16")) == "bfloat16"
    assert lacking_in_numpy([USER_DTYPES["float16"]]) is None
