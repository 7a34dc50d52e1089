"""The process that checks pairs: it runs code that may crash, so it is not the one that counts.

    python -m minitensor.fuzz.worker SEED SANITIZER

A worker (see `runtime.Worker`). To a request it replies {"at": [what, number]} before each
thing it does with a pair, and {"done": …} at the end.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from minitensor.fuzz.batch import Outcome, run_batch
from minitensor.fuzz.choices import Recorded
from minitensor.runtime import Parent
from minitensor.sanitize import Sanitizer


def choices_of(seed: int, number: int) -> Recorded:
    """The choices of one pair of a campaign."""
    return Recorded(seed=f"{seed}:{number}")


def main() -> None:
    """Check pairs: {"numbers": […]} of the campaign, or {"answers": […]} of one pair."""
    seed, sanitizer = int(sys.argv[1]), Sanitizer(sys.argv[2])
    with Parent.connected() as parent:
        for request in parent.requests():
            if "answers" in request:
                pairs = [(0, Recorded(request["answers"]))]
            else:
                pairs = [(n, choices_of(seed, n)) for n in request["numbers"]]
            outcome = run_batch(pairs, lambda what, n: parent.send({"at": [what, n]}), sanitizer)
            parent.send({"done": _as_json(outcome)})


def _as_json(outcome: Outcome) -> dict[str, Any]:
    failures = [
        {"number": number, "kind": failed.failure.kind, "message": failed.failure.message}
        for number, failed in outcome.failures.items()
    ]
    return {"counts": asdict(outcome.counts), "failures": failures}


if __name__ == "__main__":
    main()
