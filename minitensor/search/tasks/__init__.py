"""The tasks of a network: a program for each distinct kernel, and the schedule of each.

`first` has the schedule without a search, `network` what a log knows of the layouts and tasks of a
graph, `snapshot` the log meanwhile. In a search, `schedulers` choose the task that the next round
goes to, for one of the `objectives`.
"""

# fmt: off
from minitensor.search.tasks.first import schedule_for
from minitensor.search.tasks.network import (
    UNTUNED, layout_choices, network_choices, network_schedules, recorded_layouts, remembered,
    snapshots, tried_layouts,
)
from minitensor.search.tasks.objectives import (
    OBJECTIVES, Objective, Requirements, Speedup, latency, objective_of, slopes, value_of,
)
from minitensor.search.tasks.schedulers import (
    SCHEDULERS, Curve, Gradient, Leg, RoundRobin, TaskScheduler, Uniform, latencies_of, race,
    scheduler_of,
)
from minitensor.search.tasks.snapshot import Snapshot

__all__ = [
    "OBJECTIVES", "SCHEDULERS", "UNTUNED", "Curve", "Gradient", "Leg", "Objective", "Requirements",
    "RoundRobin", "Snapshot", "Speedup", "TaskScheduler", "Uniform", "latencies_of", "latency",
    "layout_choices", "network_choices", "network_schedules", "objective_of", "race",
    "recorded_layouts", "remembered", "schedule_for", "scheduler_of", "slopes", "snapshots",
    "tried_layouts", "value_of",
]
