"""The search as a whole.

Read in this order: `learner`, `strategies`, `ranks`, `tuner`, `tune`, `result`; then what a person
sees: `roofline`, `standing` and `progress` (while it runs), `explain` and `plots` (afterwards).
"""

# fmt: off
from minitensor.search.tune.learner import Learner
from minitensor.search.tune.plots import check as check_plots
from minitensor.search.tune.result import TuneResult
from minitensor.search.tune.roofline import Roofline
from minitensor.search.tune.strategies import STRATEGIES, Strategy
from minitensor.search.tune.tune import tune
from minitensor.search.tune.tuner import Progress, RunnerProtocol, Tried, Tuner

__all__ = [
    "STRATEGIES", "Learner", "Progress", "Roofline", "RunnerProtocol", "Strategy", "Tried",
    "TuneResult", "Tuner", "check_plots", "tune",
]
