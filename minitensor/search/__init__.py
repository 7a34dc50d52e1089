"""Layer 4: the search for a schedule.

For now one strategy, and the simplest there is: `random_search` draws the decisions of a template
at random and keeps the fastest candidate. Read in this order: `trial` (what a search returns),
`measure` (a candidate is built, checked and timed), `random_search` (the loop around it).
Templates need not be written by hand: `sketch` derives them by rules.
What was tried is kept in logs (docs/records.md): `workload` (what a definition is known by),
`records` (one line), `logfile` (appending, whatever is killed), `reading` (whatever is damaged),
`log` (finding, merging, pruning), `load` (the best of a log, as a schedule).
`gbt` learns to tell fast programs from slow ones (docs/cost_model.md).
`runner` builds and measures candidates in processes they may take along (docs/measurement.md).
Not here yet: annotation of sketches, evolution.
"""

from minitensor.search import gbt
from minitensor.search.load import load_best
from minitensor.search.log import Log, Merged, Rewritten
from minitensor.search.measure import TOLERANCE, random_inputs
from minitensor.search.random_search import random_search
from minitensor.search.reading import Report
from minitensor.search.records import Host, Record, new_record, trace_key
from minitensor.search.runner import (
    Candidate,
    Failures,
    Result,
    Runner,
    Settings,
    Status,
    Task,
    failures_of,
    nothing_works,
)
from minitensor.search.sketch import Derived, Rule, Sketch, State, Verdict, generate_sketches
from minitensor.search.trial import FailureKind, SearchResult, Trial
from minitensor.search.workload import multiply_adds, workload_key

__all__ = [
    "TOLERANCE",
    "Candidate",
    "Derived",
    "FailureKind",
    "Failures",
    "Host",
    "Log",
    "Merged",
    "Record",
    "Report",
    "Result",
    "Rewritten",
    "Rule",
    "Runner",
    "SearchResult",
    "Settings",
    "Sketch",
    "State",
    "Status",
    "Task",
    "Trial",
    "Verdict",
    "failures_of",
    "gbt",
    "generate_sketches",
    "load_best",
    "multiply_adds",
    "new_record",
    "nothing_works",
    "random_inputs",
    "random_search",
    "trace_key",
    "workload_key",
]
