"""A tree of a cost model as a picture (extra `[ui]`).

from minitensor.cli.trees import draw, plot_tree

draw(boosted.trees[0], "tree.svg", names)
plot_tree(axes, boosted.trees[0], names)    # on axes of your own
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from minitensor.cli.errors import CommandError
from minitensor.search import gbt

_QUESTION: Final = {"boxstyle": "round", "facecolor": "#e8eef7", "edgecolor": "#1f77b4"}
_LEAF: Final = {"boxstyle": "round", "facecolor": "#eef5ea", "edgecolor": "#6a994e"}


def plot_tree(axes: Any, tree: gbt.Tree, names: Sequence[str] | None = None) -> None:
    """Draw on matplotlib's axes; yes goes left. `names` are those of the columns.

    Raises ArgumentError for names that are none.
    """
    places = {place.node: place for place in tree.layout(names)}
    for place in places.values():
        if place.parent is not None:
            above = places[place.parent]
            axes.plot([above.x, place.x], [-above.y, -place.y], color="#9a9a9a", zorder=1)
        look = _LEAF if tree.feature[place.node] < 0 else _QUESTION
        axes.text(
            place.x,
            -place.y,
            place.text.replace("$", r"\$"),
            bbox=look,
            ha="center",
            va="center",
            fontsize=7,
            zorder=2,
        )
    axes.set_xlim(-0.7, tree.leaves - 0.3)
    axes.set_ylim(-max(place.y for place in places.values()) - 0.5, 0.5)
    axes.set_axis_off()


def draw(tree: gbt.Tree, path: str, names: Sequence[str] | None = None) -> None:
    """Draw into a file, of a kind that matplotlib can write. Raises CommandError, ArgumentError."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional
    except ImportError:
        message = "a picture needs matplotlib: python -m pip install 'minitensor[ui]'"
        raise CommandError(message) from None
    figure = Figure(figsize=(max(4.0, 1.1 * tree.leaves), max(2.0, 1.1 * (tree.depth + 1))))
    plot_tree(figure.add_axes((0, 0, 1, 1)), tree, names)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as failure:
        raise CommandError(f"{path}: it cannot be written: {failure}") from failure
