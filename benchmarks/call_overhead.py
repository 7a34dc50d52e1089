"""What a call costs besides the native call itself: checking three small arrays."""

from __future__ import annotations

import numpy as np

import minitensor as mt
from benchmarks.common import Figure, figure, main, seconds

SIZE = 16
REPEATS = 15
CALLS = 20000


def measure() -> list[Figure]:
    A = mt.placeholder((SIZE,), name="A")
    B = mt.placeholder((SIZE,), name="B")
    C = mt.compute((SIZE,), lambda i: A[i] + B[i], name="C")
    kernel = mt.build(mt.lower([A, B, C], name="add"))
    a, b, c = (np.ones(SIZE, "float32") for _ in range(3))
    native = kernel.time(a, b, c, repeat=REPEATS).results
    written = seconds(lambda: kernel(a, b, c), REPEATS, CALLS)
    allocated = seconds(lambda: kernel(a, b), REPEATS, CALLS)
    bare = min(native)
    note = f"three float32 arrays of {SIZE}, median of {REPEATS} x {CALLS}, less the next line"
    return [
        figure("call overhead", [taken - bare for taken in written], "us", 5.0, note),
        figure("bare native call", native, "us", None, f"cffi, and adding {SIZE} numbers"),
        figure("call that allocates", allocated, "us", None, "the output left out"),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
