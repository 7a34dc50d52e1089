"""Programs that are compared with torch: all are defined, with arrays that a run can hold."""

import pytest

import minitensor as mt
from benchmarks.programs.definitions import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_definition(name):
    tensors, expected = PROGRAMS[name]()
    program = mt.lower(tensors, name=name)
    assert [buffer.name for buffer in program.inputs] == [*"xwzv"[: len(tensors) - 1]]
    assert len(program.outputs) == 1 and callable(expected)
    assert sum(buffer.nbytes for buffer in program.params) < 100e6
    assert PROGRAMS[name].__doc__.endswith(".")
