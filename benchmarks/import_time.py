"""How long `import minitensor` takes in a fresh process, besides importing numpy."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.common import Figure, figure, main

PROCESSES = 11

CHILD = """
import time
start = time.perf_counter()
import numpy
between = time.perf_counter()
import minitensor
print(between - start, time.perf_counter() - between)
"""


def environment(bytecode: str) -> dict[str, str]:
    """The environment of a process that keeps its bytecode in a folder of its own."""
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": bytecode}


def measure() -> list[Figure]:
    numpy_seconds, own_seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(PROCESSES + 1):  # the first writes the bytecode, as an installation does
            done = subprocess.run(
                [sys.executable, "-c", CHILD],
                env=environment(folder),
                capture_output=True,
                text=True,
                check=True,
            )
            first, second = map(float, done.stdout.split())
            numpy_seconds.append(first)
            own_seconds.append(second)
    numpy_seconds, own_seconds = numpy_seconds[1:], own_seconds[1:]
    note = f"median of {PROCESSES} processes, bytecode cached"
    return [
        figure("import minitensor", own_seconds, "ms", 150.0, f"after numpy, {note}"),
        figure("import numpy", numpy_seconds, "ms", None, note),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
