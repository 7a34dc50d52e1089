"""The tasks of a network: a program for each distinct kernel, and the schedule of each.

`first` has the schedule without a search, `network` what a log knows of the tasks of a graph.
"""

from minitensor.search.tasks.first import schedule_for
from minitensor.search.tasks.network import UNTUNED, network_schedules

__all__ = ["UNTUNED", "network_schedules", "schedule_for"]
