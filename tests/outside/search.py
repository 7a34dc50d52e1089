"""A rule, a strategy and a cost model that are written outside of minitensor."""

import numpy as np

from minitensor.search import Verdict


class RowsByFour:
    """A sketch rule: the rows of a block called C in strips, and nothing else."""

    def judge(self, state, cores):
        return Verdict.APPLY if state.name == "C" else Verdict.SKIP

    def apply(self, state, cores):
        schedule = state.schedule.copy()
        rows = schedule.sample_categorical([2, 4, 8])
        schedule.split(schedule.get_loops("C")[0], [None, rows])
        return [state.after("rows by four", "strips of rows", schedule)]


class Neighbours:
    """A strategy: mutations of the fastest candidate, by the model's scores."""

    def __init__(self):
        self.rounds = []

    def propose(self, round):
        self.rounds.append((len(round.best), round.count))
        if not round.best:
            return [round.space.draw(round.rng) for _ in range(4 * round.count)]
        found = [round.space.mutated(round.best[0], round.rng) for _ in range(4 * round.count)]
        found += [round.space.draw(round.rng) for _ in range(2 * round.count)]
        return [found[n] for n in np.argsort(-round.score(found), kind="stable")]


class Ridge:
    """A cost model: ridge regression on the sums over a program's statements."""

    def __init__(self):
        self.fits = []

    def fit(self, X, y):
        rows = np.asarray(X, np.float64)
        assert rows.shape == (len(y), 164) and len(X) == len(y)
        self.fits.append(len(y))
        self.weights = np.linalg.solve(rows.T @ rows + np.eye(164), rows.T @ y)

    def predict(self, X):
        return np.asarray(X, np.float64) @ self.weights


class Weighted(Ridge):
    """One that takes weights, and sees each statement."""

    def fit(self, X, y, weight=None):
        assert weight.shape == y.shape and weight.min() >= 0.1
        assert all(table.ndim == 2 and table.shape[1] == 164 for table in X)
        super().fit(X, y)
