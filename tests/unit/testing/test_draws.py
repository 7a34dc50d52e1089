"""Draws: questions of all kinds, values that seeds name, and what Hypothesis shrinks them to."""

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from minitensor.testing import Draws, drawn


@st.composite
def session(draw):
    """Some questions of all kinds, and the answers."""
    draws = Draws(draw)
    found = [draws.number(-3, 5), draws.chance(30), draws.pick("abc")]
    found.append(draws.shuffled([1, 2, 3, 4]))
    draws.repeat(1, 4, 60, lambda n: found.append(draws.number(0, n)))
    return found


@given(session())
def test_answers_are_in_their_ranges(found):
    number, chance, letter, order, *rest = found
    assert -3 <= number <= 5 and chance in (True, False) and letter in "abc"
    assert sorted(order) == [1, 2, 3, 4]
    assert 1 <= len(rest) <= 4
    assert all(0 <= answer <= n for n, answer in enumerate(rest))


def test_a_seed_names_a_value():
    assert [drawn(session(), n) for n in range(20)] == [drawn(session(), n) for n in range(20)]
    assert len({str(drawn(session(), n)) for n in range(50)}) > 40


@pytest.mark.slow
def test_chances_are_as_often_as_they_say():
    numbers = [drawn(session(), n) for n in range(400)]
    assert 0.2 < sum(found[1] for found in numbers) / len(numbers) < 0.4
    assert {len(found) for found in numbers} == {5, 6, 7, 8}


@pytest.mark.slow
def test_the_simplest_answers():
    assert find(session(), lambda found: True) == [0, False, "a", [1, 2, 3, 4], 0]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [5, *[pytest.param(n, marks=pytest.mark.slow) for n in (1, 9)]])
def test_a_part_of_a_list_is_left_out(wanted):
    @st.composite
    def stages(draw):
        draws, found = Draws(draw), []

        def stage(n):
            found.append([draws.number(0, 9) for _ in range(8)])

        draws.repeat(1, 5, 80, stage)
        return found

    least = find(stages(), lambda found: any(wanted in stage for stage in found))
    assert [sorted(stage) for stage in least] == [[0] * 7 + [wanted]]


def test_what_drawing_raises_comes_out():
    @st.composite
    def failing(draw):
        raise ValueError(draw(st.integers(1, 1)))

    with pytest.raises(ValueError, match="1"):
        drawn(failing(), 0)


def test_a_number_takes_few_bytes_wherever_its_range_starts():
    @st.composite
    def many(draw):
        return [Draws(draw).number(96, 97) for _ in range(500)]

    for seed in range(20):
        assert set(drawn(many(), seed)) == {96, 97}


def test_a_seed_that_names_no_value_is_named():
    with pytest.raises(ValueError, match="seed '7:1' names no value"):
        drawn(st.integers(0, 255).filter(lambda value: value > 255), "7:1")
