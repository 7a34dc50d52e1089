"""Writers to one log, killed at random moments: nothing that was acknowledged may be missing.

    python -m tests.stress_log [--kills 100] [--writers 4] [--seed 0] [--compact] [--out LOG]

Each writer appends records and says so through a pipe, each as soon as `append` returns. Some
records are short, some of many pages, so that a kill may come in the middle of a write. A killed
writer (SIGKILL) is replaced by another. With --compact one more process rewrites the log without
end, and is killed now and then as well. At last the log is read: prints what was found as JSON; the
exit status is 0 if every acknowledged record is there once, as it was written, and no line is
damaged. Lines of killed writers, sealed or at the end, are counted (`torn`).
"""

import argparse
import contextlib
import json
import os
import random
import selectors
import signal
import sys
import tempfile
import time
from pathlib import Path

from minitensor.search import Log, Record
from tests.made_records import made

LONGEST_LIFE = 0.05
"""Seconds after which one of the writers is killed, at the most."""
PAGES = 40_000
_NUMBERS = 10**9
"""Seeds of records: those of one writer are between two multiples of it."""


def record(seed: int) -> Record:
    """What a writer appends: every tenth record is longer than a few pages of memory."""
    size = random.Random(seed).randrange(PAGES) if seed % 10 == 0 else 20
    return made(seed, trace='{"x":"%s"}' % ("x" * size))


def write_without_end(log: Log, number: int, pipe: int) -> None:
    """Append records and acknowledge each."""
    seed = number * _NUMBERS
    while True:
        log.append(record(seed))
        os.write(pipe, b"%d\n" % seed)
        seed += 1


def compact_without_end(log: Log) -> None:
    """Rewrite the log again and again."""
    while True:
        time.sleep(0.01)
        if log.path.exists():
            log.compact()


class Child:
    """A forked process that does one thing until it is killed."""

    def __init__(self, work, *arguments):
        self.pipe, ours = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            try:
                work(*arguments, *([ours] if work is write_without_end else []))
            except BaseException as failure:
                os.write(2, f"a child failed: {failure!r}\n".encode())
            os._exit(1)
        os.close(ours)
        self.rest = b""

    def acknowledged(self) -> list[int]:
        """What was acknowledged since the last time; waits for something to be."""
        return self._numbers(os.read(self.pipe, 1 << 16))

    def kill(self) -> list[int]:
        """Kill the process; what was acknowledged until then. Raises if it had ended by itself."""
        os.kill(self.process, signal.SIGKILL)
        found = []
        while chunk := os.read(self.pipe, 1 << 16):
            found += self._numbers(chunk)
        os.close(self.pipe)
        if not os.WIFSIGNALED(os.waitpid(self.process, 0)[1]):
            raise RuntimeError("a child ended by itself")
        return found

    def _numbers(self, chunk: bytes) -> list[int]:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        return [int(line) for line in lines]


def stress(path: Path, kills: int, writers: int, seed: int, compact: bool) -> set[int]:
    """Run and kill writers; the seeds of the records that were acknowledged."""
    rng = random.Random(seed)
    log = Log(path)
    started = 0
    acknowledged: set[int] = set()
    selector = selectors.DefaultSelector()

    def start() -> Child:
        nonlocal started
        child = Child(write_without_end, log, started)
        started += 1
        selector.register(child.pipe, selectors.EVENT_READ, child)
        return child

    children = [start() for _ in range(writers)]
    rewriter = Child(compact_without_end, log) if compact else None
    for number in range(kills + writers):
        end = time.monotonic() + rng.uniform(0, LONGEST_LIFE)
        while (left := end - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                acknowledged.update(key.data.acknowledged())
        victim = children.pop(rng.randrange(len(children)))
        selector.unregister(victim.pipe)
        acknowledged.update(victim.kill())
        if number < kills:
            children.append(start())
        if rewriter is not None and number % 5 == 0:
            rewriter.kill()
            rewriter = Child(compact_without_end, log)
    if rewriter is not None:
        rewriter.kill()
    return acknowledged


def judged(path: Path, acknowledged: set[int]) -> dict[str, int]:
    """What the log holds, against what was acknowledged."""
    records, report = Log(path).read()
    seeds = [r.seed for r in records]
    return {
        "acknowledged": len(acknowledged),
        "records": len(records),
        "lost": len(acknowledged - set(seeds)),
        "repeated": len(seeds) - len(set(seeds)),
        "changed": sum(r != record(r.seed) for r in records if r.seed is not None),
        "damaged": report.damaged,
        "unknown": report.unknown,
        "torn": report.torn,
        "bytes": path.stat().st_size,
    }


def main() -> int:
    """Run as the words say; 0 if nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compact", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = given.out or folder / "tuning.jsonl"
        start = time.monotonic()
        acknowledged = stress(path, given.kills, given.writers, given.seed, given.compact)
        found = judged(path, acknowledged)
        print(json.dumps({**found, "seconds": round(time.monotonic() - start, 1)}))
    wrong = found["lost"] + found["repeated"] + found["changed"] + found["damaged"]
    return 1 if wrong + found["unknown"] else 0


if __name__ == "__main__":
    sys.exit(main())
