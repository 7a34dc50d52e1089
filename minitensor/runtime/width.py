"""The width of vectors on processors with AVX-512: the faster one in a measurement.

A compiler knows the instructions of a processor from CPUID and the rest from a table by the name
that it makes of it, which is another's where a virtual machine masks CPUID. What vectors of 512
bits are worth differs: twice the rate of 256 bits, the same where a processor splits them, less
where it lowers its clock as long as they run. So a small C program runs chains of multiply-adds in
both widths, in turns, and prints how many it made. It is a program and no library: if the processor
has no such instructions, only the program ends.

Not here: compiling and running it (`toolchain`). It uses one core: a clock that is lowered further
when all of them have wide vectors is not noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

NARROW: Final = 256
WIDE: Final = 512
CLEARLY: Final = 1.05
"""The ratio of rates from which on the narrower vectors are taken."""
WITHOUT_WIDE: Final = "-mno-avx512f"
"""The flag with which compilers use nothing of AVX-512."""

_CHAINS: Final = 12
"""Enough to hide the latency of an FMA; with two operands they fit in 16 registers."""
_PREFER: Final = "-mprefer-vector-width="

_FMA: Final = """
int fma_{bits}_{count}(int64_t *threads, float *data) {{
    typedef float V __attribute__((vector_size({bytes}), aligned(4)));
    #pragma omp parallel num_threads(threads[0])
    {{
        V x = *(V *)data, y = *(V *)(data + 32);
        V {declared};
        for (int64_t i = 0; i < {steps}; i++) {{
            {updates}
        }}
        V total = {total};
        if (total[0] == 12345.0f) data[64] = total[0];
    }}
    return 0;
}}
"""

_MAIN: Final = """
#include <stdio.h>
#include <time.h>

enum {{ TURNS = 5 }};
static const double BURST = 2e-3; /* seconds: a lowered clock rises again in less */

static double now(void) {{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}}

/* The shortest call, in seconds, of those in a burst and of those before. */
static double shortest(int (*function)(int64_t *, float *), float *data, double best) {{
    int64_t threads = 1;
    double start = now(), before = start, after = start;
    while (after - start < BURST) {{
        function(&threads, data);
        after = now();
        if (after - before < best) best = after - before;
        before = after;
    }}
    return best;
}}

int main(void) {{
    static float data[128];
    for (int i = 0; i < 128; i++) data[i] = 0.5f; /* x / 2 + 1 / 2 does not become denormal */
    double narrow = 1e9, wide = 1e9;
    for (int turn = 0; turn < TURNS; turn++) {{
        narrow = shortest({narrow}, data, narrow);
        wide = shortest({wide}, data, wide);
    }}
    printf("%.3f %.3f\\n", {narrow_work} / narrow * 1e-9, {wide_work} / wide * 1e-9);
    return 0;
}}
"""


def multiply_adds(bits: int, count: int, steps: int) -> str:
    """The C function `fma_<bits>_<count>` of independent chains of float32 multiply-adds.

    Its arguments are the number of threads, which all do the same, and 128 numbers.
    """
    sums = [f"s{n}" for n in range(count)]
    return _FMA.format(
        bits=bits,
        bytes=bits // 8,
        count=count,
        steps=steps,
        declared=", ".join(f"{s} = x * {n}.0f" for n, s in enumerate(sums)),
        updates=" ".join(f"{s} = {s} * x + y;" for s in sums),
        total=" + ".join(sums),
    )


def program() -> str:
    """The program that measures: it prints two rates, in GFLOP/s, with NARROW and with WIDE bits.

    It takes 20 ms.
    """
    steps = 10_000  # some 20 microseconds: not every call is interrupted
    work = {bits: 2.0 * steps * _CHAINS * (bits // 32) for bits in (NARROW, WIDE)}
    main = _MAIN.format(
        narrow=f"fma_{NARROW}_{_CHAINS}",
        wide=f"fma_{WIDE}_{_CHAINS}",
        narrow_work=work[NARROW],
        wide_work=work[WIDE],
    )
    kernels = [multiply_adds(bits, _CHAINS, steps) for bits in (NARROW, WIDE)]
    return "\n".join(["#include <stdint.h>", *kernels, main])


def read_rates(printed: str) -> tuple[float, ...]:
    """The two rates that the program printed; none if it printed something else."""
    found = re.fullmatch(r"(\d+\.\d+) (\d+\.\d+)\n", printed)
    return tuple(map(float, found.groups())) if found else ()


def faster_width(rates: Sequence[float]) -> int:
    """The width to use, by the rates with NARROW and with WIDE bits."""
    narrow, wide = rates
    return NARROW if narrow > CLEARLY * wide else WIDE


def preferring(bits: int) -> str:
    """The flag for a width: compilers use it where they vectorize by themselves, and clang has no
    wider registers then, whatever the text says.
    """
    return f"{_PREFER}{bits}"


def preferred_width(words: Iterable[str]) -> int | None:
    """The width that a user's flags ask for, the last of them; None if none does."""
    given = [word.removeprefix(_PREFER) for word in words if word.startswith(_PREFER)]
    return int(given[-1]) if given and given[-1] in ("128", "256", "512") else None
