"""The sizes of the data caches of one core, L1 and L2, by a measurement.

A virtual machine may hide the caches of its processor, or show those of another. So a small C
program follows pointers through more and more memory, in a random order that visits every line
before it comes back: where the lines no longer fit in a cache, each load waits for the next one.
The order is random within pieces that few pages hold, so that neither prefetching hides the
latency nor the search for pages adds to it. Others on the machine only make loads slower: of many
short bursts the fastest counts, and for each size that of all larger ones if that is faster.

Not here: compiling and running it, and where nothing is found (`caches`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LINE: Final = 64
"""Bytes from one pointer to the next. Where lines are longer, more than one is in a line."""
FOOTPRINTS: Final = (*(n << k for k in range(13, 21) for n in (2, 3)), 4 << 20)
"""Bytes: 16 KiB, 24 KiB, 32 KiB, 48 KiB, … 4 MiB."""
RISE: Final = 2.0
"""The ratio of latencies that is the next cache, or memory: usual are 2.5 and more. A cache that is
nearly full has up to 1.7, for it holds other lines too, and does not replace the oldest ones."""
LARGEST_L1: Final = 256 << 10
"""Bytes; if loads are fast beyond, the step of L1 was not seen."""

_PROGRAM: Final = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum {{ LINE = {line}, PIECE = 2048, STEPS = 4096, TURNS = 3, PAGE = 2 << 20 }};
static const double BURSTS = 7e-4, LIMIT = 0.1; /* seconds: at a footprint, and of all turns */
static const int64_t footprints[] = {{ {footprints} }};
enum {{ COUNT = sizeof footprints / sizeof footprints[0] }};

static double now(void) {{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}}

static uint64_t drawn(uint64_t below) {{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}}

/* A cycle through all lines: piece after piece, each in a random order. */
static void link_lines(char *memory, int64_t count) {{
    static int order[PIECE];
    void *first = NULL, **last = &first;
    for (int64_t start = 0; start < count; start += PIECE) {{
        int lines = count - start < PIECE ? count - start : PIECE;
        for (int i = 0; i < lines; i++) {{
            int other = drawn(i + 1);
            order[i] = order[other];
            order[other] = i;
        }}
        for (int i = 0; i < lines; i++) {{
            void *line = memory + (start + order[i]) * LINE;
            *last = line;
            last = line;
        }}
    }}
    *last = first;
}}

/* Seconds of the shortest burst, of these and of those before. */
static double shortest(void *memory, double best) {{
    void *at = memory;
    double start = now(), before = start, after = start;
    while (after - start < BURSTS) {{
        for (int i = 0; i < STEPS; i++) at = *(void *volatile *)at;
        after = now();
        if (after - before < best) best = after - before;
        before = after;
    }}
    return best;
}}

int main(void) {{
    void *memory;
    double best[COUNT], start = now();
    if (posix_memalign(&memory, PAGE, footprints[COUNT - 1])) return 1;
#ifdef MADV_HUGEPAGE
    madvise(memory, footprints[COUNT - 1], MADV_HUGEPAGE);
#endif
    for (int i = 0; i < COUNT; i++) best[i] = 1e9;
    for (int turn = 0; turn < TURNS && now() - start < LIMIT; turn++) {{
        for (int i = 0; i < COUNT; i++) {{
            link_lines(memory, footprints[i] / LINE);
            best[i] = shortest(memory, best[i]);
        }}
    }}
    for (int i = 0; i < COUNT; i++)
        printf("%lld %.3f\\n", (long long)footprints[i], best[i] / STEPS * 1e9);
    return 0;
}}
"""


def program() -> str:
    """The program that measures: it prints a line for each footprint, bytes and nanoseconds.

    It takes 40 ms, and more on a machine that is busy.
    """
    return _PROGRAM.format(line=LINE, footprints=", ".join(map(str, FOOTPRINTS)))


def read_latencies(printed: str) -> dict[int, float]:
    """The nanoseconds of a load, by footprint in bytes; none if it printed something else."""
    if not re.fullmatch(r"(\d+ \d+\.\d+\n)+", printed):
        return {}
    return {int(size): float(time) for size, time in map(str.split, printed.splitlines())}


def cache_sizes(latencies: Mapping[int, float]) -> tuple[int | None, int | None]:
    """The sizes in bytes of L1 and of L2, rounded down to a footprint; None where loads do not
    become clearly slower.

    latencies  nanoseconds of a load, by footprint in bytes
    """
    l1 = _last_before_rise(latencies)
    if l1 is None or l1 > LARGEST_L1:
        return None, None
    beyond = {size: time for size, time in latencies.items() if size >= 2 * l1}
    return l1, _last_before_rise(beyond)


def _last_before_rise(latencies: Mapping[int, float]) -> int | None:
    fastest = min(latencies.values(), default=0.0)
    fitting = [size for size, time in latencies.items() if time <= RISE * fastest]
    return max(fitting) if fitting and max(fitting) < max(latencies) else None
