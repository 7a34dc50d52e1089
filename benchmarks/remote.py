"""Many workers, simulated: how many candidates a second, and what a search loses by asking for more
at once.

    python -m benchmarks.remote                 throughput with 1 to 64 workers, about two minutes
    python -m benchmarks.remote --quality       the best after equal trials, by rounds of 1 to 64
    python -m benchmarks.remote --pinned        two real workers, a core each; needs taskset

Throughput: Dask workers that sleep for as long as a recorded candidate took to build and to run, in
one process with the scheduler and the search, so that all of these share its processors. Overhead
is what a candidate takes beyond that on one worker.

Quality: searches replayed on measured tables (`tutorials/tables`), of 128 trials: the speed of the
best as a part of the table's, a mean over tables and seeds, by the candidates of a round.

Pinned: candidates of a convolution, drawn anew in each turn, measured by one of the workers, by
both, and by one for which the other only builds, in turns; scheduler and search share their cores.
Overhead is what one worker's candidate takes beyond building and measuring. The last line is what
two cores of this machine give at most: some share what they compute with.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import distributed

import minitensor as mt
from benchmarks.common import markdown_table
from minitensor.search import Remote, Space
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
    one |= {"spoilt": 0, "disturbed": False, "spent": BUILD + RUN, "flags": None}
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


def _started(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A process of Python with a folder and a cache of its own."""
    folder.mkdir()
    environment = {**os.environ, "MINITENSOR_CACHE_DIR": str(folder / "cache")}
    with (folder / "out.txt").open("w") as out:
        return subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=out)


def _ended(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
        process.wait()


PINNED: Final = ("one", "both", "one, and one that builds")
"""The turns of `pinned`."""


def pinned(turns: int, count: int) -> list[list[Any]]:
    """The lines of real workers: candidates a second, those of one, and the overhead in ms."""
    cores, begun = sorted(os.sched_getaffinity(0)), list[subprocess.Popen[bytes]]()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        address = Path(folder) / "address.json"
        words = ["distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
        words += ["--scheduler-file", str(address)]
        begun.append(_started([sys.executable, "-m", *words], Path(folder) / "s"))
        stack.callback(_ended, begun)
        while not address.exists():
            time.sleep(0.1)
        server = json.loads(address.read_text())["address"]
        for name, core, more in (("a", 0, []), ("b", 1, []), ("c", 1, ["--builds"])):
            words = ["minitensor", "worker", server, "--name", name, *more]
            words = ["taskset", "-c", str(cores[core]), sys.executable, "-m", *words]
            begun.append(_started(words, Path(folder) / name))
        client = stack.enter_context(distributed.Client(server))  # type: ignore[no-untyped-call]
        client.wait_for_workers(3, timeout=60)
        remote = stack.enter_context(Remote(client))
        program = mt.lower(mt.workloads.conv2d(1, 16, 28, 28, 32, 3, padding=1))
        space, rng, best = Space.of(program, remote.target), random.Random(0), math.inf
        speeds: dict[str, list[float]] = {name: [] for name in PINNED}
        beyond = list[float]()
        for turn in range(turns + 1):  # the first is not counted: workers start processes in it
            for name in PINNED:
                for address_of, about in client.scheduler_info(n_workers=-1)["workers"].items():
                    worker, aside = remote._pool.workers[address_of], "it is not its turn"
                    if about["name"] == "a":
                        worker.reason = ""
                    elif about["name"] == "b":
                        worker.reason = worker.idle = "" if name == "both" else aside
                    elif about["name"] == "c":
                        worker.idle = "" if name == PINNED[2] else aside
                asked = [space.schedule(space.draw(rng)) for _ in range(count)]
                start = time.perf_counter()
                results = list(remote.measure(asked, best if turn else None))
                spent = time.perf_counter() - start
                best = min([best, *(result.median for result in results if result.ok)])
                if turn:
                    speeds[name].append(count / spent)
                if turn and name == "one":
                    beyond.append(spent / count - mean(result.spent for result in results))
    one = median(speeds["one"])
    over = {"one": f"{1e3 * median(beyond):.1f}"}
    return [
        [name, f"{median(found):.2f}", f"{median(found) / one:.2f}", over.get(name, "")]
        for name, found in speeds.items()
    ]


_COUNTS: Final = """
import time
count, end = 0, time.perf_counter() + 3
while time.perf_counter() < end:
    count += sum(range(1000)) > 0
print(count)
"""


def together(turns: int) -> float:
    """The throughput of two Python processes, each pinned to a core, relative to that of one: 2 on
    cores that share nothing.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]

    def counted(some: list[int]) -> int:
        words = [["taskset", "-c", str(core), sys.executable, "-c", _COUNTS] for core in some]
        begun = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in words]
        return sum(int(process.communicate()[0]) for process in begun)

    return median(counted(cores) / counted(cores[:1]) for _ in range(turns))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.remote", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--quality", action="store_true", help="of rounds of several sizes")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="of --quality (5)")
    parser.add_argument("--pinned", action="store_true", help="two real workers, a core each")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of --pinned (5)")
    given = parser.parse_args()
    rows: list[list[Any]]
    if given.pinned:
        rows = [["workers", "candidates/s", "of one", "overhead, ms"], *pinned(given.turns, 48)]
        rows.append(["two loops of Python", "", f"{together(given.turns):.2f}", ""])
    elif given.quality:
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
