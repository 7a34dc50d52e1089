"""Correct kernels in the emulator: the values of numpy to the bit, and no fault, in any order."""

import numpy as np
import pytest

from minitensor.errors import ArgumentError, CompileError, ExecutionError
from minitensor.runtime import ORDERS, find_toolchain, load_emulated
from tests.run.cuda.conftest import random
from tests.run.cuda.texts import CORRECT, buffer, text


def lanes(a):
    at = np.arange(40)
    warp, lane = at // 32 * 32, at % 32
    down = np.where(at % 8 < 6, at + 2, at)
    last = np.where(lane < 24, at + 8, at)
    seen = np.where(last < 40, a[np.minimum(last, 39)], -1)  # from a lane that is not there: NaN
    return np.stack(
        [a[warp + 3], a[np.where(lane < 2, at, at - 2)], a[down], a[at ^ 5], a[at // 4 * 4 + 1],
         a[at ^ 1], seen]
    )  # fmt: skip


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


EXPECTED = {
    "matmul": lambda a, b: a @ b,
    "tree": lambda a: a.sum(1),
    "shuffles": lambda a: a.sum(2),
    "lanes": lanes,
    "warp": lambda a: a.reshape(2, 32)[:, ::-1].reshape(64),
    "dynamic": lambda a: a.T,
    "vectors": lambda a, h: (
        a.reshape(4, 32, 3)[:, :, ::-1].reshape(4, 96),
        h.astype(np.float32).reshape(16, 4)[:, ::-1].reshape(64),
    ),
    "copies": lambda a: a[:, ::-1],
    "mma": lambda a, b, c: a.astype(np.float32) @ b.astype(np.float32) + c,
    "mma_columns": lambda a, b, c: widened(a) @ widened(b) + c,
    "histogram": lambda a: (np.bincount(a.reshape(-1), minlength=10), a.max(1)),
    "gather": lambda a, i: a[i],
    "two": lambda a: (a[::-1] + 1) * 2,
}


def assert_same(results, expected):
    results = results if isinstance(results, tuple) else (results,)
    # the value of a lane that does not exist is NaN, converted to an integer
    results = [np.where(r == np.iinfo(np.int64).min, -1, r) for r in results]
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(results) == len(expected)
    for result, value in zip(results, expected):
        np.testing.assert_array_equal(result, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [t.name for t in CORRECT])
def test_values_are_those_of_numpy(plain, name):
    kernel = plain[name]
    arrays = random(kernel)
    assert_same(kernel(*arrays), EXPECTED[name](*arrays))


@pytest.mark.slow
@pytest.mark.parametrize("name", [t.name for t in CORRECT])
def test_there_is_no_false_alarm_in_any_order(checked, name):
    kernel = checked[name]
    arrays = random(kernel, seed=1)
    assert kernel.faults(*arrays) == []
    assert len(ORDERS) == 3


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_values_are_the_same_in_each_order(loaded, order):
    for name, kernel in loaded(CORRECT, order=order, seed=3).items():
        arrays = random(kernel, seed=2)
        assert_same(kernel(*arrays), EXPECTED[name](*arrays))


def test_an_index_out_of_bounds_is_a_status_and_no_crash(plain, checked):
    index = np.arange(64, dtype=np.int32) % 10
    a = np.arange(10, dtype=np.float32)
    for kernel in (plain["gather"], checked["gather"]):
        for wrong in (10, -1):
            index[40] = wrong
            for call in (kernel, kernel.faults, kernel.counters):
                with pytest.raises(ExecutionError, match="gather: I is no index of A"):
                    call(a, index)
        index[40] = 9
        np.testing.assert_array_equal(kernel(a, index), a[index])


@pytest.mark.parametrize("orders", [("up",), "forward", 3, [[]]])
def test_orders_that_there_are_not_are_refused(plain, orders):
    with pytest.raises(ArgumentError, match="expected some of forward, backward, shuffled"):
        plain["two"].faults(*random(plain["two"]), orders=orders)


def test_a_call_takes_outputs_and_refuses_what_does_not_fit(plain):
    a = np.ones((5, 128), np.float32)
    s = np.zeros(5, np.float32)
    assert plain["tree"](a, s) is s
    assert s.tolist() == [128.0] * 5
    with pytest.raises(ArgumentError, match="expected A of dtype float32"):
        plain["tree"](a.astype(np.float64))


def test_shared_memory_starts_as_nan_in_each_block(loaded):
    stale = text(
        "stale",
        [buffer("B", 3)],
        "B",
        """
    __shared__ float held[1];
    B[blockIdx.x] = held[0];
    held[0] = 1.0f;
""",
        grid=(3, 1, 1),
        block=(1, 1, 1),
    )
    assert np.isnan(loaded([stale])["stale"]()).all()


def test_a_launch_that_no_device_takes_is_refused(loaded):
    body = "    B[0] = 1.0f;"
    kernels = loaded(
        [
            text("wide", [buffer("B", 1)], "B", body, block=(1025, 1, 1)),
            text("deep", [buffer("B", 1)], "B", body, grid=(1, 1, 65536)),
            text("large", [buffer("B", 1)], "B", body, dynamic=300_000),
        ]
    )
    for name, reason in [("wide", "more threads or blocks"), ("deep", "more threads or blocks")]:
        with pytest.raises(ExecutionError, match=f"{name}: a launch has {reason}"):
            kernels[name]()
    with pytest.raises(ExecutionError, match="large: a launch asks for more dynamic shared memory"):
        kernels["large"]()


def test_what_the_emulator_cannot_show(plain):
    with pytest.raises(CompileError, match="makes no code for a GPU"):
        plain["tree"].assembly()
    assert "tree_kernel: grid (5, 1, 1), block (128, 1, 1)" in plain["tree"].explain()
    with pytest.raises(ArgumentError, match="expected one of forward, backward, shuffled"):
        load_emulated([plain["tree"].emitted], find_toolchain(), order="sideways")


# ---- numbers

CONVERSIONS = text(
    "conversions",
    [
        buffer("F", 4096),
        buffer("D", 4096, dtype="float64"),
        buffer("N", 6, 4096, dtype="float16"),
        buffer("W", 2, 65536),
    ],
    "N W",
    """
    for (int i = threadIdx.x; i < 4096; i += 256) {
        N[i] = float_to_float16(F[i]);
        N[4096 + i] = double_to_float16(D[i]);
        N[8192 + i] = float_to_bfloat16(F[i]);
        N[12288 + i] = double_to_bfloat16(D[i]);
        N[16384 + i] = __float_as_uint(F[i]) >> 16;
        N[20480 + i] = (uint16_t)max(min(__float_as_int(__int_as_float(i)), 9), 3);
    }
    for (int i = threadIdx.x; i < 65536; i += 256) {
        W[i] = float16_to_float((uint16_t)i);
        W[65536 + i] = bfloat16_to_float((uint16_t)i);
    }
""",
    block=(256, 1, 1),
)


def nearest_bfloat16(x):
    """The bits of the nearest bfloat16 of doubles, by exact arithmetic on doubles."""
    with np.errstate(over="ignore"):
        exponent = np.maximum(np.frexp(x)[1] - 8, -133)
        rounded = np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent)
        return (rounded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_narrow_floats_are_rounded_once(loaded):
    rng = np.random.default_rng(5)
    f = rng.integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    f[:2048] = rng.normal(size=2048) * 10.0 ** rng.integers(-9, 6, 2048)
    f[:6] = [0.0, -0.0, np.inf, 65519.99, 65520.0, 2.0**-25]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)[:31000:16].astype(np.float64)
    d = rng.normal(size=4096) * 10.0 ** rng.integers(-46, 40, 4096)
    near = halves[: len(halves) // 2 * 2]
    d[: len(near)] = (near + np.roll(near, 1)) / 2 * (1 + rng.integers(-1, 2, len(near)) * 2.0**-40)
    n, w = loaded([CONVERSIONS])["conversions"](f, d)
    n = n.view(np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        good = ~np.isnan(f)
        np.testing.assert_array_equal(n[0][good], f[good].astype(np.float16).view(np.uint16))
        assert (n[[0, 2]][:, ~good] == 0x7FFF).all() and (~good).any()
        np.testing.assert_array_equal(n[1], d.astype(np.float16).view(np.uint16))
        np.testing.assert_array_equal(n[2][good], nearest_bfloat16(f[good].astype(np.float64)))
        np.testing.assert_array_equal(n[3], nearest_bfloat16(d))
    np.testing.assert_array_equal(n[4], f.view(np.uint32) >> 16)
    np.testing.assert_array_equal(n[5], np.clip(np.arange(4096), 3, 9))
    every = np.arange(1 << 16, dtype=np.uint16)
    np.testing.assert_array_equal(w[0], every.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(w[1], widened(every))
