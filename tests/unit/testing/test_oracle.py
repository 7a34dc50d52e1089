"""The oracle itself: what it draws, and what it takes for equal."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import Buffer, Const, DType, rewrite
from minitensor.testing import assert_equivalent, small_arrays
from minitensor.testing.intrinsics import WIDEST_GAP, _strides
from tests.sent import imported


def negated(value, dtype="bfloat16"):
    X = mt.placeholder((3,), dtype, name="X")
    return mt.lower([X, mt.compute((3,), lambda i: value(X[i]), name="Y")])


def test_bfloat16_is_drawn_as_the_bits_of_small_integers():
    X = mt.placeholder((100,), "bfloat16", name="X")
    S = mt.placeholder((), "bfloat16", name="S")
    program = mt.lower([X, S, mt.compute((100,), lambda i: X[i] * S[()], name="Y")])
    many, one = small_arrays(program, 0)
    assert (many.dtype, one.dtype) == (np.uint16, np.uint16)
    values = (many.astype(np.uint32) << 16).view(np.float32)
    assert set(values) == set(range(-4, 5))
    assert one.shape == ()


def test_any_nan_of_bfloat16_equals_any_other():
    bits = np.array([0x7FC0, 0xFFC1, 0x3F80], np.uint16)
    assert_equivalent(
        negated(lambda x: -x), negated(lambda x: 0 - x), ["interpreter"], arrays=[bits]
    )
    with pytest.raises(AssertionError, match=r"Y\[2\] is 1\.0, not -1\.0"):
        assert_equivalent(
            negated(lambda x: -x), negated(lambda x: x * 1), ["interpreter"], arrays=[bits]
        )


def test_the_element_that_is_named_is_no_nan_that_agrees():
    given = np.array([np.nan, 0, 2], np.float32)
    one, two = (negated(f, "float32") for f in (lambda x: -x, lambda x: x * 1))
    with pytest.raises(AssertionError, match=r"Y\[2\] is 2\.0, not -2\.0"):
        assert_equivalent(one, two, ["interpreter"], arrays=[given])


@pytest.mark.parametrize("shape", [(4, 8), (1, 8), (4, 1), (2, 3, 4)])
def test_no_two_elements_of_an_operand_coincide(shape):
    buffer = Buffer("c", shape, DType.of("float32"))
    for chosen in itertools.product((None, 1, 24), repeat=len(shape)):
        strides = [s for s in chosen if s is not None]
        if len(set(strides)) < len(strides):
            continue
        for gap in range(WIDEST_GAP + 1):
            found = _strides(buffer, chosen, [gap] * len(shape))
            places = [
                sum(i * s for i, s in zip(index, found))
                for index in itertools.product(*map(range, shape))
            ]
            assert len(set(places)) == len(places), (chosen, found)
            assert all(s in (None, f) for s, f in zip(chosen, found))


def test_open_strides_are_dense_but_for_gaps():
    buffer = Buffer("c", (4, 8), DType.of("float32"))
    assert _strides(buffer, (None, None), (0, 0)) == (8, 1)
    assert _strides(buffer, (None, None), (1, 2)) == (25, 3)
    assert _strides(buffer, (20, None), (1, 2)) == (20, 1)
    assert _strides(buffer, (1, None), (0, 0)) == (1, 4)
    assert _strides(buffer, (1, None), (0, 3)) == (1, 7)


def with_factor(program, factor):
    """A wrong transformation: other constants."""

    def change(node):
        return Const(factor, node.dtype) if node == Const(2.0, node.dtype) else node

    return program.replace(
        body=rewrite(program.body, lambda n: change(n) if isinstance(n, Const) else n)
    )


def test_a_transformation_of_a_users_own_comes_after_the_schedule_in_the_script():
    A = mt.placeholder((4,), name="A")
    program = mt.lower([A, mt.compute((4,), lambda i: A[i] * 2.0, name="B")])
    s = mt.Schedule(program)
    s.split("i", [2, 2])
    assert_equivalent(program, s, ["interpreter"], then=(with_factor, 2.0))
    with pytest.raises(AssertionError) as caught:
        assert_equivalent(program, s, ["interpreter"], then=(with_factor, 3.0))
    said, script = str(caught.value).split("This script shows it:\n\n")
    assert "B[" in said
    assert "from tests.unit.testing.test_oracle import with_factor\n" in script
    assert "s.split('i', [2, 2])" in script
    assert "then=(with_factor, 3.0))" in script
    with pytest.raises(AssertionError, match=r"B\["):
        imported(script)


def test_a_function_that_no_module_has_is_asked_for():
    A = mt.placeholder((4,), name="A")
    program = mt.lower([A, mt.compute((4,), lambda i: A[i] * 2.0, name="B")])
    with pytest.raises(AssertionError, match="# put the definition of <lambda> here"):
        assert_equivalent(
            program, mt.Schedule(program), ["interpreter"], then=(lambda p: with_factor(p, 1.0),)
        )


def test_a_schedule_of_another_definition_is_told():
    def program(value):
        A = mt.placeholder((4,), name="A")
        return mt.lower([A, mt.compute((4,), lambda i: A[i] + value, name="B")])

    with pytest.raises(AssertionError, match="the interpreter") as caught:
        assert_equivalent(program(1.0), mt.Schedule(program(2.0)), ["interpreter"])
    text = str(caught.value)
    assert "The schedule is of another definition:" in text
    assert "B[i] = A[i] + 2.0" in text and "B[i] = A[i] + 1.0" in text
