"""Candidates of a search, built and measured safely: a crash or a hang ends a process of its own.

    with Runner(Task.of(program)) as runner:
        for result in runner.measure(schedules, best=None): …

Read in this order: `results` and `task` (what goes in and comes out), `build` (machine code),
`timing`, `attempt` (one candidate: forked, checked, timed, ended), `runner`, `report` (no candidate
works), `gpu` (candidates for a GPU, with and without one), `simulated` (for an accelerator),
`remote`, `workers`, `rounds` and `there` (on other machines). Each process but for those of `gpu`
and `simulated` is a `runtime.Worker`. docs/measurement.md has the whole, and its limits.
"""

# fmt: off
from minitensor.search.runner.build import Built, Candidate
from minitensor.search.runner.gpu import Device, Estimates, emulated
from minitensor.search.runner.remote import Remote
from minitensor.search.runner.report import nothing_works
from minitensor.search.runner.results import (
    Failures, Result, RunnerProtocol, Settings, Status, checked_results, failures_of,
)
from minitensor.search.runner.runner import Processes, Runner, shared_processes
from minitensor.search.runner.simulated import Simulated
from minitensor.search.runner.task import Task, exact_target

__all__ = [
    "Built", "Candidate", "Device", "Estimates", "Failures", "Processes", "Remote", "Result",
    "Runner", "RunnerProtocol", "Settings", "Simulated", "Status", "Task", "checked_results",
    "emulated", "exact_target", "failures_of", "nothing_works", "shared_processes",
]
