"""How many candidates rounds have."""

import pytest

from tests.unit.search.tune.made import product, searched


@pytest.mark.parametrize("strategy", ["evolution", "no-model"])
def test_a_round_is_full_while_there_is_something_new(strategy):
    """Those that were measured score high; they must not take the places of new ones."""
    result, told = searched(product(96), trials=48, strategy=strategy)
    assert [progress.trials for progress in told] == [8, 16, 24, 32, 40, 48]
    choices = [tried.choices for tried in result.tried]
    assert len(set(choices)) == len(choices) == 48
