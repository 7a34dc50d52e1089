"""The process that checks pairs: it runs code that may crash, so it is not the one that counts.

    python -m minitensor.fuzz.worker

Its standard input is lines of JSON: first what all jobs have in common, then jobs. For each job it
writes lines {"at": [what, number]}, and then {"done": …}. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, TextIO

from minitensor.fuzz.batch import Outcome, run_batch
from minitensor.fuzz.choices import Recorded
from minitensor.sanitize import Sanitizer


def choices_of(seed: int, number: int) -> Recorded:
    """The choices of one pair of a campaign."""
    return Recorded(seed=f"{seed}:{number}")


def serve(jobs: Iterable[str], output: TextIO) -> None:
    """Do the jobs: {"numbers": […]} of the campaign, or {"answers": […]} of one pair."""
    lines = iter(jobs)
    common = json.loads(next(lines))
    sanitizer = Sanitizer(common["sanitizer"])

    def tell(what: dict[str, Any]) -> None:
        output.write(json.dumps(what) + "\n")
        output.flush()

    for line in lines:
        job = json.loads(line)
        if "answers" in job:
            pairs = [(0, Recorded(job["answers"]))]
        else:
            pairs = [(n, choices_of(common["seed"], n)) for n in job["numbers"]]
        outcome = run_batch(pairs, lambda what, number: tell({"at": [what, number]}), sanitizer)
        tell({"done": _told(outcome)})


def _told(outcome: Outcome) -> dict[str, Any]:
    failures = [
        {"number": number, "kind": failed.failure.kind, "message": failed.failure.message}
        for number, failed in outcome.failures.items()
    ]
    return {"counts": asdict(outcome.counts), "failures": failures}


def main() -> None:
    """Serve on the standard streams; what code prints by mistake goes to standard error."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, output)


if __name__ == "__main__":
    main()
