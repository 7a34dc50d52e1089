"""Values that a straight line of statements uses more than once, and what ends their life."""

import numpy as np

import minitensor as mt
from minitensor.codegen import PASSES, Target
from minitensor.codegen.passes.name_values import MOST
from minitensor.ir import (
    INDEX,
    Binary,
    Buffer,
    Const,
    DType,
    For,
    Load,
    Program,
    Select,
    Store,
    Var,
    interpret,
    less,
    print_stmt,
    sequence,
    verify,
)

F32 = DType.of("float32")
i = Var("i")


def load(name, index=i):
    return Load(name, (index,), F32)


def named(*stmts, sizes=8):
    """The text of a loop with these statements after the pass, which must mean the same."""
    params = tuple(Buffer(name, (sizes,), F32) for name in "ABC")
    program = Program("p", params, (), For("i", sizes, sequence(*stmts)))
    verify(program)
    after = dict(PASSES)["name_values"](program, Target("c", 1, 512))
    verify(after)
    given = [np.arange(sizes, dtype="f") + n for n in range(len(program.inputs))]
    for a, b in zip(interpret(program, given)[0], interpret(after, given)[0]):
        np.testing.assert_array_equal(a, b)
    return print_stmt(after.body)


def test_a_value_that_two_statements_use():
    text = named(
        Store("B", (i,), load("A") + Const(1.0, F32)), Store("C", (i,), load("A") * load("A"))
    )
    assert text == (
        "for i in range(8):\n"
        "    A_0 = empty(float32[])  # register\n"
        "    A_0[()] = A[i]\n"
        "    B[i] = A_0[()] + 1.0\n"
        "    C[i] = A_0[()] * A_0[()]"
    )


def test_a_value_that_is_used_once_stays_where_it_is():
    assert "empty" not in named(Store("B", (i,), load("A")), Store("C", (i,), load("A", 7 - i)))


def test_a_store_ends_the_life_of_what_reads_the_buffer():
    text = named(
        Store("B", (i,), load("A")),
        Store("C", (i,), load("B")),
        Store("B", (i,), load("B") + load("A")),
        Store("C", (i,), load("B") + load("C")),
    )
    assert "B_0[()] = B[i]\n    C[i] = B_0[()]\n    B[i] = B_0[()] + A_0[()]" in text
    assert text.endswith("C[i] = B[i] + C[i]")


def test_arithmetic_is_not_named():
    product = load("A") * load("A", 7 - i)
    text = named(Store("B", (i,), product + load("A")), Store("C", (i,), product - load("A")))
    assert "B[i] = A_0[()] * A_1[()] + A_0[()]" in text
    assert "C[i] = A_0[()] * A_1[()] - A_0[()]" in text


def guarded(condition):
    return Select(condition, load("A", i - 1), Const(0.0, F32), lazy=True)


def test_what_a_condition_forbids_is_not_read_before_it_is_asked():
    inside = less(Const(0, INDEX), i)
    text = named(Store("B", (i,), guarded(inside)), Store("C", (i,), guarded(inside)))
    assert "A_0[()] = if_then_else(0 < i, A[i - 1], 0.0)" in text
    other = Select(less(Const(1, INDEX), i), load("A", i - 1), load("A"), lazy=True)
    text = named(Store("B", (i,), guarded(inside)), Store("C", (i,), other + load("A")))
    assert "empty" not in text  # A[i] is read in any case, but after it may have been
    text = named(Store("B", (i,), load("A")), Store("C", (i,), other))
    assert "B[i] = A_0[()]\n    C[i] = if_then_else(1 < i, A[i - 1], A_0[()])" in text


def test_no_more_than_so_many_are_named():
    stores = []
    for n in range(MOST + 9):
        stores.append(Store("B", (i,), load("A", Const(n))))
        stores.append(Store("C", (i,), load("A", Const(n))))
    assert named(*stores, sizes=2 * MOST).count("empty(") == MOST


def test_a_kernel_has_the_value_as_a_constant_and_a_pointer_to_the_row():
    A, B = mt.placeholder((64, 8), name="A"), mt.placeholder((8, 64), name="B")
    k = mt.reduce_axis(8, name="k")
    C = mt.compute((64, 64), lambda x, y: mt.sum(A[x, k] * B[k, y], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    x, y, _ = s.get_loops("C")
    x_0, x_1 = s.split(x, [None, 4])
    y_0, y_1 = s.split(y, [None, 16])
    s.reorder(x_0, y_0, "k", x_1, y_1)
    s.unroll(x_1)
    s.vectorize(y_1)
    kernel = mt.build(s, Target("c", 1, 512))
    assert "const float32x16 B_0 = held_float32x16(load_float32x16(&B[" in kernel.source
    assert "const float *A_row = &A[x_0 * 32 + k];" in kernel.source
    assert "splat_float32x16(A_row[24]) * B_0;" in kernel.source
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, p.shape).astype("f") for p in (A, B))
    np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_a_row_and_a_variable_may_have_the_name_of_a_buffer():
    A, row = mt.placeholder((4, 2, 8), name="A"), mt.placeholder((2, 8), name="A_row")
    zero = mt.placeholder((2, 8), name="A_0")
    total = lambda x, y: sum(A[n, x, y] * A[n, x, y] for n in range(4))
    final = lambda x, y: total(x, y) + row[x, y] - zero[x, y] * zero[x, y]
    B = mt.compute((2, 8), final, name="B")
    kernel = mt.build(mt.lower([A, row, zero, B]), Target("c", 1, 0))
    assert "A_row_2[16]" in kernel.source and "(A_0_0, A_0_0)" in kernel.source
    a, r, z = (
        np.ones((4, 2, 8), "f") * 3,
        np.arange(16, dtype="f").reshape(2, 8),
        np.ones((2, 8), "f"),
    )
    np.testing.assert_array_equal(kernel(a, r, z), 36 + r - 1)


def test_what_is_never_named():
    """Conditions of lanes and narrow floats: they would be converted to memory's form and back."""
    for dtype in ("float16", "bfloat16"):
        A = mt.placeholder((16,), dtype, name="A")
        B = mt.compute((16,), lambda j, A=A: A[j] * A[j], name="B")
        assert "A_0" not in mt.codegen.generate(mt.lower([A, B]), Target("c", 1, 0)).source


def test_an_operand_that_may_not_be_evaluated():
    both = Binary("and", less(Const(0, INDEX), i), Binary("<", load("A"), Const(9.0, F32)))
    text = named(
        Store("B", (i,), Select(both, Const(1.0, F32), Const(2.0, F32))),
        Store("C", (i,), Select(both, Const(3.0, F32), Const(4.0, F32))),
    )
    assert "empty" not in text


def test_a_condition_of_several_parts():
    both = Binary("and", less(Const(0, INDEX), i), less(i, Const(7, INDEX)))
    text = named(
        Store("B", (i,), guarded(both)),
        Store("C", (i,), Select(both, load("A", i + 1), Const(4.0, F32), lazy=True)),
    )
    assert "inside_0[()] = 0 < i and i < 7" in text
    assert "C[i] = if_then_else(inside_0[()], A[i + 1], 4.0)" in text
