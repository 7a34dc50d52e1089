"""Declaring intrinsics: what is taken, what is refused, and how."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import DECLARED

BODY = "y[0] = x[0];"


def tensors(shape=(4,), dtype="float32", value=lambda x: x * 2, x="x", y="y"):
    """x, and y computed from it element by element."""
    X = mt.placeholder(shape, dtype, name=x)
    return [X, mt.compute(shape, lambda *i: value(X[i]), name=y)]


def test_what_is_declared():
    made = mt.intrinsic("first", tensors(), BODY)
    assert made.name == "first"
    assert made.key.startswith("first:")
    assert len(made.key) == len("first:") + 16
    assert DECLARED[made.key] is made
    assert [b.name for b in made.operands] == ["x", "y"]
    assert made.output == "y"
    assert dict(made.axes) == {"i0": 4}
    assert repr(made) == f"<Intrinsic {made.key}(x: float32[4], y: float32[4])>"


def test_declaring_again_is_no_harm_and_gives_the_same():
    assert mt.intrinsic("again", tensors(), BODY) is mt.intrinsic("again", tensors(), BODY)


def test_the_key_depends_on_everything():
    same = tensors()
    keys = {
        mt.intrinsic("keyed", same, BODY).key,
        mt.intrinsic("keyed2", same, BODY).key,
        mt.intrinsic("keyed", same, BODY + " ").key,
        mt.intrinsic("keyed", same, [("1", BODY), BODY]).key,
        mt.intrinsic("keyed", same, BODY, strides={"x": [1]}).key,
        mt.intrinsic("keyed", same, BODY, includes=["math.h"]).key,
        mt.intrinsic("keyed", tensors((8,)), BODY).key,
        mt.intrinsic("keyed", tensors(dtype="int32"), BODY).key,
        mt.intrinsic("keyed", tensors(value=lambda x: x * 3), BODY).key,
    }
    assert len(keys) == 9


def test_the_body_is_stripped_of_lines_around_it():
    made = mt.intrinsic("stripped", tensors(), [("A", "\n    a;\n"), f"\n{BODY}\n\n"])
    assert [(b.condition, b.text) for b in made.bodies] == [("A", "    a;"), (None, BODY)]


@pytest.mark.parametrize(
    "name", [None, 3, "", "1st", "_x", "a b", "a;", "a\n", "é", "a" * 49, b"a", "a#b", "a:b"]
)
def test_names(name):
    with pytest.raises(mt.ArgumentError, match="expected an identifier of at most 48 characters"):
        mt.intrinsic(name, tensors(), BODY)


@pytest.mark.parametrize("name", ["int", "a b", "1x", "x;", "_x", "x" * 49, "é", 'x"'])
def test_names_of_operands(name):
    with pytest.raises(mt.ArgumentError, match="tensors named by identifiers of C"):
        mt.intrinsic("named", tensors(x=name), BODY)
    with pytest.raises(mt.ArgumentError, match="tensors named by identifiers of C"):
        mt.intrinsic("named", tensors(y=name), BODY)


@pytest.mark.parametrize(
    "name",
    ["int8_t", "int32_t", "uint64_t", "int_fast16_t", "uintptr_t", "intmax_t", "size_t",
     "ptrdiff_t", "wchar_t", "linux", "unix", "NULL", "offsetof", "INT32_MAX", "UINT64_C",
     "SIZE_MAX"],
)  # fmt: skip
def test_operands_named_as_types_and_macros_of_c(name):
    match = f"expected tensors with names that are no types or macros of C, but got name='{name}'"
    with pytest.raises(mt.ArgumentError, match=match):
        mt.intrinsic("named", tensors(x=name), BODY)
    with pytest.raises(mt.ArgumentError, match=match):
        mt.intrinsic("named", tensors(y=name), BODY)


@pytest.mark.parametrize("name", ["_Bool", "_Complex", "__x", "__LINE__"])
def test_operands_with_reserved_names(name):
    with pytest.raises(mt.ArgumentError, match=f"identifiers of C.*'{name}'"):
        mt.intrinsic("named", tensors(x=name), BODY)


@pytest.mark.parametrize("name", ["linux_", "I", "null", "int7_t", "size"])
def test_names_that_are_like_types(name):
    assert mt.intrinsic("named", tensors(x=name), BODY)


def test_names_of_parameters_that_clash():
    with pytest.raises(mt.ArgumentError, match=r"parameters of different names.*'x_stride0'"):
        mt.intrinsic("clash", tensors(y="x_stride0"), BODY)


@pytest.mark.parametrize(
    "c",
    [
        None, 3, [], (), b"y", [None], [("1", BODY)], [BODY, BODY], [("1", BODY, BODY), BODY],
        [("1", 2), BODY], {"c": BODY}, [("1",), BODY],
    ],
)  # fmt: skip
def test_bodies(c):
    with pytest.raises(mt.ArgumentError, match="expected a C body, or pairs"):
        mt.intrinsic("bodies", tensors(), c)


@pytest.mark.parametrize("condition", [None, "", " ", "1\n#error", "a\\", 3, "\x00"])
def test_conditions(condition):
    with pytest.raises(mt.ArgumentError, match="expected a preprocessor condition of one line"):
        mt.intrinsic("conditions", tensors(), [(condition, BODY), BODY])


@pytest.mark.parametrize("text", ["\0", "x" * (1 << 18) + "x", "\ud800"])
def test_texts(text):
    with pytest.raises(mt.ArgumentError, match="expected text of at most"):
        mt.intrinsic("texts", tensors(), text)


@pytest.mark.parametrize(
    "strides",
    [3, "x", [1], {"x": 1}, {"x": []}, {"x": [1, 1]}, {"x": [0]}, {"x": [-1]}, {"x": [True]},
     {"x": [1.0]}, {"x": "1"}, {"z": [1]}, {3: [1]}],
)  # fmt: skip
def test_strides(strides):
    with pytest.raises(mt.ArgumentError, match=r"expected .* but got strides="):
        mt.intrinsic("strides", tensors(), BODY, strides=strides)


def test_strides_of_numpy():
    made = mt.intrinsic("strides", tensors(), BODY, strides={"x": [np.int64(1)]})
    assert made is mt.intrinsic("strides", tensors(), BODY, strides={"x": [1]})
    assert type(made.strides[0][0]) is int


def test_how_many_strides_there_are():
    with pytest.raises(mt.ArgumentError, match="expected 1 stride of at least 1, or None, for x"):
        mt.intrinsic("strides", tensors(), BODY, strides={"x": []})
    with pytest.raises(mt.ArgumentError, match="expected 2 strides of at least 1, or None, for x"):
        mt.intrinsic("strides", tensors((4, 4)), BODY, strides={"x": [1]})


@pytest.mark.parametrize("includes", ["math.h", 3, None, [3], ["<math.h>"], ["a\nb"], ["../a b"]])
def test_includes(includes):
    with pytest.raises(mt.ArgumentError, match=r"expected .* but got includes="):
        mt.intrinsic("includes", tensors(), BODY, includes=includes)


# ---- meanings


def refused(match, *given):
    with pytest.raises(mt.ArgumentError, match=match):
        mt.intrinsic("meaning", list(given), BODY)


def test_one_tensor_is_computed():
    x, y = tensors()
    z = mt.compute((4,), lambda i: y[i] + 1, name="z")
    refused("expected one tensor to be computed, but got 2: y, z", x, z)
    with pytest.raises(mt.MinitensorError):
        mt.intrinsic("meaning", [x], BODY)
    with pytest.raises(mt.MinitensorError):
        mt.intrinsic("meaning", [y], BODY)
    with pytest.raises(mt.MinitensorError):
        mt.intrinsic("meaning", None, BODY)


def test_no_reduction_of_pairs_and_no_ordered_update():
    x = mt.placeholder((4, 4), name="x")
    k = mt.reduce_axis(4, name="k")
    y = mt.compute((4,), lambda i: mt.argmax(x[i, k], axis=k), name="y")
    refused("y is more than one value for each element", x, y)
    z = mt.placeholder((4,), name="z")
    w = mt.update((4,), lambda w, i: w[i] * 2 + z[i], init=0.0, name="w")
    refused("w is an ordered update, not a reduction", z, w)
    w = mt.update((4,), lambda w, i: mt.if_then_else(i > 0, w[i - 1], 0.0) + z[i], name="w")
    refused("w is an ordered update, not a reduction", z, w)


def test_indices_are_sums_of_axes():
    x = mt.placeholder((16,), name="x")
    for index in (
        lambda i: i + 1,
        lambda i: 3 - i,
        lambda i: i // 2,
        lambda i: i * i,
        lambda i: i % 2,
    ):
        y = mt.compute((4,), lambda i, index=index: x[index(i)], name="y")
        refused("expected sums of positive multiples of the axes as indices", x, y)
    y = mt.compute((4,), lambda i: x[i * 3], name="y")
    assert mt.intrinsic("thirds", [x, y], BODY)


def test_values_that_depend_on_the_index():
    x = mt.placeholder((4,), name="x")
    y = mt.compute((4,), lambda i: x[i] + i.astype("float32"), name="y")
    refused("the value depends on the index i itself", x, y)


def test_operands_that_are_not_read():
    x, y = tensors()
    refused("z is no operand: it is not read", x, mt.placeholder((4,), name="z"), y)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (0,), (), (1 << 11, 1 << 10)])
def test_the_size_of_a_meaning(shape):
    with pytest.raises(mt.MinitensorError, match="expected a meaning of 2 to 1048576 steps"):
        mt.intrinsic("sized", tensors(shape), BODY)


# ---- the ready-made ones


@pytest.mark.parametrize(
    "options",
    [{"m": 0}, {"n": -1}, {"k": 1 << 13}, {"m": True}, {"lanes": 3}, {"lanes": 64}, {"n": 24},
     {"m": 64}, {"k": "8"}, {"m": 2.0}],
)  # fmt: skip
def test_micro_kernels_that_are_none(options):
    with pytest.raises(mt.ArgumentError, match="expected "):
        mt.intrinsics.matmul_f32(**options)


def test_the_ready_made_ones_are_declared_when_asked_for():
    assert mt.intrinsics.dot_u8i8() is mt.intrinsics.dot_u8i8()
    assert mt.intrinsics.dot_u8i8().key in DECLARED
    assert dict(mt.intrinsics.matmul_f32(2, 8, 4, 8).axes) == {"i": 2, "j": 8, "l": 4}


def test_extents_of_numpy():
    made = mt.intrinsics.matmul_f32(np.int64(8), np.int32(32), np.uint8(16), lanes=np.int64(16))
    assert made is mt.intrinsics.matmul_f32(8, 32, 16, lanes=16)
