"""Pictures of random schedules: the order of visits is that of plain loops, and no two iterations
of a concurrent loop are said to conflict.
"""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from minitensor import ir, pictures
from minitensor.pictures.conflict import find_pair
from minitensor.testing import Pair
from tests.property.test_master import RELAXED, draw_pair
from tests.unit.pictures.common import parsed
from tests.unit.pictures.test_order import by_loops, visited

pytestmark = pytest.mark.slow


@given(st.data())
@settings(RELAXED, max_examples=12)
def test_random_schedules(data):
    program, schedule = draw_pair(data)
    assume(Pair(program, schedule, values=0).work <= 5_000)
    program = schedule.program
    for picture in pictures.program_pictures(program, {"L1": 1 << 15})[0]:
        parsed(picture)
    for name, site in ir.loop_sites(program).items():
        if site.loop.kind.is_concurrent:
            assert find_pair(program, name)[0] is None
    lanes = any(loop.kind is ir.LoopKind.VECTORIZE for loop in ir.loops_of(program.body))
    for name in program.buffers:
        if pictures.order_pictures(program, name):
            wanted, seen = by_loops(program, name), visited(program, name)
            assert sorted(seen) == sorted(wanted) if lanes else seen == wanted
            assert set(visited(program, name, moving=True)) == set(wanted)
