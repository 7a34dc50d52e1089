"""The cost model's learner beside xgboost on what searches of ours recorded.

    python -m benchmarks.gbt_records tuning-*.jsonl

For each log the records of whichever workloads of `tutorials.schedules` it has, on this machine's
target. Half of each workload's candidates are learnt from, the other half is ranked; the same
features, the same halves and the same loss for both (see `benchmarks.gbt`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

import minitensor as mt
from benchmarks.common import show
from benchmarks.gbt import accuracy
from benchmarks.synthetic import Programs
from minitensor.runtime import native_target
from minitensor.search import GradientBoostedTrees, Log, Space
from minitensor.search.records import OK
from minitensor.search.tune import Learner
from tutorials.schedules import HAND_SCHEDULES

LEAST = 50
"""Records of a workload; with fewer there is nothing to compare."""


def recorded(paths: Sequence[str]) -> Programs:
    """All candidates of the logs with their features; labels are calls a second, 0 for failures."""
    target = native_target(mt.Target("c"))
    features, owners, groups = [], [], []
    labels: list[float] = []
    number = -1
    for name, hand in HAND_SCHEDULES.items():
        program = hand.define()
        found = [r for p in paths for r in Log(p).measured(program, target).values()]
        if len(found) < LEAST:
            continue
        number += 1
        space = Space.of(program, target)
        learner = Learner(space, GradientBoostedTrees())
        known = [(space.decode(r.parsed()), r) for r in found]
        kept = [(c, r) for c, r in known if c is not None]
        for (_, record), rows in zip(kept, learner.features([c for c, _ in kept])):
            if rows is None:
                continue
            owners.append(np.full(len(rows), len(labels)))
            features.append(rows)
            labels.append(1 / record.median if record.status == OK else 0.0)
            groups.append(number)
        print(f"{name}: {len(kept)} of {len(found)} records", file=sys.stderr)
    if not features:
        sys.exit("no workload has enough records in these logs")
    return Programs(
        np.concatenate(features), np.concatenate(owners), np.array(labels), np.array(groups)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    data = recorded(given.logs)
    show(lambda: accuracy(lambda seed: data), given.json)


if __name__ == "__main__":
    main()
