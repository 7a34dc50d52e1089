"""Steps from measured candidates, whose direction a network has learnt: FlexTensor's exploration.

A step changes one choice of a candidate in one direction: a factor moves from one level of a tile
to another, or the next option of a list is taken. Where to start is decided as in simulated
annealing: the slower a measured candidate is than the fastest, the less likely. Which way to go is
decided by Q-learning: the state is the candidate, the action a choice and a direction, the reward
the part of the time that a step saved. No model of programs is asked.

FlexTensor's are the directions, these two decisions and the form of the network. Ours are:

- it walks in every sketch, with a network for each; FlexTensor has one general template, and a
  network for each of its choices;
- one step is taken from a start at a time, and not one for each choice;
- nothing is kept between rounds. What is learnt are all pairs of tried candidates that are one step
  apart, whatever proposed them, and networks learn them anew in each round: so a search that is
  resumed goes on as it would have.

Source: Zheng et al., FlexTensor, ASPLOS 2020; flextensor/model.py, scheduler.py and space.py of its
repository (pku-liang/FlexTensor).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from minitensor.arith import Integers
from minitensor.errors import real, whole
from minitensor.search.records import OK
from minitensor.search.space import Candidate, Knob, Space
from minitensor.search.space.candidate import weighted
from minitensor.search.strategy import Doubles, Round
from minitensor.search.tried import Tried
from minitensor.search.tuners import genes
from minitensor.search.tuners.simple import PROPOSED, Random

Bits: TypeAlias = npt.NDArray[np.bool_]

MEMORY: Final = 1000
"""Transitions of a sketch that are learnt, the latest."""
BATCH: Final = 32
RATE: Final = 1e-3
"""Of Adam (Kingma and Ba, ICLR 2015), which takes the place of Adadelta: it needs fewer epochs."""


@dataclass(frozen=True, slots=True)
class FlexTensor:
    """FlexTensor's exploration; docs/tuners.md has the published parameters beside these.

    warm_up   random candidates at first
    gamma     the larger, the less is started from slow candidates
    epsilon   the probability of a direction at random, after warming up
    decay     of that probability, for each candidate
    least     of that probability
    restarts  the part of what is proposed that is random
    discount  of later rewards
    width     of the network's three hidden layers
    epochs    of learning in a round
    sweeps    parts of these; after each the values of next states are computed anew
    """

    warm_up: int = 20
    gamma: float = 0.5
    epsilon: float = 0.8
    decay: float = 0.01
    least: float = 0.1
    restarts: float = 0.1
    discount: float = 0.9
    width: int = 64
    epochs: int = 20
    sweeps: int = 4

    uses_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole("warm_up", self.warm_up, 1)
        for name in ("width", "epochs", "sweeps"):
            whole(name, getattr(self, name), 1, 1 << 12)
        for name in ("epsilon", "least", "restarts", "discount"):
            real(name, getattr(self, name), 0, 1)
        for name in ("gamma", "decay"):
            real(name, getattr(self, name), 0, 1e9)

    def propose(self, round: Round) -> Iterator[Candidate]:
        """See Strategy. Behind the steps there are random candidates, where these are refused."""
        seconds = _seconds(round.history)
        drawn = Random().propose(round)
        if len(round.history) >= self.warm_up and any(s < math.inf for s in seconds.values()):
            yield from self._steps(seconds, round, drawn)
        yield from drawn

    def _steps(
        self, seconds: Mapping[Candidate, float], round: Round, drawn: Iterator[Candidate]
    ) -> Iterator[Candidate]:
        rng, known = round.rng, set(seconds)
        trial = len(round.history) - self.warm_up
        chance = max(self.epsilon * math.exp(-self.decay * trial), self.least)
        starts = {c: s for c, s in seconds.items() if s < math.inf}
        best = min(starts.values())
        odds = [math.exp(-self.gamma * (s - best) / best) for s in starts.values()]
        sketches = dict.fromkeys(c.sketch for c in starts)
        walks = {sketch: Walk.of(round.space, sketch) for sketch in sketches}
        learnt = {sketch: self._learnt(walk, seconds, rng) for sketch, walk in walks.items()}
        for _ in range(PROPOSED * round.count):
            if rng.random() < self.restarts:
                yield from islice(drawn, 1)
                continue
            start = weighted(rng, list(starts), odds)
            walk, network = walks[start.sketch], learnt[start.sketch]
            steps = {n: c for n, c in walk.steps(start).items() if c not in known}
            if not steps:
                continue
            if network is None or rng.random() < chance:
                step = rng.choice(list(steps.values()))
            else:
                values = network.values(walk.state(start)[None])[0]
                step = steps[max(steps, key=lambda action: values[action])]
            known.add(step)
            yield step

    def _learnt(
        self, walk: Walk, seconds: Mapping[Candidate, float], rng: random.Random
    ) -> Network | None:
        """A network that has learnt the steps of a sketch; None if there were none."""
        found = transitions(walk, seconds)[-MEMORY:]
        if not found:
            return None
        states, after = (np.array([t[n] for t in found]) for n in (0, 2))
        actions, rewards = np.array([t.action for t in found]), np.array([t.reward for t in found])
        possible = np.array([t.possible for t in found])
        network = Network(states.shape[1], len(walk.actions), self.width, rng.randrange(1 << 32))
        targets = rewards
        for epoch in range(self.epochs):
            if epoch and epoch % max(1, self.epochs // self.sweeps) == 0:
                values = np.where(possible, network.values(after), -np.inf).max(axis=1)
                targets = rewards + self.discount * np.where(np.isfinite(values), values, 0.0)
            network.learn(states, actions, targets)
        return network


class Transition(NamedTuple):
    """A step between two candidates that were tried.

    state     before the step
    action    its number in `Walk.actions`
    after     the state after it
    reward    the part of the time that it saved, from 0 to 1; 0 if it failed or is no faster
    possible  the actions that are possible after it
    """

    state: Doubles
    action: int
    after: Doubles
    reward: float
    possible: Bits


@dataclass(frozen=True)
class Walk:
    """The steps in a sketch.

    actions  a choice by its number, and a direction: for a tile, from which level to which a factor
             moves; otherwise (1,) or (-1,), to the next option or the one before
    """

    space: Space
    sketch: int
    actions: tuple[tuple[int, tuple[int, ...]], ...]

    @staticmethod
    def of(space: Space, sketch: int) -> Walk:
        """All steps in a sketch."""
        knobs = space.knobs[sketch]
        actions: list[tuple[int, tuple[int, ...]]] = []
        for number in range(len(genes.meanings(space, sketch))):
            is_tile = number < len(knobs) and knobs[number].is_tile
            ways = knobs[number].levels if is_tile else ((1,), (-1,))
            actions += [(number, way) for way in ways]
        return Walk(space, sketch, tuple(actions))

    def state(self, candidate: Candidate) -> Doubles:
        """A candidate as numbers (features,): the logarithms of factors, the positions of options
        in their lists from 0 to 1, and a 1.
        """
        found = [1.0]
        for number, choice in enumerate(genes.choices(candidate)):
            if isinstance(choice, tuple):
                found += [math.log2(max(factor, 1)) / 4 for factor in choice]
            else:
                among = genes.options(self.space, candidate, number)
                found.append(_place(among, choice) / max(1, len(among) - 1))
        return np.array(found)

    def steps(self, candidate: Candidate) -> dict[int, Candidate]:
        """The candidate after each action, by its number; those that lead nowhere are left out."""
        row, found = genes.choices(candidate), {}
        for action, (number, way) in enumerate(self.actions):
            choice = row[number]
            moved: genes.Choice | None
            if isinstance(choice, tuple):
                moved = moved_factor(self.space.knobs[self.sketch][number], choice, *way)
            else:
                among = genes.options(self.space, candidate, number)
                place = _place(among, choice) + way[0]
                moved = among[place] if 0 <= place < len(among) else None
            if moved is not None:
                step = genes.changed(self.space, candidate, number, moved)
                found[action] = step
        return found


def _place(among: Sequence[genes.Choice], choice: genes.Choice) -> int:
    """The position of an option; 0 for what a record has and the list has not."""
    return list(among).index(choice) if choice in among else 0


@lru_cache(maxsize=1 << 16)
def moved_factor(
    knob: Knob, value: tuple[int, ...], source: int, target: int
) -> tuple[int, ...] | None:
    """The nearest option of a tile with a smaller factor at one level and a larger at another.

    It is that with the fewest other levels changed, and of these the smallest change. None if there
    is none. Where all factors are options, no other level changes, as in FlexTensor.
    """
    options, logarithms = _logarithms(knob)
    away = logarithms - np.log2(np.maximum(value, 1))
    fits = (away[:, source] < 0) & (away[:, target] > 0)
    if not fits.any():
        return None
    least = 1e3 * (away != 0).sum(axis=1) + np.abs(away).sum(axis=1)
    return options[int(np.argmin(np.where(fits, least, np.inf)))]


@lru_cache(maxsize=256)
def _logarithms(knob: Knob) -> tuple[list[tuple[int, ...]], Doubles]:
    """The options of a tile, and the logarithms of their factors (options, parts)."""
    options = [value for value in knob.options if isinstance(value, tuple)]
    return options, np.log2(np.maximum(np.array(options), 1))


def transitions(walk: Walk, seconds: Mapping[Candidate, float]) -> list[Transition]:
    """All pairs of tried candidates of a sketch of which the first worked and the second is a step
    from it, in order of the first.
    """
    found = []
    states: dict[Candidate, tuple[Doubles, Bits]] = {}

    def seen(candidate: Candidate, steps: Mapping[int, Candidate]) -> tuple[Doubles, Bits]:
        if candidate not in states:
            possible = np.zeros(len(walk.actions), np.bool_)
            possible[list(steps)] = True
            states[candidate] = walk.state(candidate), possible
        return states[candidate]

    steps = {c: walk.steps(c) for c in seconds if c.sketch == walk.sketch}
    for start, ways in steps.items():
        before = seconds[start]
        for action, step in ways.items():
            if before < math.inf and step in seconds:
                reward = max(0.0, 1 - seconds[step] / before)
                state, (after, possible) = seen(start, ways)[0], seen(step, steps[step])
                found.append(Transition(state, action, after, reward, possible))
    return found


def _seconds(history: Sequence[Tried]) -> dict[Candidate, float]:
    """The time of each candidate that was tried; infinity for a failure."""
    return {
        tried.candidate: tried.steady if tried.status == OK else math.inf
        for tried in history
        if tried.candidate is not None
    }


class Network:
    """Four linear layers with ReLU between them: states to the values of all actions.

    Products are sums by `einsum` and no BLAS: the same bits with any number of threads.
    """

    def __init__(self, features: int, actions: int, width: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        sizes = [features, width, width, width, actions]
        self.layers = [
            self._random.normal(0, math.sqrt(2 / ins), (ins, outs)) for ins, outs in pairwise(sizes)
        ]
        self.layers[-1] *= 0.01  # at first, all actions are worth about nothing
        self._means = [np.zeros_like(layer) for layer in self.layers]
        self._squares = [np.zeros_like(layer) for layer in self.layers]
        self._steps = 0

    def values(self, states: Doubles) -> Doubles:
        """The value of each action (states, actions) in some states (states, features)."""
        return self._forward(states)[-1]

    def learn(self, states: Doubles, actions: Integers, targets: Doubles) -> None:
        """One epoch: towards the targets (states,) of what was done in each state."""
        order = self._random.permutation(len(states))
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            self._descend(self.slopes(states[part], actions[part], targets[part]))

    def slopes(self, states: Doubles, actions: Integers, targets: Doubles) -> list[Doubles]:
        """The derivatives by each layer of half the mean squared error."""
        passed, rows = self._forward(states), np.arange(len(states))
        slope = np.zeros_like(passed[-1])
        slope[rows, actions] = (passed[-1][rows, actions] - targets) / len(states)
        found = []
        for layer, before in zip(self.layers[::-1], passed[-2::-1]):
            found.append(np.einsum("bi,bo->io", before, slope))
            slope = np.einsum("bo,io->bi", slope, layer) * (before > 0)
        return found[::-1]

    def _forward(self, states: Doubles) -> list[Doubles]:
        """The inputs of all layers, and the values."""
        passed = [states]
        for layer in self.layers[:-1]:
            passed.append(np.maximum(np.einsum("bi,io->bo", passed[-1], layer), 0.0))
        return [*passed, np.einsum("bi,io->bo", passed[-1], self.layers[-1])]

    def _descend(self, slopes: Sequence[Doubles]) -> None:
        """A step of Adam."""
        self._steps += 1
        for number, slope in enumerate(slopes):
            mean, square = self._means[number], self._squares[number]
            mean[:] = 0.9 * mean + 0.1 * slope
            square[:] = 0.999 * square + 0.001 * slope**2
            size = np.sqrt(square / (1 - 0.999**self._steps)) + 1e-8
            self.layers[number] -= RATE * mean / (1 - 0.9**self._steps) / size
