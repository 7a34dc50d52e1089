"""Programs of several tensors against numpy, the text of loop nests, and their names."""

import copy
import sys

import numpy as np
import pytest

import minitensor.lang as mt
from minitensor.errors import ArgumentError, LoweringError, VerifyError
from minitensor.ir import (
    IterKind,
    Program,
    Reduce,
    Scope,
    interpret,
    structural_equal,
    structural_hash,
    verify,
    walk,
)
from tests.sent import sent
from tests.unit.ir.build import ends_within

F = np.float32
WEIRD = ['a"; system("x', "int", "main", "sin", "*/", "x" * 5000, "\n", " ", "é", "for", "root"]
weird = pytest.mark.parametrize("name", WEIRD, ids=lambda name: repr(name[:10]))


def run(program: Program, *arrays):
    outputs, _ = interpret(program, [np.asarray(a) for a in arrays])
    return outputs[0] if len(outputs) == 1 else outputs


def floats(*shape):
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(F)


def matmul_relu():
    A, B = mt.placeholder((4, 6), name="A"), mt.placeholder((6, 5), name="B")
    k = mt.reduce_axis((0, 6), name="k")
    C = mt.compute((4, 5), lambda i, j: mt.sum_(A[i, k] * B[k, j], axis=k), name="C")
    D = mt.compute((4, 5), lambda i, j: mt.maximum(C[i, j], 0.0), name="D")
    return A, B, C, D


# ---- programs


def test_the_example_of_the_documentation():
    A, B, _, D = matmul_relu()
    program = mt.lower([A, B, D], name="matmul_relu")
    a, b = floats(4, 6), floats(6, 5)
    np.testing.assert_array_equal(run(program, a, b), np.maximum(a @ b, 0))
    assert str(program) == (
        "def matmul_relu(A: float32[4, 6], B: float32[6, 5], D: float32[4, 5]):\n"
        "    C = empty(float32[4, 5])\n"
        "    for i in range(4):\n"
        "        for j in range(5):\n"
        "            for k in range(6):\n"
        "                if k == 0:\n"
        "                    C[i, j] = 0.0\n"
        "                C[i, j] += A[i, k] * B[k, j]\n"
        "    for D_i in range(4):\n"
        "        for D_j in range(5):\n"
        "            D[D_i, D_j] = max(C[D_i, D_j], 0.0)"
    )


def test_what_a_program_consists_of():
    A, B, _, D = matmul_relu()
    program = mt.lower([A, B, D])
    assert program.name == "main"
    assert [b.name for b in program.inputs] == ["A", "B"]
    assert [b.name for b in program.outputs] == ["D"]
    assert [b.name for b in program.temporaries] == ["C"]
    assert list(program.blocks) == ["C", "D"]
    assert all(b.scope is Scope.GLOBAL for b in program.buffers.values())
    verify(program)


def test_an_intermediate_may_be_an_output_too():
    A, B, C, D = matmul_relu()
    program = mt.lower([A, B, C, D])
    assert program.temporaries == ()
    a, b = floats(4, 6), floats(6, 5)
    c, d = run(program, a, b)
    np.testing.assert_array_equal(c, a @ b)
    np.testing.assert_array_equal(d, np.maximum(a @ b, 0))


def test_the_order_of_the_call_is_free():
    A, B, C, D = matmul_relu()
    program = mt.lower([D, B, C, A])
    assert [b.name for b in program.params] == ["D", "B", "C", "A"]
    assert [b.name for b in program.inputs] == ["B", "A"]
    d, c = run(program, floats(6, 5), floats(4, 6))
    np.testing.assert_array_equal(c, floats(4, 6) @ floats(6, 5))
    np.testing.assert_array_equal(d, np.maximum(c, 0))


def test_only_what_is_needed_is_computed():
    A, B, C, _ = matmul_relu()
    assert list(mt.lower([A, B, C]).blocks) == ["C"]


def test_a_single_tensor_will_do():
    C = mt.compute((3,), lambda i: i * i)
    np.testing.assert_array_equal(run(mt.lower(C)), [0, 1, 4])


def test_placeholders_that_are_not_needed_are_inputs_all_the_same():
    A, B = mt.placeholder((2,), name="A"), mt.placeholder((3,), name="B")
    program = mt.lower([A, B, mt.compute((2,), lambda i: A[i], name="C")])
    assert [b.name for b in program.inputs] == ["A", "B"]
    np.testing.assert_array_equal(run(program, [F(1), F(2)], floats(3)), [1, 2])


def test_many_stages_in_a_diamond():
    A = mt.placeholder((4,), name="A")
    B = mt.compute((4,), lambda i: A[i] + 1, name="B")
    C = mt.compute((4,), lambda i: B[i] * 2, name="C")
    D = mt.compute((4,), lambda i: B[3 - i] * 3, name="D")
    E = mt.compute((4,), lambda i: C[i] - D[i], name="E")
    program = mt.lower([A, E])
    assert list(program.blocks) == ["B", "C", "D", "E"]
    b = floats(4) + 1
    np.testing.assert_array_equal(run(program, floats(4)), b * 2 - b[::-1] * 3)


def test_several_outputs_that_share_a_stage():
    A = mt.placeholder((3, 4), name="A")
    k, r = mt.reduce_axis(4, "k"), mt.reduce_axis(3, "r")
    B = mt.compute((3, 4), lambda i, j: A[i, j] * 2, name="B")
    rows = mt.compute((3,), lambda i: mt.sum_(B[i, k], axis=k), name="rows")
    columns = mt.compute((4,), lambda j: mt.sum_(B[r, j], axis=r), name="columns")
    program = mt.lower([A, rows, columns])
    assert list(program.blocks) == ["B", "rows", "columns"]
    got = run(program, floats(3, 4))
    np.testing.assert_array_equal(got[0], floats(3, 4).sum(1) * 2)
    np.testing.assert_array_equal(got[1], floats(3, 4).sum(0) * 2)


def test_a_softmax_in_four_stages():
    A = mt.placeholder((3, 5), name="A")
    k, r = mt.reduce_axis(5, "k"), mt.reduce_axis(5, "r")
    top = mt.compute((3,), lambda i: mt.max_(A[i, k], axis=k), name="top")
    e = mt.compute((3, 5), lambda i, j: mt.exp(A[i, j] - top[i]), name="e")
    total = mt.compute((3,), lambda i: mt.sum_(e[i, r], axis=r), name="total")
    S = mt.compute((3, 5), lambda i, j: e[i, j] / total[i], name="S")
    a = floats(3, 5)
    wanted = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(
        run(mt.lower([A, S]), a), wanted / wanted.sum(1, keepdims=True), rtol=1e-6
    )


def test_zero_dimensional_stages():
    A = mt.placeholder((5,), name="A")
    k, r = mt.reduce_axis(5, "k"), mt.reduce_axis(5, "r")
    mean = mt.compute((), lambda: mt.sum_(A[k], axis=k), name="sum")
    scaled = mt.compute((), lambda: mean[()] / 5.0, name="mean")
    spread = mt.compute(
        (), lambda: mt.sum_((A[r] - scaled[()]) * (A[r] - scaled[()]), axis=r), name="spread"
    )
    a = floats(5)
    got = run(mt.lower([A, scaled, spread]), a)
    assert got[0].shape == got[1].shape == ()
    np.testing.assert_allclose(got[0], a.mean(), rtol=1e-6)
    np.testing.assert_allclose(got[1], ((a - a.mean()) ** 2).sum(), rtol=1e-5)


def test_a_chain_of_a_hundred_stages():
    T = A = mt.placeholder((2,), name="A")
    for n in range(100):
        T = mt.compute((2,), lambda i, T=T: T[i] + 1, name=f"T{n}")
    program = mt.lower([A, T])
    assert len(program.blocks) == 100
    np.testing.assert_array_equal(run(program, [F(0), F(1)]), [100, 101])


@pytest.mark.slow
def test_a_deep_expression():
    A = mt.placeholder((2,), name="A")

    def deep(i):
        x = A[i]
        for _ in range(1900):
            x = x + 1.0
        return x

    program = mt.lower([A, mt.compute((2,), deep, name="C")])
    np.testing.assert_array_equal(run(program, [F(0), F(1)]), [1900, 1901])
    assert str(program).endswith(" + 1.0" * 1900)
    assert structural_equal(program, program)
    before = sys.getrecursionlimit()
    assert before > 1900


def test_an_expression_that_is_too_deep_is_refused():
    A = mt.placeholder((2,), name="A")

    def deeper(i):
        x = A[i]
        for _ in range(2500):
            x = x + 1.0
        return x

    with pytest.raises(ArgumentError, match=r"nested at most 2000 deep.*compute of their own"):
        mt.compute((2,), deeper)


def test_shared_subexpressions_are_equal_to_repeated_ones():
    A = mt.placeholder((3,), name="A")

    def cube(i):
        x = A[i] + 1
        return x * x * x

    C = mt.compute((3,), cube)
    np.testing.assert_array_equal(run(mt.lower([A, C]), floats(3)), (floats(3) + 1) ** 3)


def test_nested_remainders_are_lowered_soon():
    """Each level must not double the work of the simplifier."""

    def index(i):
        x = i
        for _ in range(25):
            x = (x * 3 + i) % 7
        return x

    A = mt.placeholder((7,), name="A")
    C = mt.compute((7,), lambda i: A[index(i)], name="C")
    assert ends_within(2.0, lambda: mt.lower([A, C]))
    np.testing.assert_array_equal(run(mt.lower([A, C]), floats(7)), floats(7)[index(np.arange(7))])


def test_a_stage_is_lowered_as_often_as_one_likes():
    A, B, _, D = matmul_relu()
    first, second = mt.lower([A, B, D]), mt.lower([A, B, D])
    assert first == second
    assert structural_hash(first) == structural_hash(second)


def test_expressions_are_simplified():
    A = mt.placeholder((8,), name="A")
    C = mt.compute((8,), lambda i: A[(i * 4 + 3) // 4 * 1 + 0] * 1.0, name="C")
    assert "C[i] = A[i]" in str(mt.lower([A, C]))


def test_simplification_keeps_what_floats_do():
    A = mt.placeholder((3,), name="A")
    C = mt.compute((3,), lambda i: (A[i] - A[i]) + A[i] * 0.0 + (0.0 + A[i]) * 0.0)
    got = run(mt.lower([A, C]), np.array([np.inf, np.nan, 1], F))
    np.testing.assert_array_equal(got, [np.nan, np.nan, 0])
    D = mt.compute((3,), lambda i: mt.select(A[i] == A[i], 1.0, 0.0))
    np.testing.assert_array_equal(
        run(mt.lower([A, D]), np.array([np.inf, np.nan, 1], F)), [1, 0, 1]
    )


def test_simplification_keeps_how_integers_wrap():
    A = mt.placeholder((2,), "int8", name="A")
    C = mt.compute((2,), lambda i: (A[i] * 2 + 100 + 100) // 2)
    got = run(mt.lower([A, C]), np.array([0, 50], np.int8))
    a = np.array([0, 50], np.int8)
    np.testing.assert_array_equal(got, (a * np.int8(2) + np.int8(100) + np.int8(100)) // np.int8(2))


def test_programs_can_be_pickled_and_copied():
    A, B, _, D = matmul_relu()
    program = mt.lower([A, B, D])
    for again in (sent(program), copy.deepcopy(program)):
        assert again == program
        assert structural_hash(again) == structural_hash(program)
        verify(again)
        a, b = floats(4, 6), floats(6, 5)
        np.testing.assert_array_equal(run(again, a, b), np.maximum(a @ b, 0))


def test_a_tuple_of_tensors_is_one_block():
    A, k = mt.placeholder((3, 4), name="A"), mt.reduce_axis(4, "k")
    both = mt.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), (0, 1), name="both")
    total, product = mt.compute((3,), lambda i: both((A[i, k], A[i, k]), axis=k), name="C")
    program = mt.lower([A, product, total])
    assert list(program.blocks) == ["C_0"]
    assert sum(isinstance(n, Reduce) for n in walk(program.body)) == 1
    got = run(program, floats(3, 4))
    np.testing.assert_array_equal(got[0], floats(3, 4).prod(1))
    np.testing.assert_array_equal(got[1], floats(3, 4).sum(1))


def test_the_value_beside_an_argmax_is_a_temporary():
    A, k = mt.placeholder((3, 4), name="A"), mt.reduce_axis(4, "k")
    P = mt.compute((3,), lambda i: mt.argmax(A[i, k], axis=k), name="P")
    program = mt.lower([A, P])
    assert [b.name for b in program.temporaries] == ["P_value"]
    assert "(P[i], P_value[i]) = argmax((P[i], P_value[i]), (int64(k), A[i, k]))" in str(program)


def test_an_empty_reduction_is_its_init():
    k = mt.reduce_axis(0)
    C = mt.compute((2,), lambda i: mt.sum_(i * k, axis=k), name="C")
    program = mt.lower([C])
    assert str(program) == "def main(C: int64[2]):\n    for i in range(2):\n        C[i] = 0"


# ---- bounds


@pytest.mark.parametrize(
    ("index", "shown", "axis", "low", "high"),
    [
        (lambda A, i, j: A[i + 1, j], "A[i + 1, j]", 0, 1, 4),
        (lambda A, i, j: A[i - 1, j], "A[i - 1, j]", 0, -1, 2),
        (lambda A, i, j: A[i, 2 * j], "A[i, 2*j]", 1, 0, 8),
        (lambda A, i, j: A[i, j - 2], "A[i, j - 2]", 1, -2, 2),
        (lambda A, i, j: A[3 - i, 5 - j], "A[3 - i, 5 - j]", 1, 1, 5),
        (lambda A, i, j: A[j, i], "A[j, i]", 0, 0, 4),
        (lambda A, i, j: mt.exp(A[i, j] + A[i, j + 1]), "A[i, j + 1]", 1, 1, 5),
        (lambda A, i, j: mt.select(i > 0, A[i - 1, j], 0.0), "A[i - 1, j]", 0, -1, 2),
    ],
)
def test_an_access_out_of_bounds_is_refused(index, shown, axis, low, high):
    A = mt.placeholder((4, 5), name="A")
    C = mt.compute((4, 5), lambda i, j: index(A, i, j), name="C")
    with pytest.raises(LoweringError) as caught:
        mt.lower([A, C])
    message = caught.value.message
    assert message.startswith("C: ")
    assert (
        f"is out of bounds: index {axis} goes from {low} to {high}, "
        f"but axis {axis} of A has extent {A.shape[axis]}. "
        "Pad with mt.if_then_else, or make the domain smaller"
    ) in message
    assert message.startswith(f"C: {shown} is"), message


def test_a_reduction_out_of_bounds_is_refused():
    A, k = mt.placeholder((4, 5), name="A"), mt.reduce_axis(6, "k")
    C = mt.compute((4,), lambda i: mt.sum_(A[i, k], axis=k), name="C")
    with pytest.raises(LoweringError, match="index 1 goes from 0 to 5, but axis 1 of A has extent"):
        mt.lower([A, C])


def test_an_index_of_an_index_out_of_bounds_is_refused():
    A, idx = mt.placeholder((4,), name="A"), mt.placeholder((3,), "int32", name="idx")
    C = mt.compute((4,), lambda i: A[idx[i]], name="C")
    with pytest.raises(LoweringError, match="goes from 0 to 3, but axis 0 of idx has extent 3"):
        mt.lower([A, idx, C])


def test_an_init_out_of_bounds_is_refused():
    A, k = mt.placeholder((4,), name="A"), mt.reduce_axis(3)
    C = mt.update((5,), lambda C, i: C[i] + 1, axis=k, init=lambda i: A[i], name="C")
    with pytest.raises(LoweringError, match="goes from 0 to 4, but axis 0 of A has extent 4"):
        mt.lower([A, C])


def test_an_intermediate_out_of_bounds_is_refused():
    A = mt.placeholder((4,), name="A")
    B = mt.compute((3,), lambda i: A[i + 1] - A[i], name="B")
    C = mt.compute((3,), lambda i: B[i + 1] - B[i], name="C")
    with pytest.raises(LoweringError, match="of B has extent 3"):
        mt.lower([A, C])


@pytest.mark.parametrize("shape", [(0,), (0, 5)])
def test_what_is_never_evaluated_is_not_out_of_bounds(shape):
    A = mt.placeholder((4,), name="A")
    C = mt.compute(shape, lambda *i: A[i[0] + 100])
    assert run(mt.lower([A, C]), floats(4)).shape == shape


def test_reading_from_an_empty_tensor_is_out_of_bounds():
    A = mt.placeholder((0,), name="A")
    C = mt.compute((2,), lambda i: A[i])
    with pytest.raises(LoweringError, match="axis 0 of A has extent 0"):
        mt.lower([A, C])


@pytest.mark.parametrize(
    "index",
    [
        lambda i: (i * 2**61) // 2**61,
        lambda i: (i * 2**62 + i) % 4,
        lambda i: (i + 2**62) % 4,
        lambda i: i * i * 2**60 % 4,
    ],
)
def test_index_arithmetic_beyond_64_bits_is_refused(index):
    A = mt.placeholder((4,), name="A")
    C = mt.compute((4,), lambda i: A[index(i)], name="C")
    with pytest.raises(LoweringError, match=r"C: the index expression .* which 64-bit integers"):
        mt.lower([A, C])


def test_conditions_are_checked_for_64_bits_too():
    A = mt.placeholder((4,), name="A")
    C = mt.compute((4,), lambda i: mt.if_then_else(i * 2**62 < 5, A[i], 0.0), name="C")
    with pytest.raises(LoweringError, match="64-bit integers"):
        mt.lower([A, C])


def test_an_extent_beyond_64_bits_is_refused():
    with pytest.raises((ArgumentError, LoweringError)):
        k = mt.reduce_axis(2**70)
        mt.lower([mt.compute((), lambda: mt.sum_(1.0, axis=k))])


# ---- names


@weird
def test_any_name_of_tensors_loops_axes_and_programs(name):
    A = mt.placeholder((3, 4), name=name)
    k = mt.reduce_axis(4, name)
    B = mt.compute((3, 4), lambda i, j: A[i, j] * 2, name=name)
    C = mt.compute((3,), lambda i: mt.sum_(B[i, k], axis=k), name=name)
    program = mt.lower([A, B, C], name=name)
    assert program.name == name
    assert program.params[0].name == name
    assert len(set(program.buffers)) == 3
    b, c = run(program, floats(3, 4))
    np.testing.assert_array_equal(b, floats(3, 4) * 2)
    np.testing.assert_array_equal(c, floats(3, 4).sum(1) * 2)
    lines = str(program).splitlines()
    assert len(lines) == 9
    assert all(len(line) < 350 for line in lines)


@weird
def test_any_name_in_messages(name):
    A = mt.placeholder((3,), name=name)
    C = mt.compute((3,), lambda i: A[i + 1], name=name)
    with pytest.raises(LoweringError) as caught:
        mt.lower([A, C], name=name)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


def test_two_tensors_of_one_name():
    A, other = mt.placeholder((3,), name="T"), mt.placeholder((3,), name="T")
    B = mt.compute((3,), lambda i: A[i] - other[i], name="T")
    C = mt.compute((3,), lambda i: B[i] * 2, name="T")
    program = mt.lower([A, other, C])
    assert [b.name for b in program.params] == ["T", "T2", "T3"]
    assert [b.name for b in program.temporaries] == ["T4"]
    a, b = floats(3), np.ones(3, F)
    np.testing.assert_array_equal(run(program, a, b), (a - b) * 2)


def test_names_that_look_like_those_that_are_made_up():
    tensors = [mt.placeholder((1,), name=n) for n in ("T", "T2", "T", "T_2", "T2", "T3", "T2_2")]
    C = mt.compute((1,), lambda i: sum((t[i] * 10**n for n, t in enumerate(tensors)), 0), name="T")
    program = mt.lower([*tensors, C])
    assert len({b.name for b in program.params}) == 8
    got = run(program, *[np.array([n], F) for n in range(1, 8)])
    assert got == [7654321]


def test_a_name_that_is_given_to_one_tensor_alone_is_kept():
    first, second = mt.placeholder((1,), name="A"), mt.placeholder((1,), name="A")
    third = mt.placeholder((1,), name="A2")
    C = mt.compute((1,), lambda i: first[i] + second[i] + third[i], name="C")
    assert "A2" in {b.name for b in mt.lower([first, second, third, C]).params}


def test_a_tensor_whose_name_is_that_of_its_init():
    A = mt.compute((3,), lambda i: i * 1.0, name="C_init")
    C = mt.update(
        (3,), lambda C, i: mt.if_then_else(i > 0, C[i - 1], 0.0) + A[i], init=0.0, name="C"
    )
    program = mt.lower([A, C])
    assert len(program.blocks) == 3
    np.testing.assert_array_equal(run(program)[1], [0, 1, 3])


def test_loops_do_not_take_names_of_buffers():
    i = mt.placeholder((3,), name="i")
    C = mt.compute((3,), lambda i_: i[i_], name="i_")
    D = mt.compute((3,), lambda i: C[i], name="D")
    program = mt.lower([i, C, D])
    loops = [n.var for n in walk(program.body) if type(n).__name__ == "For"]
    assert not set(loops) & set(program.buffers)
    assert len(set(loops)) == 2


def test_indices_of_one_name_in_one_nest():
    k = mt.reduce_axis(4, "i")
    r = mt.reduce_axis(2, "i")
    A = mt.placeholder((3, 4, 2), name="A")
    C = mt.compute((3,), lambda i: mt.sum_(A[i, k, r] * k, axis=[k, r]), name="C")
    program = mt.lower([A, C])
    assert [i.var for i in program.blocks["C"].iters] == ["i", "i2", "i3"]
    a = floats(3, 4, 2)
    np.testing.assert_array_equal(run(program, a), (a.sum(2) * np.arange(4)).sum(1))


def test_the_name_of_a_program():
    C = mt.compute((1,), lambda i: 1.0)
    assert mt.lower([C], name="").name == "main"
    assert mt.lower([C], name="f").name == "f"


def test_an_index_of_an_update_is_free_if_it_is_the_same_after_simplification():
    A = mt.placeholder((4, 5), name="A")
    for zero in (0, False):
        W = mt.update(
            (4, 5),
            lambda W, t, i, zero=zero: A[t, i] + mt.if_then_else(t > 0, W[t - 1, i + zero], 0.0),
            name="W",
        )
        kinds = [axis.kind for axis in mt.lower([A, W]).blocks["W"].iters]
        assert kinds == [IterKind.ORDERED, IterKind.SPATIAL]


class TestConstants:
    """Inputs that are known before the first call."""

    def test_are_a_part_of_the_program_and_of_its_keys(self):
        A, B, _, D = matmul_relu()
        plain, known = mt.lower([A, B, D]), mt.lower([A, B, D], constants=[B])
        assert known.constants == {"B"} and plain.constants == frozenset()
        assert known != plain and known.spelled() != plain.spelled()
        hashes = {structural_hash(p) for p in (plain, known, mt.lower([A, B, D], constants=[A]))}
        assert len(hashes) == 3

    def test_that_are_no_inputs(self):
        A, B, C, D = matmul_relu()
        for wrong in ([C], [D], ["B"], None, [None], B[0, 0]):
            with pytest.raises(ArgumentError, match=r"among the inputs \(A, B\)"):
                mt.lower([A, B, D], constants=wrong)
        program = mt.lower([A, B, D])
        with pytest.raises(VerifyError, match="constant D is no input"):
            verify(program.replace(constants=frozenset(["D"])))
