"""skip_zeros."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from tests.parts import some
from tests.unit.schedule.common import Refusal, check, each, golden, run_refusal
from tests.unit.schedule.programs import (
    after,
    matmul,
    rowsum,
    sparse_sum,
    spread_out,
    start,
)

W = mt.workloads


def test_skip_zeros():
    s = mt.Schedule(sparse_sum())
    assert s.skip_zeros("C") == "C_phases"
    golden(
        s,
        """
        C_phases = empty(float32[2, 4])
        for y_1 in range(2):
            for y_0 in range(4):
                for k_0 in range(2):
                    if k_0 == 0:  # block C
                        C_phases[y_1, y_0] = 0.0
                    C_phases[y_1, y_0] += A[y_0*2 + y_1] * A[k_0*2 + y_1]
        for C_phases_y_1 in range(2):
            for C_phases_y_0 in range(4):
                C[C_phases_y_0*2 + C_phases_y_1] = """
        """C_phases[C_phases_y_1, C_phases_y_0]  # block C_phases
        """,
    )


def test_stored_zeros_and_what_they_are_multiplied_with():
    s = mt.Schedule(spread_out())
    s.skip_zeros("C")
    golden(
        s,
        """
        P = empty(float32[5])
        C_zeros = empty(float32[3])
        C_zeros_sum = empty(float32[2])
        C_phases = empty(float32[2, 3])
        for P_i in range(5):
            P[P_i] = if_then_else(P_i < 4, A[P_i], 0.0)
        for C_zeros_k in range(3):
            for C_zeros_r in range(2):
                if C_zeros_r == 0:
                    C_zeros[C_zeros_k] = 0.0
                C_zeros[C_zeros_k] += 0.0 * B[C_zeros_r, C_zeros_k]
        for C_zeros_sum_y_1 in range(2):
            for C_zeros_sum_k in range(3):
                if C_zeros_sum_k == 0:
                    C_zeros_sum[C_zeros_sum_y_1] = 0.0
                C_zeros_sum[C_zeros_sum_y_1] += """
        """select((C_zeros_sum_k + C_zeros_sum_y_1)%2 == 0, 0.0, C_zeros[2 - C_zeros_sum_k])
        for y_1 in range(2):
            for y_0 in range(3):
                for C_r in range(2):
                    for k_0 in range(2):
                        if C_r == 0 and k_0 == 0:  # block C
                            C_phases[y_1, y_0] = 0.0
                        if k_0*2 + y_1 < 3:
                            C_phases[y_1, y_0] += """
        """P[(y_1 + 1)//2 + k_0 + y_0] * B[C_r, 2 - k_0*2 - y_1]
        for C_phases_y_1 in range(2):
            for C_phases_y_0 in range(3):
                if C_phases_y_0*2 + C_phases_y_1 < 5:  # block C_phases
                    C[C_phases_y_0*2 + C_phases_y_1] = """
        """C_phases[C_phases_y_1, C_phases_y_0] + C_zeros_sum[C_phases_y_1]
        """,
    )


def spread_conv(n, h, c, f, kernel, stride, padding, dtype, groups=False):
    """A transposed convolution, its image stored with zeros in between."""
    data, weight = (n, c, h, h), (c, kernel, kernel) if groups else (c, f, kernel, kernel)
    X, Y = mt.placeholder(data, dtype, name="X"), mt.placeholder(weight, dtype, name="W")
    q = kernel - 1 - padding
    wide, out = (h - 1) * stride + 1 + 2 * q, (h - 1) * stride - 2 * padding + kernel

    def image(b, i, y, x):
        inside = [mt.logical_and(at >= q, at < wide - q) for at in (y, x)]
        hits = [(at - q) % stride == 0 for at in (y, x)]
        here = mt.logical_and(*inside, *hits)
        return mt.if_then_else(here, X[b, i, (y - q) // stride, (x - q) // stride], 0)

    P = mt.compute((n, c, wide, wide), image, name="P")
    ry, rx = (mt.reduce_axis(kernel, name=name) for name in ("ry", "rx"))
    rc = mt.reduce_axis(c, name="rc")
    last = kernel - 1

    def window(b, o, y, x):
        if groups:
            return mt.sum(P[b, o, y + ry, x + rx] * Y[o, last - ry, rx], axis=[ry, rx])
        factor = Y[rc, o, last - ry, last - rx]
        return mt.sum(P[b, rc, y + ry, x + rx] * factor, axis=[rc, ry, rx])

    C = mt.compute((n, c if groups else f, out, out), window, name="C")
    return mt.lower([X, Y, C])


SIZES = [
    case
    for case in itertools.product((2, 3, 4, 5), (2, 3), (0, 1), ("float32", "int8"), (False, True))
    if case[1] <= case[0] and case[2] < case[0]
]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dtype", "groups"),
    some(SIZES, lambda n: n % 3 == 0),  # any two values of two of them meet
)
def test_transposed_convolutions(kernel, stride, padding, dtype, groups):
    program = spread_conv(1, 3, 2, 2, kernel, stride, padding, dtype, groups)
    s = mt.Schedule(program)
    s.skip_zeros("C")
    assert ("C_zeros_sum" in s.get_blocks()) == (dtype == "float32")
    check(s)
    inlined = mt.Schedule(program)
    inlined.compute_inline("P")
    inlined.skip_zeros("C")
    check(inlined)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "bad", [np.inf, *[pytest.param(v, marks=pytest.mark.slow) for v in (-np.inf, np.nan)]]
)
@pytest.mark.parametrize(("kernel", "stride", "groups"), [(3, 2, False), (4, 3, True)])
def test_a_zero_times_what_is_not_finite(bad, kernel, stride, groups):
    program = spread_conv(1, 3, 2, 3, kernel, stride, 1, "float32", groups)
    s = mt.Schedule(program)
    s.skip_zeros("C")
    rng = np.random.default_rng(3)
    data, weight = (b.shape for b in program.inputs)
    X = rng.integers(-3, 4, data).astype(np.float32)
    for place in np.ndindex(*weight[1:]):
        Y = rng.integers(1, 4, weight).astype(np.float32)
        Y[(1, *place)] = bad
        wanted = mt.interpret(program, X, Y)
        assert np.isnan(wanted).any() and not np.isnan(wanted).all()
        np.testing.assert_array_equal(mt.interpret(s.program, X, Y), wanted)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_named_operator(layout, dtype):
    tensors = W.conv2d_transpose(
        1, 2, 3, 3, 2, 4, 2, 1, layout=layout, dtype=dtype, out_dtype="float32"
    )
    s = mt.Schedule(mt.lower(tensors))
    s.skip_zeros("conv")
    assert all(dict(x.annotations) == {} for x in (s.program.blocks["conv"],))
    assert "if_then_else" not in str(s.program).split("conv_phases[")[1].split("\n")[0]
    check(s)


def spread_2(**options):
    return lambda: mt.Schedule(spread_out(**options))


def by_the_axis():
    """A sum whose zeros are multiplied with a factor that depends on the axis."""
    A = mt.placeholder((8,), name="A")
    k = mt.reduce_axis(4, name="k")

    def window(y):
        return mt.sum(mt.if_then_else((y + k) % 2 == 0, A[y], 0.0) * A[y], axis=k)

    return mt.Schedule(mt.lower([A, mt.compute((8,), window, name="C")]))


def read_twice():
    """P is read by C, and by D."""
    A = mt.placeholder((4,), name="A")
    P = mt.compute((7,), lambda i: mt.if_then_else(i % 2 == 0, A[i // 2], 0.0), name="P")
    k = mt.reduce_axis(3, name="k")
    C = mt.compute((5,), lambda y: mt.sum(P[y + k] * A[k], axis=k), name="C")
    D = mt.compute((7,), lambda z: P[z] + 1.0, name="D")
    return mt.Schedule(mt.lower([A, C, D]))


REFUSALS = [
    Refusal(
        "skip_zeros",
        "R1",
        start(rowsum),
        lambda s: s.skip_zeros("C"),
        r"R1: .*\(no term of C is known to be zero by its place\)",
    ),
    Refusal(
        "skip_zeros",
        "R2",
        after(spread_out, lambda s: s.split("y", [None, 2])),
        lambda s: s.skip_zeros("C"),
        r"R2: .*\(those of C are not\)",
        marks=("# <- in these loops",),
    ),
    Refusal(
        "skip_zeros",
        "R3",
        read_twice,
        lambda s: s.skip_zeros("C"),
        r"R3: .*\(P is read elsewhere too\)",
        marks=("# <- reads P",),
    ),
    Refusal(
        "skip_zeros",
        "R4",
        spread_2(taps=2, period=3),
        lambda s: s.skip_zeros("C"),
        r"R4: .*\(k has 2, the period is 3\)",
    ),
    Refusal(
        "skip_zeros",
        "R5",
        by_the_axis,
        lambda s: s.skip_zeros("C"),
        r"R5: .*\(A\[y\] depends on y\)",
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_what_else_is_refused():
    for make, call, rule in (
        (spread_2(outputs="P"), lambda s: None, "R3"),
        (spread_2(), lambda s: s.parallel("i"), "R2"),
        (spread_2(), lambda s: s.parallel("y"), "R2"),
        (spread_2(), lambda s: s.compute_at("P", "y"), "R2"),
        (spread_2(), lambda s: s.decompose_reduction("C", "r"), "R1"),
        (spread_2(), lambda s: s.transform_layout("P", lambda i: (i // 2, i % 2)), "R1"),
        (lambda: mt.Schedule(matmul()), lambda s: None, "R1"),
    ):
        s = make()
        call(s)
        with pytest.raises(mt.ScheduleError) as caught:
            s.skip_zeros("C")
        assert caught.value.rule == rule, caught.value.message
        check(s)


def test_what_depends_on_an_axis_is_not_read_beyond_it():
    """The axis has one element, and a last phase that it does not fill."""
    A = mt.placeholder((3, 1), "int32", name="A")
    P = mt.compute((4,), lambda i: mt.if_then_else(i % 2 == 0, A[i // 2, 0], 0), name="P")
    k = mt.reduce_axis(3, name="k")
    C = mt.compute((1,), lambda y: mt.sum(P[y + k] * A[k, y], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.skip_zeros("C")
    check(s)
