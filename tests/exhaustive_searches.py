"""Searches of many programs: none may end without a result, and no candidate may fail.

    python -m tests.exhaustive_searches [SEED [COUNT]]

COUNT generated programs (300), and those of networks and numerical kernels that are written out in
tests/unit/search/programs.py; 8 candidates of each: some ten minutes on one core.
tests/run/search/test_searches.py does the same with a few of them.
"""

import sys
import traceback
from collections import Counter

import minitensor as mt
from minitensor.testing import drawn, programs
from tests.unit.search.programs import EXACT, ROUNDED

COUNT, TRIALS = 300, 8
WRITTEN = {**EXACT, **ROUNDED}


def generated(seed, number):
    """A generated program; None if this seed names none."""
    try:
        return drawn(programs(), f"{seed}/{number}")
    except ValueError:
        return None


def faults(program, seed):
    """The faults of a search of a program, one a line; refused candidates are none."""
    try:
        result = mt.tune(program, trials=TRIALS, seed=seed, progress=False)
    except Exception:
        return traceback.format_exc().splitlines()
    found = [f"{t.status}: {t.error}" for t in result.tried if t.status != "ok"]
    for unmade in (result.unmade, result.space.unmade, result.unscored):
        found += [line for line in unmade.lines() if " refused;" not in line]
    return found + [result.stopped] * bool(result.stopped)


def main(seed=0, count=COUNT):
    """Search; print what goes wrong. The exit status is 1 if anything does."""
    named = {f"{seed}/{number}": generated(seed, number) for number in range(count)}
    named |= {name: mt.lower(define()) for name, define in WRITTEN.items()}
    outcomes = Counter()
    for name, program in named.items():
        if program is None:
            outcomes["no program"] += 1
            continue
        lines = faults(program, seed)
        outcomes["faulty" if lines else "fine"] += 1
        for line in lines:
            print(f"{name}: {line}", flush=True)
    print(", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.items()))
    return int(outcomes["faulty"] > 0)


if __name__ == "__main__":
    try:
        sys.exit(main(*map(int, sys.argv[1:])))
    except KeyboardInterrupt:
        sys.exit(130)
