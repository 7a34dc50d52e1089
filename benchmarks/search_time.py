"""The seconds of a search: where they go, and how soon it is as good as the search of another
checkout in the end.

    git worktree add ../before e599c65
    python -m benchmarks.search_time --against ../before

Each search has a process and a cache folder of its own; those of the two checkouts take turns. The
ratio is the time in which the search of this checkout comes to .98 of the speed that the other ends
with, over the time that the other takes to come there itself. Both kernels are timed once more, in
turns, and what each search measured is scaled to that: the machine may have been faster for one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Final, NamedTuple

import numpy as np

import minitensor as mt

PROGRAMS: Final[dict[str, tuple[str, dict[str, int]]]] = {
    "matmul 512": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "batch matmul 12x128x128x64": ("batch_matmul", {"b": 12, "m": 128, "n": 128, "k": 64}),
    "conv 3x3 64>64 56x56": (
        "conv2d", {"n": 1, "c": 64, "h": 56, "w": 56, "f": 64, "kernel": 3, "padding": 1}
    ),
    "depthwise 3x3 128 56x56": (
        "depthwise_conv2d", {"n": 1, "c": 128, "h": 56, "w": 56, "kernel": 3, "padding": 1}
    ),
    "softmax 1024x1024": ("softmax", {"m": 1024, "n": 1024}),
    "layer norm 1024x1024": ("layer_norm", {"m": 1024, "n": 1024}),
}  # fmt: skip
"""Workloads by name; both checkouts must have them."""
NEAR: Final = 0.98
"""The part of the final speed that is waited for."""
TURNS: Final = 9
"""Turns in which two kernels are timed."""
BURST: Final = 0.05
"""Seconds of calls in each."""
HERE: Final = Path(__file__).resolve()


class Searched(NamedTuple):
    """One search.

    seconds  of a call of its best
    elapsed  seconds that it took
    points   after every few trials, the seconds since it began and those of a call of the best
    ledger   seconds by phase; {} of a checkout that keeps none
    """

    seconds: float
    elapsed: float
    points: Sequence[tuple[float, float]]
    ledger: dict[str, float]

    def time_to(self, seconds: float) -> float:
        """Seconds until a call of its best took no longer; `elapsed` if it always did."""
        return next((at for at, best in self.points if best <= seconds), self.elapsed)

    def scaled(self, seconds: float) -> Searched:
        """The same search, had it measured these seconds of a call in the end."""
        factor = seconds / self.seconds
        points = [(at, best * factor) for at, best in self.points]
        return self._replace(seconds=seconds, points=points)


def one(name: str, trials: int, seed: int) -> None:
    """A search in this process, with the minitensor that this process has; then, for each line of
    the input, the seconds of a call of its best.
    """
    workload, sizes = PROGRAMS[name]
    program = mt.lower(getattr(mt.workloads, workload)(**sizes))
    points: list[tuple[float, float]] = []
    tune = mt.tune  # imports the search
    start = time.perf_counter()

    def heard(progress: mt.search.Progress) -> None:
        points.append((time.perf_counter() - start, progress.best))

    found = tune(program, trials=trials, seed=seed, callbacks=[heard], progress=False)
    ledger = dict(found.time) if not isinstance(found.time, str) else {}
    result = {
        "seconds": found.seconds, "elapsed": time.perf_counter() - start,
        "points": [point for point in points if point[1] < float("inf")], "ledger": ledger,
    }  # fmt: skip
    print(json.dumps(result), flush=True)
    rng = np.random.default_rng(0)
    kernel = mt.build(found.schedule)
    shapes = [(buffer.shape, str(buffer.dtype)) for buffer in program.params]
    call = kernel.prepare(*(rng.standard_normal(shape).astype(dtype) for shape, dtype in shapes))
    for _ in sys.stdin:
        times: list[float] = []
        while sum(times) < BURST:
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
        print(median(times), flush=True)


@contextlib.contextmanager
def searched(
    checkout: Path, name: str, trials: int, seed: int
) -> Iterator[tuple[Searched, subprocess.Popen[str]]]:
    """A search by the minitensor of a checkout, in a process of its own with an empty cache, and
    the process, which times its kernel when it is asked to.
    """
    with contextlib.ExitStack() as ends:
        cache = ends.enter_context(tempfile.TemporaryDirectory())
        os.chmod(cache, 0o700)
        variables = {"PYTHONPATH": str(checkout), "MINITENSOR_CACHE_DIR": cache}
        command = [sys.executable, str(HERE), "--one", name, "--trials", str(trials)]
        errors = ends.enter_context(tempfile.TemporaryFile("w+"))
        process = subprocess.Popen(
            [*command, "--seed", str(seed)], env={**os.environ, **variables}, cwd=cache,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        ends.callback(process.communicate)  # the end of its input is its own
        lines = iter(process.stdout or ())
        found = next((line for line in lines if line.startswith('{"seconds"')), None)
        if found is None:
            process.wait()
            errors.seek(0)
            said = errors.read()[-2000:]
            raise SystemExit(f"the search of {checkout} for {name} failed:\n{said}")
        yield Searched(**json.loads(found)), process


def in_turns(processes: Sequence[subprocess.Popen[str]]) -> list[float]:
    """The seconds of a call of each kernel, in turns."""
    times: list[list[float]] = [[] for _ in processes]
    for _ in range(TURNS):
        for process, found in zip(processes, times):
            if process.stdin is None or process.stdout is None:
                raise ValueError("a process without an input and an output")
            process.stdin.write("\n")
            process.stdin.flush()
            found.append(float(process.stdout.readline()))
    return [median(found) for found in times]


def compared(ours: Sequence[Searched], others: Sequence[Searched]) -> tuple[float, float]:
    """The median ratio of times, and of the final speeds, of searches in pairs."""
    times, speeds = [], []
    for mine, other in zip(ours, others):
        wanted = other.seconds / NEAR
        times.append(mine.time_to(wanted) / other.time_to(wanted))
        speeds.append(other.seconds / mine.seconds)
    return median(times), median(speeds)


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search_time", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--trials", type=int, default=64, metavar="N")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="searches of each")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first")
    parser.add_argument("--one", metavar="PROGRAM", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one is not None:
        one(given.one, given.trials, given.seed)
        return
    unknown = [name for name in given.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(PROGRAMS)}")
    if given.against is not None and not (given.against / "minitensor").is_dir():
        parser.error(f"{given.against} is no checkout: it has no folder minitensor")
    from benchmarks.common import machine, markdown_table  # noqa: PLC0415 - not in a child

    print(machine(), f"{given.trials} trials", sep="\n", flush=True)
    phases = list(mt.search.Ledger())
    rows = [["program", "ms", "s", "trials/s", *phases, "time / other", "speed / other"]]
    ratios = []
    for name in given.programs or PROGRAMS:
        ours: list[Searched] = []
        others: list[Searched] = []
        for seed in range(given.seed, given.seed + given.seeds):
            turns = [(HERE.parent.parent, ours)]
            if given.against is not None:
                turns.insert(seed % 2, (given.against, others))
            with contextlib.ExitStack() as running:
                searches = [
                    running.enter_context(searched(place.resolve(), name, given.trials, seed))
                    for place, _ in turns
                ]
                times = in_turns([process for _, process in searches])
            for (_, found), (search, _), seconds in zip(turns, searches, times):
                found.append(search.scaled(seconds))
        shares = [median(s.ledger[phase] / s.elapsed for s in ours) for phase in phases]
        elapsed = median(s.elapsed for s in ours)
        row = [name, f"{1e3 * median(s.seconds for s in ours):.3f}", f"{elapsed:.1f}"]
        row += [f"{given.trials / elapsed:.1f}", *(f"{share:.0%}" for share in shares)]
        if others:
            ratios.append(compared(ours, others))
            row += [f"{ratio:.2f}" for ratio in ratios[-1]]
        rows.append(row)
        print(" ".join(row), flush=True)
    if ratios:
        means = [f"{geometric_mean(part):.2f}" for part in zip(*ratios)]
        rows.append(["geometric mean", *[""] * (len(rows[0]) - 3), *means])
    print(*markdown_table([row + [""] * (len(rows[0]) - len(row)) for row in rows]), sep="\n")


if __name__ == "__main__":
    main()
