# %% [markdown]
# # Split, reorder, fuse: a loop counter and its digits
#
# **You will be able to** say in which order a nest visits its elements, cut a loop into tiles whose
# size divides it or not, bring loops into another order, fuse loops and take them apart again.
#
# One idea carries this lesson: *the counter of a loop is a number, and the loops that a split makes
# are its digits*. To reorder is to count with the digits in another order. To fuse is to write
# digits as one number again.

# %%
from collections import OrderedDict

import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor_course import picture

# %% [markdown]
# ## Split: one counter becomes two
#
# Twelve elements, each one doubled. `split` cuts the loop into a nest of two: 3 tiles of 4
# elements. `None` says: as many as it takes.

# %%
A = mt.placeholder((12,), "float32", name="A")
C = mt.compute((12,), lambda i: A[i] * 2.0, name="C")
double = mt.lower([A, C], name="double")

s = mt.Schedule(double)
s.show()
i_0, i_1 = s.split("i", [None, 4])
s.show()

# %% [markdown]
# The element was `C[i]`, and is `C[i_0*4 + i_1]` now. In the block itself nothing has changed: it
# still stores `C[i]`. What has changed is the *binding* of `i`, the expression of the loops that
# says which `i` the block is run for. A split, a fuse, a reorder never looks inside a block; it
# rewrites bindings.

# %%
(axis,) = s.program.blocks["C"].iters
print(axis.var, "is bound to", ir.print_expr(axis.binding))

# %% [markdown]
# The same loops as plain Python:


# %%
def in_tiles(a):
    """The loops of the schedule, by hand."""
    c = np.empty(12, "float32")
    for i_0 in range(3):
        for i_1 in range(4):
            c[4 * i_0 + i_1] = a[4 * i_0 + i_1] * 2
    return c


a = np.arange(12, dtype="float32")
assert np.array_equal(in_tiles(a), mt.interpret(s, a))

# %% [markdown]
# Read `i_0` and `i_1` as two digits. Element 7 is `1*4 + 3`: the digits 1 and 3. The last digit
# runs fastest, so the elements come in the order 0, 1, 2, … as before. **A split alone changes
# nothing in the order of visits.** It makes a place where the next step can take hold.
#
# With more factors there are more digits. Their bases may all differ, as in a time of day:
# 2 h 5 min 7 s has the bases 24, 60, 60. Such a system is called *mixed radix*.


# %%
def number_of(digits, sizes):
    """The number that has these digits, the leading one first."""
    number = 0
    for digit, size in zip(digits, sizes):
        number = number * size + digit
    return number


assert number_of([2, 5, 7], [24, 60, 60]) == 7507  # seconds since midnight

s = mt.Schedule(double)
s.split("i", [2, 3, 2])
(axis,) = s.program.blocks["C"].iters
print(ir.print_expr(axis.binding))  # the same sum, multiplied out
assert ir.print_expr(axis.binding) == "i_0*6 + i_1*2 + i_2"

# %% [markdown]
# ## Reorder: another digit runs fastest
#
# **Predict first.** Two loops, `i_0` of 3 and `i_1` of 4 iterations. Now `i_1` is put outside. In
# which order are the elements visited?

# %%
s = mt.Schedule(double)
i_0, i_1 = s.split("i", [3, 4])
s.reorder(i_1, i_0)
s.show()

order = [4 * i_0 + i_1 for i_1 in range(4) for i_0 in range(3)]
print(order)
assert order == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
assert np.array_equal(mt.interpret(s, a), in_tiles(a))

# %% [markdown]
# The digit `i_0` runs fastest, and each of its steps is 4 elements long. All twelve elements are
# visited once, so the result is the same: the order does not matter *here*. When it matters, the
# step is refused; that is the next lesson.
#
# ## Tails: tiles that do not fit
#
# Ten elements and tiles of 4: two whole tiles, and a rest of 2. This rest is called the *tail*.
# There are three ways to treat it.

# %%
A = mt.placeholder((10,), "float32", name="A")
C = mt.compute((10,), lambda i: A[i] * 2.0, name="C")
ten = mt.lower([A, C], name="ten")

guarded = mt.Schedule(ten)
guarded.split("i", [None, 4])  # tail="guard", the usual one
guarded.show()

cut = mt.Schedule(ten)
cut.split("i", [None, 4], tail="cut")
cut.show()

try:
    mt.Schedule(ten).split("i", [None, 4], tail="exact")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R3" and error.choices == ("1", "2", "5", "10")

# %% [markdown]
# - `tail="guard"`: the digits count to 12, and a condition, the *guard*, leaves out the numbers
#   from 10 on. There is one nest, and one more question in each iteration.
# - `tail="cut"`: a nest for the whole tiles, and a loop of its own for the rest. It asks nothing.
#   The price is a second block, `C_tail`, that later steps have to treat too.
# - `tail="exact"`: refused unless the factors fit; the answer lists those that do.
#
# By hand, with a count of the iterations:


# %%
def with_a_guard(a):
    """The guarded loops by hand, and how often the guard is asked."""
    c, asked = np.empty(10, "float32"), 0
    for i_0 in range(3):
        for i_1 in range(4):
            asked += 1
            if i_0 * 4 + i_1 < 10:
                c[i_0 * 4 + i_1] = a[i_0 * 4 + i_1] * 2
    return c, asked


a = np.arange(10, dtype="float32")
by_hand, asked = with_a_guard(a)
for schedule in (guarded, cut):
    found, counts = mt.interpret(schedule, a, counts=True)
    assert np.array_equal(found, by_hand)
    assert counts.loads["A"] == 10  # the guard is asked 12 times, and lets 10 pass
assert asked == 12

# %% [markdown]
# ## Tiles: why the order is worth a lesson
#
# Now two loops. `C` is the transpose of `A`: it is written along rows, but `A` is read down a
# column.

# %%
A = mt.placeholder((16, 16), "float32", name="A")
C = mt.compute((16, 16), lambda i, j: A[j, i], name="C")
transpose = mt.lower([A, C], name="transpose")

s = mt.Schedule(transpose)
i_0, i_1 = s.split("i", [None, 4])
j_0, j_1 = s.split("j", [None, 4])
s.reorder(i_0, j_0, i_1, j_1)
s.show()

# %% [markdown]
# Split both loops, then put the digits that count tiles outside. This pair of steps is called
# *tiling*. `C` is visited tile by tile, as the picture shows. (In a browser the visits appear one
# by one; the line joins each to the next.)

# %%
picture("06_tiles", s, "visits-C")

# %% [markdown]
# The work is the same; the interpreter counts 256 loads of `A` either way. What differs is the
# *locality*: how soon elements that are neighbours in memory are needed. Memory comes in *cache
# lines* of several elements, and a cache keeps the lines that were used last. A model of one, with
# lines of 4 elements and room for 8 lines:


# %%
def lines_fetched(visits, room=8, line=4, columns=16):
    """The number of lines that a cache has to fetch; `visits` are (array, row, column)."""
    cache, fetched = OrderedDict(), 0
    for array, row, column in visits:
        wanted = (array, (row * columns + column) // line)
        if wanted not in cache:
            fetched += 1
            if len(cache) == room:
                cache.popitem(last=False)  # the line that was not used for longest
        cache[wanted] = True
        cache.move_to_end(wanted)
    return fetched


def touches(points):
    """The elements that the transpose touches, in order: for each of C one of A, and itself."""
    return [touch for i, j in points for touch in (("A", j, i), ("C", i, j))]


rows = [(i, j) for i in range(16) for j in range(16)]
tiles = [
    (4 * i_0 + i_1, 4 * j_0 + j_1)
    for i_0 in range(4)
    for j_0 in range(4)
    for i_1 in range(4)
    for j_1 in range(4)
]
assert sorted(tiles) == rows  # the same elements, in another order
print("row by row:", lines_fetched(touches(rows)), " in tiles:", lines_fetched(touches(tiles)))
assert lines_fetched(touches(rows)) == 256 + 64  # each load of A fetches a line
assert lines_fetched(touches(tiles)) == 64 + 64  # each line is fetched once

a = np.arange(256, dtype="float32").reshape(16, 16)
for schedule in (mt.Schedule(transpose), s):
    found, counts = mt.interpret(schedule, a, counts=True)
    assert np.array_equal(found, a.T) and counts.loads["A"] == 256

# %% [markdown]
# A tile needs 4 lines of `A` and 4 of `C`; both fit. A whole row of `C` needs 16 lines of `A`, and
# they are gone from the cache before the next row wants them again.
#
# ## Fuse: digits become one number
#
# `fuse` is the way back. The new loop counts through both, and the old values are its digits: `//`
# gives the leading one, `%` the last one.

# %%
A = mt.placeholder((5, 6), "float32", name="A")
C = mt.compute((5, 6), lambda i, j: A[i, j] * 2.0, name="C")
matrix = mt.lower([A, C], name="matrix")

s = mt.Schedule(matrix)
fused = s.fuse("i", "j")
s.show()
for number in range(5 * 6):
    i, j = number // 6, number % 6
    assert number_of([i, j], [5, 6]) == number  # there and back

# %% [markdown]
# Split the fused loop by the sizes that it came from, and the bindings are plain again:
# `(x*6 + y) // 6` is `x`, for `y` is less than 6. The system knows these rules of digits; it is how
# it sees later that two iterations never meet at one element.

# %%
s.split(fused, [5, 6])
s.show()
assert [ir.print_expr(axis.binding) for axis in s.program.blocks["C"].iters] == ["i_j_0", "i_j_1"]

# %% [markdown]
# With other sizes, a fused loop is cut where no row ends. So there is one tail instead of one for
# each row.
#
# **Predict first.** 5 rows of 6 elements, in pieces of 4. How many iterations are there, guarded
# ones included, if `j` is split? And if `i` and `j` are fused first?


# %%
def iterations(schedule):
    """The number of iterations of the loops around C."""
    total = 1
    for loop in ir.paths(schedule.program)["C"]:
        total *= loop.extent
    return total


each_row = mt.Schedule(matrix)
each_row.split("j", [None, 4])
together = mt.Schedule(matrix)
together.split(together.fuse("i", "j"), [None, 4])
together.show()
print(iterations(each_row), iterations(together))
assert iterations(each_row) == 5 * 8 and iterations(together) == 32

# %% [markdown]
# Nothing is free: the indices now need a division and a remainder.
#
# ## Pitfalls
#
# - Factors are given from outside to inside. `[None, 4]` makes tiles of 4, `[4, None]` makes 4
#   tiles.
# - `reorder` needs loops that stand around each other with nothing in between. After `tail="cut"`
#   there are two nests inside the outer loop, and it cannot move in any more. Reorder first, cut
#   then.
# - `fuse` takes neighbours, the outermost first. The order of the loops is part of the meaning:
#   `fuse("i", "j")` counts row by row, and after a reorder `fuse("j", "i")` column by column.
# - A loop that was split or fused is gone, with its name. Keep what a step returns.
# - A tile larger than the loop is allowed, and guarded: `split("i", [None, 64])` of 10 elements
#   runs 64 iterations, of which 54 do nothing.
#
# ## Tasks
#
# Write these functions in `06_tasks.py`, and let `minitensor course check 06` judge them.
#
# 1. `digits(number, sizes)`: the way back from `number_of`: the digits of a number, which are the
#    values of the loops that were fused. Sizes may be large, so do not count through all numbers.
# 2. `visits(n, factors, order)`: the indices that a loop over `range(n)` visits after a split and a
#    reorder, in order; those that a guard leaves out are not visited.
# 3. `tile(s, height, width)`: the tiles of a matrix row by row, the elements of a tile column by
#    column. Sizes may be prime; a guard is allowed only where tiles do not fit. The loops may have
#    any names: ask `s.get_loops("C")` for them.
# 4. `strips(s, width)`: strips of columns from left to right, each row by row, and no guard at all.
#    `s.get_blocks()` has the names of the blocks: is there a tail?
#
# ## Sources
#
# - D. E. Knuth, *The Art of Computer Programming*, volume 2, section 4.1: positional number
#   systems, mixed radix among them.
# - M. S. Lam, E. E. Rothberg, M. E. Wolf, "The cache performance and optimizations of blocked
#   algorithms", ASPLOS 1991: why tiles help, and when they do not.
# - S. Feng et al., "TensorIR: an abstraction for automatic tensorized program optimization",
#   ASPLOS 2023, section 3: blocks, and their bindings to the loops around them.
