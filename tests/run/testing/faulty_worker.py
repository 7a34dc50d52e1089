"""A worker that fails in the ways that processes do, at numbers of its own."""

import os
import signal
import sys
import time

from minitensor.testing import Counts, worker
from minitensor.testing.batch import Outcome

CRASHES = 37
ABORTS = 40
HANGS = 50


def run_batch(seed, numbers, report, sanitizer, target):
    done = 0
    for number in numbers:
        report("run", number)
        done += 1
        if number == CRASHES:
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == ABORTS:
            sys.exit("cannot go on")
        if number == HANGS:
            time.sleep(600)
    return Outcome(Counts(pairs=done))


if __name__ == "__main__":
    worker.run_batch = run_batch
    worker.main()
