"""A tree as text, what its splits ask, and what is no tree."""

from dataclasses import replace

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.search.gbt.tree import Tree, check

NAMES = ["tile", "lanes", "cores"]


def tree():
    return Tree(
        feature=np.array([1, -1, 0, -1, -1, -1, -1], np.int32),
        threshold=np.array([3.5, 0, 1e9, 0, 0, 0, 0], np.float32),
        missing_left=np.array([True, False, False, False, False, False, False]),
        value=np.array([0.0, -0.25, 0.1, 0, 0, 0.125, 1 / 3]),
        gain=np.array([2.0, 0, 0.5, 0, 0, 0, 0]),
        cover=np.array([10.0, 4, 6, 0, 0, 5, 1]),
        rows=np.array([2000, 1200, 800, 0, 0, 799, 1], np.int32),
    )


def test_text():
    assert tree().text(NAMES) == (
        "lanes <= 3.5 or NaN  (2,000 rows, gain 2)\n"
        "├─ yes: -0.25  (1,200 rows)\n"
        "└─ no: tile <= 1e+09  (800 rows, gain 0.5)\n"
        "   ├─ yes: +0.125  (799 rows)\n"
        "   └─ no: +0.33333  (1 rows)"
    )
    assert tree().text().startswith("f1 <= 3.5 or NaN")
    assert tree().depth == 2 and tree().leaves == 3


def test_questions():
    assert tree().questions(NAMES) == {0: "lanes <= 3.5 or NaN", 2: "tile <= 1e+09"}


@pytest.mark.parametrize("names", [["tile"], "tile", [1, 2, 3], []], ids=repr)
def test_names_that_are_none(names):
    with pytest.raises(ArgumentError, match="names"):
        tree().text(names)


def test_names_stay_on_their_line():
    assert "ti?le <= 1e+09" in tree().text(["ti\x1ble", "la\nnes"])
    assert len(tree().text(["ti\x1ble", "la\nnes"]).splitlines()) == 5


def changed(name, node, value):
    values = getattr(tree(), name).copy()
    values[node] = value
    return replace(tree(), **{name: values})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (changed("feature", 0, 3), "none of 3 columns"),
        (changed("feature", 0, -2), "none of 3 columns"),
        (changed("feature", 5, 1), "under a split"),
        (changed("feature", 1, -1), None),
        (replace(tree(), feature=tree().feature[:2]), "a tree of 2 nodes"),
        (changed("threshold", 0, np.inf), "threshold that is not finite"),
        (changed("value", 6, np.nan), "value that is not finite"),
        (changed("gain", 6, -np.inf), "gain that is not finite"),
        (changed("cover", 0, np.inf), "cover that is not finite"),
        (replace(tree(), value=tree().value[:6]), "not all of 7 nodes"),
    ],
)
def test_what_is_no_tree(wrong, why):
    check(tree(), 3)
    if why is None:
        check(wrong, 3)
        return
    with pytest.raises(ValueError, match=why):
        check(wrong, 3)


def test_sizes_of_trees():
    def of(nodes):
        feature = np.full(nodes, -1, np.int32)
        feature[:1] = 0
        parts = {name: np.zeros(nodes, getattr(tree(), name).dtype) for name in vars(tree())}
        return Tree(**{**parts, "feature": feature})

    for nodes in (3, 7, 127, 2**13 - 1):
        check(of(nodes), 1)
    for nodes in (0, 1, 2, 4, 8, 2**14 - 1):
        with pytest.raises(ValueError, match="nodes"):
            check(of(nodes), 1)


def test_a_split_under_a_leaf():
    deeper = {name: np.concatenate([v, np.zeros(8, v.dtype)]) for name, v in vars(tree()).items()}
    deeper["feature"][7:] = -1
    check(Tree(**deeper), 3)
    deeper["feature"][4] = 0
    with pytest.raises(ValueError, match="a split under a leaf"):
        check(Tree(**deeper), 3)
