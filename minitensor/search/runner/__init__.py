"""Candidates of a search, built and measured safely: what they do wrong, they do to a process.

    with Runner(Task.of(program)) as runner:
        for result in runner.measure(schedules, best=None): …

Read in this order: `results`, `settings`, `task` (what goes in and comes out), `candidate`,
`compiling` and `builder` (machine code), `quiet` (not while something is timed); then, in the
process that measures, `server`, `attempt` (a child is forked and watched), `channel`, `check`,
`child`, `timing`, `family` (no process is left behind); `process` and `runner` on the side of who
asks; `report` (no candidate works). docs/measurement.md has the whole, and its limits.
"""

# fmt: off
from minitensor.search.runner.candidate import Built, Candidate
from minitensor.search.runner.compiling import compile_text
from minitensor.search.runner.report import nothing_works
from minitensor.search.runner.results import Failures, Result, Status, failures_of
from minitensor.search.runner.runner import Runner, measure_there
from minitensor.search.runner.settings import Settings
from minitensor.search.runner.task import Task

__all__ = [
    "Built", "Candidate", "Failures", "Result", "Runner", "Settings", "Status", "Task",
    "compile_text", "failures_of", "measure_there", "nothing_works",
]
