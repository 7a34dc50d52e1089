"""Build and measure one candidate again, as a search that failed has saved it.

    python -m minitensor.search.runner.again FOLDER

Prints what becomes of it. The exit status is 0 if it works, 1 if it fails.
"""

from __future__ import annotations

import sys
from pathlib import Path

from minitensor.search.runner.report import load_saved
from minitensor.search.runner.runner import Runner


def main(folder: Path) -> int:
    """Measure what is in the folder, and say how it went."""
    task, emitted = load_saved(folder)
    with Runner(task) as runner:
        (result,) = runner.measure([emitted])
    print(f"the text: {folder / 'kernel.c'}")
    if result.details:
        print(result.details.rstrip())
    if result.ok:
        print(f"ok: {result.median:.3g} s a call, noise {result.noise:.1%}")
        return 0
    print(f"{result.status.value}: {result.message}")
    return 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m minitensor.search.runner.again FOLDER")
    sys.exit(main(Path(sys.argv[1])))
