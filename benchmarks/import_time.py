"""How long `import minitensor` takes in a fresh process, besides importing numpy."""

from __future__ import annotations

import os
import tempfile

from benchmarks.common import Figure, figure, in_processes, main

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
    with tempfile.TemporaryDirectory() as folder:  # the first process writes the bytecode
        numpy_seconds, own_seconds = zip(*in_processes(CHILD, PROCESSES, environment(folder)))
    note = f"median of {PROCESSES} processes, bytecode cached"
    return [
        figure("import minitensor", own_seconds, "ms", 150.0, f"after numpy, {note}"),
        figure("import numpy", numpy_seconds, "ms", None, note),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
