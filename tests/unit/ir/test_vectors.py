"""Vector nodes mean what the scalar loop over their lanes means."""

import numpy as np
import pytest

from minitensor.errors import ExecutionError, VerifyError
from minitensor.ir import (
    BOOL,
    FLOAT32,
    INDEX,
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    DType,
    Lanes,
    Load,
    Ramp,
    Scope,
    Select,
    Seq,
    Store,
    Unary,
    Var,
    evaluate,
    less,
    numpy_dtype,
    verify,
)
from tests.unit.ir.build import (
    buffer,
    every_dtype,
    i,
    j,
    load,
    loop,
    number,
    program,
    run,
    run_counted,
    store,
)

RAMP = Ramp(Const(0), 1, 4)
lane = Var("l")
DATA = np.array([3, -1, 4, -2], np.float32)


def vector_load(name, index, dtype=FLOAT32) -> Load:
    return Load(name, (index,), DType.of(dtype).with_lanes(index.lanes))


# ---- the nodes


def test_ramp():
    np.testing.assert_array_equal(evaluate(Ramp(i, 1, 4), {"i": 5}), [5, 6, 7, 8])
    np.testing.assert_array_equal(evaluate(Ramp(i * 2, -3, 3), {"i": 5}), [10, 7, 4])
    np.testing.assert_array_equal(evaluate(Ramp(i, 0, 2), {"i": 5}), [5, 5])


@pytest.mark.parametrize(
    "one", [Ramp(i, 7, 1), Broadcast(i, 1), Lanes("l", 1, i + lane)], ids=lambda e: type(e).__name__
)
def test_a_vector_of_one_lane_is_a_scalar(one):
    """As its type is; so it is an address like any other."""
    assert one.dtype == INDEX
    assert np.ndim(evaluate(one, {"i": 5})) == 0
    A, B = buffer("A", 4), buffer("B", 4)
    copied = loop("i", 4, store("B", one, Load("A", (one,), FLOAT32)))
    np.testing.assert_array_equal(run(program(copied, [A, B]), DATA), DATA)


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint64"])
def test_a_ramp_of_data_has_the_type_of_its_base(name):
    dtype = DType.of(name)
    start = dtype.max_value - 1
    got = evaluate(Ramp(Const(start, dtype), 1, 4), {})
    wanted = [evaluate(Binary("+", Const(start, dtype), number(n, dtype)), {}) for n in range(4)]
    assert got.dtype == name
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", every_dtype())
def test_broadcast_keeps_the_type(dtype):
    got = evaluate(Broadcast(number(1, dtype), 3), {})
    assert got.dtype == ("float32" if dtype == "bfloat16" else numpy_dtype(dtype))
    np.testing.assert_array_equal(got, [1, 1, 1])


@pytest.mark.parametrize("dtype", every_dtype())
def test_lanes_keep_the_type(dtype):
    got = evaluate(Lanes("l", 3, Cast(dtype, lane)), {})
    assert got.dtype == ("float32" if dtype == "bfloat16" else numpy_dtype(dtype))
    np.testing.assert_array_equal(got, np.arange(3).astype(bool) if dtype == BOOL else [0, 1, 2])


def test_lanes_evaluate_each_lane_by_itself():
    lazily = Select(less(lane, 2), Call("in_bounds", (lane, Const(2)), INDEX), Const(9), lazy=True)
    np.testing.assert_array_equal(evaluate(Lanes("l", 4, lazily), {}), [0, 1, 9, 9])


def test_lanes_inside_lanes():
    inner = Lanes("m", 2, Var("m") + i)
    total = Binary("+", inner, Lanes("m", 2, Var("m") * 10))
    np.testing.assert_array_equal(evaluate(total, {"i": 1}), [1, 12])


def test_lanes_bind_their_variable_only_inside():
    expr = Binary("+", Lanes("i", 4, i), Broadcast(i, 4))
    np.testing.assert_array_equal(evaluate(expr, {"i": 10}), [10, 11, 12, 13])


def test_after_lanes_a_variable_of_that_name_is_what_it_was():
    row = buffer("D", 3, 4)
    shadowing = store("D", (i, RAMP), Lanes("i", 4, Cast(FLOAT32, i)))
    p = program(loop("i", 3, shadowing, store("C", i, Cast(FLOAT32, i))), [row, buffer("C", 3)])
    rows, c = run(p)
    np.testing.assert_array_equal(rows, [[0, 1, 2, 3]] * 3)
    np.testing.assert_array_equal(c, [0, 1, 2])


# ---- operations on vectors agree with those on lanes


def lanes_of(build, dtype=FLOAT32, lanes=4):
    """`build` of whole vectors of X and Y, and of each lane, must be the same numbers."""
    x, y = (vector_load(n, Ramp(Const(0), 1, lanes), dtype) for n in "XY")
    together = build(x, y)
    x, y = (load(n, lane, dtype=dtype) for n in "XY")
    apart = Lanes("l", lanes, build(x, y))
    assert together.dtype == apart.dtype
    return together, apart


def both_ways(build, xs, ys, dtype):
    together, apart = lanes_of(build, dtype, len(xs))
    out = together.dtype.scalar
    params = [buffer("X", len(xs), dtype=dtype), buffer("Y", len(ys), dtype=dtype)]
    results = []
    for value in (together, apart):
        body = store("C", Ramp(Const(0), 1, len(xs)), value)
        results.append(run(program(body, [*params, buffer("C", len(xs), dtype=out)]), xs, ys))
    assert results[0].dtype == results[1].dtype
    return results


def operands(dtype):
    host = numpy_dtype(dtype)
    if dtype == "bfloat16":
        return np.array([0x3F80, 0xC040, 0x7FC0, 0], host), np.array(
            [0x4000, 0x3F00, 0x3F80, 0], host
        )
    if dtype.is_float:
        return (
            np.array([1.5, -2.25, np.nan, np.inf, 0.1, 7], host),
            np.array([2, 0, 1, -np.inf, np.nan, 0.3], host),
        )
    low, high = dtype.min_value, dtype.max_value
    return np.array([low, high, high, 7, 1, 0], host), np.array([high, high, 2, 0, 3, 5], host)


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", "min", "max", "<", "<=", "==", "!="])
@pytest.mark.parametrize("dtype", every_dtype(("float", "int", "uint")))
def test_binary_operations(dtype, op):
    if (op == "/") != dtype.is_float and op in ("/", "//", "%"):
        return  # not for this type
    xs, ys = operands(dtype)
    together, apart = both_ways(lambda x, y: Binary(op, x, y), xs, ys, dtype)
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize("op", ["and", "or", "==", "!="])
def test_logical_operations(op):
    xs, ys = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    together, apart = both_ways(lambda x, y: Binary(op, x, y), xs, ys, BOOL)
    np.testing.assert_array_equal(together, apart)
    together, apart = both_ways(lambda x, y: Unary("not", x), xs, ys, BOOL)
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize(
    "function",
    [
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "tanh",
        "sigmoid",
        "erf",
        "sin",
        "cos",
        "log1p",
        "expm1",
        "abs",
        "floor",
        "ceil",
        "round",
        "power",
    ],
)
@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_functions(name, function):
    dtype = DType.of(name)

    def build(x, y):
        args = (x, y) if function == "power" else (x,)
        return Call(function, args, x.dtype)

    xs, ys = operands(dtype)
    together, apart = both_ways(build, xs, ys, dtype)
    if name != "bfloat16":
        np.testing.assert_allclose(together, apart, rtol=2 * np.finfo(name).eps)
    else:
        np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize(
    "target", ["float64", "float32", "float16", "bfloat16", "int8", "uint16", "bool"]
)
def test_casts(target):
    dtype = DType.of(target)

    def build(x, y):
        return Cast(dtype.with_lanes(x.dtype.lanes), x)

    xs = np.array([0.0, 1.5, 100.25, 3.0, 7.75, 0.5], np.float32)
    together, apart = both_ways(build, xs, xs, FLOAT32)
    np.testing.assert_array_equal(together, apart)


def test_negation_and_selection():
    together, apart = both_ways(lambda x, y: Unary("-", x), DATA, DATA, FLOAT32)
    np.testing.assert_array_equal(together, apart)
    other = DATA[::-1].copy()
    together, apart = both_ways(lambda x, y: Select(less(x, y), x, y), DATA, other, FLOAT32)
    np.testing.assert_array_equal(together, apart)


def test_a_scalar_condition_selects_whole_vectors():
    value = Select(less(i, 1), vector_load("A", RAMP), Broadcast(number(0.0), 4))
    p = program(loop("i", 2, store("D", (i, RAMP), value)), [buffer("A", 4), buffer("D", 2, 4)])
    np.testing.assert_array_equal(run(p, DATA), [DATA, np.zeros(4)])


def test_a_lazy_selection_of_vectors_evaluates_each_lane_of_one_side():
    """Padding: the loads of the lanes that are not taken would leave the buffer."""
    test = less(RAMP, Broadcast(Const(2), 4))
    value = Select(test, vector_load("A", RAMP), Broadcast(number(0.0), 4), lazy=True)
    p = program(store("C", RAMP, value), [buffer("A", 2), buffer("C", 4)])
    try:
        verify(p)
    except VerifyError:
        return  # that lazy selections are for scalars (and Lanes) would be an answer too
    np.testing.assert_array_equal(run(p, DATA[:2]), [3, -1, 0, 0])


def test_in_bounds_on_a_vector():
    inside = Call("in_bounds", (RAMP, Broadcast(Const(4), 4)), INDEX.with_lanes(4))
    np.testing.assert_array_equal(evaluate(inside, {}), [0, 1, 2, 3])
    outside = Call("in_bounds", (Ramp(Const(1), 1, 4), Broadcast(Const(4), 4)), inside.dtype)
    with pytest.raises(ExecutionError, match="is outside"):
        evaluate(outside, {})


def test_arithmetic_on_vectors_of_indices():
    ramp = Ramp(i - 4, 3, 4)
    four = Broadcast(Const(4), 4)
    for op in ("+", "-", "*", "//", "%", "min", "max", "<"):
        expr = Binary(op, ramp, four)
        scalar = Lanes("l", 4, Binary(op, i - 4 + lane * 3, Const(4)))
        np.testing.assert_array_equal(evaluate(expr, {"i": 0}), evaluate(scalar, {"i": 0}))
    zero = Broadcast(Const(0), 4)
    for op in ("//", "%"):
        np.testing.assert_array_equal(evaluate(Binary(op, ramp, zero), {"i": 0}), np.zeros(4))


# ---- loads and stores


def scalar_loop(kind="vectorize"):
    body = loop(
        "l", 4, store("C", i * 4 + lane, Binary("*", load("A", lane), load("A", i))), kind=kind
    )
    return program(loop("i", 4, body), [buffer("A", 4), buffer("C", 16)])


def test_a_vectorized_loop_and_what_becomes_of_it():
    wanted = run(scalar_loop(), DATA)
    np.testing.assert_array_equal(wanted, np.outer(DATA, DATA).ravel())
    value = Binary("*", vector_load("A", RAMP), Broadcast(load("A", i), 4))
    p = program(
        loop("i", 4, store("C", Ramp(i * 4, 1, 4), value)), [buffer("A", 4), buffer("C", 16)]
    )
    outputs, counts = run_counted(p, DATA)
    np.testing.assert_array_equal(outputs[0], wanted)
    assert counts.stores == {"A": 0, "C": 16}
    assert counts.loads == {
        "A": 4 * (4 + 1),
        "C": 0,
    }  # one a lane; the broadcast one is loaded once


def test_strided_and_gathered_loads():
    a = np.arange(8, dtype=np.float32)
    where = np.array([6, 0, 3, 3], np.int32)
    params = [buffer("A", 8), buffer("idx", 4, dtype="int32"), buffer("C", 4)]
    for index, wanted in [
        (Ramp(Const(1), 2, 4), a[1::2]),
        (Ramp(Const(7), -1, 4), a[:3:-1]),
        (Broadcast(Const(5), 4), np.full(4, 5)),
        (Lanes("l", 4, lane * lane % 8), a[[0, 1, 4, 1]]),
    ]:
        p = program(store("C", RAMP, vector_load("A", index)), params)
        np.testing.assert_array_equal(run(p, a, where), wanted)
    gathered = Cast(INDEX.with_lanes(4), vector_load("idx", RAMP, "int32"))
    loaded = Load("A", (gathered,), FLOAT32.with_lanes(4))
    np.testing.assert_array_equal(
        run(program(store("C", RAMP, loaded), params), a, where), a[where]
    )


def test_scattered_stores():
    p = program(
        store("C", Lanes("l", 4, 3 - lane), vector_load("A", RAMP)),
        [buffer("A", 4), buffer("C", 4)],
    )
    np.testing.assert_array_equal(run(p, DATA), DATA[::-1])


def test_vector_indices_beside_scalar_ones():
    value = Load("D", (i, Ramp(Const(0), 1, 3)), FLOAT32.with_lanes(3))
    d = np.arange(6, dtype=np.float32).reshape(2, 3)
    p = program(
        loop("i", 2, store("C", (Ramp(Const(0), 1, 3), i), value)),
        [buffer("D", 2, 3), buffer("C", 3, 2)],
    )
    np.testing.assert_array_equal(run(p, d), d.T)


def test_two_vector_indices_go_together():
    diagonal = Load("D", (RAMP, Ramp(Const(3), -1, 4)), FLOAT32.with_lanes(4))
    d = np.arange(16, dtype=np.float32).reshape(4, 4)
    p = program(store("C", RAMP, diagonal), [buffer("D", 4, 4), buffer("C", 4)])
    np.testing.assert_array_equal(run(p, d), np.fliplr(d).diagonal())


def test_a_buffer_of_vectors():
    held = Buffer("V", (2,), FLOAT32.with_lanes(4), Scope.REGISTER)
    fill = loop("i", 2, Store("V", (i,), vector_load("A", Ramp(i * 4, 1, 4))))
    one = Load("V", (Const(1),), held.dtype)
    other = Load("V", (Const(0),), held.dtype)
    body = Seq((fill, Store("V", (Const(0),), Binary("+", one, other)), store("C", RAMP, other)))
    p = program(body, [buffer("A", 8), buffer("C", 4)], [held])
    a = np.arange(8, dtype=np.float32)
    outputs, counts = run_counted(p, a)
    np.testing.assert_array_equal(outputs[0], a[:4] + a[4:])
    assert (counts.loads["V"], counts.stores["V"]) == (3, 3)  # a vector counts as one element


def test_a_vector_that_is_loaded_stays_as_it_was():
    held = Buffer("V", (1,), FLOAT32.with_lanes(2))
    here = Load("V", (Const(0),), held.dtype)
    pair = Ramp(Const(0), 1, 2)
    body = Seq(
        (
            Store("V", (Const(0),), Broadcast(number(1.0), 2)),
            store("C", pair, here),
            Store("V", (Const(0),), Broadcast(number(2.0), 2)),
        )
    )
    np.testing.assert_array_equal(run(program(body, [buffer("C", 2)], [held])), [1, 1])


def test_uninitialised_lanes_are_found():
    p = program(store("C", RAMP, vector_load("C", RAMP)), [buffer("C", 4)])
    with pytest.raises(ExecutionError, match=r"C\[0\] is read before written"):
        run(p)


def test_races_of_lanes_between_threads_are_found():
    body = loop("i", 2, store("C", Ramp(i * 3, 1, 4), 1.0), kind="parallel")
    with pytest.raises(ExecutionError, match=r"both touch C\[3\]"):
        run(program(body, [buffer("C", 7)]))


def test_bfloat16_vectors_are_rounded():
    bits = np.array([0x3F80, 0x3F81, 0x4000, 0x4080], np.uint16)
    params = [buffer("A", 4, dtype="bfloat16"), buffer("C", 4, dtype="bfloat16")]
    a = vector_load("A", RAMP, "bfloat16")
    together = run(program(store("C", RAMP, Binary("*", a, a)), params), bits)
    one = load("A", j, dtype="bfloat16")
    apart = run(program(loop("j", 4, store("C", j, Binary("*", one, one))), params), bits)
    np.testing.assert_array_equal(together, apart)
