"""The history that a strategy sees: everything that was tried, in order, failures included."""

import math

import pytest

from minitensor.search.records import OK
from tests.unit.search.tune.made import product, tuner_of
from tests.unit.search.tune.test_tuner import as_record


class Careful:
    """Remembers what it is shown, and changes the fastest that the history has, not the last."""

    def __init__(self):
        self.shown = []

    def propose(self, round):
        self.shown.append(round.history)
        worked = [t for t in round.history if t.status == OK and t.candidate is not None]
        if not worked:
            return [round.space.draw(round.rng) for _ in range(4 * round.count)]
        best = min(worked, key=lambda tried: tried.seconds).candidate
        assert best == round.best[0]
        return [round.space.mutated(best, round.rng) for _ in range(64 * round.count)]


def careful(trials, records=()):
    tuner = tuner_of(product(96), trials)
    tuner.strategy = tuner.proposals.strategy = Careful()
    tuner.resume(records)
    tuner.run()
    return tuner


def test_a_strategy_sees_failures_and_times_in_order():
    tuner = careful(32)
    shown = tuner.strategy.shown
    assert [len(history) for history in shown[:4]] == [0, 8, 16, 24]
    assert all(history == tuple(tuner.tried[: len(history)]) for history in shown)
    last = shown[-1]
    assert [t.number for t in last] == list(range(1, len(last) + 1))
    assert [t.round for t in last] == [1 + n // 8 for n in range(len(last))]
    failures = [t for t in last if t.status != OK]
    assert [t.number % 7 for t in failures][:1] == [0]
    assert {t.status for t in failures} == {"not built", "wrong result"}
    assert all(t.seconds == math.inf and t.error for t in failures)
    assert all(0 < t.seconds < 1 for t in last if t.status == OK)


@pytest.mark.slow
def test_what_the_log_knew_comes_first():
    program = product(96)
    first = careful(12)
    second = careful(24, [as_record(program, t) for t in first.tried])
    history = second.strategy.shown[0]
    assert [t.trace for t in history] == [t.trace for t in first.tried]
    assert all(t.known and t.round == 0 for t in history)
    assert [t.round for t in second.tried[12:]] == [1] * 8 + [2] * 4


def test_a_strategy_cannot_change_it():
    tuner = careful(8)
    (history,) = tuner.strategy.shown
    with pytest.raises(AttributeError):
        history.append(None)
    with pytest.raises(AttributeError):
        tuner.tried[0].seconds = 0.0
