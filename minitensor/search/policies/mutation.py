"""The protocol of mutation policies; and one that learns which moves make candidates better.

A move (see `minitensor.search.space.Move`) names the knob, and the levels between which a divisor
moves: with tiles at nine tenths of all mutations, the kind alone says little.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, unexpected
from minitensor.search.gbt import GradientBoostedTrees
from minitensor.search.policies.history import History, Made
from minitensor.search.space import Candidate, Move, Space
from minitensor.search.strategy import Doubles

COLUMNS: Final = 4
"""Numbers that describe a parent before a move (see `described`)."""
LEAST_CHANCE: Final = 0.01
"""Of a move that trees expect to make nothing better."""
DOUBT: Final = 8.0
"""Mutations of other searches by which a kind of move has to differ before it counts."""
STEPS: Final = 4
"""Of Newton's method: with so few columns it has converged."""


class MutationPolicy(Protocol):
    """Chooses how candidates are mutated."""

    def weights(
        self, parents: Sequence[Candidate], history: History, rng: random.Random
    ) -> Sequence[Sequence[float]] | None:
        """For each parent a number >= 0 for each of `history.space.moves(parent.sketch)`, of any
        sum above 0; None for the fixed odds. It depends on its arguments only, so that a search
        that is resumed goes on as it would have.
        """
        ...


def checked_weights(given: Any, parents: Sequence[Candidate], space: Space) -> list[list[float]]:
    """The weights of the moves of each parent. Raises ArgumentError for what are none."""
    try:
        rows = [np.asarray(row, np.float64) for row in given]
    except (TypeError, ValueError):
        raise unexpected("numbers for each parent", "weights", given) from None
    if len(rows) != len(parents):
        raise ArgumentError(f"expected weights for {len(parents)} parents, but got {len(rows)}")
    for parent, row in zip(parents, rows):
        moves = len(space.moves(parent.sketch))
        if row.shape != (moves,):
            raise ArgumentError(f"expected a weight for each of {moves} moves, got {row.shape}")
        if not (np.isfinite(row).all() and (row >= 0).all() and row.sum() > 0):
            raise ArgumentError("expected weights >= 0 of a finite sum above 0")
    return [row.tolist() for row in rows]


@dataclass(frozen=True)
class Learned:
    """Odds in proportion to the probability that a move makes a parent better, by a logistic
    regression for each move of each sketch, or by boosted trees for all moves of a sketch.

    It learns from this round's children, whose scores tell for free whether they are better than
    their parents, and from those that were measured, which weigh more. Of a parent it knows the
    two factors of the tile that a move changes, and the product of all innermost factors: a
    register tile that is full already is not to grow.

    fixed     the part of the odds that is as without it
    measured  how many children by score one that was measured is worth
    least     children of a sketch until anything is learnt
    trees     whether trees learn it
    prior     the logarithm of the odds of moves by kind and levels, as multiples of the usual ones;
              from searches for other programs, whose knobs are others
    """

    fixed: float = 0.3
    measured: float = 8.0
    least: int = 64
    trees: bool = False
    prior: Mapping[tuple[str, int, int], float] = field(default_factory=dict)

    def pretrained(self, histories: Sequence[History]) -> Learned:
        """The policy that begins with what the measured mutations of other searches gained."""
        better: Counter[tuple[str, int, int]] = Counter()
        every: Counter[tuple[str, int, int]] = Counter()
        for history in histories:
            for made in history.measured:
                move = move_of(history.space, made)
                if move is not None:
                    every[_levels(move)] += 1
                    better[_levels(move)] += made.gain > 0
        usual = sum(better.values()) / max(1, sum(every.values()))
        if not 0 < usual < 1:
            return self
        prior = {}
        for levels, count in every.items():
            chance = (better[levels] + DOUBT * usual) / (count + DOUBT)
            prior[levels] = _logit(chance) - _logit(usual)
        return replace(self, prior=prior)

    def weights(
        self, parents: Sequence[Candidate], history: History, rng: random.Random
    ) -> Sequence[Sequence[float]] | None:
        """See MutationPolicy."""
        space, found = history.space, [np.zeros(0)] * len(parents)
        lessons = [(made, 1.0) for made in history.made]
        lessons += [(made, self.measured) for made in history.measured]
        for sketch in {parent.sketch for parent in parents}:
            places = [n for n, parent in enumerate(parents) if parent.sketch == sketch]
            odds = np.array(space.odds(sketch))
            own = [lesson for lesson in lessons if lesson[0].child.sketch == sketch]
            moves = {move: n for n, move in enumerate(space.moves(sketch))}
            chances = self._chances(space, moves, own, [parents[n] for n in places])
            for place, row in zip(places, chances):
                found[place] = odds * (self.fixed + (1 - self.fixed) * row)
        return [row.tolist() for row in found]

    def _chances(
        self,
        space: Space,
        moves: dict[Move, int],
        lessons: Sequence[tuple[Made, float]],
        parents: Sequence[Candidate],
    ) -> Doubles:
        """The probability (parents, moves) that each move makes each parent better, relative
        to the mean over its moves.
        """
        before = np.array([self.prior.get(_levels(move), 0.0) for move in moves])
        even = np.tile(np.exp(before) / np.exp(before).mean(), (len(parents), 1))
        known = [(move_of(space, made), made, weight) for made, weight in lessons]
        taken = [(moves[move], made, weight) for move, made, weight in known if move is not None]
        if len(taken) < self.least:
            return even
        which = np.array([number for number, _, _ in taken])
        better = np.array([made.gain > 0 for _, made, _ in taken], np.float64)
        weight = np.array([weight for _, _, weight in taken])
        usual = float((weight * better).sum() / weight.sum())
        if not 0 < usual < 1:
            return even
        inputs = described(space, list(moves), [made.parent for _, made, _ in taken])
        rows, asked = inputs[np.arange(len(taken)), which], described(space, list(moves), parents)
        if self.trees:
            chances = by_trees(rows, which, better, weight, asked, list(moves))
        else:
            offset = _logit(usual) + before
            fitted = logistic(rows, which, better, weight, offset, len(moves))
            values = np.einsum("pmc,mc->pm", asked, fitted) + offset
            chances = 1 / (1 + np.exp(-values))
        return np.asarray(chances / chances.mean(axis=1, keepdims=True))


def logistic(
    rows: Doubles,
    which: npt.NDArray[np.int64],
    better: Doubles,
    weight: Doubles,
    offset: Doubles | float,
    groups: int,
) -> Doubles:
    """The coefficients (groups, columns) of a logistic regression for each group of rows, with a
    normal prior around 0, by Newton's method.

    rows    inputs (rows, columns); `which` the group of each, `better` what came (0 or 1)
    offset  the logarithm of the odds where all coefficients are 0, for each group or all of them
    """
    columns, start = rows.shape[1], np.broadcast_to(offset, groups)[which]
    found = np.zeros((groups, columns))
    for _ in range(STEPS):
        values = np.einsum("rc,rc->r", rows, found[which]) + start
        chances = 1 / (1 + np.exp(-values))
        slope = found.copy()
        np.add.at(slope, which, ((chances - better) * weight)[:, None] * rows)
        curve = np.tile(np.eye(columns), (groups, 1, 1))
        spread = (chances * (1 - chances) * weight)[:, None, None]
        np.add.at(curve, which, spread * rows[:, :, None] * rows[:, None, :])
        found -= np.linalg.solve(curve, slope[:, :, None])[:, :, 0]
    return found


def _levels(move: Move) -> tuple[str, int, int]:
    """The parts of a move that mean the same in another space."""
    return move.kind, move.source, move.target


def _logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def by_trees(
    rows: Doubles,
    which: npt.NDArray[np.int64],
    better: Doubles,
    weight: Doubles,
    asked: Doubles,
    moves: Sequence[Move],
) -> Doubles:
    """The probability (parents, moves) that each move makes each parent better, by boosted trees
    over what is known of a parent and of a move.

    rows   inputs (rows, columns) of the children that are learnt from; `which` the move of each,
           `better` what came (0 or 1)
    asked  inputs of parents before each move (parents, moves, columns)
    """
    kinds = sorted({move.kind for move in moves})
    named = np.array(
        [(kinds.index(m.kind), m.number, m.source, m.target) for m in moves], np.float64
    )
    trees = GradientBoostedTrees(n_trees=20, max_depth=4, bins=31)
    trees.fit(np.hstack([rows, named[which]]), better, weight=weight)
    every = np.concatenate([asked, np.broadcast_to(named, (len(asked), *named.shape))], axis=2)
    found = trees.predict(every.reshape(-1, every.shape[2])).reshape(asked.shape[:2])
    return np.clip(found, LEAST_CHANCE, 1.0)


def described(space: Space, moves: Sequence[Move], parents: Sequence[Candidate]) -> Doubles:
    """Parents of one sketch before each move, in numbers (parents, moves, COLUMNS): 1, the
    logarithms of the factors that the move makes smaller and larger, and of the register tile.
    """
    found = np.zeros((len(parents), len(moves), COLUMNS))
    found[:, :, 0] = 1.0
    if not parents:
        return found
    knobs = space.knobs[parents[0].sketch]
    for number, knob in enumerate(knobs):
        if not knob.is_tile:
            continue
        values = np.log2(np.maximum(1, np.array([p.values[number] for p in parents], np.float64)))
        found[:, :, 3] += values[:, -1:] / 4
        own = [n for n, m in enumerate(moves) if m.kind == "tile" and m.number == number]
        if own and values.ndim == 2:
            found[:, own, 1] = values[:, [moves[n].source for n in own]] / 4
            found[:, own, 2] = values[:, [moves[n].target for n in own]] / 4
    return found


def move_of(space: Space, made: Made) -> Move | None:
    """The move that makes a child of its parent; None if it is no move alone."""
    parent, child = made.parent, made.child
    if parent.sketch != child.sketch:
        return None
    found = []
    for number, (old, new) in enumerate(zip(parent.values, child.values)):
        if old == new:
            continue
        if not space.knobs[parent.sketch][number].is_tile:
            found.append(Move("tile", number))
        elif isinstance(old, tuple) and isinstance(new, tuple):
            changes = [b / max(a, 1) for a, b in zip(old, new)]
            source, target = changes.index(min(changes)), changes.index(max(changes))
            found.append(Move("tile", number, source, target))
    for kind, before, after in (
        ("parallel", parent.parallel, child.parallel),
        ("unroll", parent.unroll, child.unroll),
        ("location", parent.locations, child.locations),
    ):
        pairs = enumerate(zip(before, after))
        found += [Move(kind, number) for number, (old, new) in pairs if old != new]
    return found[0] if len(found) == 1 else None
