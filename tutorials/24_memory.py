# %% [markdown]
# # Memory of a network: lives, one arena, and layouts
#
# **You will be able to** say how long each value of a network is needed, place all of them in one
# block of memory, give a bound that no plan can beat, find the plan that frees too early, and say
# where each element of an image lies in the layouts NCHW, NHWC and NCHW8c.
#
# Lesson 23 made kernels of a network. Between two kernels lie values, and each needs memory from
# the kernel that computes it to the last one that reads it. A network with a hundred values does
# not need a hundred arrays.

# %%
import itertools

import numpy as np

import minitensor as mt
from minitensor import ops
from minitensor_course import picture


# %%
def net(x, a, b, c, d, e):
    """Four layers with a shortcut over three of them, one more, and the mean of each channel."""
    first = ops.relu(ops.conv2d(x, a, padding=1))
    second = ops.relu(ops.conv2d(first, b, padding=1))
    third = ops.relu(ops.conv2d(second, c, padding=1))
    fourth = ops.relu(ops.add(ops.conv2d(third, d, padding=1), first))
    last = ops.relu(ops.conv2d(fourth, e, stride=2, padding=1))
    return ops.reduce_mean(last, axes=(2, 3))


rng = np.random.default_rng(24)
shapes = {"a": (8, 3, 3, 3), "b": (16, 8, 3, 3), "c": (8, 16, 3, 3), "d": (8, 8, 3, 3)}
shapes["e"] = (16, 8, 3, 3)
weights = {name: rng.integers(-2, 3, shape).astype("float32") for name, shape in shapes.items()}
graph = mt.graph.trace(net, x=((1, 3, 8, 8), "float32"), **weights).fuse()
x = rng.integers(-2, 3, (1, 3, 8, 8)).astype("float32")
want = mt.interpret(graph, x)
print(graph)
assert len(graph.kernels) == 6

# %% [markdown]
# ## Lives
#
# A *step* is one kernel: the value that it computes, and those that it reads. Inputs and weights
# are not in the list: they lie elsewhere. What the network returns is written into an array of the
# caller, but here we keep it with the others.

# %%
steps = []
for group in graph.kernels:
    inside = set(group)
    reads = {name for node in group for name in graph.node(node).inputs} - inside
    computed = [name for name in graph.by_name if name in reads]
    steps.append((group[-1], computed))
sizes = {name: graph.values[name].nbytes for name, _ in steps}
for number, (name, reads) in enumerate(steps):
    print(number, f"{name:12} {sizes[name]:6,} bytes, reads {', '.join(reads) or 'inputs only'}")

# %% [markdown]
# A value *lives* from the step that computes it to the last step that reads it, both included:
# while a kernel runs, its operands and its result are all needed. That is the liveness analysis by
# which compilers assign registers; here a register is a piece of memory, and of any size.


# %%
def first_and_last(steps):
    """The life of each value: the first and the last step in which it is needed."""
    lives = {}
    for number, (name, reads) in enumerate(steps):
        lives[name] = (number, number)
        for read in reads:
            lives[read] = (lives[read][0], number)
    return lives


lives = first_and_last(steps)
for name, (first, last) in lives.items():
    print(f"{name:12}", " " * 3 * first + "###" * (last - first + 1))
assert lives["relu"] == (0, 3)  # for the shortcut

# %% [markdown]
# **Predict first.** How many bytes does this network need at least, and in which step?
#
# In each step, everything that lives then has to be somewhere. So the most bytes that live at once
# are a *lower bound*: no plan needs less, however clever.


# %%
def alive(lives, sizes):
    """The bytes that live in each step."""
    end = max(last for _, last in lives.values())
    return [
        sum(sizes[name] for name, (first, last) in lives.items() if first <= n <= last)
        for n in range(end + 1)
    ]


bound = max(alive(lives, sizes))
print(alive(lives, sizes), "so at least", bound, "bytes; one array each:", sum(sizes.values()))
assert bound == alive(lives, sizes)[2] < sum(sizes.values())

# %% [markdown]
# ## A plan
#
# A plan gives each value an offset in one block of memory, the *arena*. It is right if two values
# whose lives meet share no byte. Think of rectangles: the life is the width, the bytes are the
# height. To move them up and down until the stack is low is a packing problem, and NP-hard in
# general, so planners are greedy. The order matters most:


# %%
def meet(one, other):
    """Tell whether two lives have a step in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def first_fit(order, sizes, lives):
    """Each value, in this order, at the lowest offset where it is in nobody's way."""
    offsets = {}
    for name in order:
        others = [other for other in offsets if meet(lives[name], lives[other])]
        offset = 0
        for low, high in sorted((offsets[o], offsets[o] + sizes[o]) for o in others):
            if offset + sizes[name] <= low:
                break
            offset = max(offset, high)
        offsets[name] = offset
    return offsets, max(offsets[name] + sizes[name] for name in offsets)


boxes = {"a": 1, "b": 4, "c": 6, "d": 4}
times = {"a": (0, 2), "b": (0, 0), "c": (2, 3), "d": (1, 1)}
print("bound", max(alive(times, boxes)))
for order in ("abdc", "cbda"):
    print(order, first_fit(order, boxes, times))
assert first_fit("abdc", boxes, times)[1] == 7 == max(alive(times, boxes))

# %% [markdown]
# Both orders meet the bound there. In general, values in the order in which they are computed leave
# gaps that are too small for what comes later. The usual remedy is *largest first*: small values
# fill what large ones leave (Pisarchyk and Lee, MLSys 2020, section 5). And of several gaps take
# the smallest that is large enough, *best fit*, so that large gaps stay whole.

# %%
by_time = first_fit(lives, sizes, lives)
by_size = first_fit(sorted(lives, key=lambda name: -sizes[name]), sizes, lives)
print("by time", by_time[1], "by size", by_size[1], "bound", bound)
assert by_size[1] == bound

# %% [markdown]
# Is the bound always met? No. Sort the values of the best plan by their offsets: placed in this
# order, first fit puts none of them higher. So the best of all orders is the best of all plans, and
# for eight values they can all be tried:

# %%
eight = {"a": 3, "b": 1, "c": 3, "d": 3, "e": 1, "f": 2, "g": 3, "h": 1}
spans = {"a": (0, 1), "b": (1, 2), "c": (4, 5), "d": (0, 0), "e": (2, 3), "f": (1, 3)}
spans |= {"g": (3, 5), "h": (2, 2)}
best = min(first_fit(order, eight, spans)[1] for order in itertools.permutations(eight))
print("alive", alive(spans, eight), "and the best of all plans needs", best)
assert best == max(alive(spans, eight)) + 1

# %% [markdown]
# ## A plan that frees too early
#
# What happens when a life is one step too short? Nothing, as long as nobody needs the bytes. Then
# another value is written there, and the reader gets numbers of something else. Here is an executor
# that runs the kernels of our graph in one array, as a plan says.


# %%
def execute(graph, steps, offsets, size, x):
    """Run the kernels with all values in one arena; the result of the last."""
    arena = np.full(size // 4, np.nan, "float32")
    for group in graph.kernels:
        part = mt.graph.program_of(graph, group)
        given = []
        for name in part.inputs:
            value = graph.values[name]
            if name in offsets:
                start = offsets[name] // 4
                given.append(arena[start : start + value.nbytes // 4].reshape(value.shape).copy())
            else:
                given.append(x)
        given += [graph.constants[name] for name in part.constants.values()]
        result = mt.interpret(part.program, *given)
        start = offsets[group[-1]] // 4
        arena[start : start + result.size] = result.ravel()
    return result


right = execute(graph, steps, by_size[0], bound, x)
assert np.array_equal(right, want)

short = lives | {"relu": (0, 1)}  # "relu is read by the next kernel": the shortcut is forgotten
wrong_plan = first_fit(sorted(short, key=lambda name: -sizes[name]), sizes, short)
wrong = execute(graph, steps, wrong_plan[0], wrong_plan[1], x)
print("fewer bytes:", wrong_plan[1], "and other numbers:", np.abs(wrong - want).max())
assert not np.array_equal(wrong, want)

# %% [markdown]
# Such a fault is nasty: the network runs, the numbers are plausible, and small tests without a
# shortcut pass. So minitensor has a mode that looks: `mt.build(graph, check=True)` fills what holds
# no living value with NaN before each kernel, and compares what lives before and after it.
#
# ## The plan of a model
#
# `model.memory` is the plan that minitensor made, with the bound beside it. It does not hold the
# result, which is the caller's. One value lies in the memory of another: its kernel reads each
# element of that one for the same element of its own, and nothing reads that one later.

# %%
named = [mt.graph.Step(name, tuple(reads), (name,), {}) for name, reads in steps]
plan = mt.graph.plan_memory(named, sizes, kept=[steps[-1][0]])
try:
    model = mt.build(graph, check=True)
    print(model.memory)
    assert np.array_equal(model(x), want)
    assert model.memory.arena == model.memory.lower_bound
    plan = model.memory
except mt.CompileError as error:  # without a compiler there is no model
    print(error)

# %%
picture("24_arena", mt.graph.memory_picture(plan))

# %% [markdown]
# ## Layouts: where in its bytes an element lies
#
# An image has four axes, (n, c, y, x), and memory has one. In the order as written, NCHW, the
# pixels of a row are neighbours. In NHWC the channels of a pixel are. In NCHW8c channels are cut
# into blocks of 8; the blocks are as in NCHW, and the 8 channels of a pixel side by side.

# %%
image = np.arange(1 * 16 * 2 * 3).reshape(1, 16, 2, 3)  # the number of each element in NCHW
last = image.transpose(0, 2, 3, 1)
blocked = image.reshape(1, 2, 8, 2, 3).transpose(0, 1, 3, 4, 2)
print("NCHW  ", image.ravel()[:10], "…")
print("NHWC  ", last.ravel()[:10], "…")
print("NCHW8c", blocked.ravel()[:10], "…")
assert last.shape == (1, 2, 3, 16) and blocked.shape == (1, 2, 2, 3, 8)

# %% [markdown]
# Why would a kernel care? A vector instruction loads neighbours. A convolution with stride 2 in
# NCHW needs every second pixel, so half of what it loads is thrown away; with channels innermost it
# loads what it needs. A 7 x 7 image has 49 pixels, which is no multiple of 16, and a depthwise
# convolution in NCHW wastes lanes in each row; channels come in multiples of 16. But a pixel's
# channels in NHWC are far from those of its neighbour below, when there are thousands of them:
# that is why there are blocks (Liu et al., USENIX ATC 2019, section 3).
#
# In minitensor a layout changes the definition of a kernel, and nothing else. Compare the indices:

# %%
plain = mt.graph.program_of(graph, graph.kernels[1]).program
laid = graph.lay_out("NCHW8c")
blocks = mt.graph.program_of(laid, laid.kernels[1]).program
print(plain)
print(blocks)
assert "nhwc" in blocks.name  # 8 channels: a block is all of them
assert np.array_equal(mt.interpret(laid, x), want)

# %% [markdown]
# Inputs and outputs keep their order, so the first kernel reads NCHW and writes blocks: a change of
# layout is a part of a kernel, and costs only what its reads cost. Which layout is best for which
# value? That depends on both kernels at its ends. Without a log `mt.build` puts channels last where
# they fill vectors; `mt.tune` measures the kernels in three layouts, and finds the cheapest choice
# for all values together by dynamic programming over the kernels.
#
# ## Pitfalls
#
# - The operands of a kernel live while it runs. A life that ends where the last reader *begins*
#   lets the result be written over an operand that is still read.
# - A view (a reshape that copies nothing) keeps what it views alive.
# - Align offsets, to 64 bytes: a value that starts in the middle of a cache line shares it with
#   another one, and two threads that write there wait for each other.
# - The lower bound is of one order of the kernels. Another order may need less.
# - A layout that is best for one kernel may cost more at its neighbours than it gains.
#
# ## Tasks
#
# Write these functions in `24_tasks.py`, and let `minitensor course check 24` judge them.
#
# 1. `lives(steps, kept)`: the first and the last step of each value.
# 2. `plan(sizes, lives)`: offsets that meet the bound.
# 3. `fault(steps, sizes, offsets)`: the first step that reads a value that was written over.
# 4. `place(shape, block, index)`: where an element lies in a layout.
#
# ## Sources
#
# - Y. Pisarchyk and J. Lee, "Efficient memory management for deep neural net inference", MLSys
#   2020, sections 4 and 5: lives, the bound, and greedy plans by size.
# - Y. Liu et al., "Optimizing CNN model inference on CPUs", USENIX ATC 2019, section 3: blocked
#   layouts, and the choice among them by dynamic programming.
# - A. V. Aho et al., "Compilers: principles, techniques, and tools", 2nd edition, section 9.2.5:
#   live variables.
