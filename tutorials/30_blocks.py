# %% [markdown]
# # Tile languages: a program of blocks
#
# **You will be able to** write a kernel as what one block does with tiles, say what it moves, and
# make the same loops from a definition by a schedule.
#
# There are two ways to write a fast kernel in Python. In a *tile language* (Triton, Pallas, CUDA
# Tile) you write what *one block* does: load tiles, multiply them, store a tile; the system runs
# many blocks. In Halide, TVM and minitensor you write *what* is computed, and a schedule cuts it.
# Both end in the same loops, and this lesson goes from one to the other and back.

# %%
from collections import Counter

import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## A tile language in thirty lines
#
# What one block sees: its `place` in a grid of blocks, `load` and `store`. An array is addressed by
# the numbers of rows and columns; what lies outside of it is loaded as 0 and not stored, which is
# what a *mask* does in Triton. Each element that comes from memory is counted.


# %%
class Block:
    """One block of a launch: its place in the grid, and access to arrays in memory."""

    def __init__(self, place, counts, owners):
        self.place, self.counts, self.owners = place, counts, owners

    def load(self, name, array, rows, columns):
        """The tile of some rows and columns, with zeros outside of the array."""
        mask = (rows < array.shape[0])[:, None] & (columns < array.shape[1])
        tile = np.zeros(mask.shape, array.dtype)
        tile[mask] = array[np.ix_(rows[mask.any(1)], columns[mask.any(0)])].ravel()
        self.counts[name] += int(mask.sum())
        return tile

    def store(self, array, rows, columns, tile):
        """Store a tile; two blocks that store one element are a race."""
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                if row < array.shape[0] and column < array.shape[1]:
                    if self.owners.setdefault((row, column), self.place) != self.place:
                        raise RuntimeError(f"two blocks store element {(int(row), int(column))}")
                    array[row, column] = tile[i, j]


def launch(grid, kernel, *arrays, seed=None):
    """Run a kernel for each block of a grid, in any order; what was loaded, by names."""
    counts, owners = Counter(), {}
    places = list(np.ndindex(*grid))
    if seed is not None:
        np.random.default_rng(seed).shuffle(places)
    for place in places:
        kernel(Block(tuple(map(int, place)), counts, owners), *arrays)
    return counts


# %% [markdown]
# A matrix product in it. Each block has its own tile of `C`, and walks along `k`:

# %%
BM, BN, BK = 4, 8, 4


def product_block(t, a, b, c):
    """The tile of C of one block."""
    i, j = t.place
    rows, columns = i * BM + np.arange(BM), j * BN + np.arange(BN)
    total = np.zeros((BM, BN), "float32")
    for start in range(0, a.shape[1], BK):
        k = start + np.arange(BK)
        total += t.load("A", a, rows, k) @ t.load("B", b, k, columns)
    t.store(c, rows, columns, total)


M, N, K = 10, 17, 9
rng = np.random.default_rng(30)
a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((M, K), (K, N)))
c = np.zeros((M, N), "float32")
grid = (-(-M // BM), -(-N // BN))
counts = launch(grid, product_block, a, b, c)
assert np.array_equal(c, a @ b)

# %% [markdown]
# **Predict first.** The grid is 3 x 3. How often is each element of `A` loaded, and each of `B`? So
# how many elements of `A` (10 x 9) and of `B` (9 x 17) come from memory?

# %%
print(dict(counts))
assert counts == {"A": 3 * M * K, "B": 3 * K * N}

# %% [markdown]
# An element of `A` is loaded by each block of its row of blocks, `ceil(N / BN)` of them; larger
# tiles load less. That is the traffic of lesson 10, seen from one block.
#
# ## Blocks have no order
#
# The system may run blocks in any order, or at once. So a kernel must not depend on it: no block
# reads what another wrote, and no two store the same element. The second is checked above:

# %%
launch(grid, product_block, a, b, c, seed=1)
assert np.array_equal(c, a @ b)


def overlapping(t, a, b, c):
    """A wrong kernel: its tiles overlap by a row."""
    rows, columns = t.place[0] * (BM - 1) + np.arange(BM), np.arange(N)
    t.store(c, rows, columns, t.load("A", a, rows, np.arange(K)) @ b)


try:
    launch((3,), overlapping, a, b, c)
except RuntimeError as error:
    print(error)

# %% [markdown]
# Here a race gives the same number twice, and a test of the results would pass. In minitensor
# `parallel` is *refused* where two iterations touch one element (lesson 7): a definition says what
# an element is, so races are detected. A block program states operations, its author must check.
#
# ## The same loops from a definition
#
# The program of a block is a schedule, read from inside. Its tiles are `split`s; the grid is the
# two outer loops as one, in parallel; `load` is a `cache_read` that is computed at the loop over
# `k`; the mask is the condition that a `split` which does not divide leaves behind.


# %%
def product(m, n, k):
    """The program of C = A B."""
    A, B = mt.placeholder((m, k), name="A"), mt.placeholder((k, n), name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    return mt.lower([A, B, C], name="product")


s = mt.Schedule(product(M, N, K))
i, j, k = s.get_loops("C")
(i_0, i_1), (j_0, j_1), (k_0, k_1) = (
    s.split(loop, [None, size]) for loop, size in ((i, BM), (j, BN), (k, BK))
)
s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
s.parallel(s.fuse(i_0, j_0))  # the grid
for name in "AB":
    tile = s.cache_read("C", name, "global")
    s.compute_at(tile, k_0)  # load
s.show()
result, loads = mt.interpret(s, a, b, counts=True)
assert np.array_equal(result, a @ b)
assert {x: loads.loads[x] for x in "AB"} == dict(counts)  # the very same traffic

# %%
picture("30_grid", s)

# %% [markdown]
# | a tile language says | a schedule says |
# |---|---|
# | the grid, `program_id` | `split`, `reorder`, and `parallel` or `bind` of the outer loops |
# | `load` of a tile | `cache_read`, and `compute_at` the loop that it is loaded in |
# | the mask of a load | nothing: the condition follows from the extents |
# | the accumulator | nothing: a tile of a sum stays in registers; or `cache_write` |
# | `dot` | the innermost loops: `vectorize` and `unroll`, or `tensorize` |
# | `store` | the definition's own store; `reverse_compute_at` for what follows |
#
# Each has its strength. An algorithm that *changes the computation*, as attention in one pass, is
# easy to write as a block; as a definition it needed an idea (lesson 28). *Trying other sizes* is
# easy with a schedule: numbers change and the meaning cannot, so a search may do it.
#
# ## Pitfalls
#
# - A mask on the load alone is right for a sum, where 0 changes nothing. For a maximum the value
#   outside has to be `-inf`.
# - Blocks that are too large do not fit in the cache (or shared memory), and too small ones load
#   everything again and again. The product of the two sides of a tile is its memory, the sum its
#   traffic: square tiles are a good start.
# - A tile language hides threads, not time: which thread holds which element of a tile is chosen by
#   the compiler, and so is how loads overlap with products.
#
# ## Tasks
#
# Write these functions in `30_tasks.py`, and let `minitensor course check 30` judge them.
#
# 1. `traffic(m, n, k, bm, bn)`: how many elements of `A` (m, k) and of `B` (k, n) the blocks of a
#    product load together, as a pair; tiles of `C` are bm x bn.
# 2. `softmax_block(t, x, y)`: the kernel of a softmax of the rows of `x` (any number of them, 8 at
#    the most in a block; `t.place` is `(block,)`). It loads each element once, by
#    `t.load("x", x, rows, columns)`, and stores rows of `y` by `t.store(y, rows, columns, tile)`.
# 3. `blocks(s, bm, bn, bk)`: `s` is a schedule of `product`. Make the loops of the block program:
#    one parallel loop over all blocks, and tiles of A and B that are loaded as above.
#
# ## Sources
#
# - P. Tillet, H. T. Kung, D. Cox, "Triton: an intermediate language and compiler for tiled neural
#   network computations", MAPL 2019, sections 2 and 3: blocks, masks and tiles.
# - L. Wang et al., "TileLang: a composable tiled programming model for AI systems",
#   arXiv:2504.17577, 2025: a tile language whose programs have schedules.
# - J. Ragan-Kelley et al., "Halide", PLDI 2013, section 3: the other view.
