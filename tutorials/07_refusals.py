# %% [markdown]
# # Why a step is refused
#
# **You will be able to** say of a loop whether its iterations may run at the same time or in
# another order, read every part of a refusal, and choose the step that leads on.
#
# A schedule that is accepted gives the results of the definition. So the system refuses what could
# change them. Behind nearly all of its rules stands one question about a loop:
#
# > *Can two iterations touch the same element, one of them writing?*
#
# If not, their order does not matter. If they can, it may.

# %%
import numpy as np

import minitensor as mt
from minitensor import ir, pictures
from minitensor_course import picture

# %% [markdown]
# ## Dependences, by hand
#
# Four bodies of a loop, on one list `w`. We run each of them forwards and backwards.


# %%
def flow(w, i):
    """Read what the iteration before has written."""
    w[i + 1] = w[i] + 1


def anti(w, i):
    """Read what the iteration after will write over."""
    w[i] = w[i + 1]


def output(w, i):
    """Write where another iteration writes too."""
    w[i // 2] = i


def free(w, i):
    """Touch one element, which no other iteration touches."""
    w[i] = 2 * w[i]


def after(body, order):
    """The list after the iterations in some order."""
    w = [0, 10, 20, 30, 40, 50, 60, 70, 80]
    for i in order:
        body(w, i)
    return w


# %% [markdown]
# **Predict first.** For which of the four is the list the same, forwards and backwards?

# %%
for body in (flow, anti, output, free):
    same = after(body, range(8)) == after(body, reversed(range(8)))
    print(f"{body.__name__:6} {'the same' if same else 'another result'}")
    assert same == (body is free)

# %% [markdown]
# Two iterations that touch one element, at least one of them writing, *depend* on each other. There
# are three kinds, by who comes first:
#
# | dependence | first | later | broken if they change places |
# |---|---|---|---|
# | flow (read after write) | writes | reads | an old value is read |
# | anti (write after read) | reads | writes | a new value is read too early |
# | output (write after write) | writes | writes | the wrong value stays |
#
# (Two reads are no dependence.) For us the kinds differ little: each of them is a yes to the
# question. Such a pair is called a *conflict*. A definition in minitensor writes each element once,
# so flow comes from sums and scans; anti and output come from arrays that tiles use again.
#
# ## The same question, asked of a step
#
# `C[i]` is the sum of row `i` of `A`. The loop `i` gives each iteration an element of its own. All
# iterations of `k` add to the same element.

# %%
A = mt.placeholder((4, 8), "float32", name="A")
k = mt.reduce_axis(8, name="k")
C = mt.compute((4,), lambda i: mt.sum(A[i, k], axis=k), name="C")
sums = mt.lower([A, C], name="sums")
mt.Schedule(sums).parallel("i")  # accepted

try:
    mt.Schedule(sums).parallel("k")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R2" and error.choices == ("i",)
    assert 'rfactor("k", axis=-1) first' in error.advice

# %% [markdown]
# Read a refusal from the top:
#
# 1. the step, and the **rule** that it breaks (`error.rule`), with the fact that breaks it in
#    brackets; each rule is shown once, broken, in docs/rules.md;
# 2. the **loop nest**, with arrows at the culprits;
# 3. `legal:` the arguments that would be accepted (`error.choices`), where they can be listed;
# 4. `instead:` a step that leads on (`error.advice`).
#
# The schedule is as it was before. In a notebook, or with `error.show(html="refused.html")`, a
# conflict can be seen: two iterations, W for one that writes, and the element that both touch.

# %%
picture("07_sum", pictures.conflict_picture(sums, "k"))

# %% [markdown]
# What would go wrong? Two threads that add to one element both load it, both add, both store. One
# of the two additions is lost:


# %%
def two_threads(a, b):
    """The sum of two numbers by two threads, in an unlucky order."""
    memory = [0]
    seen_by_one = memory[0]
    seen_by_two = memory[0]  # before thread one has stored
    memory[0] = seen_by_one + a
    memory[0] = seen_by_two + b
    return memory[0]


assert two_threads(3, 4) == 4

# %% [markdown]
# The interpreter finds such *races* when a program runs. Here the loop is made parallel by force:
# we write the two loops anew, around the body of the old ones, which no step of a schedule does.

# %%
racing = ir.For("k", 8, ir.loop_sites(sums)["k"].loop.body, ir.LoopKind.PARALLEL)
forced = sums.replace(body=ir.For("i", 4, racing))
try:
    mt.interpret(forced, np.ones((4, 8), "float32"))
except mt.ExecutionError as error:
    print(error)
    assert error.kind == "race"

# %% [markdown]
# A run finds the conflicts of that run. A step has to be right for all of them, and so it asks for
# a *proof*: from the indices it shows that different iterations have different elements, by the
# digits of the last lesson. Four rules stand for the question, in `parallel`, `vectorize` and
# `bind` alike: R2, the loop drives a reduction (a sum, a maximum); R3, it drives an ordered update
# (a scan, below); R4, any other conflict. K1 asks again after each later step. (R1, R5, R6 are
# about loops that are decided already, and about parallel loops inside each other.)
#
# ## Order: when may two loops change places?
#
# A *scan*: each row of `W` is the row before plus a row of `X`. The loop `t` has to go forwards;
# the columns are independent of each other.

# %%
X = mt.placeholder((3, 4), "float32", name="X")
W = mt.update((3, 4), lambda W, t, i: X[t, i] + mt.if_then_else(t > 0, W[t - 1, i], 0.0), name="W")
scan = mt.Schedule(mt.lower([X, W], name="scan"))
try:
    scan.parallel("t")
except mt.ScheduleError as error:
    assert error.rule == "R3" and error.choices == ("i",)
scan.reorder("i", "t")  # accepted: column by column, each from top to bottom
scan.parallel("i")
scan.show()

# %% [markdown]
# Now each element takes its value from the *right* neighbour in the row before. Iteration (t, i)
# reads what (t-1, i+1) wrote. With `i` outside, column 0 comes first and reads column 1 before it
# is there.


# %%
def shifted(x, order, step):
    """W by hand, its elements in some order; NaN stands for what is not written yet."""
    w = np.full((3, 5), np.nan)
    w[:, 4 if step > 0 else -1] = 0
    for t, i in order:
        w[t, i] = x[t, i] + (w[t - 1, i + step] if t > 0 else 0)
    return w[:, :4]


rows = [(t, i) for t in range(3) for i in range(4)]
columns = [(t, i) for i in range(4) for t in range(3)]
x = np.arange(12.0).reshape(3, 4)
assert not np.isnan(shifted(x, rows, +1)).any()
assert np.isnan(shifted(x, columns, +1)).any()


def neighbour(step):
    """The program of it; elements without such a neighbour are copied."""

    def value(W, t, i):
        there = mt.logical_and(t > 0, i < 3 if step > 0 else i > 0)
        return X[t, i] + mt.if_then_else(there, W[t - 1, i + step], 0.0)

    return mt.lower([X, mt.update((3, 4), value, name="W")], name="neighbour")


right = neighbour(+1)
try:
    mt.Schedule(right).reorder("i", "t")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R3"
kept = mt.interpret(right, x.astype("float32"))
assert np.array_equal(kept, shifted(x, rows, +1))

# %%
picture("07_order", pictures.conflict_picture(right, "i"))

# %% [markdown]
# The picture shows two iterations: the one that writes `W[0, 1]` is further right, and the one that
# reads it is lower and further left. If rows come first, the writer is first; if columns come
# first, the reader is.
#
# **Predict first.** And if the value comes from the *left* neighbour in the row before? Is the
# order column by column right? Does the system accept it?

# %%
assert np.array_equal(shifted(x, rows, -1), shifted(x, columns, -1))  # it is right
try:
    mt.Schedule(neighbour(-1)).reorder("i", "t")
except mt.ScheduleError as error:
    assert error.rule == "R3"  # and it is refused

# %% [markdown]
# The rule of `reorder` asks whether both loops have conflicts, and not in which direction. It is
# too careful here.
#
# ## Too careful, or wrong
#
# A step may err in two ways. If it refuses what is legal, a schedule is slower than it could be. If
# it accepts what is not, results are wrong, on some machine, sometimes. The first can be seen and
# worked around; the second may never be found. So every proof may end in "unknown", and unknown is
# treated as no. Another example: tiles of 8, each of them cut into 3 pieces of 3. The ninth
# element of a tile is the first of the next one, and only a guard keeps them apart.

# %%
B = mt.placeholder((20,), "float32", name="B")
D = mt.compute((20,), lambda i: B[i] * 2.0, name="D")
s = mt.Schedule(mt.lower([B, D], name="double"))
i_0, i_1 = s.split("i", [None, 8])
odd = s.copy()
odd.split(i_1, [3, 3])
try:
    odd.parallel(i_0)
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R4"

touched = [
    i_0 * 8 + i_1_0 * 3 + i_1_1
    for i_0 in range(3)
    for i_1_0 in range(3)
    for i_1_1 in range(3)
    if i_0 * 8 + i_1_0 * 3 + i_1_1 < 20 and i_1_0 * 3 + i_1_1 < 8
]
assert len(touched) == len(set(touched)) == 20  # no element is touched twice

s.split(i_1, [2, 4])  # factors that fit need no guard, and the proof succeeds
s.parallel(i_0)

# %% [markdown]
# ## Private arrays: a conflict that goes away
#
# The blur of the first lesson: each tile of `Q` fills an array `P`. By hand, one `p` for all tiles
# would be written by each of them: output and anti dependences. With a `p` of its own for each tile
# there are none. (In `blur_in_tiles` of lesson 1, `np.empty` stood inside the loop.)
#
# This is how minitensor reads a nest. A temporary array *lives* in the innermost loop around all
# its accesses, and each iteration of that loop has an instance of its own. The text does not show
# it: `P = empty(…)` stands at the top. `ir.lifetimes` tells.

# %%
A = mt.placeholder((10,), "float32", name="A")
P = mt.compute((10,), lambda x: A[x] * 2.0, name="P")
Q = mt.compute((8,), lambda y: P[y] + P[y + 1] + P[y + 2], name="Q")
blur = mt.lower([A, Q], name="blur")

s = mt.Schedule(blur)
y_0, y_1 = s.split("y", [2, 4])
s.compute_at("P", y_0)
s.show()
print(ir.lifetimes(s.program))
assert ir.lifetimes(s.program)["P"] == "y_0"
s.parallel(y_0)  # accepted, though both tiles write P[4] and P[5]: each has its own

# %% [markdown]
# To see that it is the lifetime which makes the difference, take it away. On a GPU, memory of scope
# `"shared"` is one for all threads of a group. Moved there, `P` is one array for both iterations,
# and the loop that was legal is no longer. This step would break it, so rule K1 refuses *this
# step*. (`bind` gives the iterations of a loop to the threads of such a group.)

# %%
s = mt.Schedule(blur)
y_0, y_1 = s.split("y", [2, 4])
s.compute_at("P", y_0)
s.bind(y_0, "threadIdx.x")
try:
    s.set_scope("P", "shared")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "K1"

# %% [markdown]
# ## What to do instead
#
# A refusal says that *this* loop, *now*, has conflicts. Change the nest so that it has none:
#
# | the conflict | a way out |
# |---|---|
# | all iterations add to one element | `rfactor`: each has one of its own, added up at the end |
# | a scan | `reorder`: a loop that it does not carry goes outside |
# | tiles share a temporary | `compute_at` under the loop: the temporary becomes private |
# | a guard alone keeps tiles apart | factors that fit, or `tail="cut"` |
# | an inner loop is parallel already | `fuse` both first, or `serial` |
# | a name that is gone (A1) | what the step returned |
#
# As an example, the advice that the sum gave:

# %%
s = mt.Schedule(sums)
partial = s.rfactor("k", axis=-1)
s.parallel("k")
s.show()

a = np.arange(32, dtype="float32").reshape(4, 8)
found, counts = mt.interpret(s, a, counts=True)
assert np.array_equal(found, a.sum(axis=1))
assert counts.stores[partial] == 32  # legal, and of no use: as many partial sums as elements

# %% [markdown]
# ## Pitfalls
#
# - "It works when I try it" is no proof. A race may show itself once in a thousand runs.
# - Every loop whose variable stands in the binding of a reduction axis drives the reduction, after
#   a split both parts, after a fuse with a spatial loop the fused one.
# - `vectorize("k")` of a sum is accepted: it is an `rfactor` first. Sums are then added in another
#   order, which changes the last bits of floats.
# - `choices` lists what this step accepts now. Another step before it may make more legal.
# - The loop that `legal:` names may be legal and useless, such as one of a single iteration.
#
# ## Tasks
#
# Write these functions in `07_tasks.py`, and let `minitensor course check 07` judge them.
#
# 1. `conflicts(reads, writes, extent)`: a loop `for i in range(extent)` reads and writes elements
#    `c*i + d` of one array, for each pair `(c, d)` in the two lists. Find two iterations that
#    conflict, or return None.
# 2. `legal_loops(s)`: the loops of a schedule that `parallel` would accept now, without trying it.
#    Look at the iters of the blocks under each loop, and at what they are bound to.
# 3. `outermost(s)`: `s` is a schedule of a scan. Make the outermost loop parallel, with at least
#    two iterations. The loop that is outermost now may be the wrong one.
# 4. `in_parts(s, parts)`: `s` is a schedule of one sum or maximum over a vector, of any length. Let
#    `parts` iterations of a parallel loop read its elements, each of them once.
#
# ## Sources
#
# - A. J. Bernstein, "Analysis of programs for parallel processing", IEEE Transactions on Electronic
#   Computers EC-15, 1966: the question above, as three conditions.
# - R. Allen, K. Kennedy, *Optimizing compilers for modern architectures*, 2001, chapters 2 and 3:
#   dependences, their directions, tests for them; chapter 5: interchange of loops.
# - S. Feng et al., "TensorIR: an abstraction for automatic tensorized program optimization",
#   ASPLOS 2023, section 3: blocks, and the proof by digits of their bindings.
