# %% [markdown]
# # First kernel: from an expression to machine code
#
# **You will be able to** define a computation, read its loop nest, move one stage into another,
# read a refusal, and build and run the result.
#
# A *kernel* is a function on arrays that has to be fast; inside it are loops in loops, a *loop
# nest*. minitensor separates *what* is computed from *how*. The what is an expression; the how is
# a schedule, a list of steps that rewrite loops. This lesson takes one small program through all
# of it. Every line runs: in a notebook, with `python 01_first_kernel.py`, or pasted into a prompt.
# (A notebook shows the pictures; of a script they are in the folder `pictures`.)

# %%
import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## What to compute
#
# A blur in two *stages*: each element of `P` is twice an element of `A`, and each element of `Q`
# is the sum of three neighbours of `P`. `mt.placeholder` is an input. `mt.compute` takes a shape
# and a function of an index, which says what one element is; nothing is computed yet. `mt.lower`
# makes the program of it. It takes the arguments of the kernel in call order. `P` is none of them,
# so it becomes a temporary array.

# %%
N = 32
A = mt.placeholder((N + 2,), "float32", name="A")
P = mt.compute((N + 2,), lambda x: A[x] * 2.0, name="P")
Q = mt.compute((N,), lambda y: P[y] + P[y + 1] + P[y + 2], name="Q")

program = mt.lower([A, Q], name="blur")
print(program)

# %% [markdown]
# Two loops, one after the other: all of `P`, then all of `Q`. Each loop contains a *block*, the
# unit that schedules move around; `P` and `Q` are the names of the blocks, `x` and `y` those of
# the loops.
#
# The same as plain Python:


# %%
def blur(a):
    """The loops of the program, by hand."""
    p, q = np.empty(N + 2, "float32"), np.empty(N, "float32")
    for x in range(N + 2):
        p[x] = a[x] * 2
    for y in range(N):
        q[y] = p[y] + p[y + 1] + p[y + 2]
    return q


# %% [markdown]
# ## What it means
#
# The *interpreter* runs any program, slowly and with every check on. It is the definition of what a
# program means, and it counts: element loads and element stores of each array.
#
# **Predict first.** `Q` has 32 elements, and each reads three elements of `P`. How many loads of
# `A` will there be? And of `P`?

# %%
a = np.arange(N + 2, dtype="float32")
q, counts = mt.interpret(program, a, counts=True)
assert np.array_equal(q, blur(a))
print("loads of A:", counts.loads["A"], " loads of P:", counts.loads["P"])
assert counts.loads["A"] == 34  # each element once, for P
assert counts.loads["P"] == 3 * 32

# %% [markdown]
# ## How to compute it
#
# All of `P` is written to memory before any of it is read. For 32 elements that is harmless; for
# 32 million it means a trip to memory and back. So cut `Q` into tiles of 8 elements, and compute of
# `P` only what one tile needs, right before it: 8 elements and 2 more, the *halo*.

# %%
s = mt.Schedule(program)
(y,) = s.get_loops("Q")  # the loops around block Q
y_0, y_1 = s.split(y, [None, 8])  # None: as many tiles as it takes
s.compute_at("P", y_0)
s.show()

# %%
picture("01_tiles", s)

# %% [markdown]
# `split` cuts a loop into two, and `compute_at` moves the loop of `P` into a loop. `P` still has 34
# elements here; the last step, to machine code, keeps the 10 that a tile needs. As plain Python,
# with an array `p` of 10 elements that each tile fills anew:


# %%
def blur_in_tiles(a):
    """The loops of the schedule, by hand."""
    q = np.empty(N, "float32")
    for y_0 in range(4):
        p = np.empty(10, "float32")
        for x in range(10):
            p[x] = a[8 * y_0 + x] * 2
        for y_1 in range(8):
            q[8 * y_0 + y_1] = p[y_1] + p[y_1 + 1] + p[y_1 + 2]
    return q


assert np.array_equal(blur_in_tiles(a), q)

# %% [markdown]
# The price: neighbouring tiles both compute the halo between them. The interpreter says how much.

# %%
_, counts = mt.interpret(s, a, counts=True)
print("stores to P:", counts.stores["P"], "in place of", N + 2)
assert counts.stores["P"] == 4 * 10

# %% [markdown]
# ## A step that would be wrong is refused
#
# `compute_inline` dissolves a block into its readers. `Q` is the result of the program and has no
# reader, so it cannot be dissolved. A refusal names the rule and shows the place, and the schedule
# stays as it was.

# %%
try:
    s.compute_inline("Q")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R2"

# %% [markdown]
# ## Machine code
#
# Tiles do not depend on each other, for each has its own piece of `P`. So they can run in parallel,
# on several *threads*, each of which uses a core of the processor; and the elements of a tile in
# the lanes of *vector instructions*, which treat several numbers at once. A step takes the name of
# a loop, or what another step returned; `compute_at` returns the new loops of `P`. The *trace*
# lists the steps. `mt.build` writes C, a language near the machine, and has it compiled; where
# there is no C compiler, the interpreter stands in. You need not read the C yet: lesson 5 does.

# %%
s = mt.Schedule(program)
y_0, y_1 = s.split("y", [None, 8])
(p,) = s.compute_at("P", y_0)
s.parallel(y_0)
s.vectorize(y_1)
s.vectorize(p)
print(s.trace.as_python())

try:
    kernel = mt.build(s)
    print(kernel.source)
except mt.CompileError as error:
    print(error)
    kernel = mt.build(s, target="interpreter")
assert np.array_equal(kernel(a), q)

# %% [markdown]
# ## Pitfalls
#
# - `mt.lower([A, P, Q])` makes `P` an argument of the kernel, which can then neither shrink nor be
#   dissolved: the caller wants it whole.
# - A loop that was split is gone: `y` is no name any more, `y_0` and `y_1` are. Keep what a step
#   returns.
# - `s.split(y, [None, 8])` reads from outside to inside: tiles, then 8 elements in each.
#   `[8, None]` makes 8 tiles.
#
# ## Tasks
#
# Write these functions in `01_tasks.py`, and let `minitensor course check 01` judge them.
#
# 1. `define(n)`: return the program of a *sharpen*: `R[i] = 3 * A[i + 1] - A[i] - A[i + 2]` for `n`
#    elements, with an input `A` of `n + 2` elements of float32 and the output `R`.
# 2. `recompute(s)`: `s` is a schedule of a blur as above, of some other size and number of
#    neighbours. Change it so that no array `P` exists at all.
# 3. `tiles(s, size)`: of the same program, compute `P` in pieces, so that each element of `P` that
#    a tile of `size` elements needs is computed once in the tile.
#
# ## Sources
#
# - J. Ragan-Kelley et al., "Halide: a language and compiler for optimizing parallelism, locality,
#   and recomputation in image processing pipelines", PLDI 2013, sections 2 and 3: the blur, and
#   schedules as what trades these three.
# - T. Chen et al., "TVM: an automated end-to-end optimizing compiler for deep learning", OSDI 2018,
#   section 4.1: tensor expressions and schedules.
