# %% [markdown]
# # From the loop nest to C
#
# **You will be able to** say at which place in memory an element is, read the emitted C beside the
# loop nest that it comes from, follow what each pass changes, and say what a narrow type does to a
# value.
#
# A loop nest speaks of `A[j, i]`, of blocks, of loops that run in parallel. C knows none of these:
# it has one long row of bytes, pointers into it, and statements. The way from one to the other is a
# sequence of small steps, and you can watch each of them. No C compiler is needed for that: the
# text is made without one. It is made for a *target*, the description of a machine: here it has two
# cores, and vectors of 256 bits.

# %%
import numpy as np

import minitensor as mt
from minitensor_course import picture

TARGET = mt.Target("c", num_cores=2, vector_bits=256)  # the text is the same on every machine

# %% [markdown]
# ## A row of numbers
#
# We begin with a program that only moves numbers: a transposed copy.

# %%
M, N = 3, 4
A = mt.placeholder((M, N), "float32", name="A")
B = mt.compute((N, M), lambda i, j: A[j, i], name="B")
program = mt.lower([A, B], name="transpose")
print(program)

# %% [markdown]
# Memory is a single row of places. So the elements of an array stand one after the other: in
# **row-major** order first all of row 0, then all of row 1, and so on. This is the order of numpy,
# of C, and of minitensor. `A` has rows of 4 elements, so one step down in `A`, from `A[j, i]` to
# `A[j + 1, i]`, is a step of 4 places in memory, and one step to the right is a step of 1. These
# numbers are the **strides** of `A`: (4, 1). The place of an element, its *offset*, is the sum of
# index times stride.
#
# **Predict first.** What is the offset of `A[2, 1]`? And of `B[1, 2]`, where the same number is to
# be stored?

# %%
numbers = np.arange(12, dtype="float32").reshape(M, N)  # each element is its own offset
assert numbers[2, 1] == 2 * 4 + 1 * 1 == 9
assert np.arange(12).reshape(N, M)[1, 2] == 1 * 3 + 2 * 1 == 5

# %% [markdown]
# The same loops as plain Python, first with indices of two axes, then with arrays that are flat
# rows:


# %%
def transposed(a):
    """The loops of the program, by hand."""
    b = np.empty((N, M), "float32")
    for i in range(N):
        for j in range(M):
            b[i, j] = a[j, i]
    return b


def transposed_flat(a):
    """The same, with an offset for each pair of indices."""
    b = np.empty(N * M, "float32")
    for i in range(N):
        for j in range(M):
            b[i * 3 + j] = a[j * 4 + i]
    return b


b = mt.interpret(program, numbers)
assert np.array_equal(b, transposed(numbers))
assert np.array_equal(b.reshape(-1), transposed_flat(numbers.reshape(-1)))

# %% [markdown]
# The second one is almost C. `mt.codegen.generate` makes the text of a program for a target;
# `kernel.source` is the same text, of a kernel that was built.

# %%
source = mt.codegen.generate(program, TARGET).source
print(source)
assert "B[i * 3 + j] = A[j * 4 + i];" in source

# %% [markdown]
# Read it beside the program:
#
# - A statement ends with `;`, and braces stand where Python indents. `for (int64_t i = 0; i < 4;
#   ++i) { ... }` is `for i in range(4):`: the start, the condition to go on, the step. Each
#   variable is declared with its type.
# - Each argument is a *pointer*: the place of its first element. `const` says that `A` is only
#   read. `restrict` promises that the two arrays do not overlap, so that the C compiler may change
#   the order of loads and stores. minitensor checks this promise at each call.
# - The shapes are gone. They are in the numbers 3 and 4 only, so a kernel is for one shape.
# - `int64_t` is an integer of 64 bits: an array may have more than 2³¹ elements.
# - `workspace` is memory for large temporaries. It is not used here.
# - The function returns 0. Another number would name a check that failed while it ran.
#
# Consecutive iterations of `j` store to neighbours, but load from places that are 4 apart. The
# picture shows when each element of `A` is visited (dark is early): down its columns.

# %%
picture("05_order", program, "order-A")

# %% [markdown]
# ## The way back: from an offset to indices
#
# Sometimes the offset is known, and the indices are wanted. `fuse` makes one loop out of two. Its
# variable counts the elements of `B` in the order of memory, so it *is* the offset in `B`; division
# and remainder give the indices.

# %%
s = mt.Schedule(program)
s.fuse("i", "j")
s.show()
for offset in range(N * M):
    i, j = offset // M, offset % M
    assert i * M + j == offset and b[i, j] == b.reshape(-1)[offset]

# %% [markdown]
# With three axes it takes two divisions: the last index is the remainder by the last extent, and
# what is left is divided in the same way.
#
# ## From blocks to statements
#
# A row sum has more structure: a reduction, with its `if k == 0`.

# %%
k = mt.reduce_axis(N, name="k")
R = mt.compute((M,), lambda i: mt.sum(A[i, k], axis=k), name="R")
rows = mt.lower([A, R], name="rows")
print(rows)

# %% [markdown]
# *Passes* bring a program to the form of C. A pass is a function from a program to a program that
# means the same. So each one can be looked at alone, and the interpreter can run what it leaves.

# %%
print(", ".join(name for name, _ in mt.codegen.PASSES))

# %% [markdown]
# Most of them only make the program faster. Two are needed; the second one is `erase_blocks`. It
# dissolves the blocks, and writes reductions as plain statements. `dump` is called with the
# difference that a pass makes; `mt.build` takes it too.

# %%
optional = [name for name, _ in mt.codegen.PASSES if name not in mt.codegen.REQUIRED]
needed = mt.codegen.passes_without(optional)
plain = mt.codegen.lowered(rows, TARGET, needed, dump=print)

# %% [markdown]
# The condition was asked in each iteration, and true in the first one only. So the init moves in
# front of the loop. As plain Python:


# %%
def row_sums(a):
    """The loops with the condition inside."""
    r = np.empty(M, "float32")
    for i in range(M):
        for k in range(N):
            if k == 0:
                r[i] = 0
            r[i] += a[i, k]
    return r


def row_sums_plain(a):
    """The loops that `erase_blocks` leaves."""
    r = np.empty(M, "float32")
    for i in range(M):
        r[i] = 0
        for k in range(N):
            r[i] = r[i] + a[i, k]
    return r


sums = mt.interpret(rows, numbers)
assert np.array_equal(sums, row_sums(numbers)) and np.array_equal(sums, row_sums_plain(numbers))
assert np.array_equal(sums, mt.interpret(plain, numbers))

# %% [markdown]
# Each iteration of `k` stores to `R[i]`, and the next one loads it again. `promote_accumulators`
# keeps the sum in a variable of its own as long as the loop runs.
#
# **Predict first.** There are 3 rows of 4 elements. How many stores to `R` are there in `plain`?
# How many after `promote_accumulators`?

# %%
fast = mt.codegen.lowered(rows, TARGET)  # all passes
print(fast)
_, before = mt.interpret(plain, numbers, counts=True)
_, after = mt.interpret(fast, numbers, counts=True)
print("stores to R:", before.stores["R"], "and", after.stores["R"])
assert before.stores["R"] == 3 * (1 + 4)
assert after.stores["R"] == 3 and after.loads.get("R", 0) == 0

# %% [markdown]
# In C, `R_acc` becomes a variable, which the compiler keeps in a *register*, a place for one number
# in the processor itself. A program is also *data* that a program can read; this is how passes and
# the emitter work. `For` has a variable, an extent and a body; `Seq` has statements; `Store` has a
# buffer, indices and a value. A value is a `Load`, a `Const`, a `Var` (a loop's variable), or a
# `Binary`: an operator `op`, and `a` and `b`.


# %%
def listed(stmt, depth=0):
    """A line for each loop and each store of plain statements."""
    margin = "  " * depth
    if isinstance(stmt, mt.ir.For):
        return [f"{margin}loop {stmt.var} to {stmt.extent}", *listed(stmt.body, depth + 1)]
    if isinstance(stmt, mt.ir.Seq):
        return [line for child in stmt.stmts for line in listed(child, depth)]
    return [f"{margin}store to {stmt.buffer}, a {type(stmt.value).__name__}"]


print("\n".join(listed(plain.body)))
assert listed(plain.body)[-1] == "    store to R, a Binary"
assert plain.buffers["A"].shape == (3, 4)  # a buffer by its name

# %% [markdown]
# ## Index arithmetic
#
# Now a split that does not divide: 3 columns in tiles of 2. The loop nest has a *guard*, a
# condition that keeps the fourth column out.

# %%
s = mt.Schedule(program)
s.split("j", [None, 2])
s.show()


def differences(text):
    """Print what a pass changed; and nothing if it changed nothing."""
    if "no difference" not in text:
        print(text)


source = mt.codegen.generate(s.program, TARGET, dump=differences).source
print(source)
assert "if (" not in source

# %% [markdown]
# `partition_loops` cuts the loop where the guard stops to hold: full tiles first, the rest after
# them. The full tiles need no guard. This is why a guard in the loop nest costs little. And in
# `A[i + 8]` the index `[2, i]` has become an offset, with its constants added: `2 * 4 + i`.
#
# ## Narrow types
#
# An `int8` has 8 bits: -128 to 127. What happens to 2 * 100?

# %%
G = mt.placeholder((N,), "int8", name="G")
D = mt.compute((N,), lambda i: G[i] * 2, name="D")
double = mt.lower([G, D], name="twice")
text = mt.codegen.generate(double, TARGET).source
print(text)
assert "D[i] = (int8_t)(G[i] * 2);" in text

# %% [markdown]
# C computes with `int`, of 32 bits, and the *cast* `(int8_t)` keeps the lowest 8 bits. So a value
# *wraps*: 200 becomes 200 - 256 = -56. This is defined to be so in minitensor, in every schedule,
# and numpy does the same.

# %%
g = np.array([1, -3, 64, 100], "int8")
assert mt.interpret(double, g).tolist() == [2, -6, -128, -56] == (g * 2).tolist()

# %% [markdown]
# ## Threads
#
# A parallel loop becomes a loop with a line above it, a *pragma* of OpenMP: the C compiler then
# gives the iterations to several threads. (When this is legal is the subject of a later lesson.)

# %%
s = mt.Schedule(program)
s.parallel("i")
text = mt.codegen.generate(s.program, TARGET).source
print("\n".join(line for line in text.splitlines() if "omp" in line or "for (" in line))
assert "#pragma omp parallel for num_threads(2)" in text

try:
    kernel = mt.build(s, TARGET)
except mt.CompileError as error:
    print(error)
    kernel = mt.build(s, target="interpreter")
assert np.array_equal(kernel(numbers), numbers.T)

# %% [markdown]
# ## Pitfalls
#
# - The stride of an axis is the product of the extents *behind* it, not its own extent.
# - In C `a - b - c` is `(a - b) - c`. An expression is a tree, and a text is flat: `a - (b - c)`
#   needs its parentheses.
# - `//` rounds down and C's `/` rounds towards zero. They differ below zero: -1 // 4 is -1, and
#   `-1 / 4` is 0. The emitter writes `/` only where both are the same.
# - Do not edit `kernel.source` by hand and expect the kernel to change. Change the schedule.
# - An array of no axes has one element: its only index is `()`, and its offset is 0.
#
# ## Tasks
#
# Write these functions in `05_tasks.py`, and let `minitensor course check 05` judge them. None
# of them needs numpy: a compiler has no arrays, only shapes.
#
# 1. `offset(shape, index)`: the place of an element in a row-major array. Both are tuples of any
#    length, also of none.
# 2. `unflatten(shape, place)`: the way back: the index, a tuple, of the element at a place.
# 3. `stored(value, bits, signed)`: the value that an integer has after it was stored to an integer
#    type of so many bits.
# 4. `emit(program)`: the C text of the body of a function: loops and stores. `program` is as
#    `plain` above: its `body` has only `For`, `Seq` and `Store`, its values only `Load`, `Const`,
#    `Var` and `Binary` with `+`, `-` or `*`. Each parameter is a flat array that has its name. The
#    judge reads a small part of C: `for`, `if`, braces, declarations, `=` and `+=`, arithmetic. It
#    does not compile the text.
#
# ## Sources
#
# - A. V. Aho, M. S. Lam, R. Sethi, J. D. Ullman, *Compilers: Principles, Techniques, and Tools*,
#   2nd edition, 2006, chapter 6: addresses of array elements, and translation of expressions.
# - B. W. Kernighan, D. M. Ritchie, *The C Programming Language*, 2nd edition, 1988, chapter 5:
#   pointers and arrays.
# - T. Chen et al., "TVM: an automated end-to-end optimizing compiler for deep learning", OSDI 2018,
#   section 4: from tensor expressions to loops.
# - J. Ragan-Kelley et al., "Halide", PLDI 2013, section 4: the passes of a compiler of schedules,
#   flattening among them.
