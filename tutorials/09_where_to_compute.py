# %% [markdown]
# # Where to compute: work, memory, independence
#
# **You will be able to** choose the place where a stage is computed, say what the place costs in
# work and in memory before you run anything, and see when the work grows without bound.
#
# A *producer* is a block that writes a buffer; a *consumer* is a block that reads it. The producer
# can be computed in one piece before the consumer, or in small pieces inside the loops of the
# consumer, or again at every read. The result is the same. The price is not: it is paid in work, in
# memory, or in iterations that must wait for each other. No place is cheap in all three.

# %%
import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor.pictures import footprints
from minitensor_course import picture

# %% [markdown]
# ## A window in two axes
#
# `P` is a square, `Q` a sum of 3 x 3 neighbours of `P`. A computation that reads a fixed window
# around each element is a *stencil*. `dy` and `dx` are the loops of the sum.

# %%
H, W = 10, 12


def windows(height, width):
    """The program of sums of 3 x 3 squares."""
    A = mt.placeholder((height + 2, width + 2), "float32", name="A")
    P = mt.compute((height + 2, width + 2), lambda y, x: A[y, x] * A[y, x], name="P")
    dy, dx = mt.reduce_axis(3, name="dy"), mt.reduce_axis(3, name="dx")
    Q = mt.compute((height, width), lambda i, j: mt.sum(P[i + dy, j + dx], axis=[dy, dx]), name="Q")
    return mt.lower([A, Q], name="windows")


program = windows(H, W)
print(program)

# %% [markdown]
# Two numbers describe a place. The *work* is how many elements of `P` are computed, counted by the
# interpreter: each takes two loads of `A`. The *memory* is how many bytes of `P` are alive at a
# time. A temporary lives in the innermost loop that contains all its accesses, and every iteration
# starts with an empty one. So its memory is the part that one iteration of that loop touches, its
# *footprint*.


# %%
def price(s, arrays):
    """The elements of P that are computed, and the bytes of P that are alive at a time."""
    _, counts = mt.interpret(s, *arrays, counts=True)
    work = counts.loads["A"] // 2
    if "P" not in s.get_blocks():
        return work, 0
    home = ir.lifetimes(s.program)["P"]  # a loop, or None for the whole program
    touched = {one.loop.var if one.loop else None: one for one in footprints(s.program, "Q")}
    return work, touched[home].bytes["P"]


a = np.arange((H + 2) * (W + 2), dtype="float32").reshape(H + 2, W + 2) % 7
q = mt.interpret(program, a)

# %% [markdown]
# ## The ladder of places
#
# `compute_at("P", loop)` moves the producer under a loop of the consumer, and shrinks it to the
# region that one iteration of this loop reads. Each loop further inside is a rung down.
#
# **Predict first.** One iteration of `i` computes one row of `Q`. How many rows of `P` does it
# read? So how many elements of `P` are computed in all, if `P` is placed under `i`? And under `j`?

# %%
ladder = {}
for place in ("root", "i", "j", "dx", "inline"):
    s = mt.Schedule(program)
    if place == "inline":
        s.compute_inline("P")
    elif place != "root":
        s.compute_at("P", place)
    assert np.array_equal(mt.interpret(s, a), q)
    ladder[place] = price(s, [a])
    print(f"P at {place:7} {ladder[place][0]:5} computed, {ladder[place][1]:4} bytes alive")

assert ladder == {
    "root": (12 * 14, 672),
    "i": (10 * 3 * 14, 3 * 14 * 4),  # three rows of P for each row of Q
    "j": (10 * 12 * 9, 9 * 4),  # a window for each element
    "dx": (10 * 12 * 9, 4),
    "inline": (10 * 12 * 9, 0),  # the same work, and nothing is stored
}

# %% [markdown]
# Down the ladder the memory shrinks and the work grows. At the top each element is computed once,
# but the buffer may be larger than every cache. At the bottom nothing is kept, and each element is
# computed as often as it is read: nine times.
#
# The rung in the middle as plain Python. Two of the three rows were there a moment ago, in the
# iteration before, and are computed again:


# %%
def at_i(a):
    """The loops with P under i, by hand; and how many elements of P were computed."""
    q, computed = np.zeros((H, W), "float32"), 0
    for i in range(H):
        p = np.empty((3, W + 2), "float32")  # this iteration's own
        for y in range(3):
            for x in range(W + 2):
                p[y, x] = a[i + y, x] * a[i + y, x]
                computed += 1
        for j in range(W):
            for dy in range(3):
                for dx in range(3):
                    q[i, j] += p[dy, j + dx]
    return q, computed


assert np.array_equal(at_i(a)[0], q) and at_i(a)[1] == ladder["i"][0]

# %% [markdown]
# ## Tiles: a rung of your own
#
# Between `i` and `j` there is a large gap. Splitting makes new loops, and so new rungs. A tile of
# `T x T` elements of `Q` needs `(T + 2) x (T + 2)` elements of `P`. The border that does not belong
# to the tile is the *halo*; neighbouring tiles compute it twice.


# %%
def tiled(height, width, tile_i, tile_j):
    """A schedule that computes P for one tile of Q at a time."""
    s = mt.Schedule(windows(height, width))
    i_0, i_1 = s.split("i", [None, tile_i])
    j_0, j_1 = s.split("j", [None, tile_j])
    s.reorder(i_0, j_0, i_1, j_1)
    s.compute_at("P", j_0)
    return s


tiled(16, 16, 4, 4).show()

# %%
picture("09_tiles", tiled(16, 16, 4, 4), "footprint")

# %% [markdown]
# The picture has a row of bars for each loop: the bytes that one of its iterations touches. `P` is
# alive in one iteration of `j_0`, and takes 36 elements of 4 bytes there.
#
# How much work is the halo? An axis of length n has `ceil(n / T)` tiles, and each adds 2:
#
#     computed = (n + 2 * ceil(n / T)) * (m + 2 * ceil(m / T))
#
# The *halo ratio* compares that with the `n * m` elements of the output.

# %%
big = np.arange(18 * 18, dtype="float32").reshape(18, 18) % 5
for tile in (1, 2, 4, 8, 16):
    work, alive = price(tiled(16, 16, tile, tile), [big])
    tiles = -(-16 // tile)  # rounded up
    assert work == (16 + 2 * tiles) ** 2
    assert alive == (tile + 2) ** 2 * 4
    print(f"T = {tile:2}: {work:4} computed, ratio {work / 256:.2f}, {alive:4} bytes alive")

# %% [markdown]
# Large tiles waste little work and need much memory; so take the largest tile that the cache holds.
# The *shape* matters too. Of the same 16 elements, a strip has a longer border than a square:

# %%
square, strip = (price(tiled(16, 16, *tile), [big])[0] for tile in ((4, 4), (1, 16)))
assert square == (16 + 2 * 4) * (16 + 2 * 4) == 576
assert strip == (16 + 2 * 16) * (16 + 2 * 1) == 864

# %% [markdown]
# Sizes need not be multiples of the tile. The last tile is then smaller, and a guard keeps the rest
# out. The formula still holds, since each tile adds its halo, however small it is:

# %%
s = tiled(H, W, 4, 5)
assert np.array_equal(mt.interpret(s, a), q)
assert price(s, [a])[0] == (10 + 2 * 3) * (12 + 2 * 3)

# %% [markdown]
# ## The third price: independence
#
# Is the double work needed? Iteration `i` could keep two rows for iteration `i + 1`. Then each row
# of `P` is computed once, and three rows are alive: no halo, little memory. This is a *sliding
# window*.


# %%
def sliding(a):
    """One pass with the last three rows of P in a ring; and how many elements were computed."""
    q, computed = np.zeros((H, W), "float32"), 0
    ring = np.empty((3, W + 2), "float32")  # lives across all iterations
    for y in range(H + 2):
        for x in range(W + 2):
            ring[y % 3, x] = a[y, x] * a[y, x]
            computed += 1
        if y >= 2:
            for j in range(W):
                q[y - 2, j] = ring[:, j : j + 3].sum()
    return q, computed


assert np.array_equal(sliding(a)[0], q)
assert sliding(a)[1] == ladder["root"][0]  # the work of the top, the memory of i

# %% [markdown]
# What is lost: iteration `y` reads rows that iterations `y - 1` and `y - 2` wrote. They cannot run
# at the same time. Tiles can, because each has its own piece of `P`. Halide names these three:
# *parallelism*, *locality*, and *redundant work*. Each place gives up one of them:
#
# | place | independent iterations | memory | work |
# |---|---|---|---|
# | root | all, in each of two loops | the whole buffer | once |
# | tiles | all tiles | one tile and its halo | the halo again in each tile |
# | sliding window | none along the window | a few rows | once |
#
# In minitensor each iteration has a buffer of its own. So `compute_at` means the second row of the
# table; the third needs loops by hand, as above.

# %%
s = tiled(16, 16, 4, 4)
s.parallel("i_0")  # accepted: no tile reads what another wrote
assert np.array_equal(mt.interpret(s, big), mt.interpret(windows(16, 16), big))

# %% [markdown]
# ## From the other side
#
# `reverse_compute_at` moves the *consumer* under a loop of its producer. It never computes twice:
# each instance of the consumer goes to the iteration that has computed all that it reads. So it is
# right for a step that follows a costly sum, and it is refused where windows overlap, since there
# a row of `Q` belongs to no single row of `P`.

# %%
try:
    mt.Schedule(program).reverse_compute_at("Q", "y")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R5"

# %% [markdown]
# ## Without bound
#
# One stage costs a factor of nine at most. A *chain* of stages multiplies its factors. Here each
# stage adds three neighbours of the stage before, in one axis:


# %%
def chain(n, stages):
    """The schedule of a chain of sums of three neighbours; the last stage is called Q."""
    A = mt.placeholder((n + 2 * stages,), "float32", name="A")
    last = A
    for stage in range(1, stages + 1):
        name = "Q" if stage == stages else f"P{stage}"
        shape = (n + 2 * (stages - stage),)
        last = mt.compute(shape, lambda x, p=last: p[x] + p[x + 1] + p[x + 2], name=name)
    return mt.Schedule(mt.lower([A, last], name="chain"))


for stages in (1, 2, 3, 4, 5):
    s = chain(12, stages)
    for block in s.get_blocks()[:-1]:
        s.compute_inline(block)
    _, counts = mt.interpret(s, np.zeros(12 + 2 * stages, "float32"), counts=True)
    print(stages, "stages, all inlined:", counts.loads["A"], "loads of A")
    assert counts.loads["A"] == 12 * 3**stages

# %% [markdown]
# In tiles the halo grows by 2 for each stage, and does not multiply. With tiles of 6, the first of
# five stages computes 6 + 8 elements for each tile:

# %%
s = chain(12, 5)
outer, _ = s.split(s.get_loops("Q")[0], [None, 6])
for block in reversed(s.get_blocks()[:-1]):  # the nearest to Q first
    s.compute_at(block, outer)
_, counts = mt.interpret(s, np.zeros(22, "float32"), counts=True)
print({name: counts.stores[name] for name in s.get_blocks()})
assert [counts.stores[f"P{k}"] for k in (1, 2, 3, 4)] == [2 * (6 + 2 * h) for h in (4, 3, 2, 1)]

# %% [markdown]
# A sum as producer is worse: its one element costs a whole row. Under the loop over elements, a row
# of m takes m * m loads in place of m. Therefore `compute_inline` refuses a reduction (R1).

# %%
M = 8
A = mt.placeholder((3, M), "float32", name="A")
k = mt.reduce_axis(M, name="k")
S = mt.compute((3,), lambda r: mt.sum(A[r, k], axis=k), name="S")
B = mt.compute((3, M), lambda i, j: A[i, j] - S[i], name="B")
for place, loads in (("i", 3 * M + 3 * M), ("j", 3 * M * M + 3 * M)):
    s = mt.Schedule(mt.lower([A, B], name="centre"))
    s.compute_at("S", place)
    _, counts = mt.interpret(s, np.zeros((3, M), "float32"), counts=True)
    assert counts.loads["A"] == loads

# %% [markdown]
# ## Pitfalls
#
# - The printed program keeps the full shape of `P` after `compute_at`. Code generation shrinks it;
#   `mt.explain(s)` says to how many bytes.
# - Move the consumer-most stage first. A producer can only go where all of its readers are.
# - Split first, then `compute_at`. The loops of the producer are built anew when it moves, so what
#   you did to them before is lost.
# - The region of a tile is a box. A cross of five neighbours computes the corners of its box too.
# - A cheap stage (a scale, a cast) is best inlined: to compute it again costs less than memory.
#
# ## Tasks
#
# Write these functions in `09_tasks.py`, and let `minitensor course check 09` judge them.
#
# 1. `halo_stores(n, m, tile, radius)`: the number of elements of `P` that are computed for `n * m`
#    elements of `Q` in tiles of `tile * tile`, if the window reaches `radius` to each side (here
#    it was 1). Sizes need not be multiples of the tile, and may be huge: write a formula.
# 2. `within(s, loads, size)`: `s` is a schedule of a program as above, of another size, window and
#    type. Keep both bounds: at most `loads` loads of `A`, and at most `size` bytes of temporaries
#    alive at a time.
# 3. `fitting(s, size)`: here `P` and `Q` have one to three axes. Choose the loop of `Q` at which
#    `P` is computed, or leave `P` where it is: at most `size` bytes of temporaries are alive at a
#    time, and no place that keeps this bound computes fewer elements of `P`.
#
# ## Sources
#
# - J. Ragan-Kelley et al., "Halide: a language and compiler for optimizing parallelism, locality,
#   and recomputation in image processing pipelines", PLDI 2013, sections 2 and 3: breadth first,
#   overlapping tiles, and sliding windows, as points of one space.
# - R. T. Mullapudi et al., "Automatically scheduling Halide image processing pipelines", SIGGRAPH
#   2016: a choice of tiles by what a group of stages computes twice, and what it saves in loads.
