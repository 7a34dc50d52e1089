"""How long the C compiler takes for typical kernels."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import minitensor as mt
from benchmarks.common import Figure, figure, main, seconds
from benchmarks.kernels import KERNELS

REPEATS = 7


def compiler_seconds(schedule: mt.Schedule) -> tuple[list[float], int]:
    """Seconds for a run of the compiler, and the lines of C that it reads."""
    kernel = mt.build(schedule)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.c").write_text(kernel.source, encoding="utf-8")

        def compile_once() -> None:
            subprocess.run(kernel.command, cwd=folder, check=True, capture_output=True)

        return seconds(compile_once, REPEATS), len(kernel.source.splitlines())


def measure() -> list[Figure]:
    figures = []
    for name, make in KERNELS.items():
        taken, lines = compiler_seconds(make())
        note = f"{lines} lines of C, median of {REPEATS}"
        figures.append(figure(f"compile {name}", taken, "ms", 150.0, note))
    return figures


if __name__ == "__main__":
    main(measure, __doc__)
