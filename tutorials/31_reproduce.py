# %% [markdown]
# # Reproduce a figure: an ablation, and what it shows
#
# **You will be able to** take a claim of a paper apart, measure its parts on tables, draw the
# figure with its uncertainty, and say where the claim holds and where it does not.
#
# Papers on systems argue by figures. One kind of figure, the *ablation*, takes the parts of a
# system away, one at a time, and shows what is lost. This lesson reproduces one: Figure 7 of Ansor,
# which defends the two ideas that this course has built (lessons 18 to 20).

# %%
import math

import numpy as np

from minitensor.pictures import Axis, Chart
from minitensor.search import Evolution
from minitensor_course import picture, table
from minitensor_course.replay import TableSpace, replay

# %% [markdown]
# ## The claim
#
# In the paper's words made short: on a convolution, the full search ends far above a search whose
# *space is limited* to what a hand-written template has, and above one *without fine-tuning*, which
# draws programs from the same space at random and never improves them. The axes are the number of
# measured programs, and the speed of the best so far, relative to the best of all. (A fourth curve,
# a beam search over unfinished programs, is not ours to repeat: our tables have finished programs.)
#
# | part of the claim | here |
# |---|---|
# | the workload | a 3 x 3 convolution, 64 to 64 channels, 56 x 56: the table "conv-64-56" |
# | a measurement | a cost from the table, measured once on one machine |
# | the full search | evolution with boosted trees, on all sketches |
# | no fine-tuning | random draws, on all sketches |
# | limited space | the same evolution, on the first sketch alone, with the usual annotations |
#
# The *differences*: another machine, a table of some thousand programs in place of an endless
# space, another number of trials. A reproduction states this first. If the effect is real it is
# larger than these differences.

# %%
FULL = Evolution(population=64, generations=2)
SEARCHES = {
    "full": (lambda costs: costs, FULL),
    "no fine-tuning": (lambda costs: costs, "random"),
    "limited space": (lambda costs: TableSpace(costs, template=True), FULL),
}
TRIALS, SEEDS = 32, 4


def curves_of(name):
    """The curves of each search on a table: {search: one list for each seed}."""
    costs = table(name)
    return {
        label: [
            replay(space(costs), strategy, trials=TRIALS, seed=seed).curve for seed in range(SEEDS)
        ]
        for label, (space, strategy) in SEARCHES.items()
    }


# %% [markdown]
# **Predict first.** All three begin with nothing measured. Which is ahead after 8 trials? And how
# far apart are they after 32, as parts of the best?

# %%
found = curves_of("conv-64-56")


def at(curves, trial):
    """The mean over the seeds; a search that ended early keeps what it had."""
    return float(np.mean([curve[min(trial, len(curve)) - 1] for curve in curves]))


print(f"{'':16}" + "".join(f"{trial:>8}" for trial in (1, 4, 8, 16, 32)))
for label, curves in found.items():
    print(f"{label:16}" + "".join(f"{at(curves, trial):8.2f}" for trial in (1, 4, 8, 16, 32)))
assert at(found["full"], 32) > at(found["no fine-tuning"], 32) > at(found["limited space"], 32)

# %% [markdown]
# ## The figure
#
# A mean of four runs is not enough to draw. Each search has luck, so the figure shows the middle of
# the seeds, and the worst of them as a dashed line.


# %%
def whole(curves):
    """Curves of the same length: one that ended early keeps what it had."""
    return np.array([[*curve, *[curve[-1]] * (TRIALS - len(curve))] for curve in curves])


assert whole(found["full"]).shape == (SEEDS, TRIALS)
chart = Chart(Axis(0, TRIALS, "trials"), Axis(0, 1, "speed of the best so far"))
for (label, curves), colour in zip(found.items(), ("blue", "grey", "orange")):
    every = whole(curves)
    for row, dash in ((every.min(axis=0), True), (np.median(every, axis=0), False)):
        line = [(n + 1, float(value)) for n, value in enumerate(row)]
        chart.line(line, colour, "" if dash else label, dash)
drawn = chart.picture(
    "ablation", "Two parts taken away", "Solid: the middle of four seeds. Dashed: the worst."
)

# %%
picture("31_ablation", drawn)

# %% [markdown]
# The shape is the paper's: without its space the search is stuck early, without fine-tuning it
# climbs slowly. So the claim is reproduced, on this workload.
#
# ## Is it luck?
#
# Four seeds of each search. The same seed draws the same first programs, so the runs are *pairs*:
# for each seed, which of the two was better? If the searches were equal, each pair would be a coin.
# The *sign test* asks how likely such a result is for coins: all four pairs on one side have the
# probability `2 / 2⁴ = 0.125`, on either side. That is no proof:


# %%
def coins(wins, losses):
    """The probability that fair coins are at least as far from half and half."""
    n, most = wins + losses, max(wins, losses)
    tail = sum(math.comb(n, k) for k in range(most, n + 1)) / 2**n
    return min(1.0, 2 * tail)


for label in ("no fine-tuning", "limited space"):
    pairs = list(zip(whole(found["full"])[:, -1], whole(found[label])[:, -1]))
    wins, losses = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    print(f"full against {label:15} {wins} to {losses}: {coins(wins, losses):.3f}")
assert coins(4, 0) == 0.125 and coins(6, 0) < 0.05 < coins(5, 0)

# %% [markdown]
# Six pairs, all on one side, are the fewest that leave less than 5 % to luck. Make `SEEDS` 6 and
# try. (It takes half a minute more. Choose the number *before* you look: adding seeds until the
# test is content finds an effect anywhere.)
#
# ## Does it hold elsewhere?
#
# One workload is an example. The paper has another figure with many, and so should you. Here is a
# convolution of 1 x 1, which is nearly a matrix product:

# %%
other = curves_of("conv-1x1")
for label, curves in other.items():
    print(f"{label:16}" + "".join(f"{at(curves, trial):8.2f}" for trial in (1, 4, 8, 16, 32)))
assert at(other["limited space"], 32) >= at(other["full"], 32) - 0.01

# %% [markdown]
# The limited space *wins*: the best program of this table is of the first sketch, and a search that
# looks nowhere else finds it sooner. Both figures are true. A larger space is worth its price where
# the template lacks the good program, and costs trials where it has it. That sentence is what a
# reproduction gives; the figure alone said less, and seemed to say more.
#
# ## Pitfalls
#
# - *A curve of means hides a search that fails one time in ten.* Show the worst seed.
# - *Curves of different lengths.* A search that stops early has to keep its last value, or the mean
#   changes because the runs do.
# - *Relative to what?* To the best of the table here; to the best that any of the compared found in
#   the paper. The second makes the winner 1 by definition.
# - *Seconds, not trials*, are what a user pays (docs/measurement.md). Proposing by a model takes
#   longer than by a coin.
# - *Taking a part away is not adding it.* What a part is worth depends on which others are there.
#
# ## Tasks
#
# Write these functions in `31_tasks.py`, and let `minitensor course check 31` judge them.
#
# 1. `band(curves)`: from curves of any lengths, the lowest, the middle (median) and the highest
#    at each trial, as three lists as long as the longest curve. A shorter one keeps its last value.
# 2. `trials_to(curves, target)`: the median, over the curves, of the number of trials after which
#    a curve has reached `target`; it is `math.inf` for a curve that never has.
# 3. `sign_test(a, b)`: the probability of the sign test for two lists of results of the same seeds.
#    Pairs that are equal say nothing and are left out; with none left it is 1.
#
# ## Sources
#
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 7.1 and figure 7: the ablation. (Figure 10 has the one of networks.)
# - W. J. Dixon, A. M. Mood, "The statistical sign test", Journal of the American Statistical
#   Association 41(236), 1946.
# - T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems", SC 2015: what a
#   figure of performance has to say.
