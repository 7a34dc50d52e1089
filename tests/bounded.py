"""Schedules that try to make too much of something, and how long each takes to build.

    python -m tests.bounded [name ...]

prints, for each, the seconds for its steps, for generating and for compiling (every one compiled
anew, in a process of its own), the bytes and statements of the text, and what came of it: a kernel,
or the error that says which bound was met. The exit status says whether all were through in 20 s.
"""

import os
import subprocess
import sys
import tempfile
import time

import minitensor as mt
from minitensor.codegen import generate
from minitensor.runtime import TIME_LIMIT, find_toolchain, load

TARGET = mt.Target("c", num_cores=2, vector_bits=512)
GRACE = 2.0
"""Seconds that a build may take beyond the limit of the compiler."""
CASES = {}


def case(build):
    """Register a function that makes a schedule, or is refused."""
    CASES[build.__name__] = build
    return build


def stages(count, shape, value):
    """Tensors that are each computed of the one before, element by element."""
    tensors = [mt.placeholder(shape, name="A")]
    for n in range(count):
        before = tensors[-1]
        tensors.append(mt.compute(shape, lambda *i, t=before: value(t[i], n), name=f"C{n}"))
    return mt.Schedule(mt.lower([tensors[0], tensors[-1]]))


def over(value, times, step):
    """`value` after some steps: step(value, number)."""
    for number in range(times):
        value = step(value, number)
    return value


# ---- unrolling


@case
def a_hundred_unrolled_loops():
    s = stages(100, (1024,), lambda v, n: v * 2 + 1)
    for block in s.get_blocks():
        s.unroll(s.get_loops(block)[0])
    return s


@case
def unrolled_loops_of_functions():
    s = stages(40, (8, 1000), lambda v, n: v * 2 + mt.exp(v))
    for block in s.get_blocks():
        s.unroll(s.get_loops(block)[1])
    return s


@case
def unrolled_vectors():
    s = stages(4, (1000, 16), lambda v, n: v * 2 + 1)
    for block in s.get_blocks():
        i, j = s.get_loops(block)
        s.vectorize(j)
        s.unroll(i)
    return s


@case
def unrolled_lanes():
    """Vectors whose elements are collected one by one."""
    A, index = mt.placeholder((1000, 16), name="A"), mt.placeholder((16,), "int32", name="I")
    place = lambda j: mt.minimum(mt.maximum(index[j], 0), 15)
    C = mt.compute((1000, 16), lambda i, j: A[i, place(j)] * 2 + A[i, (j * j) % 16], name="C")
    s = mt.Schedule(mt.lower([A, index, C]))
    i, j = s.get_loops("C")
    s.vectorize(j)
    s.unroll(i)
    return s


@case
def an_unrolled_loop_of_long_expressions():
    s = stages(1, (1024,), lambda v, n: over(v, 60, lambda x, k: x * v + k))
    s.unroll("i0")
    return s


@case
def an_unrolled_loop_of_very_long_expressions():
    s = stages(1, (1024,), lambda v, n: over(v, 900, lambda x, k: x * 2 + k))
    s.unroll("i0")
    return s


@case
def an_unrolled_tile_with_guards():
    s = stages(1, (1000, 1000), lambda v, n: v * 2)
    i_0, i_1 = s.split("i0", [None, 24])
    j_0, j_1 = s.split("i1", [None, 20])
    s.reorder(i_0, j_0, i_1, j_1)
    s.unroll(i_1)
    s.unroll(j_1)
    return s


@case
def many_vectors_in_unrolled_loops():
    s = stages(100, (120, 136), lambda v, n: mt.exp(v))
    for block in s.get_blocks():
        i, j = s.get_loops(block)
        s.vectorize(j)
        s.unroll(s.split(i, [None, 8])[1])
    return s


# ---- guards, which cut loops


def guarded(axes, extent=5, factor=3):
    s = stages(1, (extent,) * axes, lambda v, n: v * 2)
    pairs = [s.split(loop, [None, factor]) for loop in s.get_loops("C0")]
    return s, pairs


@case
def eight_guarded_axes():
    return guarded(8)[0]


@case
def sixteen_guarded_axes():
    return guarded(16)[0]


@case
def guarded_axes_in_parallel():
    s, pairs = guarded(6, extent=7)
    s.reorder(*[outer for outer, _ in pairs], *[inner for _, inner in pairs])
    s.parallel(pairs[0][0])
    s.vectorize(pairs[-1][1])
    return s


@case
def padding_along_twelve_axes():
    A = mt.placeholder((4,) * 12, name="A")

    def padded(*index):
        inside = [c for x in index for c in (x >= 1, x < 5)]
        condition = over(inside[0], len(inside) - 1, lambda c, k: mt.logical_and(c, inside[k + 1]))
        return mt.if_then_else(condition, A[tuple(x - 1 for x in index)], 0.0)

    s = mt.Schedule(mt.lower([A, mt.compute((6,) * 12, padded, name="P")]))
    s.vectorize(s.get_loops("P")[-1])
    return s


@case
def a_loop_split_over_and_over():
    s = stages(1, (1000,), lambda v, n: v * 2)
    loop = "i0"
    for _ in range(20):
        loop, _ = s.split(loop, [None, 3])
    return s


@case
def sixteen_loops_of_two_iterations():
    s = stages(1, (1 << 16,), lambda v, n: v * 2)
    s.split("i0", [2] * 16)
    return s


# ---- inlining


def doubling(count):
    return stages(count, (64,), lambda v, n: v + v * 2)


def until_refused(s, steps):
    """The schedule after some steps, those left out that are refused."""
    for step, argument in steps:
        try:
            step(argument)
        except mt.ScheduleError:
            continue
    return s


@case
def doublings_inlined():
    s = doubling(30)
    return until_refused(s, [(s.compute_inline, f"C{n}") for n in range(29)])


@case
def doublings_inlined_from_the_end():
    s = doubling(30)
    return until_refused(s, [(s.compute_inline, f"C{n}") for n in reversed(range(29))])


@case
def doublings_inlined_backwards():
    s = doubling(30)
    return until_refused(s, [(s.reverse_compute_inline, f"C{n}") for n in range(1, 30)])


@case
def a_large_expression_inlined_into_another():
    s = stages(2, (64,), lambda v, n: over(v, 12, lambda x, k: x + x * 2))
    s.compute_inline("C0")
    return s


@case
def a_large_expression_inlined_into_a_hundred():
    A = mt.placeholder((64,), name="A")
    B = mt.compute((64,), lambda i: over(A[i], 11, lambda x, k: x + x * 2), name="B")
    readers = [mt.compute((64,), lambda i, n=n: B[i] + n, name=f"C{n}") for n in range(100)]
    s = mt.Schedule(mt.lower([A, *readers]))
    s.compute_inline("B")
    return s


# ---- large programs


@case
def an_expression_of_twenty_thousand_operations():
    s = stages(1, (1024,), lambda v, n: over(v, 13, lambda x, k: x + x * 2))
    s.vectorize("i0")
    return s


@case
def five_hundred_stages():
    return stages(500, (64,), lambda v, n: v * 2 + 1)


@case
def five_hundred_stages_of_functions():
    return stages(500, (64,), lambda v, n: mt.exp(v) + mt.tanh(v))


@case
def two_thousand_stages():
    return stages(2000, (64,), lambda v, n: v * 2 + 1)


@case
def a_hundred_stages_each_inside_the_next():
    A = mt.placeholder((64,), name="A")
    tensors = [A]
    for n in range(100):
        before = tensors[-1]
        near = lambda i, t=before: t[mt.maximum(i - 1, 0)] + t[i]
        tensors.append(mt.compute((64,), near, name=f"C{n}"))
    s = mt.Schedule(mt.lower([A, tensors[-1]]))
    return until_refused(
        s,
        [
            (lambda n: s.compute_at(f"C{n}", s.get_loops(f"C{n + 1}")[-1]), n)
            for n in range(99)[::-1]
        ],
    )


@case
def five_hundred_inputs():
    tensors = [mt.placeholder((64,), name=f"A{n}") for n in range(500)]
    total = lambda i: over(tensors[0][i], 499, lambda v, n: v + tensors[n + 1][i])
    return mt.Schedule(mt.lower([*tensors, mt.compute((64,), total, name="C")]))


# ---- long traces


@case
def a_thousand_splits_and_fusions():
    s = stages(1, (64,), lambda v, n: v * 2)
    loop = "i0"
    for _ in range(500):
        loop = s.fuse(*s.split(loop, [None, 4]))
    return s


@case
def loops_of_a_reduction_turned():
    A, k = mt.placeholder((8, 4096), name="A"), mt.reduce_axis(4096, name="k")
    C = mt.compute((8,), lambda i: mt.sum(A[i, k], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    loop = s.get_loops("C")[1]
    for n in range(40):
        outer, inner = s.split(loop, [None, (7, 2, 5)[n % 3]])
        s.reorder(inner, outer)
        loop = s.fuse(inner, outer)
    return s


@case
def a_buffer_laid_out_anew_over_and_over():
    s = stages(2, (64,), lambda v, n: v * 2)
    for n in range(20):
        factor = (3, 5, 7)[n % 3]
        rows = -(-s.program.buffers["C0"].shape[0] // factor)
        s.transform_layout("C0", lambda i: (i // factor, i % factor))
        s.transform_layout("C0", lambda i, j: (j * rows + i,))
    return s


@case
def a_tile_of_the_most_divisors():
    A = mt.placeholder((963_761_198_400,), "int8", name="A")
    s = mt.Schedule(mt.lower([A, mt.compute(A.shape, lambda i: A[i], name="C")]), seed=0)
    s.split("i", s.sample_perfect_tile("i", 16, max_innermost_factor=1 << 40))
    return s


# ---- the command


def main(names):
    """Print a line for each case; whether all were through in time."""
    print(f"{'schedule':44}{'steps':>8}{'text':>8}{'compile':>9}{'bytes':>11}{'stmts':>8}")
    in_time = True
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "MINITENSOR_CACHE_DIR": os.path.join(folder, "cache")}
            command = [sys.executable, "-m", "tests.bounded", "--alone", name]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
        print(done.stdout.rstrip() or done.stderr.rstrip(), flush=True)
        in_time &= done.returncode == 0
    return in_time


def alone(name):
    """Build one case in this process, print its line, and say whether it was through in time."""
    toolchain = find_toolchain()
    size, seconds, outcome = "", [], "a kernel"
    started = last = time.monotonic()

    def lap():
        nonlocal last
        now = time.monotonic()
        seconds.append(now - last)
        last = now

    try:
        s = CASES[name]()
        lap()
        emitted = generate(s.program, TARGET, s.trace.as_python())
        size = f"{len(emitted.source):11,}{emitted.source.count(';'):8,}"
        lap()
        load(emitted, toolchain, time_limit=max(1.0, TIME_LIMIT - seconds[1]))
    except mt.MinitensorError as error:
        outcome = f"{type(error).__name__}: {error.message[:150]}"
    lap()
    took = "".join(f"{s:8.2f}" for s in seconds + [0.0] * (3 - len(seconds)))
    print(f"{name.replace('_', ' '):44}{took} {size:19}  {outcome}")
    return time.monotonic() - started < TIME_LIMIT + GRACE


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        sys.exit(not alone(sys.argv[2]))
    sys.exit(not main(sys.argv[1:]))
