"""The page about tuners has all of them, and the defaults that they have."""

import pathlib
import re

import pytest

from minitensor.search import STRATEGIES, Annealing, Evolution, FlexTensor, Genetic

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
