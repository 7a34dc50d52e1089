import pytest

from minitensor.ir import NOTHING, Program, fact, stored_buffers
from tests.unit.ir.build import buffer, i, loop, store

PROGRAM = Program("p", (buffer("A", 4), buffer("C", 4)), (), loop("i", 4, store("C", i, 1.0)))


def test_a_fact_is_computed_once_for_each_program():
    calls = []

    @fact
    def stored(program):
        calls.append(program)
        return stored_buffers(program.body)

    other = PROGRAM.replace(body=NOTHING)
    assert [stored(PROGRAM), stored(PROGRAM), stored(other)] == [{"C"}, {"C"}, set()]
    assert calls == [PROGRAM, other]


def test_facts_are_not_part_of_a_program():
    fresh = PROGRAM.replace()
    assert [b.name for b in PROGRAM.outputs] == ["C"]
    assert fresh == PROGRAM and hash(fresh) == hash(PROGRAM)
    assert repr(fresh) == repr(PROGRAM)


def test_a_fact_that_fails_is_not_kept():
    answers = iter([ValueError("not now"), 3])

    @fact
    def number(program):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    fresh = PROGRAM.replace()
    with pytest.raises(ValueError, match="not now"):
        number(fresh)
    assert number(fresh) == number(fresh) == 3
