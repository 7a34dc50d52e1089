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

Needs Hypothesis, which draws every random decision and makes failures small. Every number that is
generated is a small integer, whatever its type, so that reordered sums are exact and equality needs
no tolerance.

Read `draws` first: every generator asks it for numbers. Then `programs`, `values`, `schedules`,
`kernels` (schedules for a GPU) and `matching` (intrinsics for them); the oracles `reference`
(numpy) and `oracle`, with `scripts`. A campaign (`minitensor fuzz`) is `pairs`, `batch`, `worker`,
`reduce`, and `campaign`.
"""

# fmt: off
try:
    import hypothesis as _hypothesis
except ImportError:
    raise ImportError(
        "minitensor.testing needs Hypothesis: python -m pip install 'minitensor[test]'"
    ) from None

from typing import NoReturn as _NoReturn

from minitensor.phrasebook import unknown_name as _unknown_name
from minitensor.testing.batch import Counts, check_pair
from minitensor.testing.campaign import Campaign, Found, State
from minitensor.testing.draws import Draws, drawn
from minitensor.testing.intrinsics import check_intrinsic
from minitensor.testing.kernels import kernel_attempts, kernel_schedules
from minitensor.testing.matching import matching_intrinsic
from minitensor.testing.oracle import (
    assert_equivalent, compare, expected_outputs, small_arrays, small_values,
)
from minitensor.testing.pairs import (
    FailedError, Failure, Pair, check_mapping, check_meaning, pair_of, pairs,
)
from minitensor.testing.programs import DTYPES, EXTENTS, programs
from minitensor.testing.reduce import reduced, script_of
from minitensor.testing.reference import evaluate_by_numpy
from minitensor.testing.schedules import PRIMITIVES, BrokenPromiseError, attempts, schedules
from minitensor.testing.values import arrays_for, index_expressions

__all__ = [
    "DTYPES", "EXTENTS", "PRIMITIVES", "BrokenPromiseError", "Campaign", "Counts", "Draws",
    "FailedError", "Failure", "Found", "Pair", "State", "arrays_for", "assert_equivalent",
    "attempts", "check_intrinsic", "check_mapping", "check_meaning", "check_pair", "compare",
    "drawn", "evaluate_by_numpy", "expected_outputs", "index_expressions", "kernel_attempts",
    "kernel_schedules", "matching_intrinsic", "pair_of", "pairs", "programs", "reduced",
    "schedules", "script_of", "small_arrays", "small_values",
]


def __getattr__(name: str) -> _NoReturn:
    raise _unknown_name("testing", name, "mt.testing", __all__)
