# %% [markdown]
# # Evolution from the inside, and choices that are learned
#
# **You will be able to** write a search for schedules, compare searches fairly by their regret,
# explain what mutation, crossover, a model and random candidates each contribute, and say when a
# bandit is worth its price.
#
# A search is a game with a price: each candidate that is measured costs a second, and only the best
# one counts at the end. This lesson plays it on a table, where every program has been measured
# already. So we know the best one, and can say by how much a search missed it.

# %%
import math
import random

import numpy as np

from minitensor import pictures
from minitensor.search import Evolution, GradientBoostedTrees
from minitensor_course import picture, table
from minitensor_course.replay import TableSpace, replay

# %% [markdown]
# ## The game
#
# The table is of a 1x1 convolution, in one loop structure (a *sketch*) that leaves six choices
# open: into how many bands the rows are cut, how many filters are in registers, how many parts of
# filters there are, how many pixels are in registers, the least number of iterations that a core
# should get, and how many copies of the body may be written out. A *name* is one value for each
# choice.

# %%
costs = table("conv-1x1")
space = TableSpace(costs)
candidates = [c for c in space.names if c.sketch == 0]
programs = [space.names[c] for c in candidates]
options = []
for c in candidates:
    sizes = [knob.candidates[value] for knob, value in zip(space.knobs[0], c.values)]
    options.append((*sizes, c.parallel[0], c.unroll[0]))
seconds = costs.seconds[programs]
best = seconds.min()

space.schedule(candidates[0]).show()
print(len(options), "names; the loops above are", options[0])
print(len(set(programs)), "programs;", len(set(seconds[seconds < best / 0.95])), "near the best")
assert (len(options), len(set(programs))) == (972, 589)

# %% [markdown]
# There are more names than programs. Why? Here are the names of one program.

# %%
most = max(programs, key=programs.count)
for name, program in zip(options, programs):
    if program == most:
        print(name)
assert programs.count(most) == 6

# %% [markdown]
# The tiles are the same, and so is the text of the program: with few iterations outside, all of
# them go to the threads, whether each core should get 4 or 16; and where the next loop does not fit
# into 512 copies, it does not fit into 16 or 64 either. A search that measured all six would have
# paid six times for one answer. So a search keeps a list of the *programs* that it has tried, not
# of names.
#
# The *regret* of a search is what it lost: 1 - best / found. 0 means that it has found the best,
# 0.5 that its program takes twice as long.


# %%
def play(propose, seed, trials=48):
    """A search: the regret after each trial. `propose` gives the number of a name."""
    rng, history, regrets = random.Random(seed), [], []
    for _ in range(trials):
        number = propose(history, rng)
        history.append((number, seconds[number]))
        regrets.append(1 - best / min(cost for _, cost in history))
    return regrets


SEEDS = range(12)


def mean_regret(propose):
    """The mean over some seeds, after each trial: one seed may be lucky."""
    return np.mean([play(propose, seed) for seed in SEEDS], axis=0)


# %% [markdown]
# ## At random
#
# The simplest search draws names that it has not tried. It is the one to beat, and it is not bad.


# %%
def at_random(history, rng):
    """A name that was not tried, each as likely as the other."""
    tried = {programs[number] for number, _ in history}
    while True:
        number = rng.randrange(len(options))
        if programs[number] not in tried:
            return number


print("regret after 48:", mean_regret(at_random)[-1].round(3))

# %% [markdown]
# ## Uphill
#
# Good programs are near good programs: most of a tile stays when one choice changes. *Hill
# climbing* measures a neighbour of the best so far, one that differs in one choice.
#
# **Predict first.** It stops being useful on a *local optimum*: a name that is not the best, and
# has no faster neighbour. How many of the 972 names are one? None, some, or hundreds?


# %%
TABLE = np.array(options)


def neighbours(number):
    """The names that differ from one in one choice."""
    different = TABLE[number] != TABLE
    return np.flatnonzero(different.sum(axis=1) == 1).tolist()


NEAR = [neighbours(number) for number in range(len(options))]
local = [n for n in range(len(options)) if all(seconds[m] >= seconds[n] for m in NEAR[n])]
values = sorted({float((best / seconds[n]).round(2)) for n in local}, reverse=True)
print(len(local), "names have no faster neighbour; their speeds:", values)
assert values[0] == 1.0 and len(values) > 1


# %%
def uphill(history, rng, epsilon=0.1):
    """A neighbour of the best that was tried; now and then a random name."""
    tried = {programs[number] for number, _ in history}
    if len(history) >= 8 and rng.random() >= epsilon:
        for number, _ in sorted(history, key=lambda pair: pair[1]):
            new = [n for n in NEAR[number] if programs[n] not in tried]
            if new:
                return rng.choice(new)
    return at_random(history, rng)


print("regret after 48:", mean_regret(uphill)[-1].round(3))

# %% [markdown]
# It begins with eight random names, and one in ten is random later. This share is called *epsilon*:
# without it a search that starts on the wrong hill stays there.
#
# ## A population, and a model that judges it
#
# Evolution keeps several good candidates, the *parents*, and makes children of them: a *mutation*
# changes one choice, a *crossover* takes each choice from one of two parents. That makes many
# children, and measuring is dear. So a model, which has learnt from what was measured, scores them,
# and only the best-scored are measured. This is the search of Ansor.


# %%
def evolved(score, parents, rng, generations=3, size=64):
    """Names in the order of their scores, the best first: of all that was bred."""
    index = {option: number for number, option in enumerate(options)}
    known = set(parents)
    for _ in range(generations):
        ranked = sorted(known, key=lambda n: -score[n])[: size // 4]
        for _ in range(size):
            child = list(options[rng.choice(ranked)])
            other = options[rng.choice(ranked)]
            if rng.random() < 0.15:  # crossover
                child = [rng.choice(pair) for pair in zip(child, other)]
            else:  # mutation: one choice from anywhere
                at = rng.randrange(len(child))
                child[at] = rng.choice(options)[at]
            known.add(index[tuple(child)])
    return sorted(known, key=lambda n: -score[n])


rows = space.features(candidates)
X = np.array([row.sum(axis=0) for row in rows])  # one row for each name


def guided(history, rng, epsilon=0.1, planned=None):
    """The best child by a model's score; every eight trials the model learns anew."""
    planned = PLANNED if planned is None else planned
    if len(history) < 8 or rng.random() < epsilon:
        return at_random(history, rng)
    tried = {programs[number] for number, _ in history}
    if len(history) % 8 == 0 or not planned:
        numbers = [number for number, _ in history]
        speeds = [best / cost for _, cost in history]
        model = GradientBoostedTrees(n_trees=8, max_depth=3, bins=31).fit(X[numbers], speeds)
        drawn = [rng.randrange(len(options)) for _ in range(64)]
        planned[:] = evolved(model.predict(X), [*numbers, *drawn], rng)
    for number in planned:
        if programs[number] not in tried:
            return number
    return at_random(history, rng)


PLANNED = []
curves = {
    "random": mean_regret(at_random),
    "uphill": mean_regret(uphill),
    "guided": mean_regret(guided),
}
print("trials   " + "   ".join(curves))
for trials in (8, 16, 24, 32, 48):
    print(f"{trials:6}   " + "   ".join(f"{curve[trials - 1]:6.3f}" for curve in curves.values()))
assert curves["uphill"][-1] < curves["random"][-1] / 2
assert curves["guided"][-1] < curves["random"][-1] / 1.5

# %%
chart = pictures.Chart(pictures.Axis(0, 48, "trials"), pictures.Axis(0, 0.6, "mean regret"))
for (name, curve), colour in zip(curves.items(), ("grey", "orange", "blue")):
    chart.line([(n + 1, float(v)) for n, v in enumerate(curve)], colour, name)
drawn = chart.picture("regret", "Three searches", "The mean regret of three searches, by trials.")

# %%
picture("20_regret", drawn)

# %% [markdown]
# Both beat random draws, and here the simple one wins: six choices with three or four values each
# are a small hill, and all neighbours of a name can be listed. That is no law: on the table
# "conv-64-56" random draws end ahead of both (0.14, 0.15 and 0.18). Change the name above, and see.
# A comparison needs several workloads and many seeds; one curve is an anecdote.
#
# What evolution is good at shows where choices are many: a child may differ from its parent in any
# of them, crossover joins what two parents have found apart, and the model looks at thousands of
# children for each one that is measured. The search of minitensor also begins with schedules that
# the rules of the sketches would choose by hand, and gives each sketch a share. On the whole table,
# with all three sketches:

# %%
for name, strategy in (
    ("random", "random"),
    ("evolution", Evolution(population=64, generations=2)),
):
    found = [1 - replay(space, strategy, trials=32, seed=n).curve[-1] for n in range(8)]
    print(f"{name:10} regret after 32, eight seeds: {np.mean(found):.3f}, worst {max(found):.3f}")
assert np.mean(found) < 0.15

# %% [markdown]
# ## Which sketch? A bandit
#
# The table has three sketches. Which one should the next candidate have? A gambler before three
# slot machines has the same question, and so it is called a *bandit*: try each arm enough to know
# it, and spend the rest on the best. UCB1 takes the arm with the highest *upper confidence bound*,
#
#     mean reward + sqrt(2 ln t / n)
#
# where the arm was tried n times of t. An arm is chosen because it was good, or because little is
# known of it.
#
# **Predict first.** Let the reward be the speed of a random candidate of the sketch. By how much is
# UCB1 better than taking the sketches at random? And one who knows the best sketch from the start?

# %%
ARMS = [[n for c, n in space.names.items() if c.sketch == sketch] for sketch in range(3)]
speed = costs.best / costs.seconds
for sketch, arm in enumerate(ARMS):
    print(f"sketch {sketch}: mean speed {speed[arm].mean():.2f}, best {speed[arm].max():.2f}")


def by_bound(rewards, rng):
    """UCB1."""
    t = sum(len(own) for own in rewards)
    if not all(rewards):
        return rewards.index([])
    bounds = [sum(own) / len(own) + math.sqrt(2 * math.log(t) / len(own)) for own in rewards]
    return bounds.index(max(bounds))


def gamble(choose, seed, trials=48):
    """The regret after a game of random candidates, where `choose` takes the sketch."""
    rng = random.Random(seed)
    rewards = [[], [], []]
    for _ in range(trials):
        arm = choose(rewards, rng)
        rewards[arm].append(speed[rng.choice(ARMS[arm])])
    return 1 - max(max(own, default=0) for own in rewards)


choosers = {
    "at random": lambda rewards, rng: rng.randrange(3),
    "UCB1": by_bound,
    "it is known": lambda rewards, rng: 0,
}
regret = {name: np.mean([gamble(f, seed) for seed in range(48)]) for name, f in choosers.items()}
for name, value in regret.items():
    print(f"{name:12} {value:.3f}")
assert regret["it is known"] < min(regret["at random"], regret["UCB1"])
assert regret["UCB1"] > regret["at random"] - 0.05

# %% [markdown]
# UCB1 gains next to nothing. Two reasons. It maximizes the *mean* reward, and a search is paid for
# its *maximum*: sketch 1 is nearly as good on average, and never gets far. And it pays for what it
# learns with trials, of which there are 48.
#
# This is what a longer study in this project found, too: of six such policies on four tables none
# made the search faster, and one that *knows* the best sketch from the beginning saves 14 % of the
# trials. So 14 % is all that there is to win, and a model that scores candidates of all sketches
# makes most of that choice already. To ask "what would an oracle gain?" first is the cheapest
# experiment of all.
#
# ## Pitfalls
#
# - Count programs, not names. A search that measures one program under six names looks busy.
# - One seed proves nothing: with some of them, random search finds the best program at once.
# - A search without any random candidates believes its first hill, or the errors of its model.
# - A mutation must keep what a tile has to keep: the product of its factors is the loop's extent.
#
# ## Tasks
#
# Write these functions in `20_tasks.py`, and let `minitensor course check 20` judge them.
#
# 1. `mutate(tile, rng)`: a neighbour of a tile: one prime factor moves from one place to another.
# 2. `ucb(history, arms, window)`: the arm that UCB1 takes, if only the last trials count.
# 3. `propose(history, options, rng)`: a search of your own. It is played on a table, and its regret
#    over 48 seeds has to be at most 3/4 of that of random draws.
#
# ## Sources
#
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 5: evolutionary search and the learned cost model.
# - T. Chen et al., "Learning to optimize tensor programs", NeurIPS 2018, section 3: a model that
#   guides the exploration, and the share of random candidates.
# - P. Auer, N. Cesa-Bianchi and P. Fischer, "Finite-time analysis of the multiarmed bandit
#   problem", Machine Learning 47, 2002, section 2: UCB1.
