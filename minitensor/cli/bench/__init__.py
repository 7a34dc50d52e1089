"""`minitensor bench`: hand schedules against numpy and what else is installed, in one run.

The command starts one process for each number of threads, with the environment set and the cores
chosen before numpy is loaded. Read in this order: `work` (a workload with its arrays, and what it
must compute), `contender` and `rivals` (who computes it), `rounds` (who is called when), `worker`
(the process), `launch` (starting it), `results` (what was measured, and ratios), `report`, `plot`,
`about`, `choices`, `command`.
"""

from minitensor.cli.bench.command import add_parser, run

__all__ = ["add_parser", "run"]
