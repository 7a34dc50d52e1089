"""The command; see `benchmarks.programs`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

import minitensor as mt
from benchmarks import programs
from benchmarks.common import geometric_mean, machine, markdown_table
from benchmarks.programs.definitions import PROGRAMS, torch
from minitensor.ir import Buffer

ROUNDS: Final = 5
BURST: Final = 0.04
"""Seconds of calls of which the fastest counts."""
PAUSE: Final = 0.12
"""Seconds until the threads of the one before sleep."""
TOLERANCE: Final = 2e-3


def burst(call: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls."""
    call()
    best, end = float("inf"), time.perf_counter() + BURST
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def drawn(rng: np.random.Generator, buffer: Buffer) -> np.ndarray:
    """An array for an input: normal numbers, or integers below 100."""
    dtype = str(buffer.dtype)
    if "int" in dtype:
        return rng.integers(-100, 100, buffer.shape).astype(dtype)
    return rng.standard_normal(buffer.shape).astype(dtype)


def compared(name: str, trials: int) -> tuple[float, list[str]]:
    """The ratio of torch's time to ours without a trial, and a row of the table."""
    tensors, expected = PROGRAMS[name]()
    definition = mt.lower(tensors, name=name)
    rng = np.random.default_rng(0)
    given = [drawn(rng, b) for b in definition.inputs]
    kernels = {"rules": mt.build(mt.schedule_for(definition))}
    if trials:
        kernels["tuned"] = mt.tune(definition, trials=trials, progress=False).kernel()
    inputs = [torch().from_numpy(array) for array in given]
    with torch().inference_mode():
        right = expected(*inputs).numpy()
        for way, kernel in kernels.items():
            apart = np.abs(np.subtract(kernel(*given), right, dtype="float64"))
            off = float(apart.max() / (np.abs(right.astype("float64")).max() + 1e-6))
            if not off < TOLERANCE:
                raise AssertionError(f"{name}, {way}: off by {off:.1g} of the largest element")
        runs: dict[str, Callable[[], object]] = {
            way: partial(kernel, *given) for way, kernel in kernels.items()
        }
        runs["torch"] = partial(expected, *inputs)
        times: dict[str, list[float]] = {way: [] for way in runs}
        for turn in range(ROUNDS):
            for way in list(runs)[:: 1 if turn % 2 else -1]:
                time.sleep(PAUSE)
                times[way].append(burst(runs[way]))
    ms = {way: statistics.median(found) * 1e3 for way, found in times.items()}
    ratios = [f"{ms['torch'] / ms[way]:.2f}" for way in kernels]
    return ms["torch"] / ms["rules"], [name, *ratios, *(f"{ms[way]:.4g}" for way in runs)]


def rows(names: Sequence[str], trials: int) -> Iterator[list[str]]:
    """The table: its head, a row for each program, and the geometric mean."""
    ways = ["without a trial", *[f"{trials} trials"] * (trials > 0)]
    yield ["program", *ways, *(f"{way}, ms" for way in (*ways, "torch"))]
    ratios = []
    for name in names:
        ratio, row = compared(name, trials)
        ratios.append(min(ratio, 2.0))
        yield row
    yield [f"geometric mean, at most 2 each, of {len(ratios)}", f"{geometric_mean(ratios):.2f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=programs.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], metavar="NAME")
    parser.add_argument("--trials", type=int, default=0)
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        parser.error("torch is not installed, and programs are compared with it: pip install torch")
    torch().set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    print(machine(), "\n")
    table = list(rows(options.names or list(PROGRAMS), options.trials))
    width = max(map(len, table))
    print("\n".join(markdown_table([[*row, *[""] * (width - len(row))] for row in table])))


if __name__ == "__main__":
    main()
