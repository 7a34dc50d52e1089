"""The process that checks pairs: it runs code that may crash, so it is not the one that counts.

    python -m minitensor.testing.worker SEED SANITIZER TARGET check | reduce

A worker (see `runtime.Worker`). One that checks replies to {"numbers": […]} with {"at": [what,
number]} before each thing it does with a pair, and {"done": …} at the end. One that makes failures
small replies to {"number": n, "failure": …} with {"script": text}, None if it found none.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import asdict
from typing import Any

from minitensor.runtime import Parent
from minitensor.sanitize import Sanitizer
from minitensor.testing.batch import Outcome, check_pair, run_batch
from minitensor.testing.pairs import Failure
from minitensor.testing.reduce import isolated, reduced, script_of


def main() -> None:
    """Answer requests until there are no more."""
    seed, sanitizer, target = int(sys.argv[1]), Sanitizer(sys.argv[2]), sys.argv[3]
    reduces = sys.argv[4] == "reduce"
    with Parent.connected(watched=not reduces) as parent:  # which forks, so it has one thread
        for request in parent.requests():
            if reduces:
                number, failure = request["number"], Failure(**request["failure"])
                check = isolated(lambda pair: check_pair(pair, sanitizer))
                least = reduced(seed, number, failure.kind, check, target)
                parent.send({"script": least and script_of(least, failure, seed, number, target)})
            else:
                report = functools.partial(_report, parent)
                outcome = run_batch(seed, request["numbers"], report, sanitizer, target)
                parent.send({"done": _as_json(outcome)})


def _report(parent: Parent, what: str, number: int) -> None:
    parent.send({"at": [what, number]})


def _as_json(outcome: Outcome) -> dict[str, Any]:
    failures = [{"number": n, **asdict(e.failure)} for n, e in outcome.failures.items()]
    return {"counts": asdict(outcome.counts), "failures": failures}


if __name__ == "__main__":
    main()
