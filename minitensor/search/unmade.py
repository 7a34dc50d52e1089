"""Candidates and sketches that could not be made: an exception costs the one that raised it, and is
counted.

Not here: candidates that were made and then failed when they were built or run (`runner.results`).
"""

from __future__ import annotations

import logging
from collections import Counter

from minitensor.errors import ScheduleError, kind_of, reason_of
from minitensor.schedule import REQUIREMENT

logger = logging.getLogger("minitensor")

REFUSED = "refused"
"""The kind of what a primitive refuses, as it does where numbers do not go together."""
NOT_AS_REQUIRED = "not as required"
"""The kind of what a template refuses by `require`."""


class ResourceError(ScheduleError):
    """A candidate that takes more than a block of a GPU's threads can have.

    kind  of what, such as "too many threads"
    """

    def __init__(self, kind: str, taken: int, most: int) -> None:
        super().__init__(f"{kind}: about {taken:,}, and there are {most:,}", "room")
        self.kind = kind


class Unmade:
    """The exceptions of a search's making, by kind: "refused", "not as required" (see
    `Schedule.require`), what there is too much of for a GPU, or the name of their type.

    counts  the number of each kind
    first   the first of each kind

    The first of each kind but these two is logged as a warning.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, Exception] = {}

    def __len__(self) -> int:
        """The number of all of them."""
        return self.counts.total()

    def __str__(self) -> str:
        """The numbers of the kinds, the most frequent first: "3 refused, 1 KeyError"."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.counts.most_common())

    def add(self, what: str, failure: Exception) -> None:
        """Count one.

        what  was not made, for the warning: "a candidate"
        """
        refused = isinstance(failure, ScheduleError)
        kind = REFUSED if refused else kind_of(failure)
        if isinstance(failure, ResourceError):
            kind = failure.kind
        if isinstance(failure, ScheduleError) and failure.rule == REQUIREMENT:
            kind = NOT_AS_REQUIRED
        self.counts[kind] += 1
        if kind not in self.first:
            self.first[kind] = failure
            if not refused:
                logger.warning("%s: %s; the search goes on without", what, reason_of(failure))

    def lines(self) -> list[str]:
        """A line for each kind, with its first message."""
        return [
            f"{count:,} {kind}; the first: {reason_of(self.first[kind])}"
            for kind, count in self.counts.most_common()
        ]
