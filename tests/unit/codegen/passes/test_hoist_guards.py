"""Guards outside of loops and straight lines that do not change them."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import PASSES, Target, generate
from minitensor.codegen.passes.hoist_guards import MOST_GUARDED
from minitensor.ir import (
    INDEX,
    Buffer,
    Const,
    DType,
    For,
    If,
    Load,
    LoopKind,
    Program,
    Select,
    Store,
    Var,
    conjunction,
    interpret,
    less,
    print_stmt,
    sequence,
    verify,
)
from minitensor.testing import assert_equivalent

F32 = DType.of("float32")
i, k = Var("i"), Var("k")


def hoisted(body, sizes=8, bits=512):
    """The text after the pass, which must mean the same; B starts as ones."""
    params = tuple(Buffer(name, (sizes,), F32) for name in "AB")
    ones = For("z", sizes, Store("B", (Var("z"),), Const(1.0, F32)))
    program = Program("p", params, (), sequence(ones, body))
    verify(program)
    after = dict(PASSES)["hoist_guards"](program, Target("c", 1, bits))
    verify(after)
    a = np.arange(sizes, dtype="f")
    np.testing.assert_array_equal(interpret(program, [a])[0], interpret(after, [a])[0])
    return print_stmt(after.body.stmts[1])


def update(index=i):
    return Store("B", (index,), Load("B", (index,), F32) + Load("A", (k,), F32))


def test_a_guard_leaves_the_loop_that_does_not_drive_it():
    text = hoisted(For("i", 8, For("k", 4, If(less(i, 5), update()))))
    assert text == (
        "for i in range(8):\n"
        "    if i < 5:\n"
        "        for k in range(4):\n"
        "            B[i] = B[i] + A[k]"
    )


def test_a_guard_that_data_or_the_loop_decides_stays():
    data = If(less(Load("B", (i,), F32), Const(3.0, F32)), update())
    assert "for k in range(4):\n        if B[i] < 3.0:" in hoisted(For("i", 8, For("k", 4, data)))
    own = If(less(k, i), update())
    assert "for k in range(4):\n        if k < i:" in hoisted(For("i", 8, For("k", 4, own)))
    alone = If(less(i, 5), Store("B", (k,), Load("A", (i,), F32)))
    shared = For("k", 4, alone, LoopKind.PARALLEL)
    assert "parallel(4):\n        if i < 5:" in hoisted(For("i", 8, shared))


def test_neighbours_with_one_guard_share_it():
    guard = less(i, 5)
    body = sequence(If(guard, update()), If(guard, update(i + 1)), If(less(i, 4), update()))
    assert hoisted(For("k", 4, For("i", 6, body))).count("if i < 5:") == 1


def test_loops_whose_guard_leaves_them_share_it():
    guarded = For("k", 4, If(less(i, 5), update()))
    last = If(less(i, 5), Store("B", (i,), Const(2.0, F32)))
    text = hoisted(For("i", 8, sequence(guarded, For("k", 3, guarded.body), last)))
    assert text.count("if i < 5:") == 1


def padded(count, *more):
    """A line whose values are guarded by 2 <= i, some by others as well."""
    stores = []
    for n in range(count):
        guard = conjunction([less(Const(1, INDEX), i), *more[: n == 0]])
        value = Select(
            guard,
            Load("A", (i - 2 + n % 2 if n % 2 else i - 2,), F32),
            Const(float(n), F32),
            lazy=True,
        )
        stores.append(Store("B", (i,), Load("B", (i,), F32) + value))
    return For("i", 8, sequence(*stores))


def test_a_line_with_a_common_guard_has_two_versions():
    text = hoisted(padded(4, less(i, 7)))
    assert text.count("if 1 < i:") == 1 and "else:" in text
    assert "B[i] = B[i] + if_then_else(i < 7, A[i - 2], 0.0)" in text
    assert "        B[i] = B[i] + A[i - 2 + 1]" in text and "        B[i] = B[i] + 3.0" in text


def test_a_machine_with_few_vector_registers_has_one_version_of_a_line():
    assert "else:" not in hoisted(padded(4, less(i, 7)), bits=256)
    guarded = For("i", 8, For("k", 4, If(less(i, 5), update())))
    assert hoisted(guarded, bits=256) == hoisted(guarded)


@pytest.mark.slow
@pytest.mark.parametrize(
    "guard",
    [
        lambda i, j: (i + j) % 3 != 0,
        lambda i, j: (i * j) // 5 >= 2,
        lambda i, j: mt.logical_or(i < 2, j * 3 > i),
        lambda i, j: mt.select(i > 3, j, i) >= 2,
        lambda i, j: mt.logical_and(i >= 2, (i + j) % 3 != 0),
    ],
)
def test_a_guard_of_one_lane_stays_with_its_lane(guard):
    A = mt.placeholder((12, 12), name="A")
    inside = lambda i, j, value: mt.if_then_else(guard(i, j), value, 1.0)
    C = mt.compute(
        (12, 12),
        lambda i, j: (
            inside(i, j, A[j, i]) + inside(i, j, A[11 - j, i]) + inside(i, j, A[j, 11 - i])
        ),
        name="C",
    )
    program = mt.lower([A, C])
    s = mt.Schedule(program)
    s.vectorize("j")
    assert_equivalent(program, s, ["passes", "c"])


def test_a_guard_of_one_lane_stays_in_each_step_of_an_unrolled_reduction():
    A, k = mt.placeholder((12, 12), name="A"), mt.reduce_axis(4, name="k")
    value = lambda j: mt.if_then_else(j % 3 != 0, A[j, k] * A[k, j], 0.0)
    program = mt.lower([A, mt.compute((12,), lambda j: mt.sum(value(j), axis=k), name="C")])
    s = mt.Schedule(program)
    outer, inner = s.split("j", [None, 4])
    s.reorder(outer, "k", inner)
    s.unroll("k")
    s.vectorize(inner)
    assert_equivalent(program, s, ["passes", "c"])


def test_few_guarded_values_and_many_have_one_version():
    assert "else:" not in hoisted(padded(2))
    assert "else:" not in hoisted(padded(MOST_GUARDED + 1))


def test_the_rows_of_a_padded_image():
    A = mt.placeholder((2, 10, 10), name="A")
    inside = lambda y, x: mt.logical_and(
        mt.logical_and(y >= 1, y < 11), mt.logical_and(x >= 1, x < 11)
    )
    P = mt.compute(
        (2, 12, 12),
        lambda c, y, x: mt.if_then_else(inside(y, x), A[c, y - 1, x - 1], 0.0),
        name="P",
    )
    c, ry, rx = (mt.reduce_axis(n, name=name) for n, name in ((2, "c"), (3, "ry"), (3, "rx")))
    C = mt.compute((10, 10), lambda y, x: mt.sum(P[c, y + ry, x + rx], axis=[c, ry, rx]), name="C")
    program = mt.lower([A, C])
    s = mt.Schedule(program)
    s.compute_inline("P")
    x_0, x_1 = s.split(s.get_loops("C")[1], [None, 5])
    y, _, _, c, ry, rx = s.get_loops("C")
    s.reorder(y, x_0, c, ry, rx, x_1)
    for loop in (rx, x_1):
        s.unroll(loop)
    source = generate(s.program, Target("c", 1, 512)).source
    assert source.count("if (1 <= ") == 1 and "A_row[4]" in source
    assert_equivalent(program, s, ["passes", "c"])
