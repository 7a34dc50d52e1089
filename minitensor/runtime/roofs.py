"""The bandwidths of the caches: bytes a second that all threads together read from each level.

Each thread sums an array of its own again and again, of half the size of its cache. What was
measured is kept in the cache folder, as the other limits are; other programs can only lower it.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Final

import numpy as np

from minitensor.runtime.cache import compile_library
from minitensor.runtime.caches import known_caches, largest_cache
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember
from minitensor.runtime.limits import Probe, known_limits
from minitensor.runtime.module import aligned_empty, load_function, pointer_to, starting_threads
from minitensor.runtime.toolchain import find_toolchain

BYTES: Final = 32 << 20
"""Of a call, each thread."""
LARGEST: Final = 8 << 20
"""The most bytes of a thread's array."""
REPEATS: Final = 3
TRIES: Final = 3
"""The number of processes that measure before the bandwidths count as known."""

_SOURCE: Final = """
#include <stdint.h>
typedef float V __attribute__((vector_size({bytes}), aligned(4)));
enum {{ LANES = {bytes} / 4 }};

int read_own(int64_t *sizes, float *data) {{
    #pragma omp parallel for num_threads(sizes[0]) schedule(static, 1)
    for (int64_t t = 0; t < sizes[0]; t++) {{
        float *own = data + t * sizes[1];
        V {zeros};
        for (int64_t r = 0; r < sizes[2]; r++)
            for (int64_t i = 0; i < sizes[1]; i += 8 * LANES) {{
                {sums}
            }}
        s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
        if (s0[0] == 12345.0f) own[0] = s0[0];
    }}
    return 0;
}}
"""


def cache_bandwidths(threads: int) -> dict[str, float]:
    """GB/s of each level of the caches, with so many threads; the first few processes measure, each
    for a fraction of a second, and the best is kept. One
    that finds a cache slower than memory is not counted: other programs ran.

    Raises CompileError without a compiler.
    """
    return dict(_known(threads, cache_folder()))


@functools.lru_cache(maxsize=64)
def _known(threads: int, folder: object) -> tuple[tuple[str, float], ...]:
    toolchain = find_toolchain()
    compiler = (toolchain.version, toolchain.triple, toolchain.identity)
    name = entry_name("roofs", compiler, toolchain.flags, threads)
    known, tries = _recalled(name)
    if tries < TRIES:
        now = _measured(threads)
        known = {level: max(rate, known.get(level, 0.0)) for level, rate in now.items()}
        quiet = min(now.values()) > known_limits(threads).bandwidth  # else other programs ran
        remember(name, {"bandwidths": known, "tries": tries + quiet})
    return tuple(known.items())


def _recalled(name: str) -> tuple[dict[str, float], int]:
    """The bandwidths that are known, and the number of measurements."""
    try:
        kept = recall(name) or {}
        return {str(k): float(v) for k, v in kept["bandwidths"].items()}, int(kept["tries"])
    except (TypeError, ValueError, LookupError, AttributeError):
        return {}, 0


def _measured(threads: int) -> dict[str, float]:
    own, largest = known_caches(), largest_cache()
    sizes = {"L1": own.l1 // 2, "L2": own.l2 // 2}
    if largest // (2 * threads) > own.l2:  # else a part of it is no larger than L2
        sizes["L3"] = min(LARGEST, largest // (2 * threads))
    probes = {level: _probe(level, threads, size) for level, size in sizes.items()}
    tries = [[probe.rate() / 1e9 for probe in probes.values()] for _ in range(REPEATS)]
    return {level: max(rates) for level, rates in zip(probes, zip(*tries))}


def _probe(name: str, threads: int, size: int) -> Probe:
    """A function in which each thread reads an array of `size` bytes again and again."""
    toolchain = find_toolchain()
    bits = max(toolchain.vector_bits, 128)
    zeros = ", ".join(f"s{k} = {{0}}" for k in range(8))
    sums = " ".join(f"s{k} += *(V *)(own + i + {k} * LANES);" for k in range(8))
    source = _SOURCE.format(bytes=bits // 8, zeros=zeros, sums=sums)
    path = compile_library(source, toolchain).path
    read = starting_threads(load_function(path, "read_own", 2))
    step = 8 * bits // 32
    floats = max(step, size // 4 // step * step)
    repeats = max(1, BYTES // (4 * floats))
    data = aligned_empty((threads * floats,), np.dtype(np.float32))
    data[:] = 0.0
    arguments = [np.array([threads, floats, repeats], np.int64), data]
    work = 4.0 * threads * floats * repeats
    return Probe(name, work, partial(read, *map(pointer_to, arguments)), bits)
