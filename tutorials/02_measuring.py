# %% [markdown]
# # Measuring, and the roofline of a machine
#
# **You will be able to** take a time that can be trusted, decide whether one kernel is faster than
# another, count the operations and the bytes of a program, and say how fast a machine can run it at
# the most.
#
# "It takes 3 milliseconds" says little. Would it be 3 again? Is 3 faster than the 3.1 of yesterday?
# Is 3 good? A time means something only *beside another number*: another repeat, another kernel,
# the limit of the machine. This lesson goes through these three, in this order.

# %%
import numpy as np

import minitensor as mt
from minitensor.pictures import Axis, Chart
from minitensor_course import picture

# %% [markdown]
# ## Beside another repeat
#
# A real machine would give other numbers to each reader. So we first measure on a machine that we
# make up, and that is the same everywhere. Its time is in microseconds (µs). The first call takes
# 5,000 µs, for code is loaded and memory is touched for the first time; each later one takes 30 µs.
# Its clock ticks once in 1,000 µs. (Clocks of today are better, but no clock is exact.)


# %%
class Machine:
    """A made-up machine with one kernel on it, and a clock of coarse ticks."""

    def __init__(self):
        self.now = 0  # microseconds
        self.warm = False

    def call(self):
        """Run the kernel."""
        self.now += 30 if self.warm else 5000
        self.warm = True

    def clock(self):
        """The time, as the clock shows it: whole ticks of 1,000 µs."""
        return self.now // 1000 * 1000


def once(machine):
    """The time of one call: how not to measure."""
    start = machine.clock()
    machine.call()
    return machine.clock() - start


machine = Machine()
first, second = once(machine), once(machine)
print(first, "µs, then", second, "µs")
assert (first, second) == (5000, 0)  # and right is 30

# %% [markdown]
# Both are wrong. The cure has two parts:
#
# - **Warm up**: call the kernel once before the clock starts.
# - **Repeat**: one result is the time of *many* calls, divided by their number. The number grows
#   until a result takes so long that the error of the clock is small beside it.


# %%
def timed(machine, repeat, least):
    """`repeat` results in µs a call; each takes at least `least` µs."""
    machine.call()  # warm-up
    calls = 1
    results = []
    while len(results) < repeat:
        start = machine.clock()
        for _ in range(calls):
            machine.call()
        spent = machine.clock() - start
        if spent < least:  # too short: more calls, and start again
            calls *= 2
            results.clear()
        else:
            results.append(spent / calls)
    return results


print(timed(Machine(), repeat=3, least=1))
careful = timed(Machine(), repeat=3, least=200_000)
print(careful)
assert all(abs(result - 30) < 0.3 for result in careful)  # within 1 %

# %% [markdown]
# `kernel.time(a, …, repeat=…, min_repeat_ms=…)` works like `timed`, with a good clock.
#
# Now other programs come into play: now and then the system runs one of them in the middle of a
# repeat. Here are nine results of one kernel that takes about 10 µs.
#
# **Predict first.** Which of the three is nearest to 10: the mean, the largest, or the median (the
# middle one of the sorted results)?

# %%
results = [10.1, 10.0, 10.2, 31.0, 10.1, 9.9, 10.0, 24.5, 10.1]
mean, median = sum(results) / len(results), sorted(results)[len(results) // 2]
print(f"mean {mean:.1f}, median {median}, min {min(results)}, max {max(results)}")
assert median == np.median(results) == 10.1
assert mean > 13

# %% [markdown]
# Two interruptions move the mean by 40 %, and the median not at all. As long as less than half of
# the results are disturbed, the median is near an undisturbed one: so quote the median. The minimum
# is not disturbed by interruptions either. But it answers another question (how fast can it be
# when all goes well?), and one result that is too *short* spoils it: some processors raise their
# clock for a moment.
#
# The *spread* says how far a median can be trusted. If the results themselves differ by 5 %, then
# two medians that differ by 2 % are equal.
#
# ## Beside another kernel
#
# Kernel `a` takes 10 µs, and `b` takes 8. But the machine is not equally fast all the time. After
# five rounds a laptop gets warm, and all takes twice as long. Let us measure all of `a` first, then
# all of `b`:

# %%
slow = [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]  # of each round
a_first = [10 * factor for factor in slow[:5]]
b_second = [8 * factor for factor in slow[5:]]
print("a:", np.median(a_first), " b:", np.median(b_second))
assert np.median(b_second) > np.median(a_first)  # b looks slower, which is wrong

# %% [markdown]
# So the two take *turns*, and we form the ratio *within a round*: whatever slows the machine down
# slows down both. One interruption (the 90) spoils one ratio, and the median of the ratios stays.

# %%
a = [10 * factor for factor in slow]
b = [8 * factor for factor in slow]
b[1] = 90
ratios = [x / y for x, y in zip(a, b)]
print([round(ratio, 2) for ratio in ratios])
assert np.median(ratios) == 1.25  # b is 1.25 times as fast as a

# %% [markdown]
# ## Beside the limit of the machine
#
# A kernel does two things: it computes, and it moves data between the memory and the processor. A
# machine has a limit for each:
#
# - the **peak**: operations on numbers in a second. A GFLOP/s is 10⁹ of them; a multiplication
#   followed by an addition counts as two operations.
# - the **bandwidth**: bytes in a second, from and to memory. A GB/s is 10⁹ of them.
#
# So we count both for a program. Here are two stages, as in lesson 1: each element of `B` is twice
# an element of `A`, and `C` adds 1.

# %%
N = 64
A = mt.placeholder((N,), "float32", name="A")
B = mt.compute((N,), lambda i: A[i] * 2.0, name="B")
C = mt.compute((N,), lambda j: B[j] + 1.0, name="C")
apart = mt.lower([A, C], name="chain")
print(apart)

together = mt.Schedule(apart)
together.compute_inline("B")
together.show()

# %% [markdown]
# The same loops as plain Python:


# %%
def chain_apart(a):
    """Two loops, with an array between them."""
    b, c = np.empty(N, "float32"), np.empty(N, "float32")
    for i in range(N):
        b[i] = a[i] * 2
    for j in range(N):
        c[j] = b[j] + 1
    return c


def chain_together(a):
    """One loop."""
    c = np.empty(N, "float32")
    for j in range(N):
        c[j] = a[j] * 2 + 1
    return c


x = np.arange(N, dtype="float32")
c, far = mt.interpret(apart, x, counts=True)
assert np.array_equal(c, chain_apart(x)) and np.array_equal(c, chain_together(x))

# %% [markdown]
# Both do 2 operations for an element. But they do not move the same number of bytes. Think of
# arrays that are far larger than all caches (small, fast memories in the processor): then each load
# and each store of an element is 4 bytes that travel. The interpreter counts them.

# %%
_, near = mt.interpret(together, x, counts=True)


def moved(counts, size=4):
    """Bytes of all loads and stores, with so many bytes an element."""
    return size * (sum(counts.loads.values()) + sum(counts.stores.values()))


print("bytes:", moved(far), "and", moved(near))
assert moved(far) == 4 * 4 * N and moved(near) == 4 * 2 * N

# %% [markdown]
# The **arithmetic intensity** is the number of operations for each byte that is moved: here 2 / 16
# and 2 / 8. The schedule did not change what is computed, and doubled the intensity.
#
# Now the limit. With `peak` operations and `bandwidth` bytes a second, a kernel of intensity `i`
# can do no more than `peak` operations, and no more than `i * bandwidth`: it gets only `bandwidth`
# bytes in a second, and does `i` operations with each. The smaller one of the two is the
# **roofline** (Williams, Waterman and Patterson, 2009):
#
#     attainable = min(peak, intensity * bandwidth)
#
# Our made-up machine does 64 GFLOP/s, and moves 16 GB/s.

# %%
PEAK, BANDWIDTH = 64, 16  # GFLOP/s, GB/s


def roof(intensity):
    """The most GFLOP/s of a kernel on the made-up machine."""
    return min(PEAK, intensity * BANDWIDTH)


apart_intensity, together_intensity = 2 * N / moved(far), 2 * N / moved(near)
assert (apart_intensity, together_intensity) == (1 / 8, 1 / 4)
assert (roof(apart_intensity), roof(together_intensity)) == (2, 4)

# %% [markdown]
# Of 64 GFLOP/s, the chain can get 4! It is **memory bound**: no vector instruction and no thread
# helps, only fewer bytes do. From an intensity of 64 / 16 = 4 on, the *ridge* of the roof, a kernel
# is **compute bound**.
#
# A matrix product of `n` rows and columns does `2 * n**3` operations on `3 * n**2` elements. If
# each element travels once, its intensity grows with `n`.
#
# **Predict first.** Take float32, 4 bytes. From which `n` on can the product reach the peak?


# %%
def product_intensity(n):
    """Operations a byte of a product of float32, if each element is moved once."""
    return 2 * n**3 / (4 * 3 * n**2)


for n in (6, 12, 24, 48):
    print(n, product_intensity(n), "operations a byte: at most", roof(product_intensity(n)))
assert roof(product_intensity(23)) < PEAK == roof(product_intensity(24))

# %% [markdown]
# The library knows these figures of each program: a line of `mt.explain` has them. (The target says
# which machine is meant: 2 threads, vectors of 256 bits.) It takes the bytes of the *arguments*,
# each once: "at the most", for no schedule can move less.

# %%
product = mt.lower(mt.workloads.matmul(m=12, n=12, k=12), name="product")
target = mt.Target("c", num_cores=2, vector_bits=256)
line = next(text for text in mt.explain(product, target).splitlines() if " operations on " in text)
print(line)
assert "3,456 operations" in line and "2 operations a byte" in line
assert product_intensity(12) == 2

# %% [markdown]
# And so the chart is drawn, with both axes in logarithms: left of the ridge the roof rises, right
# of it the roof is flat. Each program may be anywhere *under* the roof at its intensity.

# %%
chart = Chart(
    Axis(1 / 64, 64, "operations per byte", logarithm=True),
    Axis(1 / 4, 128, "GFLOP/s", logarithm=True),
)
chart.line([(1 / 64, roof(1 / 64)), (PEAK / BANDWIDTH, PEAK), (64, PEAK)], "purple")
chart.note("peak: 64 GFLOP/s", 64, PEAK, (-4, -8), "end")
chart.note("slope: 16 GB/s", 3 / 8, roof(3 / 8), (8, 14))
marks = {
    "chain, apart": apart_intensity,
    "chain, together": together_intensity,
    "product, n = 12": product_intensity(12),
    "product, n = 48": product_intensity(48),
}
for text, intensity in marks.items():
    by, side = ((-10, -4), "end") if intensity < PEAK / BANDWIDTH else ((8, 18), "start")
    chart.line([(intensity, 1 / 4), (intensity, roof(intensity))], "grey", dash=True)
    chart.points([(intensity, roof(intensity))], "red", sign="best")
    chart.note(text, intensity, roof(intensity), by, side)
words = [f"{text}: {i:g} operations a byte, {roof(i):g} GFLOP/s" for text, i in marks.items()]
picture("02_roofline", chart.picture("roofline", "A roofline", "\n".join(words)))

# %% [markdown]
# ## On your machine
#
# `minitensor doctor --measure` measures the peak and the bandwidth of your machine; `minitensor
# bench` and the results of a search stand beside them. Here is a real time. It is printed and not
# asserted: it is another one on each machine, and in each minute.

# %%
try:
    kernel = mt.build(together)
except mt.CompileError as error:
    print(error)
    kernel = mt.build(together, target="interpreter")
assert np.array_equal(kernel(x), c)  # first right, then fast
timing = kernel.time(x, repeat=5, min_repeat_ms=2)
print(timing)
print(f"{2 * N / timing.median / 1e9:.3f} GFLOP/s, spread {timing.std / timing.median:.1%}")
assert len(timing.results) == 5 and timing.min <= timing.median <= timing.max

# %% [markdown]
# ## Pitfalls
#
# - 64 elements are in the cache, not in memory. The bandwidth of a cache is higher, so a small
#   kernel may lie *above* the memory's roof; what it costs to call a kernel may keep it far below.
#   Take arrays that are as large as those of your application.
# - The roof is a limit, not a forecast. A slow kernel does not become fast because its roof is
#   high; but one near its roof need not be worked on.
# - `mt.explain` counts the arguments only. A temporary that is too large for the caches travels
#   too: both versions of the chain have the same line there.
# - If a multiply-add is counted as one operation, the rate is halved, and so must be the peak.
# - Check that the results are right before you take a time. A wrong kernel can be very fast.
#
# ## Tasks
#
# Write these functions in `02_tasks.py`, and let `minitensor course check 02` judge them.
#
# 1. `intensity(m, n, k, dtype)`: the operations per byte of a product of `m` by `k` and `k` by `n`
#    elements, if each element of its three arrays is moved once. `dtype` is the name of a numpy
#    dtype: `"float16"`, `"float32"` or `"float64"`.
# 2. `attainable(operations, moved, peak, bandwidth)`: return `(rate, bound)` of a kernel: the most
#    operations a second by the roofline, and `"memory"` or `"compute"`. `moved` is in bytes, `peak`
#    in operations a second, `bandwidth` in bytes a second. A kernel that moves nothing is compute
#    bound.
# 3. `summary(results)`: one time for a list of results. Up to four of ten are disturbed: they are
#    far too long, and some are too short. The answer has to lie between the shortest and the
#    longest of the undisturbed ones. The list is not sorted, and may have a single result.
# 4. `compare(a, b)`: `a[i]` and `b[i]` are the times of two kernels in round `i`. The machine is
#    not equally fast in all rounds, and in up to a fifth of them one of the two was interrupted.
#    Return `"faster"` if `b` takes at least 10 % less time than `a` does, `"slower"` if it takes at
#    least 10 % more, and `"undecided"` if they differ by less than 3 %, or if there are fewer than
#    5 rounds. (You are not asked about what lies between.)
#
# ## Sources
#
# - S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for
#   multicore architectures", Communications of the ACM 52(4), 2009: "The Roofline model", and its
#   section on ceilings.
# - D. A. Patterson, J. L. Hennessy, *Computer Organization and Design*: the roofline, in the
#   chapter on parallel processors.
# - J. D. McCalpin, "Memory bandwidth and machine balance in current high performance computers",
#   IEEE TCCA newsletter, 1995: the STREAM benchmark, which measures a bandwidth.
# - T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems", SC 2015: rules
#   for reporting times.
