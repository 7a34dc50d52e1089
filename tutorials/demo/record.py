"""The recorded schedules of the demo, made anew: `python -m tutorials.demo.record`.

Searches each workload with 256 trials, for the vectors of this machine, and keeps the best of each.
Records for other vectors stay. Takes some ten minutes; nothing else should run.
"""

from __future__ import annotations

import sys

from minitensor.search import Log, tune

from ..schedules import HAND_SCHEDULES
from .__main__ import FULL
from .tuned import LOG

TRIALS = 256


def main() -> int:
    """The command; its exit status."""
    for key in FULL.keys:
        result = tune(HAND_SCHEDULES[key].define(), trials=TRIALS, log=LOG)
        if result.interrupted:
            return 130
    Log(LOG).prune(best=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
