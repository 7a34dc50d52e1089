# %% [markdown]
# # Lanes and threads
#
# **You will be able to** say what becomes of a loop that is unrolled, vectorized or made parallel,
# when each of the three is legal, how much of a loop full vectors do, how the work of a parallel
# loop is shared, and read the remarks on what was missed.
#
# One idea is behind the three: *iterations that do not depend on each other may be done at the same
# time*. They differ in what does them: the statements of one piece of code (unroll), the lanes of
# one instruction (vectorize), the cores of the processor (parallel). In the loop nest such a step
# changes one word. What it means is seen in the code that is made.

# %%
import numpy as np

import minitensor as mt
from minitensor_course import picture

TARGET = mt.Target("c", num_cores=4, vector_bits=256)  # the machine that this lesson is about


def code(s):
    """The body of the C function of a schedule."""
    text = mt.codegen.generate(s.program, TARGET).source
    return text[text.index("workspace) {") :]


def remarks(s):
    """The remarks of code generation on a schedule."""
    text = mt.explain(s, TARGET)
    return text[text.index("remarks\n") :]


M, N = 4, 20
A = mt.placeholder((M, N), "float32", name="A")
B = mt.compute((M, N), lambda i, j: A[i, j] * 2.0, name="B")
program = mt.lower([A, B], name="twice")
print(program)

# %% [markdown]
# ## Unroll: the iterations written out
#
# `unroll` changes nothing in what is done, nor in the order: it is legal for each loop. The loop's
# variable becomes a number in every copy.

# %%
s = mt.Schedule(program)
s.unroll("i")
s.show()
print(code(s))
assert code(s).count("for (") == 4  # four copies of the loop j

# %% [markdown]
# On its own this gains little: a test and an addition for each iteration. Its worth is that the
# compiler sees several iterations side by side, and can keep their values in *registers*, the few
# places in the processor that arithmetic works on. We come back to this at the end.
#
# ## Vectorize: the iterations in lanes
#
# A vector register of 256 bits holds 8 numbers of 32 bits, in 8 *lanes*. One instruction adds,
# multiplies, loads or stores all of them.
#
# **Predict first.** `j` has 20 iterations. How many vectors of 8 will there be, and what is done
# with the rest?

# %%
s = mt.Schedule(program)
s.vectorize("j")
s.show()
print(code(s))
print(remarks(s))
assert code(s).count("store_float32x8(") == 2 and code(s).count("store_float32x4(") == 1
assert "4 of 20 iterations are left over by vectors of 8 lanes" in remarks(s)

# %% [markdown]
# Two vectors of 8, and one of 4: half a register. (Narrower ones than 128 bits are not used.) Of 23
# iterations the last seven would be the first lanes of a third vector: there are loads and stores
# that leave out the lanes behind them. (Not in a loop that divides integers: the lanes behind would
# divide by whatever they hold. What is left over there is done in scalars.) The rule as plain
# Python, and the loops by hand, where a slice of numpy stands for a vector:


# %%
def pieces(extent, lanes, narrowest):
    """(count, lanes) of the vectors of a loop, and 1 lane for what is left."""
    found = []
    while extent and lanes >= narrowest:
        if extent // lanes:
            found.append((extent // lanes, lanes))
            extent %= lanes
        if extent > max(2, lanes // 2):  # a narrower vector would not do
            found.append((1, extent))
            extent = 0
        lanes //= 2
    return [*found, (extent, 1)] if extent else found


def twice_in_lanes(a):
    """The loops of the schedule, by hand."""
    b = np.empty((M, N), "float32")
    for i in range(M):
        start = 0
        for count, lanes in pieces(N, 8, 4):
            for _ in range(count):
                b[i, start : start + lanes] = a[i, start : start + lanes] * 2
                start += lanes
    return b


a = np.arange(M * N, dtype="float32").reshape(M, N)
assert pieces(20, 8, 4) == [(2, 8), (1, 4)]
assert pieces(23, 8, 4) == [(2, 8), (1, 7)]  # one lane does nothing
assert pieces(18, 8, 4) == [(2, 8), (2, 1)]  # two iterations in scalars
assert np.array_equal(mt.interpret(s, a), twice_in_lanes(a))

# %% [markdown]
# So an odd extent is no obstacle, as long as it is much longer than a vector. In a loop of 7 no
# full vector fits.
#
# *Which* loop is vectorized matters more. The lanes of `j` are neighbours in memory: one load
# brings all 8. The lanes of `i` are a row apart:

# %%
s = mt.Schedule(program)
s.vectorize("i")
print(remarks(s))
assert "gather: A" in remarks(s) and "20 apart" in remarks(s)

# %% [markdown]
# The answer is right, and slow: each lane has a load of its own. So: vectorize the loop of the last
# axis.
#
# ## The lanes of a sum
#
# Lanes run at the same time, so none of them may touch what another one writes. In a sum along `k`
# all iterations update the same element. But the order of a sum is free (for floating-point numbers
# up to rounding). So each lane gets a sum of its own, and these are added at the end. `vectorize`
# does this for a loop of a reduction, and returns the name of the block of the partial sums.

# %%
k = mt.reduce_axis(24, name="k")
X = mt.placeholder((M, 24), "float32", name="X")
R = mt.compute((M,), lambda i: mt.sum(X[i, k], axis=k), name="R")
s = mt.Schedule(mt.lower([X, R], name="sums"))
k_0, k_1 = s.split("k", [None, 8])
print(s.program)
partial = s.vectorize(k_1)
s.show()
assert partial in s.get_blocks()


# %%
def sums_in_lanes(x):
    """The loops of the schedule, by hand: 8 sums for each row, and then their sum."""
    r = np.empty(M, "float32")
    for i in range(M):
        lanes = np.zeros(8, "float32")
        for k_0 in range(3):
            lanes += x[i, 8 * k_0 : 8 * k_0 + 8]
        r[i] = 0
        for k_1 in range(8):
            r[i] += lanes[k_1]
    return r


x = np.arange(M * 24, dtype="float32").reshape(M, 24)
assert np.array_equal(mt.interpret(s, x), sums_in_lanes(x))

# %% [markdown]
# ## Parallel: the iterations on threads
#
# A *thread* runs on a core of its own. A parallel loop becomes a loop with a pragma of OpenMP. The
# iterations are shared before the loop begins (`schedule(static)`): each thread gets a range of
# them.

# %%
s = mt.Schedule(program)
s.parallel("i")
print(code(s))
assert "#pragma omp parallel for num_threads(4) schedule(static)" in code(s)


def busiest(extent, threads):
    """The iterations of the thread that has most."""
    return -(-extent // threads)  # rounded up


# %% [markdown]
# All wait for the thread that has most to do. With 4 threads and iterations of equal work:

# %%
for extent in (4, 5, 8, 9, 100):
    print(extent, "iterations: speed-up at most", round(extent / busiest(extent, 4), 2))
assert 5 / busiest(5, 4) == 2.5 and 100 / busiest(100, 4) == 4

# %% [markdown]
# Five iterations on four threads take as long as eight. And a loop of two leaves two cores idle,
# which is worth a remark:

# %%
s = mt.Schedule(program)
i_0, i_1 = s.split("i", [2, None])
s.parallel(i_0)
print(remarks(s))
assert "parallel: i_0" in remarks(s)

# %% [markdown]
# Threads have to be started and awaited, which costs some microseconds: as much as thousands of
# additions. So the *outermost* loop should be the parallel one: it starts the threads once. If `j`
# is parallel inside a serial `i`, they start and wait in each iteration of `i`. Inside each thread
# the innermost loop should still be long, and in lanes: both at once.

# %%
s = mt.Schedule(program)
s.parallel("i")
s.vectorize("j")
s.show()
assert np.array_equal(mt.interpret(s, a), 2 * a)

# %% [markdown]
# Legal is what lesson 7 has shown: no two iterations touch the same element, one of them writing.
# This condition is the same for lanes and for threads. Only a sum is treated for lanes as above,
# and refused for threads (`rfactor` it first).
#
# ## All together: a tile in registers
#
# The product of two matrices, as it is defined, loads two numbers for each multiplication.

# %%
product = mt.lower(mt.workloads.matmul(m=8, n=16, k=6), name="product")
print(product)

# %% [markdown]
# Now take a tile of 4 rows and 8 columns of `C`. Put the reduction loop `k` *outside* of the tile.
# The 8 columns go into lanes, and the 4 rows are unrolled: so the tile is 4 vectors, with names of
# their own, and they stay in registers while `k` runs.

# %%
s = mt.Schedule(product)
i_0, i_1 = s.split("i", [None, 4])
j_0, j_1 = s.split("j", [None, 8])
s.reorder(i_0, j_0, "k", i_1, j_1)
s.unroll(i_1)
s.vectorize(j_1)
s.show()

# %%
picture("08_tile", s)

# %% [markdown]
# The program after all passes shows it. (A `ramp` is a row of places, a `broadcast` is one number
# in all lanes.)

# %%
after = mt.codegen.lowered(s.program, TARGET)
print(after)

# %% [markdown]
# **Predict first.** In each iteration of `k` the tile takes 8 numbers of `B` and 4 of `A`. How many
# elements of `B` are loaded now, in place of 8 * 16 * 6? How many of `A`?

# %%
p, q = np.ones((8, 6), "float32"), np.ones((6, 16), "float32")
_, before = mt.interpret(product, p, q, counts=True)
c, counts = mt.interpret(after, p, q, counts=True)
print("loads of A:", before.loads["A"], "and", counts.loads["A"])
print("loads of B:", before.loads["B"], "and", counts.loads["B"])
assert before.loads["A"] == before.loads["B"] == 768
assert counts.loads["A"] == 768 // 8 and counts.loads["B"] == 768 // 4
assert counts.stores["C"] == 8 * 16 and counts.loads["C"] == 0


def product_in_tiles(a, b):
    """The loops of the schedule, by hand."""
    c = np.empty((8, 16), "float32")
    for i_0 in range(2):
        for j_0 in range(2):
            tile = np.zeros((4, 8), "float32")
            for k in range(6):
                row = b[k, 8 * j_0 : 8 * j_0 + 8]  # loaded once, used four times
                for i_1 in range(4):
                    tile[i_1] += a[4 * i_0 + i_1, k] * row
            c[4 * i_0 : 4 * i_0 + 4, 8 * j_0 : 8 * j_0 + 8] = tile
    return c


assert np.array_equal(c, product_in_tiles(p, q))

# %% [markdown]
# An element of `A` is loaded once for 8 lanes, an element of `B` once for 4 rows: 288 loads in
# place of 1,536. More rows would save more, but there are only 16 or 32 vector registers. If the
# tile needs more, it is moved to memory and back, which is called a *spill*. `mt.explain` says how
# many registers a loop needs.
#
# ## Pitfalls
#
# - Without `unroll`, the 4 rows are a loop that indexes an array; registers have no index. Then the
#   tile stays in memory, with a remark of the kind `registers` or `promotion`.
# - An unrolled loop of 1,000 iterations makes a text that takes long to compile, and code that does
#   not fit into the cache of instructions. Split, and unroll the small inner part.
# - A remark is no error. If what is left over is a small part of the whole, let it be.
# - A race does not have to show itself when you try it. Rely on the refusal and on the interpreter.
# - `vectorize` is given the loop, not the number of lanes. To choose the lanes, split first.
#
# ## Tasks
#
# Write these functions in `08_tasks.py`, and let `minitensor course check 08` judge them. The
# target has vectors of 256 bits.
#
# 1. `left_over(extent, bits, size)`: the number of iterations of a vectorized loop that divides
#    integers which are done in scalars, if vectors have `bits` bits and elements `size` bits.
#    Vectors of 128 bits are the narrowest ones that are used, and none leaves out lanes.
# 2. `lanes(s)`: `s` is a schedule of a program of several stages on rows, of odd widths. In each
#    stage, let full vectors do all of a row but for the rest that does not fill a vector, with no
#    gathers and nothing that goes lane by lane.
# 3. `share(s, cores)`: `s` is a schedule of a program with few long rows. Make its outermost loop
#    parallel, so that all cores have work: the busiest one has at most a quarter more than the
#    average. An iteration of the parallel loop computes at least 16 elements.
# 4. `tile(s, rows)`: `s` is a schedule of a product as above, of other sizes: `m` is a multiple of
#    `rows`, `n` a multiple of 8. Keep tiles in registers, so that each element of `C` is stored
#    once and never loaded, and loads of `B` are at most `m * n * k / rows`.
#
# ## Sources
#
# - J. L. Hennessy, D. A. Patterson, *Computer Architecture: A Quantitative Approach*: the chapter
#   on data-level parallelism, on vectors and their instructions.
# - K. Kennedy, R. Allen, *Optimizing Compilers for Modern Architectures: A Dependence-Based
#   Approach*, 2001, chapters 2 and 5: which loops may be vectorized, and which may run in parallel.
# - OpenMP Architecture Review Board, *OpenMP Application Programming Interface*: the loop construct
#   and its `schedule` clause.
# - K. Goto, R. A. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM
#   Transactions on Mathematical Software 34(3), 2008: tiles for registers and for caches.
