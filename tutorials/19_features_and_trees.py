# %% [markdown]
# # Features and trees from scratch
#
# **You will be able to** read what a cost model sees of a program, grow a regression tree by hand,
# boost small trees into a model, judge a model by its ranking, and tell learning from learning by
# heart.
#
# A search cannot run a million schedules. So it runs a few dozen, learns from them what makes a
# program fast, and lets this *cost model* choose the next few. A cost model is a function: numbers
# in, a score out. This lesson builds one in numpy, in two parts: the numbers, and the function.
#
# The times come from a *table*: programs of one workload, each measured once on one machine and
# kept in a file. So this lesson gives the same everywhere, and needs no compiler.

# %%
import numpy as np

import minitensor as mt
from minitensor import pictures
from minitensor.search import FEATURE_NAMES, GradientBoostedTrees, extract_features
from minitensor_course import picture, table
from minitensor_course.replay import TableSpace

# %% [markdown]
# ## What a model sees
#
# A model that reads numbers needs programs as numbers: *features*. Take a matrix product of
# 32 x 32 matrices, and look at the matrix `B` only. (A cache line is 64 bytes, 16 floats.)
#
# **Predict first.** The innermost loop is `k`, and the statement reads `B[k, j]`. How many elements
# lie between one read and the next? How often does the next read need another cache line? And what
# are the answers when `j` is innermost?

# %%
program = mt.lower(mt.workloads.matmul(m=32, n=32, k=32), name="product")
plain = mt.Schedule(program)
swapped = mt.Schedule(program)
i, j, k = swapped.get_loops("C")
swapped.reorder(i, k, j)
plain.show()
swapped.show()


# %%
def walk(order):
    """The stride of B, and how often its cache line changes: counted, loop by loop."""
    where = {}
    lines, before, places = 0, None, []
    for where[order[0]] in range(32):
        for where[order[1]] in range(32):
            for where[order[2]] in range(32):
                place = 32 * where["k"] + where["j"]  # of B[k, j], in elements
                places.append(place)
                lines += before != place // 16
                before = place // 16
    return places[1] - places[0], lines


print("k innermost:", walk("ijk"), " j innermost:", walk("ikj"))
assert walk("ijk") == (32, 32768) and walk("ikj") == (1, 2048)

# %% [markdown]
# Without running anything, `extract_features` finds the same from the loops: one row of 164 numbers
# for each statement. A number x is stored as log2(1 + x), because programs differ by factors:
# "twice as many" is one more, for small and for large numbers alike.


# %%
def seen(s, name):
    """One feature of the only statement of a schedule, as a plain number."""
    row = extract_features(s.program, mt.Target("c", num_cores=2, vector_bits=256))[0]
    return round(2 ** float(row[FEATURE_NAMES.index(name)]) - 1)


for s, order in ((plain, "ijk"), (swapped, "ikj")):
    assert (seen(s, "buffer 3 stride"), seen(s, "buffer 3 lines")) == walk(order)
print("adds:", seen(plain, "float add"), seen(swapped, "float add"))

# %% [markdown]
# The two programs compute the same, with as many additions. The features of memory tell them apart.
# A good feature is one that differs where the time differs. The groups of the 164 are work, marks
# of loops (threads, vectors, unrolling), five buffers, intensity (operations for each byte), the
# allocation, and the loops outside.
#
# ## Programs and their speeds
#
# The table is of a batch of 12 matrix products. We take the programs of one *sketch*, that is of
# one loop structure with open tile sizes, so that each program has one statement and so one row.
# The label is the speed as a part of the best: 1 for the fastest, 0.5 for one that takes twice as
# long.

# %%
costs = table("batch-matmul")
space = TableSpace(costs)
first = {}  # one candidate for each program
for candidate, number in space.names.items():
    if number >= 0 and candidate.sketch == 0:
        first.setdefault(number, candidate)

rows = np.array([row[0] for row in space.features(list(first.values()))], "float64")
y = costs.best / costs.seconds[list(first)]
print(rows.shape, "median speed", np.median(y).round(2))
assert rows.shape == (308, 164)

# %% [markdown]
# Eight features are enough for this lesson. Three are marks of loops: vectors, unrolling, threads.
# Four are about memory (buffer 1 is the one of which most bytes are touched): how many bytes are
# touched until an element is used again, how many cache lines are loaded, how often an element is
# used again, how many lines there are for each such use. The last is an intensity.

# %%
NAMES = [
    "vectorize length",
    "unroll product",
    "parallel length",
    "buffer 1 reuse distance in bytes",
    "buffer 2 lines",
    "buffer 2 reuse count",
    "buffer 3 lines per reuse",
    "intensity 5",
]
X = rows[:, [FEATURE_NAMES.index(name) for name in NAMES]]


def halves(seed, count):
    """The numbers of `count` programs to learn from, and of 154 others to be judged by."""
    order = np.random.default_rng(seed).permutation(len(y))
    return order[:count], order[154:]


# %% [markdown]
# ## One question: a split
#
# The simplest model asks one question: is feature f at most t? Programs that answer alike get the
# same guess, the mean of their labels. The *squared error* is the sum of (label - guess)². A split
# is good if it takes much of the error away.
#
# For n labels with sum S, the error around their mean is (sum of squares) - S²/n. The sum of
# squares does not change when we divide programs into two groups, so the gain of a split is
#
#     gain = S_left²/n_left + S_right²/n_right - S²/n
#
# Sorted by the feature, all S_left are running sums: one pass finds the best t. Only places between
# two *different* values of the feature can be cut.


# %%
def best_split(X, y):
    """The gain, the feature and the threshold of the best split; feature None if none helps."""
    best = 1e-9, None, None
    for f in range(X.shape[1]):
        order = np.argsort(X[:, f], kind="stable")
        x, left = X[order, f], np.cumsum(y[order])[:-1]
        n = np.arange(1, len(y))
        gain = left**2 / n + (y.sum() - left) ** 2 / (len(y) - n) - y.sum() ** 2 / len(y)
        gain = np.where(x[:-1] < x[1:], gain, -1)
        if len(n) and gain.max() > best[0]:
            at = int(gain.argmax())
            best = gain[at], f, (x[at] + x[at + 1]) / 2
    return best


train, test = halves(0, 154)
gain, f, t = best_split(X[train], y[train])
print(f"{NAMES[f]} <= {2**t - 1:.0f}?  takes {gain / np.var(y[train]) / 154:.0%} of the error")
low = X[train, f] <= t
errors = [np.sum((part - part.mean()) ** 2) for part in (y[train], y[train][low], y[train][~low])]
assert np.isclose(gain, errors[0] - errors[1] - errors[2])

# %% [markdown]
# ## A tree
#
# Split, then split each part again, down to some depth. What comes of it is a *regression tree*:
# inner nodes are questions, leaves are guesses.


# %%
def grow(X, y, depth):
    """A tree: a number, or (feature, threshold, tree where it is at most that, the other)."""
    _, f, t = best_split(X, y) if depth else (0, None, None)
    if f is None:
        return float(y.mean())
    low = X[:, f] <= t
    return f, t, grow(X[low], y[low], depth - 1), grow(X[~low], y[~low], depth - 1)


def ask(tree, X):
    """The guess of a tree for each row."""
    if not isinstance(tree, tuple):
        return np.full(len(X), tree)
    f, t, left, right = tree
    return np.where(X[:, f] <= t, ask(left, X), ask(right, X))


def branch(tree, label=""):
    """A tree for drawing."""
    if not isinstance(tree, tuple):
        return pictures.Branch([f"speed {tree:.2f}"], label, "green")
    f, t, *parts = tree
    below = [branch(part, label) for part, label in zip(parts, ("yes", "no"))]
    return pictures.Branch([f"{NAMES[f]} <= {2**t - 1:,.0f}?"], label, "blue", below=below)


small = grow(X[train], y[train], depth=2)
text = "A tree of depth 2: from the first question to guesses of the speed."
drawn = pictures.tree_picture("tree", "A regression tree", branch(small), text)
assert np.unique(ask(small, X)).size == 4

# %%
picture("19_tree", drawn)

# %% [markdown]
# A surprise: the programs with the *longer* distance are the faster ones. A tree finds what goes
# along with speed in its data, and not causes. Here large tiles in registers make a program fast,
# and they have a long distance.
#
# ## How good is a model?
#
# The search will not believe a score. It *sorts* by score and measures those in front. So a model
# that says 10, 20, 30 where 0.1, 0.5, 0.9 is right is perfect, and one with a small error that has
# the two fastest in the wrong order is not. *Spearman's correlation* looks at the order alone: put
# ranks in the place of numbers, equal numbers share their mean rank, and take the usual
# correlation. 1 is the same order, -1 the opposite one, 0 none.


# %%
def ranks(values):
    """The rank of each, from 1; equal values share the mean of their places."""
    ordered = sorted(values)
    return np.array([ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values])


def spearman(a, b):
    """Spearman's rank correlation."""
    return float(np.corrcoef(ranks(list(a)), ranks(list(b)))[0, 1])


guess = ask(small, X[test])
print(f"on programs that it has not seen: {spearman(guess, y[test]):.2f}")
assert np.isclose(spearman(guess, y[test]), spearman(1000 * guess**3, y[test]))

# %% [markdown]
# ## Learning by heart
#
# **Predict first.** A deeper tree makes a smaller error on the programs that it learnt from; at a
# depth of 30 there is almost none. What becomes of its ranking of the others?


# %%
def judged(fit, count):
    """Means over three draws of programs: the error in training, and the ranking of the others."""
    found = []
    for seed in range(3):
        train, test = halves(seed, count)
        model = fit(X[train], y[train])
        found.append(
            (np.mean((model(X[train]) - y[train]) ** 2), spearman(model(X[test]), y[test]))
        )
    return np.mean(found, axis=0)


def one_tree(depth):
    """A way of fitting: a single tree."""

    def fit(X, y):
        tree = grow(X, y, depth)
        return lambda rows: ask(tree, rows)

    return fit


print("depth   error in training   rank correlation of the others")
for depth in (1, 2, 3, 30):
    error, rank = judged(one_tree(depth), 154)
    print(f"{depth:5}   {error:17.4f}   {rank:30.2f}")
assert judged(one_tree(30), 154)[0] < judged(one_tree(3), 154)[0] / 3
assert judged(one_tree(30), 154)[1] < judged(one_tree(3), 154)[1] - 0.05

# %% [markdown]
# It becomes worse. The deep tree has a leaf for each accident of its data: it *overfits*.
#
# ## Boosting: many small trees
#
# Keep trees small, and let each repair what those before it left over. The left over, label minus
# score, is called the *residual*. Begin with the mean; fit a small tree to the residuals; add only
# a part of it, the *learning rate*, so that no single tree decides; repeat. For the squared loss
# the residual is the downhill direction of the loss, which is why this is *gradient* boosting.


# %%
def boosted(rounds, depth=3, rate=0.3):
    """A way of fitting: boosted trees."""

    def fit(X, y):
        start, trees = y.mean(), []
        score = np.full(len(y), start)
        for _ in range(rounds):
            trees.append(grow(X, y - score, depth))
            score += rate * ask(trees[-1], X)
        return lambda rows: start + rate * sum(ask(tree, rows) for tree in trees)

    return fit


def library(objective):
    """A way of fitting: the trees of minitensor."""

    def fit(X, y):
        return GradientBoostedTrees(objective, n_trees=20, max_depth=3).fit(X, y).predict

    return fit


ways = {"ours": boosted(20), "squared": library("squared"), "rank": library("rank")}
found = {name: [judged(fit, n)[1] for n in (16, 154)] for name, fit in ways.items()}
for name, (few, many) in found.items():
    print(f"{name:8} learnt from 16: {few:.2f}   from 154: {many:.2f}")
    assert few < many - 0.05
assert abs(found["ours"][1] - found["squared"][1]) < 0.06

# %% [markdown]
# Our few lines rank as well as the library, which differs in speed, in missing values, and in two
# refinements of XGBoost: a step divides by the *curvature* of the loss, and a constant is added
# below, which holds back leaves with few programs. And 16 programs are too few for any of them:
# more data help more than a better model.
#
# "rank" is another loss. For two programs a and b, where a is faster, it is
# log(1 + exp(score_b - score_a)): small if a scores higher, by however much, and never about the
# numbers themselves. Here both losses rank about alike.
#
# What a search makes of it: the fastest of the 16 that score best, among 154 that were not
# measured.

# %%
train, test = halves(0, 154)
score = boosted(20)(X[train], y[train])(X[test])
chosen = test[np.argsort(-score, kind="stable")[:16]]
print(f"best of 16 by score: {y[chosen].max():.2f} of the best; median of all {np.median(y):.2f}")
assert y[chosen].max() > 0.9

# %% [markdown]
# ## Pitfalls
#
# - The error on the programs that a model has learnt from says nothing. Keep some apart.
# - Equal feature values cannot be told apart, whatever their labels: a threshold between two equal
#   values does not exist. Tile sizes make many equal values.
# - Ranks of equal numbers: `argsort` twice gives them different ranks, in the order in which they
#   happen to stand.
# - A model knows only what its data have shown. If all of them have 8 lanes, it has never split by
#   lanes. So a search measures a few programs at random.
#
# ## Tasks
#
# Write these functions in `19_tasks.py`, and let `minitensor course check 19` judge them.
#
# 1. `touched(loops, depth)`: a feature. How many different elements of a buffer are touched while
#    the innermost `depth` loops run? `loops` are pairs (iterations, step), from outside to inside.
# 2. `best_split(x, y, w)`: the threshold and the gain of the best split of one feature, with a
#    weight for each label.
# 3. `spearman(a, b)`: the rank correlation of two lists that have equal numbers in them.
# 4. `boost(y, leaves, rate)`: the scores after boosting, where the leaf of each sample is given.
#
# ## Sources
#
# - J. H. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
#   Statistics 29(5), 2001, sections 2 to 4.
# - T. Chen and C. Guestrin, "XGBoost: a scalable tree boosting system", KDD 2016, section 2.
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 5.2: features of statements, and boosted trees as the cost model.
# - C. Burges et al., "Learning to rank using gradient descent", ICML 2005, section 3: the loss of
#   pairs.
