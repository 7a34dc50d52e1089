"""A tree as a picture."""

import sys

import numpy as np
import pytest

from minitensor.cli.errors import CommandError
from minitensor.cli.trees import draw, plot_tree
from minitensor.search import GradientBoostedTrees

NAMES = ["$tile$", "la\nnes"]


@pytest.fixture(scope="module")
def tree():
    X = np.random.default_rng(0).normal(size=(80, 2))
    return GradientBoostedTrees(n_trees=1, max_depth=3).fit(X, np.exp(X[:, 0])).trees[0]


class Axes:
    """What is drawn on it."""

    def __init__(self):
        self.lines, self.texts = [], {}

    def plot(self, x, y, **_):
        self.lines.append((tuple(x), tuple(y)))

    def text(self, x, y, text, **_):
        self.texts[x, y] = text

    def set_xlim(self, low, high):
        self.x = (low, high)

    def set_ylim(self, low, high):
        self.y = (low, high)

    def set_axis_off(self):
        pass


def test_every_node_is_drawn_once_and_joined_to_its_parent(tree):
    axes = Axes()
    plot_tree(axes, tree, NAMES)
    places = tree.layout(NAMES)
    assert len(axes.texts) == len(places) == 2 * tree.leaves - 1
    assert len(axes.lines) == len(places) - 1
    for x, y in axes.lines:
        assert y[0] == y[1] + 1
        assert all((x[end], y[end]) in axes.texts for end in (0, 1))
    assert all(axes.x[0] < x < axes.x[1] and axes.y[0] < y < axes.y[1] for x, y in axes.texts)
    assert "$" not in "".join(axes.texts.values()).replace(r"\$", "")


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_picture_is_drawn(tree, tmp_path, kind):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"tree.{kind}"
    draw(tree, str(path), NAMES)
    assert path.stat().st_size > 1000


def test_places_that_cannot_be_written(tree, tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("nowhere/tree.png", "tree.nothing"):
        with pytest.raises(CommandError, match="cannot be written"):
            draw(tree, str(tmp_path / name))


def test_without_matplotlib(tree, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CommandError, match="pip install"):
        draw(tree, str(tmp_path / "tree.png"))
