# %% [markdown]
# # Templates and knobs: a schedule with open numbers
#
# **You will be able to** write a schedule whose numbers are left open, say which values they may
# take, count the space that this makes, let a search fill the numbers in, and use what it found.
#
# A schedule by hand has two kinds of parts: the *structure* (which loops are cut, which order they
# have) and the *numbers* (tiles of 8 or of 16). You know the structure after some lessons. Good
# numbers depend on the machine, and have to be tried. A *template* is a schedule that has its
# structure and leaves numbers open; each open place is a *knob*. AutoTVM, the tuner of TVM until
# 2025, worked in this way, and its how-to still circulates. At the end of this lesson is all of it,
# in 40 lines. First, the parts.

# %%
import itertools
import math
import tempfile

import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor.search import Result, Space, Status
from minitensor_course import picture

TARGET = mt.Target("c", num_cores=2, vector_bits=256)  # the same on every machine


def matmul(n):
    """The program of a product of n x n matrices."""
    A = mt.placeholder((n, n), "float32", name="A")
    B = mt.placeholder((n, n), "float32", name="B")
    k = mt.reduce_axis(n, name="k")
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    return mt.lower([A, B, C], name="matmul")


small = matmul(12)
print(small)

# %% [markdown]
# ## A number left open
#
# `s.split(i, [3, 4])` gives numbers. `s.sample_tile(i, 2)` *chooses* two factors that cover the
# loop; it does not cut anything itself. What it chose is a *decision*, and is kept in the trace.

# %%
s = mt.Schedule(small, seed=1)
tile = s.sample_tile("i", 2)
i_0, i_1 = s.split("i", tile)
print(s.trace.decisions, "of the steps")
assert math.prod(s.trace.decisions[0]) == 12

# %% [markdown]
# So a trace with decisions can be made again with others: same steps, same names of loops, other
# numbers. That is all that a template is.

# %%
other = s.trace.with_decisions({0: [2, 6]}).apply(small)
extents = [ir.loop_sites(other.program)[loop].loop.extent for loop in (i_0, i_1)]
assert extents == [2, 6]

# %% [markdown]
# A *policy* says which factors there are to choose from. For the inner of two factors:
#
# | call | inner factors of a loop of 12 |
# |---|---|
# | `sample_tile(i, 2)`, or `policy="factors"` | divisors: 1, 2, 3, 4, 6, 12 |
# | `policy="power2"` | powers of two: 1, 2, 4, 8; a guard for what is too much |
# | `policy="verbose"` | both |
# | `max_factor=4` | at most 4 (64 unless you say otherwise) |
# | `filter=lambda factors: factors[1] % 2 == 0` | those for which it is true |
# | `candidates=[[None, 4], [None, 8]]` | these; `None` is inferred |
#
# Other knobs: `sample_order(loops)` chooses an order for `reorder`, `sample_annotation(loops)` a
# name for each loop ("none", "unroll", "vectorize") for `apply_annotation`, and
# `sample_categorical([0, 16])` one of some numbers or words.
#
# ## Knobs make a space
#
# `Space.of_template` calls a template some times, and lists its knobs. All ways to set all knobs
# are the *space*; one of them is a *candidate*.


# %%
def template(s):
    """A tiled product: the sizes of a tile are open."""
    y, x, k = s.get_loops("C")
    tile_y = s.sample_tile(y, 2)
    tile_x = s.sample_tile(x, 2, policy="verbose")
    (y_0, y_1), (x_0, x_1) = s.split(y, tile_y), s.split(x, tile_x)
    s.reorder(y_0, x_0, k, y_1, x_1)


space = Space.of_template(small, TARGET, template)
print(space)
rows, columns = space.knobs[0]


def divisors(n):
    """The numbers that divide n."""
    return [d for d in range(1, n + 1) if n % d == 0]


inner = [rows.candidates[option][1] for option in rows.options]
assert sorted(inner) == divisors(12)
assert sorted(columns.candidates[option][1] for option in columns.options) == [1, 2, 3, 4, 6, 8, 12]

# %% [markdown]
# The loops of a candidate as plain Python, with the two sizes as arguments:


# %%
def tiled_product(a, b, rows, columns):
    """The loops of the template; sizes need not divide."""
    n = len(a)
    c = np.zeros((n, n), "float32")
    for y_0 in range(-(-n // rows)):
        for x_0 in range(-(-n // columns)):
            for k in range(n):
                for y in range(y_0 * rows, min(y_0 * rows + rows, n)):
                    for x in range(x_0 * columns, min(x_0 * columns + columns, n)):
                        c[y, x] += a[y, k] * b[k, x]
    return c


rng = np.random.default_rng(0)
a, b = (rng.integers(-4, 5, (12, 12)).astype("float32") for _ in range(2))
decisions = {0: [3, 4], 1: [2, 8]}
s = mt.Schedule(small)
template(s)
candidate = s.trace.with_decisions(decisions).apply(small)
assert np.array_equal(mt.interpret(candidate, a, b), tiled_product(a, b, 4, 8))
assert np.array_equal(tiled_product(a, b, 4, 8), a @ b)

# %%
picture("17_candidate", candidate)

# %% [markdown]
# **Predict first.** A knob has a dozen options at most. How many candidates has a product of
# 1024 x 1024 whose three loops are cut into four, three and four parts, by divisors up to 64?

# %%
huge = matmul(1024)
sizes = {}
for loop, parts in (("i", 4), ("j", 4), ("k", 3)):
    one = Space.of_template(huge, TARGET, lambda s, i=loop, n=parts: s.sample_tile(i, n))
    sizes[loop] = len(one.knobs[0][0].options)
print(sizes, f"{math.prod(sizes.values()):,} candidates")
assert math.prod(sizes.values()) == 226 * 226 * 46

# %% [markdown]
# Sizes multiply. At a tenth of a second each, two million candidates take more than two days. So a
# search looks at few, and a template should leave out what you know to be bad: by `filter` for one
# knob, and by `s.require(condition, why)` for what several knobs have to do with each other. A
# candidate that is not as required is counted and never measured.


# %%
def narrow(s):
    """The template, for tiles of 8 to 24 elements only."""
    y, x, k = s.get_loops("C")
    tile_y, tile_x = s.sample_tile(y, 2), s.sample_tile(x, 2)
    s.require(8 <= tile_y[1] * tile_x[1] <= 24, "a tile of 8 to 24 elements")
    (y_0, y_1), (x_0, x_1) = s.split(y, tile_y), s.split(x, tile_x)
    s.reorder(y_0, x_0, k, y_1, x_1)


space = Space.of_template(small, TARGET, narrow)
kept, refused = [], 0
for values in itertools.product(*[knob.options for knob in space.knobs[0]]):
    try:
        kept.append(space.schedule(mt.search.Candidate(0, values)))
    except mt.ScheduleError as error:
        refused += 1
        last = error
print(len(kept), "candidates;", refused, "refused, as the last one:", last.message)
assert len(kept) == sum(8 <= y * x <= 24 for y in divisors(12) for x in divisors(12))

# %% [markdown]
# ## Strategies: which candidates are tried
#
# `mt.tune` asks a *strategy* what to measure next:
#
# | name | AutoTVM's | proposes |
# |---|---|---|
# | `"random"` | RandomTuner | any candidate, none twice |
# | `"grid"` | GridSearchTuner | all in order; here in strides, so that they are spread evenly |
# | `"genetic"` | GATuner | children of fast candidates |
# | `"annealing"` | XGBTuner | what a learned model scores best, found by small changes |
# | `"evolution"` | - | the default: Ansor's, the next lessons |
#
# To compare them without a clock we let a formula "measure": the elements of A and B that a core
# loads if each tile loads its rows and its columns once. A *runner* is any object with `measure`.


# %%
def loaded(s):
    """The elements that are loaded; a loop that is not cut has tiles of one."""
    extent = {loop: site.loop.extent for loop, site in ir.loop_sites(s.program).items()}
    rows, columns = extent.get("i_1", 1), extent.get("j_1", 1)
    tiles = extent["k"] ** 2 // (rows * columns)
    return tiles * extent["k"] * (rows + columns)


class ByFormula:
    """A runner that measures nothing; it counts."""

    def measure(self, schedules, best=None):
        """A result for each schedule."""
        return [Result(Status.OK, (float(loaded(s)),)) for s in schedules]


large = matmul(96)
space = Space.of_template(large, TARGET, narrow)
tiles = [(y, x) for y in divisors(96) for x in divisors(96) if 8 <= y * x <= 24]
costs = sorted(96**3 // (y * x) * (y + x) for y, x in tiles)
print(f"{len(costs)} candidates: {costs[0]:,} to {costs[-1]:,} elements")

folder = tempfile.mkdtemp()
for name in ("random", "grid", "genetic", "annealing"):
    strategy = mt.search.Genetic(population=4) if name == "genetic" else name
    given = {"space": space, "log": f"{folder}/{name}.jsonl", "runner": ByFormula()}
    result = mt.tune(large, TARGET, trials=8, strategy=strategy, progress=False, **given)
    print(f"{name:10} the best of 8: {result.seconds:,.0f}")
    assert costs[0] <= result.seconds <= costs[-1]

# %% [markdown]
# (The definition as it is written is measured besides, for comparison.) On so small a space chance
# does as well as anything. The genetic algorithm begins with a random *generation*. Then two
# parents are drawn for each child, the faster the more often, as on a roulette wheel whose fields
# are as wide as the speeds. The child has the first knobs of one parent and the last of the other;
# now and then a knob is drawn anew, a *mutation*. In plain Python:


# %%
def drawn(speeds, number):
    """The position that a number from [0, 1) points at, on a wheel with fields of these widths."""
    at = number * sum(speeds)
    for position, speed in enumerate(speeds):
        at -= speed
        if at < 0:
            return position
    return len(speeds) - 1


def crossed(one, other, point):
    """The choices of one parent before a point, and those of the other from there on."""
    return (*one[:point], *other[point:])


assert [drawn([1, 3, 4], number) for number in (0.0, 0.125, 0.49, 0.5, 0.99)] == [0, 1, 1, 2, 2]
assert crossed((5, 0, 1), (2, 2, 0), 1) == (5, 2, 0)

# %% [markdown]
# ## The whole how-to
#
# Define a product, make a template, tune it, apply the best, run it: the two cells are complete but
# for imports. A real target and a real clock now. (`space=tiled`, the template itself, will do too.
# 8 trials are few: one takes hundreds.)

# %%
N = 32
A = mt.placeholder((N, N), "float32", name="A")
B = mt.placeholder((N, N), "float32", name="B")
k = mt.reduce_axis(N, name="k")
C = mt.compute((N, N), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
program = mt.lower([A, B, C], name="matmul")


def tiled(s: mt.Schedule) -> None:
    """A tiled product: sizes, order and annotations are open."""
    y, x, k = s.get_loops("C")
    tile_y = s.sample_tile(y, 2)  # cfg.define_split("tile_y", y, num_outputs=2)
    tile_x = s.sample_tile(x, 2, filter=lambda factors: factors[1] >= 8)
    s.require(tile_y[1] * tile_x[1] <= 128, "a tile of at most 128 elements")
    (y_0, y_1), (x_0, x_1) = s.split(y, tile_y), s.split(x, tile_x)
    s.reorder(y_0, x_0, *s.sample_order(k, y_1), x_1)  # define_reorder
    s.apply_annotation(s.sample_annotation(y_1, x_1), y_1, x_1)  # define_annotate


# %%
log = tempfile.mkdtemp() + "/matmul.jsonl"
a, b = np.random.rand(N, N).astype("float32"), np.random.rand(N, N).astype("float32")
try:
    space = Space.of_template(program, "c", tiled)
    print(space)  # the ConfigSpace
    mt.tune(program, space=space, trials=8, strategy="genetic", log=log, progress=False)
    with mt.apply_history_best(log):
        kernel = mt.build(program)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
    print(kernel.time(a, b).median, "seconds")
    print("\n".join(line for line in kernel.source.splitlines() if line.startswith("//")))
    # The schedule stands above the code; a short search may find nothing faster than the program.
    assert kernel.source == mt.build(mt.load_best(log, program)).source
except mt.CompileError as error:
    print(error)  # the interpreter cannot be tuned: there is nothing to time

# %% [markdown]
# **Is the tuned schedule used?** That is the step that goes wrong most often: a log is read,
# nothing in it fits, and the program runs as it is written. Here the text of a kernel begins with
# its schedule. Inside the context, `mt.build(program)` takes the best record of *this* definition
# and *this* target; where there is none, it warns and builds the program as it is written.
# `mt.load_best` returns the schedule, and raises where there is none. From a log of the formula:

# %%
best = mt.load_best(f"{folder}/grid.jsonl", large, TARGET)
print(best.trace.as_python(plain=True))
assert min(record.median for record in mt.search.Log(f"{folder}/grid.jsonl")) == loaded(best)
try:
    mt.load_best(f"{folder}/grid.jsonl", matmul(13), TARGET)
except mt.TuningError as error:
    print(error)

# %% [markdown]
# ## Pitfalls
#
# - What is not in the space is not found. `sample_perfect_tile` has inner factors of at most 16, if
#   you do not say more, and `sample_tile` of at most 64.
# - A choice by `random` or by a Python variable is no knob: the search cannot set it.
# - `s.require` after the costly steps is late: ask as soon as the numbers are known.
# - A log is of one definition, size and target. Tune each size that you run.
#
# ## Tasks
#
# Write these functions in `17_tasks.py`, and let `minitensor course check 17` judge them.
#
# 1. `tiles(s, most)`: a template of a product as above, of hidden sizes. Cut `i` and `j` into two
#    by divisors, and put the two inner loops innermost, `j`'s last. Each tile has at most `most`
#    elements, and its columns are a multiple of 4. No such tile is missing from the space.
# 2. `factorizations(n, parts)`: all tuples of so many positive integers whose product is n.
# 3. `one_generation(population, speeds, options, numbers)`: the next generation of a genetic
#    algorithm, with `numbers` in place of chance; the stub says how.
#
# ## Sources
#
# - T. Chen et al., "Learning to optimize tensor programs", NeurIPS 2018, sections 2 and 3: spaces
#   of schedules, and the search by a model.
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 2: what templates cannot do.
# - D. E. Goldberg, "Genetic algorithms in search, optimization, and machine learning",
#   Addison-Wesley 1989, chapter 1: roulette wheel, crossover, mutation.
