"""Calls of operators are remembered, and can be made again."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.lang.ops.operator import OPERATORS, operator, plain, tensor


@pytest.fixture
def joined():
    """An operator made for the test, which is forgotten after it."""

    @operator("a", "b", "others", several=("others",))
    def joined(a, b=1.0, others=(), *, scale=2, axes=(0,)):
        """a + b and the others, times a scale."""
        tensor("a", a)

        def element(i):
            total = a[i] + (b[i] if isinstance(b, mt.Tensor) else b)
            for other in others:
                total = total + other[i]
            return total * scale

        return mt.compute(a.shape, element, name="joined")

    yield joined
    del OPERATORS["joined"]


def inputs(count):
    return [mt.placeholder((3,), name=f"x{n}") for n in range(count)]


class TestOrigin:
    def test_a_call_is_remembered(self, joined):
        a, b, c, d = inputs(4)
        origin = joined(a, b, [c, d], scale=np.int64(3), axes=[1, 2]).origin
        assert origin.operator == "joined"
        assert origin.operands == ("a", "b", "others", "others")
        assert origin.inputs == (a, b, c, d)
        assert origin.attributes == {"scale": 3, "axes": (1, 2)}
        assert type(origin.attributes["scale"]) is int

    def test_a_number_in_the_place_of_a_tensor_is_an_attribute(self, joined):
        (a,) = inputs(1)
        origin = joined(a, 0.5).origin
        assert origin.operands == ("a",)
        assert origin.attributes == {"b": 0.5}

    def test_of_nested_calls_the_outermost_is_remembered(self, joined):
        @operator("a")
        def twice(a):
            """joined, and joined again."""
            return joined(joined(a))

        try:
            (a,) = inputs(1)
            assert twice(a).origin.operator == "twice"
            assert twice(a).origin.inputs == (a,)
        finally:
            del OPERATORS["twice"]

    def test_computes_and_placeholders_have_none(self):
        (a,) = inputs(1)
        assert a.origin is None
        assert mt.compute((3,), lambda i: a[i]).origin is None


class TestApply:
    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_a_call_can_be_made_again(self, joined, count):
        first = inputs(count)
        made = joined(first[0], *first[1:2], others=first[2:], scale=4)
        origin = made.origin
        again = inputs(count)
        operator = OPERATORS[origin.operator]
        other = operator.apply(origin.operands, again, origin.attributes)
        assert str(mt.lower([*again, other])) == str(mt.lower([*first, made]))


class TestErrors:
    def test_arguments_that_the_function_does_not_have(self, joined):
        with pytest.raises(
            mt.ArgumentError, match=r"ops.joined: .*size.*its signature is joined\(a, b=1"
        ):
            joined(*inputs(1), size=3)

    def test_an_attribute_that_is_no_data(self, joined):
        with pytest.raises(mt.ArgumentError, match=r"expected numbers, strings.*joined\(axes=\)"):
            joined(*inputs(1), axes=object())

    def test_an_array_is_no_tensor(self, joined):
        with pytest.raises(mt.ArgumentError, match=r"expected a tensor \(an array is an input"):
            joined(np.ones(3))

    def test_plain_data(self):
        assert plain("x", [np.float32(0.5), [True, None], "a"]) == (0.5, (True, None), "a")
