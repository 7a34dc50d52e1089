"""Property testing of programs and schedules, for your own transformations and for ours.

    from hypothesis import given
    from minitensor.testing import assert_equivalent, programs, schedules

    @given(data())
    def test_my_primitive(data):
        program = data.draw(programs())
        schedule = data.draw(schedules(program))
        ...                                             # transform schedule.program
        assert_equivalent(program, transformed)

And the bodies of your own intrinsics (`mt.intrinsic`):

    def test_my_intrinsic():
        check_intrinsic(my_intrinsic)

Needs Hypothesis, which `pip install minitensor[test]` brings. Every number that is generated is a
small integer, whatever its type, so that reordered sums are exact and equality needs no tolerance.
What the strategies draw, and how a campaign of them is run, is in `minitensor.fuzz`.
"""

# fmt: off
from minitensor.fuzz import PRIMITIVES, assert_equivalent
from minitensor.testing.intrinsics import check_intrinsic
from minitensor.testing.strategies import arrays_for, index_expressions, programs, schedules

__all__ = [
    "PRIMITIVES", "arrays_for", "assert_equivalent", "check_intrinsic", "index_expressions",
    "programs", "schedules",
]
