"""Every float32 through a function of docs/math.md, against its exact value.

    python -m tests.exhaustive_math exp [part parts]

prints the largest error in ulp and where it is, for all 2^32 arguments or for one of several equal
parts of them; for power, 2^28 pairs. The bounds of `tests/accuracy.py` were found so. Half a minute
for each 2^30 or so; no test runs it.
"""

import sys

import numpy as np

import minitensor as mt
from tests.accuracy import BOUNDS, kernel, powers, worst

SIZE = 1 << 20
PAIRS = 1 << 28


def main(name, part=0, parts=1):
    """Print the largest error; the exit status says whether it is within the bound."""
    run = kernel(name, "float32", SIZE, mt.Target("c", num_cores=1), vectorized=True)
    chunks = (PAIRS if name == "power" else 1 << 32) // SIZE
    largest = (-1.0, ())
    for chunk in range(chunks * part // parts, chunks * (part + 1) // parts):
        if name == "power":
            arrays = powers(SIZE, chunk)
        else:
            bits = np.arange(chunk * SIZE, (chunk + 1) * SIZE, dtype=np.uint64)
            arrays = (bits.astype(np.uint32).view(np.float32),)
        largest = max(largest, worst(name, run(*arrays), *arrays), key=lambda found: found[0])
    error, place = largest
    print(f"{name}: {error:.4f} ulp at {', '.join(map(str, place))}")
    return 0 if error <= BOUNDS["float32"][name] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
