"""Answers, kept and given again; and lists of them made small."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitensor.fuzz import Drawn, Recorded, shrink


def session(choices):
    """Some questions of all kinds, and what was answered."""
    found = [choices.number(-3, 5), choices.chance(30), choices.pick("abc")]
    found.append(choices.shuffled([1, 2, 3, 4]))
    choices.repeat(1, 4, 60, lambda n: found.append(choices.number(0, n)))
    return found


@given(st.integers(0, 10**6))
def test_what_was_recorded_gives_the_same_again(seed):
    first = Recorded(seed=seed)
    answers = session(first)
    again = Recorded(first.answers)
    assert session(again) == answers
    assert again.answers == first.answers
    assert again.spans == first.spans


@given(st.lists(st.integers(0, 10**6), max_size=30))
def test_any_list_is_answers(given_answers):
    choices = Recorded(given_answers)
    number, chance, letter, order, *rest = session(choices)
    assert -3 <= number <= 5 and chance in (True, False) and letter in "abc"
    assert sorted(order) == [1, 2, 3, 4]
    assert 1 <= len(rest) <= 4


def test_no_answers_are_the_simplest():
    assert session(Recorded()) == [-3, False, "a", [1, 2, 3, 4], 0]


def test_spans_hold_what_belongs_together():
    choices = Recorded([1, 99, 2, 99, 3, 0])
    choices.number(0, 9)
    found = []
    choices.repeat(1, 3, 50, lambda n: found.append(choices.number(0, 9)))
    assert found == [2, 3]
    assert choices.spans == [(1, 3), (3, 5), (5, 6)]


def test_a_function_answers():
    asked = []
    choices = Drawn(lambda low, high: asked.append((low, high)) or high)
    assert choices.pick([1, 2, 3]) == 3
    assert choices.chance(1)
    assert asked == [(0, 2), (0, 99)]


def no_spans(answers):
    return ()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(1, 50))
def test_the_smallest_list_with_a_large_number(answers, least):
    fails = lambda found: any(n >= least for n in found)
    if fails(answers):
        assert shrink(answers, no_spans, fails) == (least,)


def test_pairs_that_must_stay_together_are_left_out_together():
    def fails(found):
        """Well-formed: pairs (1, x), one of them with x = 7."""
        pairs = list(zip(found[::2], found[1::2]))
        return len(found) % 2 == 0 and all(a == 1 for a, _ in pairs) and (1, 7) in pairs

    spans = lambda found: [(n, n + 2) for n in range(0, len(found), 2)]
    assert shrink([1, 3, 1, 4, 1, 7, 1, 9], spans, fails) == (1, 7)


def test_no_more_lists_are_tried_than_allowed():
    tried = []
    shrink(range(100), no_spans, lambda found: tried.append(found) or False, most=17)
    assert len(tried) == 17
    assert len(set(tried)) == 17


def test_what_never_fails_again_stays():
    assert shrink([3, 2, 1], no_spans, lambda found: False) == (3, 2, 1)


@pytest.mark.parametrize("answers", [[], [0, 0]])
def test_zeros_at_the_end_say_nothing(answers):
    assert shrink(answers, no_spans, lambda found: True) == ()
