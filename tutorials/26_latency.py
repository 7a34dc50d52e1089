# %% [markdown]
# # Hiding latency: virtual threads on an accelerator
#
# **You will be able to** schedule a product for a machine whose loads, products and stores are
# queues of their own, say which tokens order them and why each is needed, find a missing one, and
# choose a tile and a number of virtual threads that keep the array busy.
#
# A processor guesses what comes next, and loads it early. An accelerator for networks does not
# guess. It has an array of multipliers, memories that a program fills by itself, and three queues
# of instructions, *load*, *execute* and *store*, which run at the same time. Who orders them? The
# program, by *tokens*. Who has them run under each other? The schedule, by *virtual threads*.
#
# No such machine is needed here: it is simulated. Its numbers are those published of one.

# %%
import numpy as np

import minitensor as mt
from minitensor_course import picture

print(mt.accelerator.Machine())

# %% [markdown]
# ## A product for it
#
# Memories are scopes. A load is a copy to "acc.input" or "acc.weight", a store a copy of
# "acc.accumulator", and the array is an intrinsic: 16 outputs by 16 terms in a cycle.

# %%
M, N, K = 784, 64, 576
A = mt.placeholder((M, K), "int8", name="A")
B = mt.placeholder((K, N), "int8", name="B")
k = mt.reduce_axis(K, name="k")
C = mt.compute(
    (M, N),
    lambda i, j: mt.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k),
    name="C",
)
program = mt.lower([A, B, C], name="product")


def scheduled(threads, rows=98, terms=144):
    """The product in tiles of rows and terms; virtual threads do the tiles of rows in turns."""
    s = mt.Schedule(program)
    s.cache_write("C", "acc.accumulator")
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, rows])
    i_0, v = s.split(i_0, [None, threads])
    j_0, j_1 = s.split(j, [None, 16])
    k_0, k_1, k_2 = s.split(k, [None, terms // 16, 16])
    s.reorder(i_0, v, k_0, i_1, j_0, k_1, j_1, k_2)
    s.bind(v, "vthread")
    s.reverse_compute_at("C_accumulator", v)
    s.compute_at(s.cache_read("C", "A", "acc.input"), k_0)
    s.compute_at(s.cache_read("C", "B", "acc.weight"), k_0)
    s.decompose_reduction("C", k_0)
    s.tensorize(j_1, mt.accelerator.product())
    return s


one = mt.build(scheduled(1), mt.accelerator.Machine())
print(one.stream.listing(12))

# %% [markdown]
# `load>` in the column *pops* is a token of the load queue that is waited for; `>execute` in the
# column *pushes* is one for the execute queue, when the instruction is done.
#
# **Predict first.** A tile of A and B is 98 x 144 + 144 x 64 bytes, and DRAM moves 8 in a cycle.
# Its product is 98 x 64 x 144 multiply-adds, of 256 in a cycle. Which part of the array's peak is
# reached if they take turns? And if not?

# %%
load, product = (98 * 144 + 144 * 64) / 8, 98 * 64 * 144 / 256
print(f"load {load:.0f} cycles, product {product:.0f}")
print(f"in turns {product / (load + product):.2f}, at once {product / max(load, product):.2f}")
print(one.timing)
assert abs(one.timing.utilisation - product / (load + product)) < 0.05

# %% [markdown]
# They take turns. The next tile goes where this one lies, so the load waits until the product has
# read it, and then the product waits for the load.
#
# ## Two threads
#
# With two virtual threads each has memory of its own. The compiler writes their instructions in
# turns into one stream: while one thread multiplies, the other loads.

# %%
two = mt.build(scheduled(2), mt.accelerator.Machine())
print(two.stream.listing(12))
print(two.timing)
assert two.timing.utilisation > 0.85
assert one.timing.utilisation < 0.65

# %% [markdown]
# The picture shows the queues over time, one colour for each thread.

# %%
picture("26_one", one.timing.timeline(12000))
picture("26_two", two.timing.timeline(12000))

# %% [markdown]
# ## Which tokens
#
# Two instructions of different queues need an order if one writes what the other touches. Then the
# later one waits for a token of the earlier. But not for each such pair: queues are in order, so
# the last instruction of a queue stands for all before it, and what has been waited for once need
# not be waited for again.

# %%
stream = two.stream
every = mt.accelerator.with_tokens(stream, fewest=False)
print(f"{len(stream)} instructions, {len(every.tokens)} needs, {len(stream.tokens)} tokens")
mt.accelerator.check(stream)  # whatever the queues do, the result is right
source, target = stream.tokens[0]
print(stream[source], "->", stream[target], sep="\n")

# %% [markdown]
# Without one of them, something is not ordered. `check` proves it for all orders at once, by
# counting what must be done when an instruction begins:

# %%
found = 0
for token in stream.tokens:
    rest = [other for other in stream.tokens if other != token]
    try:
        mt.accelerator.check(stream.with_tokens(rest))
    except mt.ExecutionError as error:
        found += 1
        message = error.message
    if found == 20:
        break
print(found, "of 20 found; the last:", message, sep="\n")
assert found == 20

# %% [markdown]
# A run of it may be right in spite of that. An adversary chooses the order of the queues, among
# those that the tokens allow, by a seed; numbers are computed in that order, and memories begin
# with noise.

# %%
small = mt.accelerator.matmul(32, 32, 32)
kernel = mt.tune(small, "accelerator", trials=4, progress=False).kernel()
rng = np.random.default_rng(0)
a, b = (rng.integers(-9, 9, (32, 32), dtype=np.int8) for _ in range(2))
want = np.clip(a.astype(int) @ b >> 8, -128, 127)
for seed in range(10):
    assert np.array_equal(kernel.simulate(a, b, order=seed).outputs[0], want)
broken = kernel.with_stream(kernel.stream.with_tokens(kernel.stream.tokens[1:]))
met = 0
for seed in range(20):
    try:
        broken.simulate(a, b, order=seed)
    except mt.ExecutionError:
        met += 1
print(f"without the first token, {met} of 20 orders race")
assert met > 0

# %% [markdown]
# ## How much there is to gain
#
# **Predict first.** At which bandwidth do two threads gain the most: where DRAM is slow, or fast?

# %%
print("bytes a cycle    one thread    two")
for bandwidth in (2, 4, 8, 16, 32):
    machine = mt.accelerator.Machine(dram_bytes_per_cycle=bandwidth)
    reached = [mt.build(scheduled(n), machine).timing.utilisation for n in (1, 2)]
    print(f"{bandwidth:13}{reached[0]:14.2f}{reached[1]:7.2f}")
    assert reached[1] > reached[0]

# %% [markdown]
# Half of the time of turns can be hidden at most, where load and product take as long as each
# other. Where DRAM is slower, the time of the loads is all that is left, and more threads help
# nothing; a larger tile does, which loads less for each product. But two threads have half of the
# memory each, so their tiles are smaller. That is the trade.
#
# **Try it.** More rows and fewer terms, `scheduled(2, 196, 64)`: less is loaded, in more
# instructions. And 4 threads, with 49 rows? A tile that does not fit is refused.

# %%
slow = mt.accelerator.Machine(dram_bytes_per_cycle=4)
for threads, rows, terms in ((1, 196, 144), (2, 98, 144), (2, 196, 64), (4, 49, 64)):
    timing = mt.build(scheduled(threads, rows, terms), slow).timing
    print(f"{threads} threads, {rows:3} rows, {terms:3} terms: {timing.utilisation:.2f}")
try:
    mt.build(scheduled(4, 49, 144), slow)
    raise AssertionError("it fits")
except mt.LoweringError as error:
    print(error.message)

# %% [markdown]
# ## A search
#
# The template of this machine has the tiles, the threads and their axis as decisions, and a
# measurement is a number of simulated cycles.

# %%
result = mt.tune(mt.accelerator.matmul(64, 64, 256), "accelerator", trials=8, progress=False)
print(result.kernel().timing)
assert result.kernel().timing.utilisation > 0.4

# %% [markdown]
# ## Pitfalls
#
# - A run that is right proves nothing about tokens: another order may be wrong.
# - One token too few is a race, one pop too many a deadlock, one push too many a race of the next
#   program.
# - Virtual threads divide the memories. Twice the threads with half the tile may load more.
# - Utilisation counts padding: 17 columns on an array of 16 are 32.
#
# ## Tasks
#
# Write these functions in `26_tasks.py`, and let `minitensor course check 26` judge them.
#
# 1. `tokens(steps)`: the fewest tokens that order a stream.
# 2. `missing(steps, tokens)`: the two instructions that nothing orders.
# 3. `cycles(steps, tokens, lengths)`: when the last instruction ends.
# 4. `tile(m, n, k, bandwidth)`: a tile and a number of threads that keep the array busy.
#
# ## Sources
#
# - T. Chen et al., "TVM: an automated end-to-end optimizing compiler for deep learning", OSDI
#   2018, sections 4.4 and 6.4: virtual threads, tokens, and the machine, VDLA.
# - J. E. Smith, "Decoupled access/execute computer architectures", ISCA 1982: the queues.
# - C. J. Fidge, "Timestamps in message-passing systems that preserve the partial ordering", 1988:
#   counting what must have happened.
