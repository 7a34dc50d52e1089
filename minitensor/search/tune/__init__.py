"""The search as a whole.

Read in this order: `learner` (the model in the search), `proposals` (of a round, and what they were
made from), `comparisons` (on a machine that is not steady), `tuner` (the rounds), `tune`, `result`;
then what a person sees: `roofline` and `progress` (while it runs). The pictures are in
`search/pictures`.
"""

# fmt: off
from minitensor.search.tune.learner import Learner, Model
from minitensor.search.tune.network_result import NetworkResult, Step, TaskResult
from minitensor.search.tune.result import TuneResult
from minitensor.search.tune.roofline import Roofline
from minitensor.search.tune.tune import tune
from minitensor.search.tune.tuner import Progress, Tuner

__all__ = [
    "Learner", "Model", "NetworkResult", "Progress", "Roofline", "Step", "TaskResult",
    "TuneResult", "Tuner", "tune",
]
