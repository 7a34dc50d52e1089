"""Layer 4: the search for a schedule.

`tune` is the search (docs/tuning.md). It chooses from a `space`: schedules whose structure
`sketch` derives by rules, and what is open in them. `evolution` chooses what to measure next, or
one of the `tuners` in its place (docs/tuners.md), guided by a model that `gbt` learns
(docs/cost_model.md) from `features` of programs, and `transfer` from logs of other workloads
(docs/transfer.md); `alike` gives it schedules of these to begin with. `runner` builds and measures
candidates in processes they may take along (docs/measurement.md).
What was tried is kept in logs (docs/records.md): `workload` (what a definition is known by),
`records` (one line), `logfile` (appending, whatever is killed), `log` (finding, merging, pruning),
`best` (the best of a log as a schedule), `renaming` (under other names), `pictures`
(of a search). `tasks` joins it to networks: the schedule of each of a graph's kernels.
"""

# fmt: off
from typing import NoReturn as _NoReturn

from minitensor.phrasebook import unknown_name as _unknown_name
from minitensor.search import gbt
from minitensor.search.best import apply_history_best, load_best
from minitensor.search.evolution import Evolution
from minitensor.search.features import FEATURE_NAMES, extract_features
from minitensor.search.gbt import GradientBoostedTrees, Samples
from minitensor.search.inputs import random_inputs
from minitensor.search.ledger import Ledger
from minitensor.search.log import Log, Merged, Report, Rewritten
from minitensor.search.measure import difference
from minitensor.search.policies import (
    MUTATION_POLICIES, SKETCH_POLICIES, History, MutationPolicy, SketchPolicy,
)
from minitensor.search.records import Host, Record, new_record, trace_key
from minitensor.search.runner import (
    Failures, Processes, Remote, Result, Runner, RunnerProtocol, Settings, Status, Task,
    failures_of, nothing_works,
)
from minitensor.search.sketch import (
    DEFAULT_RULES, RULES, Derived, Rule, Sketch, SketchRule, State, Verdict, generate_sketches,
)
from minitensor.search.space import Candidate, Mutations, Space
from minitensor.search.strategy import Round, Strategy
from minitensor.search.tried import Tried
from minitensor.search.tasks import (
    OBJECTIVES, SCHEDULERS, Curve, Gradient, Leg, Objective, Requirements, RoundRobin, Speedup,
    TaskScheduler, Uniform, network_choices, network_schedules, race, schedule_for,
)
from minitensor.search.transfer import Pretrained
from minitensor.search.tune import (
    Model, NetworkResult, Progress, Roofline, Step, TaskResult, TuneResult, tune,
)
from minitensor.search import pictures
from minitensor.search.pictures import ensemble_picture, sketches_picture
from minitensor.search.tuners import STRATEGIES, Annealing, FlexTensor, Genetic
from minitensor.search.workload import operations, workload_key

__all__ = [
    "DEFAULT_RULES", "FEATURE_NAMES", "MUTATION_POLICIES", "OBJECTIVES", "RULES", "SCHEDULERS",
    "SKETCH_POLICIES", "STRATEGIES", "Annealing", "Candidate", "Curve", "Derived", "Evolution",
    "Failures", "FlexTensor", "Genetic", "Gradient", "GradientBoostedTrees", "History", "Host",
    "Ledger", "Leg", "Log", "Merged", "Model", "MutationPolicy", "Mutations", "NetworkResult",
    "Objective", "Pretrained", "Processes", "Progress", "Record", "Remote", "Report",
    "Requirements", "Result",
    "Rewritten", "Roofline", "Round", "RoundRobin", "Rule", "Runner", "RunnerProtocol", "Samples",
    "Settings", "Sketch", "SketchPolicy", "SketchRule", "Space", "Speedup", "State", "Status",
    "Step", "Strategy", "Task", "TaskResult", "TaskScheduler", "Tried", "TuneResult", "Uniform",
    "Verdict", "apply_history_best", "difference", "ensemble_picture", "extract_features",
    "failures_of", "gbt", "generate_sketches", "load_best", "network_choices", "network_schedules",
    "new_record", "nothing_works", "operations", "pictures", "race", "random_inputs",
    "schedule_for", "sketches_picture", "trace_key", "tune", "workload_key",
]


def __getattr__(name: str) -> _NoReturn:
    raise _unknown_name("search", name, "mt.search", __all__)
