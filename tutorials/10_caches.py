# %% [markdown]
# # Caches: lines, reuse, and packing
#
# **You will be able to** predict how many cache misses a loop nest has, choose a tile that fits a
# cache, and lay an array out so that a nest reads it from one end to the other.
#
# The interpreter counts loads of elements. A processor does not load elements: it loads *lines* of
# 64 bytes, from memory into a small and fast *cache*, and keeps there what was used last. Two nests
# with the same loads can differ by a factor of forty in lines. This lesson counts lines. Its
# numbers are exact, for they come from a model and not from a clock.

# %%
import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor.pictures import footprint_picture
from minitensor_course import picture

# %% [markdown]
# ## Lines and strides
#
# Memory is a row of bytes, and an *address* is a number of a byte. Addresses 0 to 63 are line 0,
# addresses 64 to 127 line 1, and so on. An access that finds its line in the cache is a *hit*, else
# a *miss*: the line is fetched, all of it. In a cache that is full, another line has to go. The
# model here is *LRU*: the line that was least recently used goes.
#
# An array of 64 x 64 floats has rows of 256 bytes, which are 4 lines. We visit each element once,
# either row by row or column by column. The *stride* is the step from one visit to the next: 4
# bytes along a row, 256 bytes down a column.

# %%
LINE, FLOAT = 64, 4
rows_first = [(i * 64 + j) * FLOAT for i in range(64) for j in range(64)]
columns_first = [(i * 64 + j) * FLOAT for j in range(64) for i in range(64)]
assert sorted(rows_first) == sorted(columns_first)

# %% [markdown]
# **Predict first.** How many misses does each walk have in a cache of 32 lines? And in one of 64
# lines?
#
# ## Reuse distance
#
# One number for each access answers this for all caches at once. The *reuse distance* of an access
# is the number of other lines that were touched since its line was touched last; it is infinite for
# the first touch. LRU keeps the lines that were used last. So an access hits exactly if its
# distance is less than the number of lines in the cache.


# %%
def distances(addresses, line=LINE):
    """The reuse distance of each access, in lines."""
    stack, found = [], []  # lines, the one used last at the end
    for address in addresses:
        number = address // line
        if number in stack:
            place = stack.index(number)
            found.append(len(stack) - 1 - place)
            del stack[place]
        else:
            found.append(float("inf"))
        stack.append(number)
    return found


def lines_fetched(addresses, lines):
    """The misses in a cache of so many lines."""
    return sum(distance >= lines for distance in distances(addresses))


for name, walk in (("rows", rows_first), ("columns", columns_first)):
    print(f"{name:8}", {lines: lines_fetched(walk, lines) for lines in (1, 32, 63, 64)})

assert lines_fetched(rows_first, 1) == 64 * 64 // 16  # each line once, with any cache
assert lines_fetched(columns_first, 32) == 64 * 64  # each access is a miss
assert lines_fetched(columns_first, 64) == 64 * 64 // 16

# %% [markdown]
# Down a column, 63 other lines come between two touches of a line. A cache of 64 lines has them all
# and waits for the next column; one of 63 lines is as bad as none. So a cache has a sharp edge: LRU
# gives nothing at all to a loop that goes round one line more than fits.
#
# A miss has one of three reasons: the line was never there (*compulsory*), it had to go since more
# lines were used than fit (*capacity*), or it had to go though there was room elsewhere
# (*conflict*; see below).
#
# ## A product, in three orders
#
# `C = A B`, with matrices of 32 x 32 floats: 64 lines each. The toy cache has 32 lines, half a
# matrix. The three matrices lie one behind the other in memory. The same nests as plain Python
# give the addresses:

# %%
N, CACHE = 32, 32


def product(n):
    """The program of a matrix product."""
    A = mt.placeholder((n, n), "float32", name="A")
    B = mt.placeholder((n, n), "float32", name="B")
    k = mt.reduce_axis(n, name="k")
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    return mt.lower([A, B, C], name="product")


def touched(iterations, place_of_b=lambda k, j: k * N + j):
    """The addresses of A[i, k], B[k, j] and C[i, j] for each (i, j, k)."""
    for i, j, k in iterations:
        yield (i * N + k) * FLOAT
        yield (N * N + place_of_b(k, j)) * FLOAT
        yield (2 * N * N + i * N + j) * FLOAT


def sum_inside():
    """The loops as they are defined: i, j, k."""
    return ((i, j, k) for i in range(N) for j in range(N) for k in range(N))


def row_inside():
    """The loops in the order i, k, j."""
    return ((i, j, k) for i in range(N) for k in range(N) for j in range(N))


def in_tiles(rows, columns):
    """The loops in the order i_0, j_0, k, i_1, j_1."""
    for i_0 in range(0, N, rows):
        for j_0 in range(0, N, columns):
            for k in range(N):
                for i in range(i_0, i_0 + rows):
                    for j in range(j_0, j_0 + columns):
                        yield i, j, k


orders = {
    "i, j, k": lines_fetched(touched(sum_inside()), CACHE),
    "i, k, j": lines_fetched(touched(row_inside()), CACHE),
    "tiles of 8 x 8": lines_fetched(touched(in_tiles(8, 8)), CACHE),
}
print(orders)

# %% [markdown]
# All three do the same 32,768 multiply-adds, and the same loads of elements. What the counts of
# lines are made of:
#
# - **i, j, k**: `k` goes down a column of B, over 32 lines. With A and C that is more than 32, so
#   every access to B is a miss.
# - **i, k, j**: B is read along rows, 64 lines for each `i`. B as a whole does not fit, so each of
#   the 32 iterations of `i` fetches it again.
# - **tiles**: a tile holds 8 lines of C and 8 of A, and a line of B passes by for each `k`. In all
#   it fetches 2 * 8 lines of A and 32 of B. A line of C serves two tiles that follow each other.

# %%
assert sorted(in_tiles(8, 8)) == list(sum_inside())  # the same iterations
assert orders["i, j, k"] > N**3
assert 32 * 64 <= orders["i, k, j"] <= 32 * 64 + 200
assert orders["tiles of 8 x 8"] == 64 + 16 * (2 * 8 + 32)  # C once; A and B for each of 16 tiles

# %% [markdown]
# ## The tile that fits
#
# No simulation is needed to choose a tile. The *footprint* of a loop is what one of its iterations
# touches. If it fits, what the inner loops use again is found again, and each line is fetched once
# in the iteration. So: find the loop around the reuse, and choose the tile such that its footprint
# is at most the cache. Three tiles of T x T floats take `3 * T * T * 4` bytes. For a cache of
# 32 KiB the largest power of two is 32:

# %%
large = mt.Schedule(product(512))
loops = [large.split(loop, [None, 32]) for loop in ("i", "j", "k")]
large.reorder(*(outer for outer, _ in loops), *(inner for _, inner in loops))
large.show()
assert 3 * 32 * 32 * FLOAT <= 32 << 10 < 3 * 64 * 64 * FLOAT

# %%
picture("10_footprint", footprint_picture(large.program, caches={"L1": 32 << 10, "L2": 1 << 20}))

# %% [markdown]
# The bars of `k_0` end before the line of L1: one iteration of it multiplies a tile by a tile in
# the cache. Leave some room, for the stack and for what the cache does besides.
#
# ## Packing
#
# The tile of 8 columns reads 8 floats of each row of B: half a line. The other half is fetched too,
# and is gone before the next tile asks for it. *Packing* copies B into *panels* of 8 columns,
# so that a panel lies in memory row after row, in the order in which the tile reads it.
#
# `cache_read` makes a copy that the block reads in place of the buffer. `transform_layout` says
# where the elements of a temporary lie: it maps old indices to new ones.


# %%
def with_panels(n):
    """A schedule in tiles of 8 x 8 that reads B from panels; and the name of these."""
    s = mt.Schedule(product(n))
    i_0, i_1 = s.split("i", [None, 8])
    j_0, j_1 = s.split("j", [None, 8])
    s.reorder(i_0, j_0, "k", i_1, j_1)
    panels = s.cache_read("C", "B", "global")
    s.transform_layout(panels, lambda k, j: (j // 8, k, j % 8))
    return s, panels


packed, panels = with_panels(N)
packed.show()
assert packed.program.buffers[panels].shape == (4, 32, 8)

# %%
packed_lines = lines_fetched(
    touched(in_tiles(8, 8), place_of_b=lambda k, j: (j // 8 * N + k) * 8 + j % 8), CACHE
)
print(orders["tiles of 8 x 8"], "->", packed_lines)
assert packed_lines == 64 + 16 * (2 * 8 + 16)  # of B half as many

# %% [markdown]
# A count of elements sees the copy, and not the gain (here for 16 x 16, which takes less time):

# %%
small, panels = with_panels(16)
ones = np.ones((16, 16), "float32")
_, before = mt.interpret(small, ones, ones, counts=True)
assert before.loads["A"] == before.loads[panels] == 16**3  # as before
assert before.loads["B"] == 16**2  # the copy reads each element once

# %% [markdown]
# The copy itself costs a pass: 64 lines read and 64 written. It pays where each element is used
# often: here it saves 256. Real panels gain more than this model shows. Rows of a large matrix lie
# on different *pages*, and the processor can fetch ahead only what comes in order.
#
# ## Conflicts, and padding
#
# A real cache may not put a line anywhere. It has *sets*. Line number `x` belongs to set
# `x % sets`, and a set holds a few lines, its *ways*. Lines that are a power of two apart fall into
# few sets.


# %%
def lines_fetched_in_sets(addresses, sets, ways):
    """The misses in a cache of so many sets: each is a small cache of its own."""
    addresses, found = list(addresses), 0
    for one in range(sets):
        own = [address for address in addresses if address // LINE % sets == one]
        found += lines_fetched(own, ways)
    return found


def column_twice(row):
    """The addresses of 16 elements of a column, in two passes; `row` floats from row to row."""
    return [i * row * FLOAT for _ in range(2) for i in range(16)]


assert lines_fetched(column_twice(64), 32) == 16  # the second pass hits
assert lines_fetched_in_sets(column_twice(64), 4, 8) == 32  # all lines are in set 0
assert lines_fetched_in_sets(column_twice(80), 4, 8) == 16  # 5 lines apart: in all sets

# %% [markdown]
# `storage_align` pads the rows of a temporary. Here the step from row to row becomes 16 more than a
# multiple of 64. Indices and results stay as they are:

# %%
s = mt.Schedule(product(64))
copy = s.cache_read("C", "B", "global")
s.storage_align(copy, 0, 64, 16)
assert ir.strides_of(s.program.buffers[copy]) == (80, 1)

# %% [markdown]
# ## Results, and scopes
#
# `cache_write` is the counterpart for what is written: the block writes a new buffer, and a copy
# follows. With `reverse_compute_at` the copy comes after each tile. Then the sums of a tile grow in
# a small buffer, and each element of `C` is stored once. The *scope* says which memory is meant:
# `"global"` is main memory, `"local"` the stack of a thread, `"register"` a tile for registers.
# `set_scope` changes it later.

# %%
result = small.cache_write("C", "global")
small.reverse_compute_at(result, "j_0")
small.set_scope(result, "local")
product_of_ones, after = mt.interpret(small, ones, ones, counts=True)
print("stores to C:", before.stores["C"], "->", after.stores["C"])
assert before.stores["C"] == 16**3 + 16**2 and after.stores["C"] == 16**2
assert np.array_equal(product_of_ones, ones @ ones)

# %% [markdown]
# ## Pitfalls
#
# - A load in the source is not a trip to memory. Count lines, not loads.
# - A box is not what is touched: a column of 64 floats has a footprint of 256 bytes, and takes 64
#   lines. Footprints are right for tiles whose rows are long.
# - Only temporaries can be laid out anew: the caller decides where `A` and `B` lie. Copy first.
# - `transform_layout` changes where elements lie, and no loop. If the nest does not go through the
#   panels in their order, the new layout gains nothing.
# - Packing in each call is a waste if B is constant; `mt.build(s).bind(B=b)` packs it once.
#
# ## Tasks
#
# Write these functions in `10_tasks.py`, and let `minitensor course check 10` judge them.
#
# 1. `misses(addresses, line, lines)`: write the cache itself. It holds `lines` lines of `line`
#    bytes, is empty at first, and gives up the least recently used one. Return how many misses
#    there are.
# 2. `best_tile(n, cache_bytes, itemsize)`: matrices of `n * n` elements of `itemsize` bytes are
#    multiplied in tiles as in the picture. Return the largest T that divides n, such that one
#    iteration of `k_0` touches at most `cache_bytes`.
# 3. `pack(s, width)`: `s` is a schedule of a product of some sizes and type. Cut `j` into panels of
#    `width` columns, and copy each element of B once, so that the loops read the panels from the
#    first address to the last. `width` need not divide the columns.
#
# ## Sources
#
# - R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2),
#   1970: stack distances, which give the misses of all sizes of a cache in one pass.
# - M. S. Lam, E. E. Rothberg, M. E. Wolf, "The cache performance and optimizations of blocked
#   algorithms", ASPLOS 1991: tiles, conflicts, and copying as the remedy.
# - K. Goto, R. A. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
#   34(3), 2008, sections 4 and 5: which part of which matrix stays in which cache, and packing.
