"""Trees of a search: the derivation of its sketches, and a tree of its cost model."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

import numpy as np

from minitensor.errors import whole
from minitensor.ir import print_name
from minitensor.pictures import Branch, Picture, fitted, tree_picture
from minitensor.search.features import FEATURE_NAMES
from minitensor.search.gbt import GradientBoostedTrees, Tree
from minitensor.search.sketch import Derived, Sketch

FEWEST: Final = 0.08
"""The part of the hue that the leaves nearest to 0 have."""


def sketches_picture(sketches: Sequence[Sketch]) -> Picture:
    """The derivation tree: from the definition (left) by rules to the sketches (right)."""
    name = fitted(print_name(sketches[0].program.name), 40) if sketches else "nothing"
    root = Branch([name], colour="grey")
    found = [([s for s in one.history if s.rule != "skip"], n) for n, one in enumerate(sketches)]
    _grow(root, found, sketches, 0)
    count = len(sketches)
    text = f"{count} sketch{'es' * (count != 1)} of {name}, each with the rules that lead to it."
    return tree_picture("sketches", f"The derivation of {count} sketches", root, text)


def _grow(
    branch: Branch,
    found: Sequence[tuple[Sequence[Derived], int]],
    sketches: Sequence[Sketch],
    depth: int,
) -> None:
    """Add what is below a node: a branch for each next step; a chain of steps is one node."""
    groups: dict[Derived | None, list[tuple[Sequence[Derived], int]]] = {}
    for history, number in found:
        step = history[depth] if len(history) > depth else None
        groups.setdefault(step, []).append((history, number))
    for first, group in groups.items():
        if first is None:
            branch.below += [_leaf(sketches[number], number) for _, number in group]
            continue
        end = depth
        while all(len(h) > end and h[end] == group[0][0][end] for h, _ in group):
            end += 1
        lines = [line for step in group[0][0][depth:end] for line in _lines(step)]
        below = Branch(lines, "", "blue")
        branch.below.append(below)
        _grow(below, group, sketches, end)


def _lines(step: Derived) -> list[str]:
    """A step: the block and the rule, and below it what was done."""
    what = textwrap.wrap(step.what, 40, initial_indent="  ", subsequent_indent="  ")
    return [f"{print_name(step.block)}: {step.rule}", *what[:2]]


def _leaf(sketch: Sketch, number: int) -> Branch:
    open_ = sum(decision is None for decision in sketch.decisions.values())
    return Branch([f"sketch {number + 1}: {open_} decisions"], "", "green", 0.3)


def ensemble_picture(model: GradientBoostedTrees, number: int = 1) -> Picture:
    """A tree of a cost model: questions with yes and no on the way on, leaves with their values.

    number  of the tree, counted from 1

    Raises ArgumentError for a number that is none.
    """
    trees = model.trees
    tree = trees[whole("number", number, 1, max(1, len(trees))) - 1] if trees else None
    title = f"Tree {number} of {len(trees)} of the cost model"
    if tree is None:
        return tree_picture("tree", title, Branch(["no trees"]), "There was nothing to learn.")
    text = (
        "A statement goes from question to question; the sum of its leaves in all trees is its "
        "score. Blue leaves are faster, orange ones slower."
    )
    return tree_picture("tree", title, tree_branch(tree, FEATURE_NAMES), text)


def tree_branch(tree: Tree, names: Sequence[str] | None = None) -> Branch:
    """A tree as a branch to be drawn. Raises ArgumentError for names that are none."""
    questions, leaf = tree.questions(names), tree.feature < 0
    largest = float(np.abs(tree.value[leaf & (tree.rows > 0)]).max(initial=0.0)) or 1.0

    def branch(node: int, edge: str) -> Branch:
        rows, value = f"{int(tree.rows[node]):,} rows", float(tree.value[node])
        if leaf[node]:
            colour = "blue" if value >= 0 else "orange"
            fill = FEWEST + 0.6 * min(1.0, abs(value) / largest)
            return Branch([f"{value:+.3g}  {rows}"], edge, colour, fill)
        split = Branch([questions[node], f"{rows}, gain {tree.gain[node]:.3g}"], edge, "grey")
        split.below += [branch(2 * node + 1, "yes"), branch(2 * node + 2, "no")]
        return split

    return branch(0, "")
