# %% [markdown]
# # One budget, many tasks: where the trials of a network go
#
# **You will be able to** divide the trials of a search among the kernels of a network, say what a
# round of trials is expected to gain, write the rule by which Ansor divides them, and compare rules
# on curves that were made or recorded.
#
# Lesson 23 made kernels of a network, and lessons 17 to 21 searched for the schedule of one. A
# network has tens of them: its *tasks*. You have an hour. Which kernel should have it?

# %%

import numpy as np

import minitensor as mt
from minitensor import ops
from minitensor_course import picture

# %% [markdown]
# ## Curves
#
# Searches are tried out most quickly on curves that are known. A task here is a function: the
# seconds of a call of its fastest kernel after so many rounds of trials. Each begins somewhere,
# and gains a part of that, half of it in so many rounds. A call of the network runs each kernel
# `count` times.


# %%
def law(first, part, half):
    """A curve that falls from `first` by a part of it, half of the fall in so many rounds."""
    return lambda rounds: first * (1 - part * (1 - 2 ** (-rounds / half)))


laws = {"stem": law(2.0, 0.6, 3), "block": law(1.0, 0.5, 12), "head": law(0.5, 0.8, 1)}
laws["pool"] = law(0.1, 0.9, 2)
counts = {"stem": 1, "block": 8, "head": 1, "pool": 2}
for name, curve in laws.items():
    print(f"{name:6} x {counts[name]}", *(f"{curve(rounds):6.3f}" for rounds in range(0, 20, 4)))


def latency(done):
    """Seconds of a call of the network after so many rounds of each task."""
    return sum(counts[name] * laws[name](done[name]) for name in laws)


nothing = dict.fromkeys(laws, 0)
print("untuned:", latency(nothing))

# %% [markdown]
# **Predict first.** With 16 rounds, how many would you give to each?
#
# Fair shares are the first thing that comes to mind: each in turn, four rounds each.

# %%
fair = dict.fromkeys(laws, 4)
print("four rounds each:", latency(fair))

# %% [markdown]
# The curves never fall faster later than they fell before (they are convex). Then the best division
# is found greedily: give one round after the other to the task whose next round gains the most. If
# some other division were better, it would have a round that gains less than one it left out.


# %%
def best_division(rounds):
    """The rounds of each task in the best division."""
    done = dict(nothing)
    for _ in range(rounds):
        falls = {n: counts[n] * (laws[n](done[n]) - laws[n](done[n] + 1)) for n in laws}
        done[max(falls, key=falls.__getitem__)] += 1
    return done


best = best_division(16)
print(best, latency(best))
assert latency(best) < latency(fair) < latency(nothing)
assert best["block"] > 10  # eight kernels gain with each of its rounds

# %% [markdown]
# ## What nobody knows
#
# A search does not know the curves. It knows what each task took and what it gained until now. What
# will the next round gain? Two guesses:
#
# - *Looking back*: as much as the last rounds gained, each. A task that stands still is left alone,
#   perhaps too early: curves of searches are stairs.
# - *Hope*: after t rounds, `g / t`, as if the next round were to take a further t-th part of all
#   that is left. That is too much, but it shrinks with t, and nobody is forgotten.
#
# Ansor adds both, `alpha` times the one and `1 - alpha` times the other, with alpha = 0.2, and
# gives the next round to the task with the largest sum, times its count. First each task has a
# round.


# %%
def gain(count, times, alpha=0.2, window=3):
    """The expected gain of the next round, of a task with these seconds after 0, 1, 2 … rounds."""
    rounds = len(times) - 1
    back = min(window, rounds)
    gained = (times[-1 - back] - times[-1]) / back
    return count * (alpha * gained + (1 - alpha) * times[-1] / rounds)


def race(choose, rounds):
    """Play a rule: the seconds after each round of each task."""
    seen = {name: [curve(0)] for name, curve in laws.items()}
    for _ in range(rounds):
        name = choose(seen)
        seen[name].append(laws[name](len(seen[name])))
    return seen


def by_gradient(seen, alpha=0.2):
    """A task without a round, or the one with the largest expected gain."""
    fresh = [name for name in seen if len(seen[name]) == 1]
    return fresh[0] if fresh else max(seen, key=lambda n: gain(counts[n], seen[n], alpha))


def total(seen):
    """Seconds of a call of the network."""
    return sum(counts[name] * times[-1] for name, times in seen.items())


found = race(by_gradient, 16)
print({name: len(times) - 1 for name, times in found.items()}, total(found))
assert latency(best) <= total(found) < latency(fair)

# %% [markdown]
# **Try it.** What does `alpha = 1` do here, which only looks back? And on curves that stand still
# for five rounds before they fall?

# %%
for alpha in (0.0, 0.2, 0.5, 0.9, 1.0):
    print(alpha, total(race(lambda seen, a=alpha: by_gradient(seen, a), 16)))

# %% [markdown]
# ## Alike tasks
#
# Networks have many convolutions that differ in extents alone. If one runs at 100 GFLOP/s and its
# twin at 20, the twin has something to gain, whatever its own curve says. So Ansor's hope is the
# larger of `g / t` and what is missing to half the speed of the fastest alike task (`beta` = 2).
# In minitensor these are curves and legs, and `mt.search.Gradient` is the rule:

# %%
legs = tuple(mt.search.Leg(trials=8, spent=2.0, seconds=10e-3) for _ in range(10))
slow = mt.search.Curve("conv2d", (1.0,), work=200e6, first=10e-3, legs=legs)
twin = mt.search.Curve("conv2d", (1.0,), 200e6, 2e-3, (mt.search.Leg(8, 2.0, 2e-3),))
alone, alike = (
    mt.search.Gradient(alike=also).gains([slow, twin], sum)[0] for also in (False, True)
)
print(f"{alone:.2e} s a trial alone, {alike:.2e} with a twin")
assert alike > 5 * alone

# %% [markdown]
# ## What is to fall
#
# The sum of all latencies is not always what matters. A network that answers in 20 ms may be fast
# enough. Then the weight of a task is the slope of an *objective*: how much it falls with a second
# of this kernel.

# %%
enough = mt.search.Requirements(20e-3, 5e-3)  # two networks, and what is fast enough
print(enough([30e-3, 4e-3]), enough([30e-3, 1e-3]))
assert enough([30e-3, 4e-3]) == enough([30e-3, 1e-3]) > enough([29e-3, 4e-3])

# %% [markdown]
# ## A network
#
# `mt.tune` of a graph does all of this; `explain` shows who got what. (8 trials a task are few:
# some hundred are usual.)

# %%
rng = np.random.default_rng(25)
weights = {name: rng.random((32, 32), dtype="float32") for name in "abc"}


def layers(x, a, b, c):
    """Three products of one shape, and a softmax."""
    for w in (a, b, c):
        x = ops.relu(ops.matmul(x, w))
    return ops.softmax(x, axis=1)


graph = mt.graph.trace(layers, x=((16, 32), "float32"), **weights)
try:
    result = mt.tune(graph, trials=8, progress=False)
    print(result.explain())
    x = rng.random((16, 32), dtype="float32")
    np.testing.assert_allclose(result.model()(x), mt.interpret(graph, x), rtol=1e-4, atol=1e-6)
    assert sorted(task.count for task in result.tasks) == [1, 3]
except mt.CompileError as error:  # nothing can be timed without a compiler
    print(error)

# %% [markdown]
# The picture of a search shows the estimated time of a call, a layer for each task. Here is that of
# our made network.

# %%
drawn = mt.search.pictures.tasks_picture(
    "16 rounds by Ansor's gradient",
    [
        mt.search.pictures.Layer(name, counts[name], times[0], list(enumerate(times[1:], 1)))
        for name, times in found.items()
    ],
    16.0,
)
picture("25_budget", drawn)

# %% [markdown]
# ## What is hard to know
#
# On curves that were recorded (`python -m benchmarks.tasks`), Ansor's gradient needs .76 of the
# trials of a round robin on MobileNet-V2, .79 on a BERT layer, .89 on ResNet-50. A rule that
# knows the curves would need .36 to .59: what a search will find next is hardly to be seen in
# what it found.
#
# ## Pitfalls
#
# - A rule that only looks back leaves a task for good after one unlucky round.
# - A rule that only hopes gives most to what takes longest, even if nothing is left to gain there.
# - A speedup of a kernel is worth its share of the network: twice as fast for 1 % is 0.5 %.
# - A round of a slow kernel may take longer. Trials are not seconds.
#
# ## Tasks
#
# Write these functions in `25_tasks.py`, and let `minitensor course check 25` judge them.
#
# 1. `turns(tasks)`: the round robin.
# 2. `gain(count, times, alpha, window)`: the gain that the gradient expects.
# 3. `choose(tasks, left)`: a rule of your own, which has to beat both on curves you do not see.
#
# ## Sources
#
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 6 and appendix A: tasks, objectives, and the gradient.
