"""Layer 4: the search for a schedule.

For now one strategy, and the simplest there is: `random_search` draws the decisions of a template
at random and keeps the fastest candidate. Read in this order: `trial` (what a search returns),
`measure` (a candidate is built, checked and timed), `random_search` (the loop around it).
Not here yet: sketches, a cost model, evolution, records on disk, workers in other processes.
"""

from minitensor.search.measure import TOLERANCE, random_inputs
from minitensor.search.random_search import random_search
from minitensor.search.trial import FailureKind, SearchResult, Trial

__all__ = ["TOLERANCE", "FailureKind", "SearchResult", "Trial", "random_inputs", "random_search"]
