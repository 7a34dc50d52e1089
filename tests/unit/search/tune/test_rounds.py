"""How many candidates rounds have."""

import pytest

from minitensor.search.tune import tuner as module
from tests.unit.search.tune.made import product, searched, tuner_of


@pytest.mark.parametrize(
    "strategy", ["evolution", pytest.param("no-model", marks=pytest.mark.slow)]
)
def test_a_round_is_full_while_there_is_something_new(strategy):
    """Those that were measured score high; they must not take the places of new ones."""
    result, told = searched(product(96), trials=48, strategy=strategy)
    assert [progress.trials for progress in told] == [8, 16, 24, 32, 40, 48]
    candidate = [tried.candidate for tried in result.tried]
    assert len(set(candidate)) == len(candidate) == 48


def test_what_is_in_the_log_was_tried_though_ctrl_c_came_between(monkeypatch):
    class Kept(list):
        def append(self, trace):
            if len(self) == 5:
                raise KeyboardInterrupt
            super().append(trace)

        def define(self, program):
            pass

    monkeypatch.setattr(module, "new_record", lambda program, target, trace, **rest: trace)
    tuner = tuner_of(product(), log=Kept())
    with pytest.raises(KeyboardInterrupt):
        tuner.run()
    assert [t.number for t in tuner.tried] == [1, 2, 3, 4, 5]
    assert [t.trace for t in tuner.tried] == tuner.log
    assert tuner.best is not None
