"""Models of drawn graphs compute what the interpreter does; `tests.random_graphs` tries more."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.property.graph.drawn import graphs
from tests.random_graphs import differences

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.slow
@given(graphs())
@settings(max_examples=12, suppress_health_check=SLOW, deadline=None)
def test_models_of_drawn_graphs(drawn):
    assert differences(*drawn) == []
