# %% [markdown]
# # GPU mapping: blocks, warps, shared memory, and races
#
# **You will be able to** bind loops to blocks and threads, read the CUDA that comes of it, count
# the memory requests of a warp, find a race, and take a product of matrices from naive to tiled,
# with its cost after each step.
#
# No GPU is needed. The text that a GPU would get is run here on a CPU, thread by thread, under a
# checker; what it would cost is counted from the program. The end says what neither of them shows.

# %%
import numpy as np

import minitensor as mt
from minitensor import codegen, gpu, ir
from minitensor_course import picture

A100 = mt.Target("cuda", num_cores=1, device="a100")  # the GPU that this lesson is about


def ints(*shape):
    """Small integers: every sum of them is exact."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype("float32")


def emulated(s, **options):
    """The kernel of a schedule in the emulator, or None without a C++ compiler."""
    try:
        return mt.build(s, target="cuda-emulator", check=True, **options)
    except mt.CompileError as error:
        print(error)
        return None


# %% [markdown]
# ## What a thread is
#
# A GPU has about a hundred *multiprocessors*. A *kernel* is started on a *grid* of *blocks*, each
# of up to 1,024 *threads*. A block stays on one multiprocessor, where its threads can share memory
# and wait for each other. Blocks run in any order, and do not wait for each other. All threads run
# the same function; they differ in two numbers, `blockIdx` and `threadIdx` (each has x, y and z).
#
# In a loop nest, `bind` says that a loop's iterations are those numbers. Its condition is that of
# `parallel`: iterations do not depend on each other. A thread is an iteration of the loops that are
# bound to `threadIdx`, inside one of those that are blocks. Here are 1,000 elements, 256 a block:

# %%
X = mt.placeholder((1000,), name="X")
Y = mt.compute((1000,), lambda i: X[i] * X[i], name="Y")
squares = mt.Schedule(mt.lower([X, Y], name="squares"))
block, thread = squares.split("i", [None, 256])
squares.bind(block, "blockIdx.x")
squares.bind(thread, "threadIdx.x")
squares.show()
print(codegen.generate(squares.program, A100).source)

# %% [markdown]
# Line by line. `__global__` marks a function that a host starts on a GPU; `__launch_bounds__` tells
# its compiler how many threads a block has, and so how many registers each may take. Pointers are
# `__restrict__`: the arrays do not overlap. The loops are gone: their variables are read from
# `blockIdx` and `threadIdx`. The last block is ragged (4 * 256 is more than 1,000), hence the `if`.
# `squares_launch` runs on the CPU, and starts 4 blocks of 256 threads. In Python:

# %%
x, y = ints(1000), np.zeros(1000, "float32")
for number in np.random.default_rng(0).permutation(4 * 256):  # any order will do
    block, thread = divmod(number, 256)
    if block * 256 + thread < 1000:
        y[block * 256 + thread] = x[block * 256 + thread] ** 2
assert np.array_equal(y, x * x)
run = emulated(squares) or mt.build(squares, target="interpreter")
assert np.array_equal(run(x), x * x)

# %% [markdown]
# `cuda-emulator` compiles this very text for the CPU, with a small header in the place of NVIDIA's.
# With `check=True` a call fails if threads race, leave their arrays, or wait in vain.
#
# ## Coalescing: the memory requests of a warp
#
# Threads run in *warps* of 32, whose *lanes* do the same instruction together. When it is a load,
# the 32 addresses are one *request*, and memory answers it in *sectors* of 32 bytes, 8 floats. It
# is cheap if the lanes ask for neighbours: the request is *coalesced*.


# %%
def sectors(elements, size=4):
    """The sectors of a request for some elements of `size` bytes."""
    return len({element * size // 32 for element in elements})


lanes = np.arange(32)
assert sectors(lanes) == 4  # neighbours: every byte that is moved is used
assert sectors(lanes + 1) == 5  # they begin inside of a sector
assert sectors(lanes * 64) == 32  # a column of rows of 64: 4 of 32 bytes are used
assert sectors(lanes * 0) == 1  # all ask for the same

# %% [markdown]
# **Predict first.** How many sectors has a load, and how many a store, in a transposition
# `B[i, j] = A[j, i]`, if `j` is bound to `threadIdx.x`? If `i` is?


# %%
def transposition():
    """B, the transposed A."""
    A = mt.placeholder((64, 96), name="A")
    B = mt.compute((96, 64), lambda i, j: A[j, i], name="B")
    return mt.Schedule(mt.lower([A, B], name="transposed"))


def traffic(s):
    """Of each access: sectors a request, or turns of the banks if it is to shared memory."""
    found = {}
    for one in mt.gpu_cost(s).kernels[0].accesses:
        word = "store" if one.site.writes else "load"
        found[f"{word} {one.buffer}"] = one.sectors_a_request + one.cycles_a_request  # one is zero
    return found


by_j, by_i = transposition(), transposition()
for s, down, across in ((by_j, "i", "j"), (by_i, "j", "i")):
    s.reorder(down, across)
    s.bind(down, "blockIdx.x")
    s.bind(across, "threadIdx.x")
assert traffic(by_j) == {"load A": 32, "store B": 4}
assert traffic(by_i) == {"load A": 4, "store B": 32}
a = ints(64, 96)
kernel = emulated(by_j)
if kernel:  # which counts what it runs, while mt.gpu_cost computes addresses from the program
    counted = {one.buffer: one.sectors / one.requests for one in kernel.counters(a)}
    assert np.array_equal(kernel(a), a.T) and counted == {"A": 32, "B": 4}

# %%
lanes_of_a, _ = gpu.access_pictures(codegen.lowered(by_j.program, A100))
picture("16_sectors", lanes_of_a)

# %% [markdown]
# Either way one of the two is eight times as much as it need be.
#
# ## Shared memory, and its banks
#
# A block has some 100 KiB of *shared memory*, about as near as a CPU's first cache. Rows of A go in
# as rows, and come out as columns: `cache_read` makes the copy, for each block (`compute_at`).


# %%
def bound(s, word, *loops):
    """Bind two loops to y and x."""
    for loop, axis in zip(loops, "yx"):
        s.bind(loop, f"{word}Idx.{axis}")


def on_threads(s, down, across):
    """Rows of 32 lanes; a thread takes every eighth row."""
    steps, row = s.split(down, [None, 8])
    s.reorder(steps, row, across)
    bound(s, "thread", row, across)


def staged(padding):
    """Squares of A in shared memory; `padding`: more elements after each of their rows."""
    s = transposition()
    (i_0, i_1), (j_0, j_1) = s.split("i", [None, 32]), s.split("j", [None, 32])
    s.reorder(i_0, j_0, i_1, j_1)
    bound(s, "block", i_0, j_0)
    copy = s.cache_read("B", "A", "shared")
    s.compute_at(copy, j_0)
    on_threads(s, *s.get_loops(copy)[-2:])
    on_threads(s, i_1, j_1)
    if padding:
        s.storage_align(copy, 0, 32, padding)
    return s


conflict = staged(0)
conflict.show()
assert traffic(conflict) == {"load A": 4, "store A_shared": 1, "load A_shared": 32, "store B": 4}

# %% [markdown]
# Device memory is content, and a new problem is there. Shared memory has 32 *banks*: word w (of 4
# bytes) is in bank w % 32, and each bank gives one word a turn. A column of rows of 32 words is in
# a single bank: 32 turns, a *bank conflict*. With rows of 33 words the next one is a bank further.


# %%
def turns(words):
    """Turns of the banks for a request: the most different words in one of them."""
    return max(len({word for word in words if word % 32 == bank}) for bank in range(32))


assert turns(lanes) == turns(lanes * 33) == turns(lanes * 0) == 1  # lanes may get the same word
assert turns(lanes * 32) == 32 and turns(lanes * 34) == 2
padded = staged(1)
assert traffic(padded) == {**traffic(conflict), "load A_shared": 1}

# %%
_, _, column, _ = gpu.access_pictures(codegen.lowered(conflict.program, A100))
picture("16_banks", column)

# %% [markdown]
# ## Barriers, and races
#
# The nests of the last schedule are siblings: threads copy; *then* threads store. Each nest is a
# fork of all threads, and its end a join. A GPU has no such thing: its threads run from the start
# of the function to its end. So a pass makes one nest of the two, and in the place of the join puts
# a *barrier*, at which all threads of the block wait for each other:

# %%
print(codegen.lowered(padded.program, A100))
kernel = emulated(padded)
assert kernel is None or np.array_equal(kernel(a), a.T)

# %% [markdown]
# It is there because an element passes from one thread to another. Where each element stays with
# one thread there is none, as waiting costs time. To see what it is for, take it away: code
# generation is a list of passes, and ours comes last.


# %%
def without_barrier(number):
    """Passes that leave out one barrier, counted from 0."""

    def leave_out(program, target):
        barrier = [n for n in ir.stmts_of(program.body) if isinstance(n, ir.Barrier)][number]
        body = ir.rewrite(program.body, lambda node: ir.Seq(()) if node is barrier else node)
        return program.replace(body=body)

    return [*codegen.CUDA_PASSES, ("without a barrier", leave_out)]


racy = emulated(padded, passes=without_barrier(0))
for fault in racy.faults(a)[:1] if racy else []:
    print(fault)
    assert fault.kind == "race" and {actor.does for actor in fault.actors} == {"reads", "writes"}
try:  # the interpreter runs such programs too, each thread up to its next barrier
    ir.interpret(codegen.lowered(padded.program, A100, without_barrier(0)), [a], ["B"])
    raise AssertionError("a barrier is missing, and all is well")
except mt.ExecutionError as error:
    print(error)

# %% [markdown]
# A *race*: two threads touch an element, one of them writes, and no barrier is between. The message
# names block, threads, element and lines. A GPU names nothing: the lanes of a warp mostly run
# together, the other warps a little later, and the result is right, nearly always. The checker does
# not wait for a wrong result: it remembers of each element who touched it since the last barrier.
#
# A loop needs more: threads fill an array, wait, and read it; and in the next iteration they fill
# it again while others may still read. That race is between two iterations, over the *back edge* of
# the loop, and takes a second barrier. The product at the end has both.
#
# ## Threads that combine
#
# A sum of a row by one thread reads down the rows: 32 lanes, 32 rows, 32 sectors. Better 32 threads
# share a row. They need partial sums (`rfactor`, lesson 11), and a way to combine them. In a warp
# lanes read each other's registers: a *shuffle*. With 16, 8, 4, 2 and 1 lanes apart, five steps do.


# %%
def butterfly(values):
    """The sum of 32 lanes, in all of them."""
    for apart in (16, 8, 4, 2, 1):
        values = [values[lane] + values[lane ^ apart] for lane in range(32)]
    return values


def row_sums(rows, columns):
    """The sums of rows."""
    A = mt.placeholder((rows, columns), name="A")
    r = mt.reduce_axis(columns, name="k")
    S = mt.compute((rows,), lambda i: mt.sum(A[i, r], axis=r), name="S")
    return mt.Schedule(mt.lower([A, S], name="row_sums"))


assert butterfly(range(32)) == [sum(range(32))] * 32
alone, together = row_sums(64, 1024), row_sums(64, 1024)
alone.bind("i", "threadIdx.x")
_, lane = together.split("k", [None, 32])
partial = together.rfactor(lane)
i, combined = together.get_loops("S")
together.compute_at(partial, i)
together.bind(i, "blockIdx.x")
for loop in (together.get_loops(partial)[-1], combined):
    together.bind(loop, "threadIdx.x")
print(codegen.lowered(together.program, A100))
assert (traffic(alone)["load A"], traffic(together)["load A"]) == (32, 4)
a = ints(64, 1024)
run = emulated(together) or mt.build(together, target="interpreter")
assert np.array_equal(run(a), a.sum(1))

# %% [markdown]
# ## Occupancy
#
# A load from device memory takes some 500 cycles. A multiprocessor goes on with another warp, so it
# should have many. What blocks take decides how many fit: an A100 has 2,048 threads, 65,536
# registers and 164 KiB of shared memory on each.


# %%
def blocks_together(threads, registers, shared):
    """Roughly the blocks on a multiprocessor: registers of a thread, shared bytes of a block."""
    return min(2048 // threads, 65536 // (threads * registers), (164 << 10) // (shared + 1024))


assert blocks_together(256, 32, 0) == 8  # 2,048 threads: occupancy 100 %
assert blocks_together(256, 64, 8 << 10) == 4  # half of them: registers are the limit
assert blocks_together(256, 32, 48 << 10) == 3  # shared memory is
assert blocks_together(1024, 65, 0) == 0  # such a kernel cannot start

# %% [markdown]
# More is not always better: a tile in registers takes room from other warps, and asks memory for
# less. The cost knows both: it is the largest of what issue of instructions, arithmetic, shared
# memory, L2, DRAM and waiting would take. It ranks schedules, and is no measurement.
#
# ## A product, step by step
#
# Blocks of 16 x 16 threads. Which index of C goes to `threadIdx.x`?


# %%
def product(n):
    """C = A B."""
    A, B = mt.placeholder((n, n), name="A"), mt.placeholder((n, n), name="B")
    r = mt.reduce_axis(n, name="k")
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    return mt.Schedule(mt.lower([A, B, C], name="product"))


def plain(s, down="i", across="j", register=False):
    """An element a thread; `register`: its sum is not in C before it is complete."""
    out = s.cache_write("C", "local") if register else None
    (i_0, i_1), (j_0, j_1) = s.split(down, [None, 16]), s.split(across, [None, 16])
    s.reorder(i_0, j_0, i_1, j_1)
    bound(s, "block", i_0, j_0)
    bound(s, "thread", i_1, j_1)
    if out:
        s.reverse_compute_at(out, j_1)


def tiled(s, own=1):
    """Tiles in shared memory; a thread has `own` x `own` sums."""
    out = s.cache_write("C", "local")
    (i_0, i_1, i_2), (j_0, j_1, j_2) = (s.split(x, [None, 16, own]) for x in "ij")
    k_0, k_1 = s.split("k", [None, 16])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2)
    s.reverse_compute_at(out, j_0)
    bound(s, "block", i_0, j_0)
    bound(s, "thread", i_1, j_1)
    for loop in (k_1, i_2, j_2):
        s.unroll(loop)
    for name in ("A", "B"):
        copy = s.cache_read("C", name, "shared")
        s.compute_at(copy, k_0)
        _, *both = s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, 16, 16])
        bound(s, "thread", *both)
    (y, y_own), (x, x_own) = (s.split(loop, [None, own]) for loop in s.get_loops(out)[-2:])
    s.reorder(y, x, y_own, x_own)
    bound(s, "thread", y, x)


STEPS = {
    "1 i on x": lambda s: plain(s, "j", "i"),
    "2 j on x": plain,
    "3 register": lambda s: plain(s, register=True),
    "4 shared": tiled,
    "5 4 x 4": lambda s: tiled(s, 4),
}
a, b = ints(2, 64, 64)
seconds = {}
for name, step in STEPS.items():
    small, large = product(64), product(1024)
    step(small)
    step(large)
    kernel = emulated(small)
    assert kernel is None or np.array_equal(kernel(a, b), a @ b)
    cost = mt.gpu_cost(large)
    (one,) = cost.kernels
    seconds[name] = one.seconds
    asked = sum(access.sectors * 32 for access in one.accesses if access.space == "global")
    print(f"{name:11}{1e6 * one.seconds:5.0f} µs, {one.bound:10} {asked / 1e9:5.2f} GB asked for")
print(cost)
assert seconds["1 i on x"] > 2 * seconds["3 register"] > 4 * seconds["5 4 x 4"]
for number in (0, 1):  # of the last kernel
    racy = emulated(small, passes=without_barrier(number))
    faults = racy.faults(a, b, orders=["forward"]) if racy else []
    print(*faults[:1])
    assert racy is None or "race" in {fault.kind for fault in faults}

# %% [markdown]
# Steps 1 and 2 differ in who is a neighbour. Step 3: a sum that lives in C is loaded and stored
# each time. Step 4: each of 16 x 16 threads fetches an element of A and one of B, and all use them,
# so device memory gives an eighth; but shared memory is busy, with two loads for a multiply-add.
# Step 5 is lesson 12: a tile in registers, of each thread. What is left to do, the `!` says. The
# loop of k has two barriers; without the first, and without the second, there is a race.
#
# ## What a GPU would do differently
#
# - It takes *time*. The emulator has no clock, and the cost is a model.
# - nvcc decides on registers; the cost estimates them. Where nvcc is, `mt.build(s, target="cuda")`
#   makes the real thing, and `kernel.resources` and `kernel.ptx` need no GPU; only a call does.
# - It rounds a product and a sum once. The emulator does not: results may differ in the last bits.
# - It runs thousands of threads at once, in an unspecified order. The emulator runs one after
#   the other. Its checker finds the races of this input, in any order.
#
# ## Pitfalls
#
# - Coalescing is about lanes (x), not about the order of a thread's own loop.
# - A nest over threads in a serial loop is a fork in each iteration, and may need two barriers.
# - Counts of small arrays flatter: look at the sizes that you mean.
#
# ## Tasks
#
# Write these functions in `16_tasks.py`, and let `minitensor course check 16` judge them.
#
# 1. `transposed(s)`: transpose an array of any size, with coalesced loads and stores, and without
#    bank conflicts.
# 2. `barriers(steps)`: the fewest barriers for the body of a loop, and their places.
# 3. `row_reduction(s)`: the lanes of a warp share the reduction of a row.
# 4. `tiled(s, sectors, turns)`: a product that asks no more of device and of shared memory.
#
# ## Sources
#
# - NVIDIA, "CUDA C++ Programming Guide": Programming Model, Hardware Implementation; "CUDA C++ Best
#   Practices Guide": Coalesced Access to Global Memory, Shared Memory, Calculating Occupancy.
# - V. Volkov, J. Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008: tiles in
#   registers rather than more threads.
# - A. Betts et al., "GPUVerify: a verifier for GPU kernels", OOPSLA 2012: races, for all inputs.
