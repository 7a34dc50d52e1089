"""The tasks of a network: a program for each distinct kernel, and the schedule of each.

`first` has the schedule without a search, `network` what a log knows of the layouts and tasks of a
graph, `snapshot` the log meanwhile.
"""

from minitensor.search.tasks.first import schedule_for
from minitensor.search.tasks.network import (
    UNTUNED,
    layout_choices,
    layout_names,
    network_choices,
    network_schedules,
    recorded_layouts,
    remembered,
    snapshots,
)

__all__ = [
    "UNTUNED",
    "layout_choices",
    "layout_names",
    "network_choices",
    "network_schedules",
    "recorded_layouts",
    "remembered",
    "schedule_for",
    "snapshots",
]
