"""Intrinsics in native code: their bodies against their meanings, and schedules that use them."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import DECLARED
from minitensor.testing import assert_equivalent, check_intrinsic
from tests.unit.schedule.intrinsics import copy2d, product, row, twice

pytestmark = pytest.mark.slow  # make quick leaves it out

# ---- bodies against meanings


def test_the_ready_made_bodies_compute_their_meanings():
    ran = check_intrinsic(mt.intrinsics.dot_u8i8())
    assert next(iter(ran)) == "defined(__AVX512VNNI__) && !defined(__clang__)"
    assert ran["portable"]
    for m, n, k, lanes in ((2, 8, 3, 4), (4, 16, 8, 16), (1, 4, 1, 2), (3, 32, 2, 32)):
        assert check_intrinsic(mt.intrinsics.matmul_f32(m, n, k, lanes), max_examples=10)


@pytest.mark.parametrize("make", [product, twice, copy2d, row])
def test_the_bodies_that_tests_use_compute_their_meanings(make):
    assert check_intrinsic(make()) == {"portable": True}


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float64", "bfloat16", "float16"])
def test_types(dtype):
    x = mt.placeholder((4,), dtype, name="x")
    y = mt.compute((4,), lambda i: x[i], name="y")
    body = "for (int i = 0; i < 4; ++i) y[i * y_stride0] = x[i * x_stride0];"
    try:
        assert check_intrinsic(mt.intrinsic("typed", [x, y], body)) == {"portable": True}
    except mt.CompileError as error:
        assert "16-bit floats" in str(error)


def test_any_nan_of_bfloat16_is_right():
    x = mt.placeholder((4,), "bfloat16", name="x")
    y = mt.compute((4,), lambda i: (x[i] - x[i]) / (x[i] - x[i]), name="y")
    body = "for (int i = 0; i < 4; ++i) y[i * y_stride0] = 0xffc5;"
    assert check_intrinsic(mt.intrinsic("nans", [x, y], body)) == {"portable": True}


@pytest.mark.parametrize(
    ("x", "y"),
    [("where", "ran"), ("workspace", "alone_kernel"), ("array_1", "array_0"), ("ran", "where")],
)
def test_operands_named_as_the_kernel_that_calls_the_body(x, y):
    X = mt.placeholder((4,), name=x)
    Y = mt.compute((4,), lambda i: X[i], name=y)
    body = f"for (int i = 0; i < 4; ++i) {y}[i * {y}_stride0] = {x}[i * {x}_stride0];"
    assert check_intrinsic(mt.intrinsic("named", [X, Y], body)) == {"portable": True}


WRONG = {
    "adds too little": ("for (int i = 0; i < 3; ++i) y[i * y_stride0] = x[i * x_stride0] * 2;", ""),
    "ignores a stride": ("for (int i = 0; i < 4; ++i) y[i * y_stride0] = x[i] * 2;", "meaning"),
    "writes outside": (
        "for (int i = 0; i < 5; ++i) y[i * y_stride0] = x[i * x_stride0] * 2;",
        "writes outside y, ",
    ),
    "writes before": (
        "for (int i = -1; i < 4; ++i) y[i * y_stride0] = x[i * x_stride0] * 2;",
        "writes outside y, -",
    ),
    "wrong for some": (
        "for (int i = 0; i < 4; ++i)"
        " y[i * y_stride0] = x[i * x_stride0] == 3 ? 7 : x[i * x_stride0] * 2;",
        r"gives y\[0\] = 7.0, where its meaning gives 6.0|gives y\[\d\] = 7.0",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_body_is_found(name):
    body, match = WRONG[name]
    x = mt.placeholder((4,), name="x")
    y = mt.compute((4,), lambda i: x[i] * 2, name="y")
    wrong = mt.intrinsic("wrong", [x, y], body)
    with pytest.raises(AssertionError, match=match or r"the body of wrong for portable gives y\["):
        check_intrinsic(wrong)


def test_a_reduction_must_add_to_what_is_there():
    x = mt.placeholder((4, 3), name="x")
    l = mt.reduce_axis(3, name="l")
    y = mt.compute((4,), lambda i: mt.sum(x[i, l], axis=l), name="y")
    body = """
        for (int i = 0; i < 4; ++i) {
            y[i * y_stride0] = 0;
            for (int l = 0; l < 3; ++l) y[i * y_stride0] += x[i * x_stride0 + l * x_stride1];
        }
    """
    with pytest.raises(AssertionError, match=r"gives y\[\d\] = .* where its meaning gives"):
        check_intrinsic(mt.intrinsic("forgets", [x, y], body))


def test_a_sum_of_bytes_that_saturates_is_found():
    """As the older instruction for bytes does, in 16 bits: right for all small numbers."""
    A = mt.placeholder((4,), "uint8", name="a")
    B = mt.placeholder((16, 4), "int8", name="b")
    k = mt.reduce_axis(4, name="k")
    C = mt.compute(
        (16,),
        lambda j: mt.sum(A[k].astype("int32") * B[j, k].astype("int32"), axis=k),
        name="c",
    )
    body = """
        for (int j = 0; j < 16; ++j) {
            for (int k = 0; k < 4; k += 2) {
                int pair = a[k] * b[j * 4 + k] + a[k + 1] * b[j * 4 + k + 1];
                c[j] += pair > 32767 ? 32767 : pair < -32768 ? -32768 : pair;
            }
        }
    """
    strides = {"a": [1], "b": [4, 1], "c": [1]}
    wrong = mt.intrinsic("saturates", [A, B, C], body, strides=strides)
    with pytest.raises(AssertionError, match=r"any values of seed"):
        check_intrinsic(wrong)


def test_each_alternative_is_tested_by_itself():
    x = mt.placeholder((4,), name="x")
    y = mt.compute((4,), lambda i: x[i] * 2, name="y")
    right = "for (int i = 0; i < 4; ++i) y[i * y_stride0] = 2 * x[i * x_stride0];"
    made = mt.intrinsic("three", [x, y], [("0", "no C at all"), ("1", right), right])
    assert check_intrinsic(made) == {"0": False, "1": True, "portable": True}
    made = mt.intrinsic("three", [x, y], [("1", "y[0] = 0;"), right])
    with pytest.raises(AssertionError, match="the body of three for 1 gives"):
        check_intrinsic(made)
    made = mt.intrinsic("three", [x, y], [("1", right), "y[0] = 0;"])
    with pytest.raises(AssertionError, match="the body of three for portable gives"):
        check_intrinsic(made)


def test_a_body_that_does_not_compile():
    x = mt.placeholder((4,), name="x")
    y = mt.compute((4,), lambda i: x[i] * 2, name="y")
    made = mt.intrinsic("broken", [x, y], "y[0] = nonsense;")
    match = "nonsense.*; the text holds the body of the intrinsic broken, which may be the reason"
    with pytest.raises(mt.CompileError, match=match):
        check_intrinsic(made)
    s = mt.Schedule(mt.lower([x, mt.compute((4,), lambda i: x[i] * 2, name="z")]))
    s.tensorize(s.get_loops("z")[0], made)
    with pytest.raises(mt.CompileError, match=match):
        mt.build(s)


def test_what_is_no_intrinsic():
    for value in (None, "dot_u8i8", 3):
        with pytest.raises(mt.ArgumentError, match=r"expected what mt\.intrinsic returned"):
            check_intrinsic(value)


@pytest.mark.parametrize("value", [0, -1, 2.5, "x", True, None])
def test_numbers_of_examples_that_are_none(value):
    match = "expected an integer of at least 1, but got max_examples="
    with pytest.raises(mt.ArgumentError, match=match):
        check_intrinsic(twice(), max_examples=value)


@pytest.mark.parametrize("value", ["x", float("nan"), -1.0, float("inf"), True, None, 1j])
def test_tolerances_that_are_none(value):
    with pytest.raises(mt.ArgumentError, match=r"expected a finite number .*, but got rtol="):
        check_intrinsic(twice(), rtol=value)


def test_numbers_of_numpy_as_arguments():
    assert check_intrinsic(twice(), max_examples=np.int64(2), rtol=np.float32(0))


def test_headers_are_included_where_there_are_any():
    x = mt.placeholder((4,), name="x")
    y = mt.compute((4,), lambda i: mt.sqrt(x[i]), name="y")
    body = "for (int i = 0; i < 4; ++i) y[i * y_stride0] = sqrtf(x[i * x_stride0]);"
    made = mt.intrinsic("roots", [x, y], body, includes=["math.h", "no_such_header.h"])
    assert check_intrinsic(made, rtol=1e-6) == {"portable": True}


# ---- in schedules


def quantised(m, n, k):
    """C (int32) = A (uint8) times B (int8)"""
    A = mt.placeholder((m, k), "uint8", name="A")
    B = mt.placeholder((k, n), "int8", name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute(
        (m, n),
        lambda i, j: mt.sum(A[i, r].astype("int32") * B[r, j].astype("int32"), axis=r),
        name="C",
    )
    return mt.lower([A, B, C], name="quantised")


def quantised_schedule(program):
    s = mt.Schedule(program)
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda k, j: (j // 16, k // 4, j % 16, k % 4))
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 4])
    j_0, j_1 = s.split(j, [None, 16])
    k_0, k_1 = s.split(k, [None, 4])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    s.decompose_reduction("C", k_0)
    s.tensorize(j_1, mt.intrinsics.dot_u8i8())
    s.unroll(i_1)
    s.parallel(i_0)
    return s


@pytest.mark.parametrize(("m", "n", "k"), [(8, 16, 4), (64, 96, 128)])
@pytest.mark.parametrize("cores", [1, 2])
def test_dot_products_of_bytes(m, n, k, cores):
    s = quantised_schedule(quantised(m, n, k))
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (m, k)).astype("uint8")
    b = rng.integers(-128, 128, (k, n)).astype("int8")
    kernel = mt.build(s, mt.Target("c", num_cores=cores))
    wanted = a.astype("int32") @ b.astype("int32")
    np.testing.assert_array_equal(kernel(a, b), wanted, strict=True)
    np.testing.assert_array_equal(kernel.bind(B=b)(a), wanted, strict=True)
    again = mt.Trace.from_json(s.trace.to_json()).apply(s.history[0])
    assert again.program == s.program


def test_a_micro_kernel():
    A = mt.placeholder((8, 16), name="A")
    B = mt.placeholder((16, 16), name="B")
    r = mt.reduce_axis(16, name="k")
    C = mt.compute((8, 16), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = mt.compute((8, 16), lambda x, y: mt.maximum(C[x, y], 0), name="D")
    s = mt.Schedule(mt.lower([A, B, D]))
    loops = [s.split(loop, [None, n]) for loop, n in zip(s.get_loops("C"), (4, 8, 8))]
    (i_0, i_1), (j_0, j_1), (k_0, k_1) = loops
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    s.reverse_compute_at("D", j_0)  # while the reduction is whole
    s.decompose_reduction("C", k_0)
    s.tensorize(i_1, mt.intrinsics.matmul_f32(4, 8, 8, lanes=8))
    s.parallel(i_0)
    assert_equivalent(s.history[0], s, ["interpreter", "passes", "c"])
    source = mt.build(s).source
    assert source.count("static inline void intrinsic_matmul_f32_4x8x8_") == 1
    assert "float C[32] " in source


def test_storage_keeps_the_strides_that_are_relied_on():
    A = mt.placeholder((8, 16), name="A")
    B = mt.compute((8, 16), lambda i, j: A[i, j] + 1, name="B")
    C = mt.compute((4, 4), lambda x, y: B[x, y], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    copy = s.cache_read("C", "B", "global")
    s.tensorize("x", copy2d(strides={"x": [16, 1]}))
    assert_equivalent(s.history[0], s, ["passes", "c"])
    assert ", 16, 1," in mt.build(s).source
    t = mt.Schedule(mt.lower([A, C]))
    t.cache_read("C", "B", "global")
    t.tensorize("x", copy2d())
    assert_equivalent(t.history[0], t, ["passes", "c"])
    assert ", 4, 1," in mt.build(t).source
    assert copy


def test_names_of_a_program_that_are_names_of_the_text():
    made = twice()
    function = "intrinsic_" + made.key.replace(":", "_")[: len("twice_") + 8]
    A = mt.placeholder((4,), name=function)
    C = mt.compute((4,), lambda i: A[i] * 2, name="intrinsic_twice")
    s = mt.Schedule(mt.lower([A, C]))
    s.tensorize("i", made)
    assert_equivalent(s.history[0], s)


def test_two_of_one_name_in_one_program():
    one, two = twice(4), twice(8)
    A = mt.placeholder((8,), name="A")
    B = mt.compute((8,), lambda i: A[i] * 2, name="B")
    C = mt.compute((8,), lambda x: B[x] * 2, name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.split("i", [2, 4])
    s.tensorize("i_1", one)
    s.tensorize("x", two)
    assert one.name == two.name
    assert one.key in DECLARED
    assert two.key in DECLARED
    assert_equivalent(s.history[0], s)


def test_a_number_as_an_operand():
    """An operand without axes, and one that is a scalar of the program."""
    x = mt.placeholder((4,), name="x")
    l = mt.reduce_axis(4, name="l")
    y = mt.compute((), lambda: mt.sum(x[l], axis=l), name="y")
    made = mt.intrinsic("total", [x, y], "for (int l = 0; l < 4; ++l) y[0] += x[l * x_stride0];")
    assert check_intrinsic(made) == {"portable": True}
    A = mt.placeholder((3, 4), name="A")
    k = mt.reduce_axis(4, name="k")
    C = mt.compute((3,), lambda i: mt.sum(A[i, k], axis=k), name="C")
    D = mt.compute((3,), lambda x: C[x] * 2, name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.reverse_compute_at("D", "i")
    s.decompose_reduction("C", "k")
    s.tensorize("k", made)
    assert_equivalent(s.history[0], s, ["interpreter", "passes", "c"])
    E = mt.compute((), lambda: mt.sum(A[1, k], axis=k), name="E")
    s = mt.Schedule(mt.lower([A, E]))
    s.decompose_reduction("E", "k")
    s.tensorize("k", made)
    assert_equivalent(s.history[0], s, ["interpreter", "passes", "c"])


def test_operands_may_be_called_like_what_the_test_adds():
    a = mt.placeholder((4,), name="y_before")
    b = mt.placeholder((3, 4), name="y_before0")
    k = mt.reduce_axis(4, name="k")
    y = mt.compute((3,), lambda i: mt.sum(a[k] * b[i, k], axis=k), name="y")
    body = """
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 4; ++k)
            y[i * y_stride0] += y_before[k * y_before_stride0]
                * y_before0[i * y_before0_stride0 + k * y_before0_stride1];
    """
    assert check_intrinsic(mt.intrinsic("dot_of_y", [a, b, y], body)) == {"portable": True}
    y = mt.compute((4,), lambda i: a[i] + 1.0, name="y")
    body = "for (int i = 0; i < 4; ++i) y[i * y_stride0] = y_before[i * y_before_stride0] + 1;"
    assert check_intrinsic(mt.intrinsic("next_of_y", [a, y], body)) == {"portable": True}


def test_a_body_that_calls_what_is_nowhere_defined():
    a = mt.placeholder((4,), name="a")
    c = mt.compute((4,), lambda i: a[i] + 1.0, name="c")
    body = "float nowhere_defined(float); c[0] = nowhere_defined(a[0]);"
    with pytest.raises(mt.CompileError, match="the body of an intrinsic calls it"):
        check_intrinsic(mt.intrinsic("lost", [a, c], body))


def test_an_operand_may_be_an_element_of_a_vector_in_a_register():
    x = mt.placeholder((1,), "int32", name="x")
    y = mt.compute((8,), lambda i: x[0], name="y")
    fill = mt.intrinsic("fill", [x, y], "for (int i = 0; i < 8; ++i) y[i * y_stride0] = x[0];")
    A = mt.placeholder((37,), "int32", name="A")
    Q = mt.compute((37,), lambda i: A[i] * 2, name="Q")
    s = mt.Schedule(mt.lower([A, mt.compute((8,), lambda i: Q[32] + 0, name="S")]))
    s.vectorize(s.get_loops("Q")[0])
    s.tensorize(s.get_loops("S")[0], fill)
    a = np.arange(37, dtype=np.int32)
    for bits in (128, 256, 512):
        got = mt.build(s, mt.Target("c", num_cores=1, vector_bits=bits))(a)
        np.testing.assert_array_equal(got, np.full(8, 64))
