"""Many processes at one compile cache, while its entries are removed and damaged.

    python -m tests.stress_cache [--processes 16] [--kernels 8] [--rounds 50] [--seed 0] [--calm]

Every process starts with a cache that is empty, and in each round builds all kernels anew, calls
them, and compares what they give. Now and then one removes a file of an entry, or puts a damaged
one in its place (cut short, one bit flipped, a link, nothing at all): an entry is then made again,
and no damaged library is loaded. With --calm nothing is damaged. Prints what was done as JSON; the
exit status is 0 if every process did all of it without an error and nothing but entries is left.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from minitensor.codegen import Emitted, Target
from minitensor.ir import Buffer, DType
from minitensor.runtime import find_toolchain, load

FLOAT32 = DType.of("float32")
PARAMS = (Buffer("A", (4,), FLOAT32), Buffer("D", (4,), FLOAT32))
EACH = 10
"""One round in so many damages something."""


def kernel_text(number: int) -> Emitted:
    """A kernel that multiplies by its number."""
    source = (
        "int f(float *a, float *d, void *w) {"
        f" for (int i = 0; i < 4; i++) d[i] = a[i] * {number}; return 0; }}"
    )
    return Emitted(source, "f", PARAMS, frozenset("D"), (), 0, Target("c", 1, 0))


def damage(folder: Path, rng: random.Random) -> str:
    """Remove a file of the cache, or put a damaged one in its place; what was done.

    Nothing is changed in place: a library that is loaded is memory of another process.
    """
    files = [p for p in folder.iterdir() if p.suffix in (".so", ".json", ".c")]
    if not files:
        return "nothing"
    path = rng.choice(sorted(files))
    how = rng.choice(["remove", "cut", "flip", "empty", "link"])
    with contextlib.suppress(OSError):  # another process may be at it too
        content = bytearray(path.read_bytes())
        other = folder / f"build-damage-{os.getpid()}"
        match how:
            case "remove":
                path.unlink()
                return how
            case "cut":
                other.write_bytes(content[: rng.randrange(len(content) + 1)])
            case "flip":
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
                other.write_bytes(content)
            case "empty":
                other.write_bytes(b"")
            case "link":
                other.symlink_to(rng.choice(sorted(files)))
        os.replace(other, path)
        return f"{how} {path.suffix}"
    return "nothing"


def work(number: int, kernels: int, rounds: int, seed: int, calm: bool) -> Counter[str]:
    """What one process does; raises at the first wrong result."""
    rng = random.Random(f"{seed} {number}")
    folder = Path(os.environ["MINITENSOR_CACHE_DIR"])
    done: Counter[str] = Counter()
    ones = np.ones(4, "float32")
    for _ in range(rounds):
        for n in rng.sample(range(kernels), kernels):
            result = load(kernel_text(n), find_toolchain())(ones)
            if not (result == n).all():
                raise SystemExit(f"kernel {n} gives {result}")
            done["calls"] += 1
        if not calm and rng.randrange(EACH) == 0:
            done[damage(folder, rng)] += 1
    return done


def main() -> int:
    """Start the processes, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("processes", 16), ("kernels", 8), ("rounds", 50), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--calm", action="store_true")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        done = work(given.worker, given.kernels, given.rounds, given.seed, given.calm)
        print(json.dumps(done))
        return 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        workers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.stress_cache", *sys.argv[1:], "--worker", str(n)],
                env={**os.environ, "MINITENSOR_CACHE_DIR": str(cache)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(given.processes)
        ]
        outputs = [worker.communicate() for worker in workers]
        failed = [err for worker, (_, err) in zip(workers, outputs) if worker.returncode]
        total: Counter[str] = Counter()
        for out, _ in outputs:
            total.update(json.loads(out or "{}"))
        left = sorted(p.name for p in cache.iterdir() if p.name.startswith("build-"))
    report = {
        **total,
        "failed": failed,
        "left": left,
        "seconds": round(time.monotonic() - start, 1),
    }
    print(json.dumps(report))
    whole = total["calls"] == given.processes * given.kernels * given.rounds
    return 0 if whole and not failed and not left else 1


if __name__ == "__main__":
    sys.exit(main())
