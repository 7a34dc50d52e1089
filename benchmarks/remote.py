"""Many workers, simulated: how many candidates a second, and what a search loses by asking for more
at once.

    python -m benchmarks.remote                 throughput with 1 to 64 workers, about two minutes
    python -m benchmarks.remote --quality       the best after equal trials, by rounds of 1 to 64

Throughput: Dask workers that sleep for as long as a recorded candidate took to build and to run, in
one process with the scheduler and the search, so that all of these share its processors. Overhead
is what a candidate takes beyond that on one worker.

Quality: searches replayed on measured tables (`tutorials/tables`), of 128 trials: the speed of the
best as a part of the table's, a mean over tables and seeds, by the candidates of a round.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from statistics import mean
from typing import Any, Final

import distributed

import minitensor as mt
from benchmarks.common import markdown_table
from minitensor.search import Remote
from minitensor.search.runner import there
from tutorials import table, tables
from tutorials.replay import replay

WORKERS: Final = (1, 2, 4, 16, 64)
BUILD, RUN = 0.30, 0.22
"""Seconds of a candidate: the medians of a search for a convolution."""
EACH: Final = 4
ROUNDS: Final = (1, 4, 16, 64)
TRIALS: Final = 128


@functools.cache
def _host() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(there.described())["host"]
    return found


def slept(text: str) -> str:
    """The reply of a worker that sleeps in place of building and measuring."""
    request = there.checked_request(text)
    time.sleep((BUILD + RUN) * len(request["traces"]))
    one = {"status": "ok", "times": [1e-3], "calls": 1, "message": "", "early": False}
    one |= {"spoilt": 0, "disturbed": False, "spent": BUILD + RUN}
    reply = {"version": there.VERSION, "id": request["id"], "host": _host()}
    return json.dumps({**reply, "results": [one] * len(request["traces"])})


class Sleeping(Remote):
    """A pool whose workers sleep; it notes the size of requests."""

    _work = staticmethod(slept)


def schedules(count: int) -> list[mt.Schedule]:
    """Different schedules of one convolution."""
    program = mt.lower(mt.workloads.conv2d(1, 64, 56, 56, 64, 3, padding=1))
    found = []
    for number in range(count):
        s = mt.Schedule(program)
        s.split(s.get_loops("conv")[1], [None, 1 + number % 64])
        s.split(s.get_loops("conv")[3], [None, 1 + number // 64])
        found.append(s)
    return found


def throughput(workers: int) -> tuple[float, float]:
    """Candidates a second, and seconds of a candidate beyond its sleep, if each had one worker."""
    with (
        distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,  # type: ignore[no-untyped-call]
        Sleeping(client, each=EACH) as remote,
    ):  # fmt: skip
        asked = schedules(max(8, 4 * EACH * workers))
        start = time.perf_counter()
        count = sum(result.ok for result in remote.measure(asked))
        spent = time.perf_counter() - start
    return count / spent, spent * workers / count - (BUILD + RUN)


def quality(size: int, seeds: int) -> float:
    """The speed of the best after so many trials in rounds of a size, as a part of the table's."""
    found = []
    for name in tables():
        one = table(name)
        for seed in range(seeds):
            found.append(replay(one, trials=TRIALS, seed=seed, batch=size).curve[-1])
    return mean(found)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.remote", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--quality", action="store_true", help="of rounds of several sizes")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="of --quality (5)")
    given = parser.parse_args()
    rows: list[list[Any]]
    if given.quality:
        parts = {size: quality(size, given.seeds) for size in ROUNDS}
        rows = [["at once", f"best after {TRIALS} trials", f"of {ROUNDS[0]} at once"]]
        rows += [[f"{n}", f"{q:.3f}", f"{q / parts[ROUNDS[0]]:.3f}"] for n, q in parts.items()]
    else:
        rows, one = [["workers", "candidates/s", "of one", "overhead, ms"]], 0.0
        for workers in WORKERS:
            speed, beyond = throughput(workers)
            one = one or speed
            rows.append([f"{workers}", f"{speed:.2f}", f"{speed / one:.1f}", f"{1e3 * beyond:.1f}"])
            print(" ".join(rows[-1]), flush=True)
    print(*markdown_table(rows), sep="\n")


if __name__ == "__main__":
    main()
