"""The page about tuners has all of them, and the defaults that they have."""

import pathlib
import re

import pytest

from minitensor.search import STRATEGIES, Annealing, Evolution, FlexTensor, Genetic, Mutations
from minitensor.search.sketch import ansor, gpu_factors
from minitensor.search.space import UNROLL
from minitensor.search.space.candidate import GPU_UNROLL
from minitensor.search.tune.learner import usual_model

PAGE = (pathlib.Path(__file__).parents[4] / "docs/tuners.md").read_text()


def test_every_strategy_has_a_row():
    table = PAGE.split("| asks a model |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `([\w-]+)` \|.*\| (yes|no)[^|]*\|$", table, re.MULTILINE))
    assert rows.keys() == STRATEGIES.keys()
    for name, asks in rows.items():
        assert (asks == "yes") is getattr(STRATEGIES[name], "uses_model", True), name


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("evolution | candidates of a generation | 2048 | {}; 64 for", Evolution().population),
        ("| generations | 4 | {} |", Evolution().generations),
        ("| generations | {} | 4 |", Evolution().generations),
        ("crossovers | 0.85 | {} |", 1 - Evolution().crossover),
        ("first generation | 0.2 | {} |", Evolution().measured),
        ("random part | 0.05 | {} | the same", Evolution().epsilon),
        ("sketches share | - | {} |", Evolution().floor),
        ("until recall rises no more | {} of", usual_model().n_trees),
        ("30 of depth {}, rate 0.3", usual_model().max_depth),
        ("30 of depth 4, rate {} |", usual_model().learning_rate),
        ("genetic | candidates of a generation | 100 | {} |", Genetic().population),
        ("elite | 3 | {} |", Genetic().elite),
        ("mutation, of each choice | 0.1 | {} |", Genetic().mutation),
        ("annealing | chains | 128 | {} |", Annealing().chains),
        ("| steps | 500 | {} |", Annealing().steps),
        ("then end | 50 | {} |", Annealing().patience),
        ("random part | 0.05 | {} |", Annealing().epsilon),
        ("without scores in the code | {} standard deviations |", Annealing().diversity),
        ("flextensor | random at first | 200 | {} |", FlexTensor().warm_up),
        ("of starting points | 0.5 | {} |", FlexTensor().gamma),
        ("falling to | {} exp(-0.01 n), 0.1", FlexTensor().epsilon),
        ("falling to | 0.8 exp(-{} n), 0.1", FlexTensor().decay),
        ("falling to | 0.8 exp(-0.01 n), {} |", FlexTensor().least),
        ("4 layers of 64, for each choice | 4 layers of {}, for each sketch", FlexTensor().width),
        ("discount of later rewards | 0.9 | {} |", FlexTensor().discount),
        ("Adam, rate 0.001, {} epochs", FlexTensor().epochs),
    ],
)
def test_a_default_in_the_table_is_that_of_the_code(row, value):
    assert row.format(value) in PAGE


def test_what_is_said_to_be_ansors_is_as_in_its_code():
    """`sketch_policy.cc`, `utils.h` and `DEFAULT_PARAMS` of `search_policy.py`, by hand."""
    odds = Mutations()
    assert (odds.tile, odds.unroll, odds.location, odds.parallel) == (0.90, 0.04, 0.05, 0.01)
    assert "tile, unroll, location, parallel | 0.9, 0.04, 0.05, 0.01 | the same" in PAGE
    assert UNROLL == (0, 16, 64, 512)
    assert GPU_UNROLL == (0, 16, 64, 512, 1024)
    assert ansor.INNERMOST == gpu_factors.INNERMOST == 64
