"""skip_padding."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor import arith, ir
from tests.unit.schedule.common import Refusal, check, each, golden, run_refusal
from tests.unit.schedule.programs import after, padded_sum, rowsum, start


def test_skip_padding():
    s = mt.Schedule(padded_sum())
    assert s.skip_padding("C", "y") is None
    golden(
        s,
        """
        P = empty(float32[6])
        C_padding = empty(float32[3])
        C_padding_sum = empty(float32[4])
        for i in range(6):
            P[i] = if_then_else(1 <= i and i < 5, A[i - 1], 0.0)
        for C_padding_k in range(3):
            for C_padding_r in range(2):
                if C_padding_r == 0:
                    C_padding[C_padding_k] = 0.0
                C_padding[C_padding_k] += 0.0 * B[C_padding_r, C_padding_k]
        for C_padding_sum_y in range(4):
            for C_padding_sum_k in range(3):
                if C_padding_sum_k == 0:
                    C_padding_sum[C_padding_sum_y] = 0.0
                C_padding_sum[C_padding_sum_y] += """
        """select(1 <= C_padding_sum_k + C_padding_sum_y """
        """and C_padding_sum_k + C_padding_sum_y < 5, 0.0, C_padding[C_padding_sum_k])
        for y in range(4):
            for r in range(2):
                for k in range(3):
                    if r == 0 and k == 0:
                        C[y] = C_padding_sum[y]
                    if 1 <= k + y and k + y < 5:
                        C[y] += P[k + y] * B[r, k]
        """,
    )
    check(s)


def padded_conv(height, width, kernel, stride, dilation, padding, dtype, groups=False, c=2):
    """A convolution of an image whose channels are last."""
    X = mt.placeholder((1, height, width, c), dtype, name="X")
    shape = (kernel, kernel, c) if groups else (kernel, kernel, c, 3)
    Y = mt.placeholder(shape, dtype, name="W")
    wide = [n + 2 * padding for n in (height, width)]
    out = [(n - (kernel - 1) * dilation - 1) // stride + 1 for n in wide]

    def image(b, y, x, i):
        inside = [
            mt.logical_and(at >= padding, at < n + padding) for at, n in ((y, height), (x, width))
        ]
        return mt.if_then_else(mt.logical_and(*inside), X[b, y - padding, x - padding, i], 0)

    P = mt.compute((1, *wide, c), image, name="P")
    ry, rx, rc = (mt.reduce_axis(n, name=f"r{name}") for name, n in zip("yxc", (kernel, kernel, c)))

    def window(b, y, x, o):
        at = y * stride + ry * dilation, x * stride + rx * dilation
        if groups:
            return mt.sum(P[(b, *at, o)] * Y[ry, rx, o], axis=[ry, rx])
        return mt.sum(P[(b, *at, rc)] * Y[ry, rx, rc, o], axis=[ry, rx, rc])

    C = mt.compute((1, *out, c if groups else 3), window, name="C")
    D = mt.compute(C.shape, lambda *i: mt.maximum(C[i], 0), name="D")
    return mt.lower([X, Y, D])


SIZES = [
    case
    for case in itertools.product(
        (2, 5), (1, 3), (1, 2), (1, 2), (1, 2), ("float32", "int8"), (0, 1)
    )
    if case[0] + 2 * case[4] > (case[1] - 1) * case[3]
]


@pytest.mark.many
@pytest.mark.parametrize(
    ("height", "kernel", "stride", "dilation", "padding", "dtype", "groups"), SIZES
)
def test_convolutions(height, kernel, stride, dilation, padding, dtype, groups):
    program = padded_conv(height, 4, kernel, stride, dilation, padding, dtype, bool(groups))
    s = mt.Schedule(program)
    y, x = s.get_loops("C")[1:3]
    for loop in (y, x):
        s.skip_padding("C", loop)
    assert any("_padding_sum" in name for name in s.get_blocks()) == (dtype == "float32")
    check(s)
    tiled = s.copy()
    tiled.split(x, [None, 2])
    tiled.compute_at("P", y)
    tiled.parallel(tiled.get_loops("C")[0])
    check(tiled)
    inlined = mt.Schedule(program)
    inlined.compute_inline("P")
    inlined.skip_padding("C", y)
    assert "if_then_else" in str(inlined.program)  # along x, zeros are still chosen
    inlined.skip_padding("C", x)
    assert "if_then_else" not in str(inlined.program)
    check(inlined)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("groups", [False, True])
def test_a_zero_times_what_is_not_finite(bad, groups):
    program = padded_conv(2, 3, 3, 1, 1, 1, "float32", groups)
    s = mt.Schedule(program)
    s.skip_padding("C", "C_y")
    one = s.copy()
    s.skip_padding("C", "C_x")
    rng = np.random.default_rng(3)
    data, weight = (b.shape for b in program.inputs)
    X = rng.integers(-3, 4, data).astype(np.float32)
    for place in np.ndindex(*weight[:2]):
        Y = rng.integers(1, 4, weight).astype(np.float32)
        Y[(*place, *[1] * (len(weight) - 2))] = bad
        wanted = mt.interpret(program, X, Y)
        for made in (one, s):
            np.testing.assert_array_equal(mt.interpret(made.program, X, Y), wanted)


def test_an_image_that_is_not_finite():
    program = padded_conv(3, 4, 3, 1, 1, 1, "float32")
    s = mt.Schedule(program)
    s.skip_padding("C", "C_y")
    X = np.ones(program.inputs[0].shape, np.float32)
    X[0, 0, 2, 1], X[0, 2, 0, 0] = np.inf, np.nan
    Y = np.ones(program.inputs[1].shape, np.float32)
    np.testing.assert_array_equal(mt.interpret(s.program, X, Y), mt.interpret(program, X, Y))


def test_the_order_of_the_terms_stays():
    program = padded_conv(5, 4, 3, 1, 1, 1, "float32")
    s = mt.Schedule(program)
    s.skip_padding("C", "C_y")
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(b.shape).astype(np.float32) for b in program.inputs]
    np.testing.assert_array_equal(mt.interpret(s.program, *arrays), mt.interpret(program, *arrays))


def test_a_tile_stays_in_registers():
    """The condition is asked once for each row of the window, outside of the loops inside."""
    s = mt.Schedule(padded_conv(5, 8, 3, 1, 1, 1, "float32", c=16))
    s.skip_padding("C", "C_y")
    _, _, x, o, ry, rx, rc = s.get_loops("C")
    x_0, x_1 = s.split(x, [None, 4])
    s.reorder(x_0, ry, rx, rc, x_1, o)
    s.unroll(x_1)
    s.vectorize(o)
    source = mt.build(s).source
    nest = source[source.index("for (int64_t C_x_0") :]
    places = [nest.index(part) for part in ("ry < 3", "if (1 <=", "rx < 3", "rc < 16", "+=")]
    assert places == sorted(places)
    assert nest.count("if (1 <=") == 1
    check(s)


def guarded():
    """Partial sums, of which the last has fewer rows."""
    s = mt.Schedule(padded_sum(rows=3))
    s.split("r", [None, 2])
    s.rfactor("r_0")
    return s


def by_the_axis():
    A = mt.placeholder((8,), name="A")
    k = mt.reduce_axis(3, name="k")

    def window(y):
        return mt.sum(mt.if_then_else(y + k < 8, A[y], 0.0) * A[y], axis=k)

    return mt.Schedule(mt.lower([A, mt.compute((8,), window, name="C")]))


def factors_inside():
    """The weights are computed in the loop over results."""
    s = mt.Schedule(padded_sum(doubled=True))
    s.compute_at("D", "y")
    return s


REFUSALS = [
    Refusal(
        "skip_padding",
        "R1",
        after(padded_sum, lambda s: s.split("y", [None, 2])),
        lambda s: s.skip_padding("C", "y_0"),
        r"R1: the loop is an axis of the block",
        marks=("# <- this one",),
    ),
    Refusal(
        "skip_padding",
        "R2",
        start(rowsum),
        lambda s: s.skip_padding("C", "i"),
        r"R2: .*\(no term of C is outside along i\)",
    ),
    Refusal(
        "skip_padding",
        "R3",
        by_the_axis,
        lambda s: s.skip_padding("C", "y"),
        r"R3: .*\(A\[y\] depends on y\)",
    ),
    Refusal(
        "skip_padding",
        "R4",
        factors_inside,
        lambda s: s.skip_padding("C", "y"),
        r"R4: .*\(D has not\)",
        marks=("# <- computes it",),
    ),
    Refusal(
        "skip_padding",
        "R5",
        guarded,
        lambda s: s.skip_padding("C_rf", s.get_loops("C_rf")[0]),
        r"R5: .*\(B\[r_0\*2 \+ r_1, k\] may lie outside of B\)",
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_what_else_is_refused():
    for call, why in (
        (lambda s: s.skip_padding("C", "y"), "what is outside along y is left out already"),
        (lambda s: s.decompose_reduction("C", "r"), "C is no such sum"),
        (lambda s: s.transform_layout("P", lambda i: (i // 2, i % 2)), "is outside along y"),
        (lambda s: s.split("i", [3, None]), ""),
    ):
        s = mt.Schedule(padded_sum())
        call(s)
        if why:
            with pytest.raises(mt.ScheduleError, match=why) as caught:
                s.skip_padding("C", "y")
            assert caught.value.rule == "R2"
        else:
            s.skip_padding("C", "y")
        check(s)


def test_a_product_called_sum_is_no_sum():
    A = mt.placeholder((6,), name="A")
    k = mt.reduce_axis(3, name="k")
    product = mt.comm_reducer(lambda x, y: x * y, 1, name="sum")
    for condition, step in (
        (lambda y: y + k < 6, lambda s: s.skip_padding("C", "y")),
        (lambda y: (y + k) % 2 == 0, lambda s: s.skip_zeros("C")),
    ):
        C = mt.compute(
            (6,),
            lambda y, where=condition: product(mt.if_then_else(where(y), A[y], 0.0), axis=k),
            name="C",
        )
        with pytest.raises(mt.ScheduleError, match="C is no s"):
            step(mt.Schedule(mt.lower([A, C])))


def test_an_init_stays_behind_what_it_reads():
    """As code is generated, inits go in front of their loops, but not of what they read."""
    s = mt.Schedule(padded_sum())
    s.skip_padding("C", "y")
    (outer,) = (stmt for stmt in s.program.body.stmts if getattr(stmt, "var", "") == "y")
    block = s.program.blocks["C"]
    assert arith.comes_late(block, outer) == ""
    s.compute_at("C_padding_sum", "y")
    loops = ir.paths(s.program)["C"]
    assert arith.comes_late(s.program.blocks["C"], loops[0]) == "C_padding_sum"
    assert arith.comes_late(s.program.blocks["C"], loops[1]) == ""
    assert not arith.starts(s.program.blocks["C"], loops, 0)
    assert arith.starts(s.program.blocks["C"], loops, 1)
    check(s)


@pytest.mark.parametrize("stored", [False, True])
def test_zeros_by_a_mask_are_not_zeros_by_their_place(stored):
    A, M, Y = (mt.placeholder((n,), name=name) for n, name in ((8, "A"), (8, "M"), (3, "Y")))
    masked = lambda i: mt.if_then_else(M[i] > 0.5, A[i], 0.0)
    P = mt.compute((8,), masked, name="P")
    k = mt.reduce_axis(3, name="k")
    read = P.__getitem__ if stored else masked
    C = mt.compute((6,), lambda y: mt.sum(read(y + k) * Y[k], axis=k), name="C")
    with pytest.raises(mt.ScheduleError, match="no term of C is outside along y"):
        mt.Schedule(mt.lower([A, M, Y, C])).skip_padding("C", "y")
