# %% [markdown]
# # Blocks: spatial, reduce and ordered iters
#
# **You will be able to** say what a block is, predict which of its loops may change places or run
# in parallel, write a reducer with its identity, and define what must run in order.
#
# A schedule moves loops. To know which moves are right, it has to know what a loop does: does each
# iteration make an element of its own, do all add to the same one, or does one need the result of
# the one before? In minitensor that is not guessed from the code. It is written in the block.

# %%
import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor_course import picture

# %% [markdown]
# ## A block
#
# The sums of the rows of a matrix. `k` is the axis that is summed over, a *reduction axis*.

# %%
M, K = 4, 10
A = mt.placeholder((M, K), "float32", name="A")
k = mt.reduce_axis(K, name="k")
R = mt.compute((M,), lambda i: mt.sum(A[i, k], axis=k), name="R")
rows = mt.lower([A, R], name="rows")
print(rows)

# %% [markdown]
# The loops contain one block, `R`. It has variables of its own, its *iters*. An iter has an extent,
# a *kind*, and a *binding*: the expression of the loops from which it takes its value.


# %%
def iters_of(program, name):
    """The iters of a block as text."""
    iters = program.blocks[name].iters
    return [f"{it.var} < {it.extent} {it.kind.value} = {ir.print_expr(it.binding)}" for it in iters]


print(iters_of(rows, "R"))
block = rows.blocks["R"]
print("init:", ir.print_stmt(block.init), "body:", ir.print_stmt(block.body))
assert iters_of(rows, "R") == ["i < 4 spatial = i", "k < 10 reduce = k"]

# %% [markdown]
# The product of the extents is the *domain* of the block: 4 x 10 pairs (i, k). One run of the body
# for one pair is an *instance*. The body says what an instance reads and writes: it reads `A[i, k]`
# and combines it into `R[i]`. The *init* gives `R[i]` its first value, in the instances where each
# iter of kind reduce is 0. Only the bindings speak of loops. A loop in the binding of an iter
# *drives* this iter.
#
# ## A split rewrites bindings, and nothing else
#
# **Predict first.** The loop over `k` is split into pieces of 4. What changes in the block?

# %%
s = mt.Schedule(rows)
s.split("k", [None, 4])
s.show()
assert iters_of(s.program, "R") == ["i < 4 spatial = i", "k < 10 reduce = k_0*4 + k_1"]
assert s.program.blocks["R"].body == block.body and s.program.blocks["R"].init == block.init

# %%
picture("04_rows", s)

# %% [markdown]
# Only the binding of `k`. And there is a *guard*, a condition in front of the block: 3 pieces of 4
# are 12, but the domain ends at 10. The body and the init are the same trees as before, compared by
# structure. So a step of a schedule need not understand the body. It must only see to it that each
# instance still runs, in an order that is allowed. The kind of an iter says what is allowed.
#
# ## Three kinds
#
# | kind | each iteration ... | order | how often |
# |---|---|---|---|
# | spatial | writes an element of its own | any, also at the same time | once, or again |
# | reduce | is combined into the same element, by a reducer | any, one at a time | exactly once |
# | ordered | may read what one before it wrote | as given | exactly once |
#
# `mt.update` defines a tensor whose elements are computed one after the other, and may read those
# that were computed before. Here are running sums, a *scan*:

# %%
S = mt.update((M, K), lambda S, i, k: mt.if_then_else(k > 0, S[i, k - 1], 0.0) + A[i, k], name="S")
scan = mt.lower([A, S], name="scan")
print(scan)
print(iters_of(scan, "S"))

# %% [markdown]
# Both programs have loops `i` and `k`. **Predict first.** Six questions: in which of the two may
# `i` run in parallel, in which `k`, and in which may the loops change places?


# %%
def accepts(program, step):
    """True if a schedule of the program takes the step."""
    try:
        step(mt.Schedule(program))
    except mt.ScheduleError as error:
        print(error, end="\n\n")
        return False
    return True


assert accepts(rows, lambda s: s.parallel("i")) and accepts(scan, lambda s: s.parallel("i"))
assert not accepts(rows, lambda s: s.parallel("k"))  # two threads would add to one element
assert not accepts(scan, lambda s: s.parallel("k"))  # one would read what is not yet written
assert accepts(rows, lambda s: s.reorder("k", "i")) and accepts(scan, lambda s: s.reorder("k", "i"))

# %% [markdown]
# The loops may change places in both: each row is still summed from left to right. What the scan
# does not allow is another order of the iterations of `k`. In the sum each order is right. Reverse
# the loops over `k`, in plain Python:


# %%
def rows_backwards(a):
    """The sums, each from right to left."""
    r = np.zeros(M, "float32")
    for i in range(M):
        for k in reversed(range(K)):
            r[i] += a[i, k]
    return r


def scan_backwards(a):
    """The running sums, each from right to left: wrong."""
    s = np.zeros((M, K), "float32")
    for i in range(M):
        for k in reversed(range(K)):
            s[i, k] = (s[i, k - 1] if k > 0 else 0) + a[i, k]
    return s


a = np.random.default_rng(4).integers(-4, 5, (M, K)).astype("float32")
assert np.array_equal(rows_backwards(a), mt.interpret(rows, a))
assert np.array_equal(mt.interpret(scan, a), np.cumsum(a, axis=1))
assert not np.array_equal(scan_backwards(a), mt.interpret(scan, a))

# %% [markdown]
# A schedule reverses no loop, but a split and a reorder also visit `k` in another order: 0, 4, 8,
# 1, 5, ... The sum takes it, the scan refuses it and shows the two places.


# %%
def strided(s):
    """Visit k in steps of 4."""
    k_0, k_1 = s.split("k", [None, 4])
    s.reorder(k_1, k_0)


assert accepts(rows, strided)
assert not accepts(scan, strided)

# %% [markdown]
# How is the kind found? For a reduction it is given by the definition. For `mt.update` there is one
# rule. An index of the tensor is spatial if each read of the tensor itself has exactly this index
# at this position, as `i` in `S[i, k - 1]`. All other indices are ordered. So is each
# reduction axis that an `mt.update` has: over it, one element is updated again and again.
#
# ## The reducer, and its identity
#
# "Any order" needs laws. A *reducer* combines two values into one. It must be
#
# - *associative*: (x + y) + z = x + (y + z), so that parts can be combined first, and
# - *commutative*: x + y = y + x, so that the parts can come in any order.
#
# The *identity* is a value that changes nothing: 0 for a sum, 1 for a product, minus infinity for a
# maximum. It is the init. Why does the init have to be the identity? For one sum, any first value
# could be added at the end. But a schedule may make several sums of one. `rfactor` gives each piece
# of `k` its own sum, a *partial result*, so that the pieces can run in parallel:

# %%
s = mt.Schedule(rows)
k_0, k_1 = s.split("k", [None, 4])
s.reorder(k_0, "i", k_1)
s.rfactor(k_0)
s.parallel(k_0)
s.show()
assert np.array_equal(mt.interpret(s, a), a.sum(1))

# %%
picture("04_partial", s)

# %% [markdown]
# **Predict first.** Each row has 3 partial sums. How many stores does the program make, to `R` and
# to the partial sums? And if the init were 1 in place of 0, how much too large would the result be?

# %%
_, before = mt.interpret(rows, a, counts=True)
_, after = mt.interpret(s, a, counts=True)
print(before.stores, after.stores)
assert before.stores["R"] == M * (1 + K)  # the init, and each combination
assert after.stores["R"] == M * (1 + 3) and after.stores["R_rf"] == M * (3 + K)


def in_parts(row, init):
    """A sum of three partial sums, each of which begins with init, and so does the last."""
    total = init
    for k_0 in range(3):
        part = init
        for k_1 in range(4):
            if 4 * k_0 + k_1 < K:
                part += row[4 * k_0 + k_1]
        total += part
    return total


assert in_parts(a[0], 0) == a[0].sum() and in_parts(a[0], 1) == a[0].sum() + 4

# %% [markdown]
# A reducer of your own is made by `mt.comm_reducer(combine, identity)`. It tries the laws on small
# numbers, and refuses what breaks one. That is a test and no proof: the last one here gets through.

# %%
X = mt.placeholder((K,), "int32", name="X")


def is_accepted(name, combine, identity):
    """True if a reducer can be used."""
    reducer = mt.comm_reducer(combine, identity, name)
    try:
        mt.compute((), lambda: reducer(X[k], axis=k))
    except mt.ArgumentError as error:
        print(error)
        return False
    return True


assert is_accepted("greatest", mt.maximum, np.iinfo("int32").min)
assert not is_accepted("sum from 1", lambda x, y: x + y, 1)
assert not is_accepted("difference", lambda x, y: x - y, 0)
assert not is_accepted("last", lambda x, y: y, 0)


def joined(x, y):
    """A combination that is accepted, and should not be."""
    return x + y + (x * y) // 4


assert is_accepted("joined", joined, 0)
found = [
    (x, y, z)
    for x, y, z in np.ndindex(9, 9, 9)
    if joined(joined(x, y), z) != joined(x, joined(y, z))
]
print("joined is not associative on", found[0])

# %% [markdown]
# ## Several values at once
#
# The place of the greatest element is a reduction as well, but not of single numbers: a place alone
# does not say how great the element is. So the reducer combines *pairs* of a place and a value.
#
# **Predict first.** "Keep the pair with the greater value; of equal ones keep x." Which law breaks?


# %%
def keep_x(x, y):
    """The pair of the greater value; of equal values the first argument."""
    return x if x[1] >= y[1] else y


def keep_left(x, y):
    """The pair of the greater value; of equal values that of the smaller place."""
    return x if x[1] > y[1] or (x[1] == y[1] and x[0] < y[0]) else y


assert keep_x((0, 7), (3, 7)) != keep_x((3, 7), (0, 7))  # not commutative
assert keep_left((0, 7), (3, 7)) == keep_left((3, 7), (0, 7)) == (0, 7)

# %% [markdown]
# The second one looks at the places too, so the result does not depend on the order of the
# arguments. `mt.argmax` is this reducer. The program has two buffers, which are combined together:

# %%
P = mt.compute((), lambda: mt.argmax(X[k], axis=k), name="P")
place = mt.lower([X, P], name="place")
print(place)
x = np.array([1, 5, 2, 5, 0, 3, 5, 1, 1, 4], "int32")
best = (np.iinfo("int64").max, np.iinfo("int32").min)  # the identity
for n in reversed(range(K)):
    best = keep_left(best, (n, x[n]))
assert best[0] == mt.interpret(place, x) == np.argmax(x) == 1

# %% [markdown]
# Your own reducer of pairs gets pairs of symbolic values, and returns a pair. It cannot use `if`,
# `and`, `or`, for a symbolic value is neither true nor false yet: take `mt.select`,
# `mt.logical_and` and `mt.logical_or`. `mt.compute` then gives two tensors. This one finds both
# ends of the values:

# %%
limits = np.iinfo("int32")
ends = mt.comm_reducer(
    lambda x, y: (mt.select(x[0] < y[0], x[0], y[0]), mt.maximum(x[1], y[1])),
    (limits.max, limits.min),  # the identity
)
L, H = mt.compute((), lambda: ends((X[k], X[k]), axis=k), name=("L", "H"))
low, high = mt.interpret(mt.lower([X, L, H]), np.arange(3, 3 + K, dtype="int32"))
assert (low, high) == (3, 12)

# %% [markdown]
# ## Pitfalls
#
# - A sum of floats is associative only up to rounding. minitensor lets a schedule reorder it, and
#   compares results with a tolerance. Sums of small integers are exact in any order: test with
#   them.
# - 0 is no identity of a maximum: it is wrong as soon as all values are negative.
# - `mt.update` for something that is a reduction costs all freedom of order. Use `mt.sum` and its
#   like where the laws hold.
# - An iter belongs to the block, a loop to the program. After a split there are two loops, but
#   still one iter.
#
# ## Tasks
#
# Write these functions in `04_tasks.py`, and let `minitensor course check 04` judge them. (First,
# if you like, `minitensor course quiz 04` asks small questions.)
#
# 1. `kinds(iters, target, own, combines)`: return the kind of each iter of a block, from what the
#    block reads and writes.
# 2. `broken_laws(combine, identity, values)`: return the set of the laws that a reducer breaks on
#    the given values, of `"associative"`, `"commutative"` and `"identity"`.
# 3. `define_running_max(n)`: return the program of a running maximum: `R[i]` is the greatest of
#    `A[0]` to `A[i]`, for n elements of float32.
# 4. `define_argmin_rows(m, n)`: return the program of the place `P[i]` and the value `V[i]` of the
#    least element of each row of `A`; of equal ones the first. Do without `mt.argmin`, `mt.argmax`.
#
# ## Sources
#
# - Blocks with kinds of iters: S. Feng et al., "TensorIR: an abstraction for automatic tensorized
#   program optimization", ASPLOS 2023, section 3.
# - Reducers: J. Backus, "Can programming be liberated from the von Neumann style?", Communications
#   of the ACM 21(8), 1978, has reductions with their identities, as operations on programs.
# - Scans: G. E. Blelloch, "Prefix sums and their applications", CMU-CS-90-190, 1990: what is
#   ordered here can be parallel after all if the operator is associative, by another algorithm.
# - Partial results: P. Suriana, A. Adams, S. Kamil, "Parallel associative reductions in Halide",
#   CGO 2017: the step rfactor.
