"""The limits of this machine: multiply-adds a second, and bytes from and to memory.

They are measured, not taken from a data sheet: small C functions, compiled with the compiler and
the flags of every kernel, are timed. A `Probe` is one of them; a comparison of kernels with the
limits calls the probes between the kernels, so that other programs affect both alike.
Not here: the caches. The arrays are larger than any, so the bandwidth is that of the memory.

`known_limits` keeps what was measured in the cache. Other programs can only lower it, so the first
few processes that need the limits measure again, and the best is kept.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from minitensor.errors import CompileError, unexpected
from minitensor.runtime.cache import compile_library
from minitensor.runtime.folder import cache_folder, entry_name, recall, remember
from minitensor.runtime.module import aligned_empty, load_function, pointer_to, starting_threads
from minitensor.runtime.toolchain import Toolchain, find_toolchain
from minitensor.runtime.width import multiply_adds

ACCUMULATORS: Final = (8, 12, 16)
"""Sums kept at the same time: enough to hide the latency of an FMA, few enough for registers.

Which is best depends on the CPU (latency x throughput is 8 on most, up to 16 with four units), so
all are tried.
"""
STEPS: Final = 250_000
"""FMAs of each accumulator in a call, about a millisecond."""
ARRAY_BYTES: Final = 128 << 20
"""Of each of the three arrays that are streamed."""
REPEATS: Final = 5
TRIES: Final = 3
"""The number of processes that measure before the limits count as known."""
BURST_SECONDS: Final = 0.02

_MEMORY: Final = """
typedef float V __attribute__((vector_size({bytes}), aligned(4)));
enum {{ LANES = {bytes} / 4, PIECE = 1 << 14 }};

int fill(int64_t *threads, float *a, float *b, float *c) {{
    #pragma omp parallel for num_threads(threads[0]) schedule(static)
    for (int64_t p = 0; p < threads[1]; p++)
        for (int64_t i = p * PIECE; i < (p + 1) * PIECE; i++) {{ a[i] = 1; b[i] = 2; c[i] = 3; }}
    return 0;
}}

int read_all(int64_t *threads, float *a, float *b, float *c) {{
    #pragma omp parallel for num_threads(threads[0]) schedule(static)
    for (int64_t p = 0; p < threads[1]; p++) {{
        V s0 = {{0}}, s1 = {{0}}, s2 = {{0}}, s3 = {{0}};
        for (int64_t i = p * PIECE; i < (p + 1) * PIECE; i += 4 * LANES) {{
            s0 += *(V *)(a + i);
            s1 += *(V *)(a + i + LANES);
            s2 += *(V *)(a + i + 2 * LANES);
            s3 += *(V *)(a + i + 3 * LANES);
        }}
        s0 += s1 + s2 + s3;
        if (s0[0] == 12345.0f) b[p * PIECE] = s0[0];
    }}
    return 0;
}}

int copy(int64_t *threads, float *a, float *b, float *c) {{
    #pragma omp parallel num_threads(threads[0])
    {{
        #pragma omp for schedule(static)
        for (int64_t t = 0; t < threads[0]; t++) {{
            int64_t low = threads[1] * t / threads[0], high = threads[1] * (t + 1) / threads[0];
            __builtin_memcpy(b + low * PIECE, a + low * PIECE, (high - low) * PIECE * sizeof *a);
        }}
    }}
    return 0;
}}

int triad(int64_t *threads, float *a, float *b, float *c) {{
    #pragma omp parallel for num_threads(threads[0]) schedule(static)
    for (int64_t p = 0; p < threads[1]; p++)
        for (int64_t i = p * PIECE; i < (p + 1) * PIECE; i += LANES)
            *(V *)(c + i) = *(V *)(a + i) + *(V *)(b + i) * 0.5f;
    return 0;
}}
"""

_PIECE_BYTES: Final = 4 << 14
_STREAMS: Final = {"read_all": 1, "copy": 2, "triad": 3}


@dataclass(frozen=True, slots=True)
class Probe:
    """A native function that does nothing but meet one limit.

    name   "fma 512 bits x 12", "read", "copy" or "triad"
    work   of a call: operations (an FMA is two), or bytes the program names (a store counts once)
    call   runs it
    bits   the width of its vectors
    """

    name: str
    work: float
    call: Callable[[], object]
    bits: int

    def rate(self) -> float:
        """Work per second of the fastest call in a short while."""
        self.call()
        fastest = float("inf")
        end = time.perf_counter() + BURST_SECONDS
        while True:
            start = time.perf_counter()
            self.call()
            stop = time.perf_counter()
            fastest = min(fastest, stop - start)
            if stop >= end:
                return self.work / fastest


@dataclass(frozen=True, slots=True)
class Limits:
    """Measured limits, each the best of several tries: other programs can only lower them.

    threads      that ran at the same time
    vector_bits  the vectors that gave the peak
    peak         GFLOP/s of float32 multiply-adds, all threads together
    peak_core    the same of one thread alone
    read         GB/s of a sum over an array that is larger than the caches
    copy         GB/s of memcpy, read and written bytes counted
    triad        GB/s of c = a + s*b, its three arrays counted
    """

    threads: int
    vector_bits: int
    peak: float
    peak_core: float
    read: float
    copy: float
    triad: float

    def __str__(self) -> str:
        one = f" ({self.peak_core:.0f} with one)" if self.threads > 1 else ""
        return (
            f"{self.peak:.0f} GFLOP/s with {self.threads} thread{'' if self.threads == 1 else 's'}"
            f"{one}, vectors of {self.vector_bits} bits; memory: read {self.read:.1f}, copy "
            f"{self.copy:.1f}, triad {self.triad:.1f} GB/s"
        )

    @property
    def bandwidth(self) -> float:
        """The best of the three, GB/s."""
        return max(self.read, self.copy, self.triad)


def measure_limits(threads: int | None = None) -> Limits:
    """Measure this machine with that many threads (None: with one for each usable core).

    Takes about a second, the first time also that of the compiler.
    Raises CompileError without a compiler, ArgumentError for a number that is none.
    """
    threads = find_toolchain().num_cores if threads is None else threads
    compute, memory = compute_probe(threads), memory_probes(threads)
    alone = compute_probe(1) if threads > 1 else compute
    # in turns: a neighbour that takes bandwidth for a while takes it from none of them alone
    tries = [[p.rate() / 1e9 for p in (compute, alone, *memory)] for _ in range(REPEATS)]
    return Limits(threads, compute.bits, *(max(of_one) for of_one in zip(*tries)))


def compute_probe(threads: int) -> Probe:
    """The function that meets the peak of float32 FMAs: of all widths and numbers, the fastest."""
    return max(compute_probes(threads), key=Probe.rate)


def compute_probes(threads: int) -> list[Probe]:
    """A function for each vector width and number of accumulators.

    The widest vectors are not always the fastest: some CPUs halve them, or lower the clock.
    """
    _check(threads)
    toolchain = find_toolchain()
    ways = [(bits, count) for bits in _widths(toolchain) for count in ACCUMULATORS]
    functions = _functions(
        "\n".join(multiply_adds(bits, count, STEPS) for bits, count in ways),
        [f"fma_{bits}_{count}" for bits, count in ways],
        pointers=2,
        toolchain=toolchain,
    )
    data = aligned_empty((128,), np.dtype(np.float32))
    data[:] = 0.5  # x = x / 2 + 1 / 2 neither grows nor becomes denormal
    arguments = [np.array([threads], np.int64), data]
    return [
        Probe(
            f"fma {bits} bits x {count}",
            2.0 * STEPS * count * (bits // 32) * threads,
            partial(function, *map(pointer_to, arguments)),
            bits,
        )
        for (bits, count), function in zip(ways, functions)
    ]


def memory_probes(threads: int) -> list[Probe]:
    """Functions that read, copy, and combine arrays larger than the caches (triad of STREAM).

    Source: McCalpin, Memory bandwidth and machine balance in current high performance computers,
    1995.
    """
    _check(threads)
    toolchain = find_toolchain()
    bits = _widths(toolchain)[0]
    source = _MEMORY.format(bytes=bits // 8)
    fill, *functions = _functions(source, ["fill", *_STREAMS], pointers=4, toolchain=toolchain)
    pieces = ARRAY_BYTES // _PIECE_BYTES
    arrays = [aligned_empty((ARRAY_BYTES // 4,), np.dtype(np.float32)) for _ in range(3)]
    operands = [pointer_to(a) for a in (np.array([threads, pieces], np.int64), *arrays)]
    fill(
        *operands
    )  # by the threads that use it: memory is placed near the core that touches it first
    return [
        Probe(
            name.partition("_")[0],
            float(streams * ARRAY_BYTES),
            partial(function, *operands),
            bits,
        )
        for (name, streams), function in zip(_STREAMS.items(), functions)
    ]


def _check(threads: object) -> None:
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise unexpected("a number of threads, at least 1", "threads", threads)
    if threads > 1 and not find_toolchain().openmp:
        raise unexpected("1 thread, for the compiler has no OpenMP here", "threads", threads)


def _widths(toolchain: Toolchain) -> Sequence[int]:
    """The widest vectors first, and half of them where there is a narrower kind."""
    widest = max(toolchain.vector_bits, 128)
    return (widest, widest // 2) if widest > 128 else (widest,)


def _functions(
    source: str, names: Sequence[str], pointers: int, toolchain: Toolchain
) -> list[Callable[..., int]]:
    path = compile_library("#include <stdint.h>\n" + source, toolchain).path
    return [starting_threads(load_function(path, name, pointers)) for name in names]


# ---- kept between processes


def known_limits(threads: int | None = None) -> Limits:
    """The limits of this machine with that many threads (None: with one for each usable core).

    A process measures at most once, for a second or two; `measure_limits` measures always.
    Raises as that.
    """
    return _known(threads, cache_folder())


def remember_limits(limits: Limits) -> Limits:
    """Keep what was measured where it is better than what is known; the best of both.

    Without a compiler nothing is known or kept.
    """
    _known.cache_clear()
    with contextlib.suppress(CompileError):
        return _kept(limits)
    return limits


@functools.lru_cache(maxsize=64)
def _known(threads: int | None, folder: object) -> Limits:
    count = find_toolchain().num_cores if threads is None else threads
    known, tries = _recall(count)
    if known is not None and tries >= TRIES:
        return known
    return _kept(measure_limits(count))


def _kept(limits: Limits) -> Limits:
    """The best of what was measured now and before."""
    known, tries = _recall(limits.threads)
    best = limits if known is None else _best(known, limits)
    remember(_name(limits.threads), {"limits": asdict(best), "tries": tries + 1})
    return best


def _name(threads: int) -> str:
    toolchain = find_toolchain()
    compiler = (toolchain.version, toolchain.triple, toolchain.identity)
    return entry_name("limits", compiler, toolchain.flags, threads)


def _best(a: Limits, b: Limits) -> Limits:
    return replace(
        max(a, b, key=lambda limits: limits.peak),
        **{
            name: max(getattr(a, name), getattr(b, name))
            for name in ("peak_core", "read", "copy", "triad")
        },
    )


def _recall(threads: int) -> tuple[Limits | None, int]:
    """The limits that are known, and the number of measurements."""
    try:
        kept = recall(_name(threads)) or {}
        return Limits(**kept["limits"]), int(kept["tries"])
    except (TypeError, ValueError, LookupError):
        return None, 0
