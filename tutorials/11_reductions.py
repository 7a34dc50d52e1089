# %% [markdown]
# # Reductions: partial results, rounding, and softmax in fewer passes
#
# **You will be able to** make a sum parallel, say what that does to its last bits, check whether an
# operation may be used so at all, and write a softmax that reads its input twice in place of three
# times.
#
# A *reduction* combines many values into one: a sum, a maximum, the position of a maximum. All its
# iterations write the same element. That is why its loop is the hardest one to run in parallel, and
# why one trick, *partial results*, appears under many names in compilers and on GPUs.

# %%
import math

import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## One element, many iterations
#
# A sum of 13 numbers. The first iteration sets the result to 0, the *identity* of addition; then
# each adds one number.

# %%
N = 13


def total(n, reduction=mt.sum):
    """The program of a reduction of n floats."""
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    return mt.lower([A, mt.compute((), lambda: reduction(A[k], axis=k), name="S")], name="total")


program = total(N)
print(program)
try:
    mt.Schedule(program).parallel("k")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R2"

# %% [markdown]
# The refusal is right. `S += A[k]` is three actions: read `S`, add, write `S`. If two iterations
# read before either of them writes, one addition is lost:


# %%
def two_at_once(s, a, b):
    """Two iterations of `s += …` in one of the orders that two threads may take."""
    read_by_one, read_by_other = s, s
    s = read_by_one + a
    return read_by_other + b  # what is written last stays


assert two_at_once(10, 1, 2) == 12  # and not 13

# %% [markdown]
# ## Partial results
#
# Brackets help: `(a + b) + (c + d)` has two sums that do not wait for each other. *rfactor* writes
# such brackets. It turns one loop of a reduction into an axis of a new array: each of its
# iterations has an element of its own, and a second, short reduction combines these. First the
# loop is cut into the parts that we want:

# %%
s = mt.Schedule(program)
k_0, k_1 = s.split("k", [4, None])
s.rfactor(k_0)
s.parallel(k_0)  # now accepted
s.show()

# %%
picture("11_rfactor", s)

# %% [markdown]
# **Predict first.** 13 is prime, so four parts of 4 do not fit. Which part is short? If there were
# only 5 numbers, what would the last of four parts add up, and what is its result?
#
# The same as plain Python. A *guard* skips what lies behind the end. A part sets its partial result
# to the identity even if it has no number at all:


# %%
def sum_in_parts(a, parts):
    """The two stages, by hand, in float32."""
    size = -(-len(a) // parts)  # rounded up
    partial = np.empty(parts, "float32")
    for k_0 in range(parts):
        partial[k_0] = 0  # outside of the guard
        for k_1 in range(size):
            if k_0 * size + k_1 < len(a):
                partial[k_0] += a[k_0 * size + k_1]
    result = np.float32(0)
    for k_0 in range(parts):
        result += partial[k_0]
    return result


a = np.arange(N, dtype="float32") ** 2
assert mt.interpret(s, a) == sum_in_parts(a, 4) == 650

five = mt.Schedule(total(5))
five.rfactor(five.split("k", [4, None])[0])
assert mt.interpret(five, a[:5]) == sum_in_parts(a[:5], 4) == 30  # the last part is empty: 0

# %% [markdown]
# Which numbers belong together is our choice. `split("k", [4, None])` gives each part a run of
# neighbours: right for threads. `split("k", [None, 4])` deals the numbers out in turn: part 0 has
# numbers 0, 4, 8, … That is right for the *lanes* of a vector, since lanes load neighbours at the
# same time. `vectorize` on the loop of a reduction does this rfactor by itself.

# %%
s = mt.Schedule(program)
k_0, k_1 = s.split("k", [None, 4])
s.vectorize(k_1)
s.show()
assert s.get_blocks() == ("S_rf", "S") and mt.interpret(s, a) == 650

# %% [markdown]
# ## Rounding
#
# Integers can be added in any order. Floats cannot: each addition is rounded to 24 bits, so
# brackets change the last bits. This is why no compiler does it unasked, and why it is a step of a
# schedule here. Which order is the most exact?

# %%
big, one = np.float32(2**24), np.float32(1)
assert (big + one) + one == big  # each 1 is rounded away
assert big + (one + one) == big + 2


def chain(values):
    """The sum from left to right."""
    result = np.float32(0)
    for value in values:
        result = result + value
    return result


def in_lanes(values, lanes):
    """The sum of the sums of every so many numbers."""
    return chain([chain(values[lane::lanes]) for lane in range(lanes)])


def in_pairs(values):
    """The sum of the sums of both halves, and so on down."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return in_pairs(values[:middle]) + in_pairs(values[middle:])


tenths = np.full(4096, 0.1, "float32")
exact = math.fsum(map(float, tenths))  # rounded once, at the end
errors = {
    "chain": abs(chain(tenths) - exact),
    "8 lanes": abs(in_lanes(tenths, 8) - exact),
    "64 lanes": abs(in_lanes(tenths, 64) - exact),
    "pairs": abs(in_pairs(tenths) - exact),
}
print({name: float(f"{error:.2g}") for name, error in errors.items()})
assert errors["chain"] > errors["8 lanes"] > errors["64 lanes"] > errors["pairs"]

# %% [markdown]
# The rounding error of an addition grows with the sum that is rounded. In a chain of n numbers the
# worst error grows like n; with L lanes like n / L + L; in pairs like log n. So the parallel sum is
# *another* sum, and for many numbers of one sign a more exact one. A test that wants the bits of
# the chain would fail: compare with a tolerance, or with small integers, as here above.
#
# ## Which operations may be regrouped
#
# rfactor needs an operation that is *associative* and *commutative* (up to rounding), with an
# identity for parts that are empty. Sum has 0, product 1, maximum -inf. A mean is not associative:
# the mean of two means is not the mean of all. The remedy is a larger *state*: (sum, count) can be
# combined, and the division comes at the end.
#
# The position of a maximum needs the state (position, value). Where two values are equal, the
# smaller position must win, else the order of the parts would show:

# %%
s = mt.Schedule(total(N, mt.argmax))
(loop,) = s.get_loops("S")
k_0, _ = s.split(loop, [4, None])
s.rfactor(k_0)
s.parallel(k_0)
equal = np.array([3, 7, 1, 7, 7, 0, 2, 7, 5, 1, 1, 1, 1], "float32")
assert mt.interpret(s, equal) == np.argmax(equal) == 1

# %% [markdown]
# `mt.comm_reducer(combine, identity)` declares an operation of your own, on tuples too. It tries
# the laws on small numbers, and refuses what breaks them:

# %%
mean = mt.comm_reducer(lambda x, y: (x + y) / 2, 0.0, name="mean")
try:
    total(N, mean)
except mt.ArgumentError as error:
    print(error)
    assert "identity" in str(error)

# %% [markdown]
# ## Softmax
#
# The softmax of a row is `exp(x) / sum of exp(x)`. In float32 `exp(89)` is infinite already. So the
# maximum is subtracted first, which changes nothing of the result and bounds the exponentials by 1.
# That takes a pass for the maximum, one for the sum, one for the division:

# %%
ROWS, COLUMNS = 2, 16
softmax = mt.Schedule(mt.lower(mt.workloads.softmax(ROWS, COLUMNS), name="softmax"))
softmax.compute_inline("exps")  # computed again, in place of an array of them
softmax.show()
x = np.linspace(-50, 100, ROWS * COLUMNS, dtype="float32").reshape(ROWS, COLUMNS)
y, counts = mt.interpret(softmax, x, counts=True)
assert np.isfinite(y).all() and np.allclose(y.sum(axis=1), 1)
assert counts.loads["A"] == 3 * ROWS * COLUMNS

# %% [markdown]
# For rows that no cache holds, each pass is a trip to memory. The sum must wait for the maximum; or
# must it? Suppose that we have seen some values, with their maximum `m` and
# `s` = the sum of `exp(x - m)`. Now a larger value comes, and the maximum becomes `m'`. Every term
# should have been `exp(x - m')`, and
#
#     exp(x - m')  =  exp(x - m) * exp(m - m')
#
# with a factor that is the same for all. So *one* multiplication repairs the whole sum. This is the
# *online* softmax:


# %%
def online(values):
    """The maximum, and the sum of exp(x - maximum), in one pass."""
    m, s = -math.inf, 0.0
    for value in values:
        larger = max(m, value)
        s = s * math.exp(m - larger) + math.exp(value - larger)
        m = larger
    return m, s


m, s = online(x[0].tolist())
assert m == x[0].max() and math.isclose(s, np.exp(x[0].astype("float64") - m).sum())

# %% [markdown]
# The pair (m, s) is a state like the ones above, and two states of two parts can be combined in the
# same way: both are brought to the larger maximum. So the online softmax *is* a reduction, with the
# identity (-inf, 0), and everything that holds for reductions holds for it. One value `x` is the
# state (x, 1).


# %%
def larger_and_sum(x, y):
    """Two states as one."""
    m = mt.maximum(x[0], y[0])
    return m, x[1] * mt.exp(x[0] - m) + y[1] * mt.exp(y[0] - m)


state = mt.comm_reducer(larger_and_sum, (-math.inf, 0.0), name="online")

A = mt.placeholder((ROWS, COLUMNS), "float32", name="A")
k = mt.reduce_axis(COLUMNS, name="k")
one = mt.const(1.0, "float32")
M, Z = mt.compute((ROWS,), lambda r: state((A[r, k], one), axis=k), name="state")
Y = mt.compute((ROWS, COLUMNS), lambda i, j: mt.exp(A[i, j] - M[i]) / Z[i], name="Y")
in_two = mt.Schedule(mt.lower([A, Y], name="online_softmax"))
in_two.show()
found, counts = mt.interpret(in_two, x, counts=True)
assert np.allclose(found, y, rtol=1e-5)
assert counts.loads["A"] == 2 * ROWS * COLUMNS  # three passes became two

# %% [markdown]
# And it runs in parts, as any reduction does. This is how one long row is shared by many threads,
# and how attention is computed block by block without ever holding a whole row of scores.

# %%
block = in_two.get_blocks()[0]
k_0, _ = in_two.split(in_two.get_loops(block)[-1], [4, None])
in_two.rfactor(k_0)
in_two.parallel(k_0)
in_two.show()
assert np.allclose(mt.interpret(in_two, x), y, rtol=1e-5)

# %% [markdown]
# One gap is left. A masked element is -inf. If a row begins with one, both states have the maximum
# -inf, and `-inf - -inf` is NaN. Task 4 asks for a version that stands this.

# %%
masked = x.copy()
masked[:, 0] = -np.inf
assert np.isnan(mt.interpret(in_two, masked)).all()

# %% [markdown]
# ## Pitfalls
#
# - `parallel` on the loop after `rfactor`, not before: before, the loop still drives the reduction.
# - More parts than numbers is allowed. Empty parts hold the identity, so it must be a true one: 0
#   is no identity of a maximum of negative numbers.
# - A reduction of several values has one block; its first tensor gives it its name.
# - Two orders give two results in floats. Do not test equality of bits across schedules.
# - Many lanes are more exact, and faster; but the second stage is a loop too. Keep it short.
#
# ## Tasks
#
# Write these functions in `11_tasks.py`, and let `minitensor course check 11` judge them.
#
# 1. `sum_in_lanes(values, lanes)`: `values` is a float32 array. Return, bit for bit, what the
#    program `total` gives after `split("k", [None, lanes])` and `vectorize` on the inner loop.
# 2. `in_parts(s, parts)`: `s` is a schedule of a sum, a maximum or an argmax of `A`, of some
#    length. Have `parts` iterations of a parallel loop share the work, each at most n / `parts`
#    elements, rounded up.
# 3. `merge(one, other)`: combine two states (maximum, sum of exp(x - maximum)) of two parts of a
#    row in Python's floats. A part may be empty: (-inf, 0.0).
# 4. `log_sum_exp(n)`: return the program of `L = log(sum of exp(A[k]))` for an input `A` of `n`
#    float32 numbers, and an output `L` of shape `()`. It loads each element once and keeps a few
#    numbers only. Values may be large, and some or all may be -inf.
#
# ## Sources
#
# - P. Suriana, A. Adams, S. Kamil, "Parallel associative reductions in Halide", CGO 2017: rfactor.
# - N. J. Higham, "The accuracy of floating point summation", SIAM Journal on Scientific Computing
#   14(4), 1993: error bounds for the orders of a sum.
# - M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867, 2018,
#   sections 2 and 3: three passes, two passes, and the state as a parallel reduction.
# - T. Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness",
#   NeurIPS 2022, section 3: the same state, carried through a product of matrices.
