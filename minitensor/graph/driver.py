"""The function in C that calls the kernels of a model one after another.

    int run_model(char **io, char *arena, char **weights, void **kernels, char *scratch, …)
    {
        // conv2d_relu: float32[1, 64, 112, 112]
        STEP(1, ((kernel_5 *)kernels[0])(io[0], weights[0], weights[1], arena + 0, scratch))
        …

It returns 0, or the number of the call that failed and the status of its kernel (`failed_call`).
Where `times` is no null pointer, it gets the nanoseconds before the first call and behind each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from minitensor.codegen import comment

ENTRY: Final = "run_model"
"""The name of the function."""
POINTERS: Final = 6
"""The number of its parameters."""
_STATUS_BITS: Final = 12

_HEAD: Final = """\
#include <stdint.h>
#include <time.h>

#define STEP(number, call) \\
    if ((status = (call))) return (number) << 12 | (status & 4095); \\
    if (times) times[number] = now();
"""

_NOW: Final = """\
static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000 * (int64_t)t.tv_sec + t.tv_nsec;
}
"""

_FLUSH: Final = """\
/* Numbers below the normal range count as 0 while the model runs, in each thread: on most
   processors arithmetic with one of them takes a hundred times as long. */
#if defined(__SSE__)
static unsigned control(void) { return __builtin_ia32_stmxcsr(); }
static void set_control(unsigned value) { __builtin_ia32_ldmxcsr(value); }
enum { FLUSH = 0x8040 };
#elif defined(__aarch64__)
static uint64_t control(void) { uint64_t v; __asm__ volatile("mrs %0, fpcr" : "=r"(v)); return v; }
static void set_control(uint64_t v) { __asm__ volatile("msr fpcr, %0" : : "r"(v)); }
enum { FLUSH = 1 << 24 };
#else
static unsigned control(void) { return 0; }
static void set_control(unsigned value) { (void)value; }
enum { FLUSH = 0 };
#endif

static void flush_denormals(int on)
{
    #pragma omp parallel
    set_control(on ? control() | FLUSH : control() & ~FLUSH);
}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The address of an argument of a kernel.

    kind    "io": an array of the caller; "arena": a value between kernels; "weight": a constant, or
            what was computed of some when the model was built
    number  of the array, in its table; for the arena the bytes from its beginning
    """

    kind: Literal["io", "arena", "weight"]
    number: int

    def __str__(self) -> str:
        match self.kind:
            case "io":
                return f"io[{self.number}]"
            case "arena":
                return f"arena + {self.number}"
        return f"weights[{self.number}]"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel.

    name       the program's
    kernel     its number among the distinct ones
    arguments  in the order of the kernel's parameters
    outputs    the names of the values that it computes
    about      what it computes, for people
    """

    name: str
    kernel: int
    arguments: tuple[Place, ...]
    outputs: tuple[str, ...]
    about: str


def failed_call(status: int) -> tuple[int, int]:
    """The number of the call that failed, from 0, and the status of its kernel."""
    return (status >> _STATUS_BITS) - 1, status & ((1 << _STATUS_BITS) - 1)


def driver_text(
    calls: Sequence[Call],
    about: str,
    flush: bool = False,
    entry: str = ENTRY,
    kernels: Sequence[str] = (),
) -> str:
    """The text of the function.

    about    a comment for its top
    flush    whether numbers below the normal range count as 0 meanwhile
    kernels  the names of the kernels, if they stand in front of it; else their addresses are given
    """
    return "\n".join(_lines(calls, about, flush, entry, kernels)) + "\n"


def _lines(
    calls: Sequence[Call], about: str, flush: bool, entry: str, kernels: Sequence[str]
) -> Iterator[str]:
    yield from comment(about)
    yield _HEAD
    if not kernels:
        for count in sorted({len(call.arguments) for call in calls}):
            yield f"typedef int kernel_{count}({', '.join(['void *'] * (count + 1))});"
        yield ""
    yield _NOW
    if flush:
        yield _FLUSH
    run = f"static int {entry}_calls" if flush else f"int {entry}"
    params = "char **io, char *arena, char **weights, void **kernels, char *scratch, int64_t *times"
    yield f"{run}({params})"
    yield "{"
    yield "    int status;"
    yield "    (void)io, (void)arena, (void)weights, (void)kernels, (void)scratch, (void)status;"
    yield "    if (times) times[0] = now();"
    for number, call in enumerate(calls, 1):
        function = f"((kernel_{len(call.arguments)} *)kernels[{call.kernel}])"
        if kernels:
            function = kernels[call.kernel]
        given = [str(place) for place in call.arguments]
        if kernels:
            given = [f"(void *)({one})" for one in given]
        yield from (f"    {line}" for line in comment(call.about))
        yield f"    STEP({number}, {function}({', '.join([*given, 'scratch'])}))"
    yield "    return 0;"
    yield "}"
    if flush:
        names = "io, arena, weights, kernels, scratch, times"
        yield ""
        yield f"int {entry}({params})"
        yield "{"
        yield "    flush_denormals(1);"
        yield f"    int status = {entry}_calls({names});"
        yield "    flush_denormals(0);"
        yield "    return status;"
        yield "}"
