"""How many candidates rounds have."""

import pytest

import minitensor as mt
from minitensor.search.tune import tuner as module
from tests.unit.search.tune.made import TARGET, MadeUp, product, searched, tuner_of


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy", ["evolution", pytest.param("no-model", marks=pytest.mark.slow)]
)
def test_a_round_is_full_while_there_is_something_new(strategy):
    """Those that were measured score high; they must not take the places of new ones."""
    result, told = searched(product(96), trials=48, strategy=strategy)
    assert [progress.trials for progress in told] == [8, 16, 24, 32, 40, 48]
    candidate = [tried.candidate for tried in result.tried]
    assert len(set(candidate)) == len(candidate) == 48


@pytest.mark.slow
@pytest.mark.parametrize("trials", [1, 8])
def test_the_first_is_the_schedule_that_needs_no_trial(trials):
    """So a log never has something slower only than what is built without one."""
    found = mt.tune(product(), TARGET, trials, runner=MadeUp(False), progress=False)
    untuned = mt.schedule_for(product(), TARGET)
    assert found.tried[0].trace.as_python() == untuned.trace.as_python()
    assert len(found.tried) == trials == len({str(tried.trace) for tried in found.tried})


@pytest.mark.slow
def test_it_is_tried_once(tmp_path):
    """Also where a search goes on that began without it."""
    log, given = tmp_path / "log.jsonl", {"runner": MadeUp(False), "progress": False}
    drawn = mt.tune(product(), TARGET, 4, strategy="random", log=log, **given)
    untuned = mt.schedule_for(product(), TARGET).trace.as_python()
    assert untuned not in [tried.trace.as_python() for tried in drawn.tried]
    for trials in (8, 12):
        more = mt.tune(product(), TARGET, trials, log=log, **given).tried
        assert [tried.trace.as_python() for tried in more].index(untuned) == 4
        assert len(more) == trials


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
