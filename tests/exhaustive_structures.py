"""Structures of many random schedules, held against replays.

    python -m tests.exhaustive_structures [SEED]

tests/property/search/test_structure.py does the same with a tenth of them.
"""

import sys
from collections import Counter

from minitensor.testing import drawn
from tests.property.search.test_structure import compare_with_replays, scheduled

COUNT = 1500
MOST_STEPS = 16


def outcome(seed: int) -> str:
    """What becomes of one."""
    try:
        return compare_with_replays(drawn(scheduled(MOST_STEPS), seed), seed) or "as replayed"
    except AssertionError:
        print(f"{seed} differs: drawn(scheduled({MOST_STEPS}), {seed}) in its test shows how")
        return "differs"


def main(seed: int) -> int:
    """Try them; print what became of them. The exit status is 1 if any differs."""
    found = Counter(outcome(seed * COUNT + n) for n in range(COUNT))
    for what, count in found.most_common():
        print(f"{count:6,}  {what}")
    return int("differs" in found)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
