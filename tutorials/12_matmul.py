# %% [markdown]
# # Matmul: seven steps, past numpy
#
# **You will be able to** take a matrix product from three plain loops to a kernel near the limit of
# a core, say what each step saves, and count it before anything is timed.
#
# A product of matrices does many operations with few numbers. So its speed depends on where these
# are when they are needed: in memory, in a cache, in a register. Every step here brings them
# nearer.

# %%
import itertools
import timeit
from fractions import Fraction

import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor.codegen import lowered, report_of
from minitensor.runtime import compute_probe
from minitensor_course import picture


def product(m, n, k):
    """C = A B, of m x k and k x n elements."""
    A = mt.placeholder((m, k), "float32", name="A")
    B = mt.placeholder((k, n), "float32", name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    return mt.lower([A, B, C], name="product")


# %% [markdown]
# ## Two rulers
#
# **GFLOP/s.** A *multiply-add* is two operations, so a product of N x N matrices is 2 N³ of them.
# The *peak* of a core is the rate of multiply-adds in registers, without any memory.
#
# **The roofline.** With b bytes a second from memory and x operations for each byte, the rate is at
# most `min(peak, b * x)`: over x, a slope and then a flat roof. On an imagined core of 100 GFLOP/s
# and 10 GB/s the product *could* run at the peak, and without any reuse it runs at a fortieth. The
# cell also asks this machine for its peak. Rates are only printed: they differ from run to run.

# %%
N = 384
assert 2 * N**3 / (3 * N**2 * 4) == 64  # operations a byte: each matrix of floats moves once
assert min(100, 10 * 64) == 100 and min(100, 10 * 2 / 8) == 2.5  # with reuse, and without
rng = np.random.default_rng(0)
a, b = rng.integers(-3, 4, (2, N, N)).astype("float32")  # small integers: every sum is exact
try:
    peak = compute_probe(1).rate() / 1e9
except mt.CompileError as error:  # all but the rates works without a compiler
    print(error)
    peak = None


def rate_of(what, steps, threads=1):
    """Print the rate of a schedule, or of numpy, and its share of the peak of so many threads."""
    if peak is None:
        return
    call = np.matmul
    if steps is not None:
        s = mt.Schedule(product(N, N, N))
        steps(s)
        call = mt.build(s, target=mt.Target("c", num_cores=threads))
    assert np.array_equal(call(a, b), a @ b)
    rate = 2 * N**3 / min(timeit.repeat(lambda: call(a, b), number=1, repeat=5)) / 1e9
    share = rate / (peak * threads)
    print(f"{what:12} {rate:7.1f} GFLOP/s  {share:5.0%} of the peak  {'#' * int(40 * share)}")


rate_of("numpy", None)  # on all cores, and so beyond the peak of one

# %% [markdown]
# ## Step 1: as it is written
#
# The interpreter runs a *schedule*, and sees three loads for each multiply-add, whatever the order.
# What stays in a register is decided by code generation. So we let it run what that leaves
# (`lowered`), for a machine that we name: 16 vector registers of 256 bits, 8 *lanes* of a float.

# %%
MACHINE = mt.Target("c", num_cores=1, vector_bits=256)
M, WIDTH, K = 12, 32, 16
small = [rng.integers(-3, 4, shape).astype("float32") for shape in ((M, K), (K, WIDTH))]


def loads(steps):
    """Elements loaded from memory by the code of a schedule, for each multiply-add."""
    s = mt.Schedule(product(M, WIDTH, K))
    steps(s)
    (c,), counts = ir.interpret(lowered(s.program, MACHINE), small, ["C"])
    assert np.array_equal(c, small[0] @ small[1])
    names = [name for name in counts.loads if name in ("A", "B", "B_global", "C")]
    return {name: Fraction(counts.loads[name], M * WIDTH * K) for name in names}


mt.Schedule(product(M, WIDTH, K)).show()
assert loads(lambda s: None) == {"A": 1, "B": 1, "C": 0}
rate_of("1 naive", lambda s: None)

# %% [markdown]
# With `k` innermost the sum of an element stays in a register. But each addition waits for the one
# before, for some four cycles; and as sums of floats are not reordered, there are no vectors.
#
# ## Step 2: the order of the loops
#
# The *stride* of an access in a loop is the distance in memory, in elements, from one iteration to
# the next. Memory comes in *lines* of 16 floats. With stride 1 a line serves 16 iterations, with
# stride 0 the element stays, and with a large stride each iteration needs a new line.
#
# **Predict first.** All matrices are stored row by row. For which loop are all strides 0 or 1?

# %%
strides = {
    "i": {"A": K, "B": 0, "C": WIDTH},
    "j": {"A": 0, "B": 1, "C": 1},
    "k": {"A": 1, "B": WIDTH, "C": 0},
}
assert [loop for loop in strides if max(strides[loop].values()) <= 1] == ["j"]


def order(s):
    """Loop j innermost."""
    s.reorder("i", "k", "j")


assert loads(order) == {"A": 1, "B": 1, "C": 1}
rate_of("2 order", order)

# %% [markdown]
# The price is in the counts: a row of C goes from memory to memory for each `k`. Strides win all
# the same: lines are used whole, and the iterations of `j` do not wait for each other.
#
# ## Step 3: tiles for the cache
#
# A cache holds the lines that were used last. If all that a *tile* of the loops needs fits, each
# line is brought once for that tile. A toy cache shows the effect: 16 lines of 4 elements; the line
# that was not used for longest gives way (LRU).


# %%
def misses(loops, n):
    """Lines brought into the toy cache by a product of n x n whose loops give (i, j, k)."""
    cache, missed = {}, 0
    for i, j, k in loops:
        for array, row, column in (("A", i, k), ("B", k, j), ("C", i, j)):
            line = (array, (row * n + column) // 4)
            missed += line not in cache
            cache.pop(line, None)
            cache[line] = None  # the latest is last
            if len(cache) > 16:
                del cache[next(iter(cache))]
    return missed


def in_tiles(n, size):
    """The loops of step 2 in tiles; in one tile of size n, step 2 itself."""
    for i_0, j_0, k_0 in itertools.product(range(0, n, size), repeat=3):
        for i, k, j in itertools.product(range(size), repeat=3):
            yield i_0 + i, j_0 + j, k_0 + k


as_written = itertools.product(range(24), repeat=3)
brought = [misses(loops, 24) for loops in (as_written, in_tiles(24, 24), in_tiles(24, 4))]
assert brought == [17424, 3744, 1872]

# %% [markdown]
# Three tiles of 4 x 4 are 12 lines, and fit. In general a tile brings 2 T² elements (its piece of C
# stays) for T³ multiply-adds: 2 / T elements each. The larger the better, as long as it fits.


# %%
def tiles(s):
    """Tiles of 64 x 64 x 64 around the loops of step 2."""
    (i_0, i_1), (j_0, j_1), (k_0, k_1) = (s.split(x, [None, 64]) for x in ("i", "j", "k"))
    s.reorder(i_0, j_0, k_0, i_1, k_1, j_1)


rate_of("3 cache", tiles)

# %% [markdown]
# You may see no gain here: a larger cache holds the 576 KiB of a matrix, and rows that are read in
# order are fetched in advance. The bottleneck is nearer: two loads and a store a multiply-add.
#
# ## Step 4: a register tile
#
# Registers are the fastest cache, and the program decides what is in them. Hold a tile of C there
# while `k` runs. Each `k` takes a piece of a column of A and a piece of a row of B, and multiplies
# each with each (an *outer product*). How many loads a multiply-add is that, with 4 x 4?


# %%
def in_register_tiles(a, b, rows, columns):
    """The loops by hand, and the number of elements that are loaded."""
    c, loaded = np.empty((len(a), b.shape[1]), "float32"), 0
    for i in range(0, len(a), rows):
        for j in range(0, b.shape[1], columns):
            held = np.zeros((rows, columns), "float32")  # in registers
            for k in range(len(b)):
                left, right = a[i : i + rows, k], b[k, j : j + columns]
                loaded += rows + columns
                held += np.outer(left, right)
            c[i : i + rows, j : j + columns] = held
    return c, loaded


c, loaded = in_register_tiles(*small, 4, 4)
assert np.array_equal(c, small[0] @ small[1])
assert Fraction(loaded, M * WIDTH * K) == Fraction(4 + 4, 4 * 4)

# %% [markdown]
# In a schedule `k` must be outside of the loops of the tile, and these must be *unrolled* (written
# out), for a register has no index: each element needs a name of its own.


# %%
def registers(s, rows=4, columns=4, by_vectors=False):
    """A tile of C in registers while k runs."""
    i_0, i_1 = s.split("i", [None, rows])
    j_0, j_1 = s.split("j", [None, columns])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    s.unroll(i_1)
    (s.vectorize if by_vectors else s.unroll)(j_1)


assert loads(registers) == {"A": Fraction(1, 4), "B": Fraction(1, 4), "C": 0}
rate_of("4 registers", registers)

# %% [markdown]
# ## Step 5: vectors
#
# A vector instruction does 8 multiply-adds at once, one in each lane. The columns of the tile
# become lanes: a row of the tile is some vectors, a row of B as many, and an element of A is spread
# over all lanes of one more. All has to fit into 16 registers, or numbers move to the stack and
# back (they *spill*). Of what fits we want the fewest loads.

# %%
for rows, wide in ((14, 1), (6, 2), (4, 3), (2, 4), (4, 4)):
    taken, cost = rows * wide + wide + 1, (rows + wide) / (rows * wide)
    print(f"{rows:2} x {8 * wide:2}: {taken} registers, {cost:.2f} loads a multiply-add")


def vectors(s):
    """A tile of 6 x 16: 12 vectors of sums, of 15 registers in all."""
    registers(s, 6, 16, by_vectors=True)


s = mt.Schedule(product(M, WIDTH, K))
vectors(s)
assert loads(vectors) == {"A": Fraction(1, 16), "B": Fraction(1, 6), "C": 0}
assert not report_of(s.program, MACHINE).remarks  # it came out as it was meant
rate_of("5 vectors", vectors)

# %%
picture("12_tile", s)

# %% [markdown]
# Neither lanes nor the 12 sums wait for each other: the four cycles of step 1 are filled with work.
#
# ## Step 6: packing
#
# The tile walks down B: 16 elements here, and 16 more a whole row further. Far places are costly:
# addresses are looked up by *pages* (of 4096 bytes; here 144 for each tile, packed 6), and lines at
# regular distances compete for the same places of a cache. So B is copied once into *panels*, in
# the order of reading: a load and a store for each element, which N / 6 tiles then read.


# %%
def packing(s, width=16):
    """Step 5 with B in panels; returns the loops over strips of C and over panels."""
    vectors(s)
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda k, j: (j // width, k, j % width))
    k, j = s.get_loops(copy)
    panel, lane = s.split(j, [None, width])
    s.reorder(panel, k, lane)
    s.vectorize(lane)
    return s.get_loops("C")[0], panel


assert loads(packing)["B"] == Fraction(1, M)  # once, for the copy
assert loads(packing)["B_global"] == Fraction(1, 6)
rate_of("6 packing", packing)

# %% [markdown]
# ## Step 7: threads
#
# Strips of C do not depend on each other, nor do panels of the copy. The outermost loops become
# parallel: coarse pieces, as starting threads costs microseconds. No count changes. In the picture:
# the bytes that one iteration of each loop touches, from outside to inside.


# %%
def threads(s):
    """Step 6 on several cores."""
    for loop in packing(s):
        s.parallel(loop)


assert loads(threads) == loads(packing)
rate_of("7 threads", threads, threads=2)
s = mt.Schedule(product(N, N, N))
threads(s)

# %%
picture("12_footprint", s, "footprint")

# %% [markdown]
# ## Pitfalls
#
# - `mt.interpret(s, ...)` counts what the schedule says. Loads that registers save vanish only in
#   the code: count there, or read the remarks of `mt.explain`.
# - A tile that is too large for the registers is right, and slow. There is a remark.
#
# ## Tasks
#
# Write these functions in `12_tasks.py`, and let `minitensor course check 12` judge them.
#
# 1. `order(s, strides)`: `s` is a schedule of a product, of which each matrix may be stored
#    transposed; `strides` is a dict as above. Make all strides of the innermost loop 0 or 1.
# 2. `registers(rows, columns, lanes)`: how many registers a tile takes in all, as in the table. A
#    vector that is only partly used takes one too.
# 3. `best_register_tile(registers, lanes)`: rows and columns of a tile that fits, with the fewest
#    loads a multiply-add, as in the table. Columns are whole vectors.
# 4. `register_tile(s, rows, columns)`: hold tiles of C in vector registers. Sizes need not divide.
#
# ## Sources
#
# - K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3),
#   2008, sections 4 and 5: blocks for the caches, and packing.
# - S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for
#   multicore architectures", Communications of the ACM 52(4), 2009.
