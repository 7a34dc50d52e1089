# %% [markdown]
# # Sketches: from a definition to the structures of its schedules
#
# **You will be able to** derive the structures of a program's schedules by rules, say on which
# condition each rule applies, count structures and numbers, and write a rule of your own.
#
# Lesson 17 wrote templates: an expert says how loops are cut and ordered, and leaves numbers open.
# That is a template for each kind of program. Ansor (OSDI 2020) needs none: it derives structures
# from the definition. A schedule of which the structure is decided and the numbers are open is
# called a *sketch*.

# %%
import math

import numpy as np

import minitensor as mt
from minitensor import ir, pictures
from minitensor.search import RULES, Rule, Verdict, generate_sketches
from minitensor_course import picture, small_arrays

# %% [markdown]
# ## Structure and numbers
#
# A matrix product, and a schedule by hand. It cuts the spatial loops `i` and `j` in four and the
# reduction loop `k` in two, and orders the parts as *space, space, reduction, space, reduction,
# space*. In letters: **SSRSRS**. The order is the structure; the twos and fours are the numbers.

# %%
N = 16
A, B = mt.placeholder((N, N), name="A"), mt.placeholder((N, N), name="B")
k = mt.reduce_axis(N, name="k")
C = mt.compute((N, N), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
product = mt.lower([A, B, C], name="product")

s = mt.Schedule(product)
i_0, i_1, i_2, i_3 = s.split("i", [2, 2, 2, 2])
j_0, j_1, j_2, j_3 = s.split("j", [2, 2, 2, 2])
k_0, k_1 = s.split("k", [4, 4])
s.reorder(i_0, j_0, i_1, j_1, k_0, i_2, j_2, k_1, i_3, j_3)
s.show()

# %% [markdown]
# The same as plain Python. Each level is a tile that can stay in some memory: what `i_3` and `j_3`
# cover in registers, what the loops from `i_2` on cover in the first cache, what the loops from
# `i_1` on cover in the second. The outermost level is work for the cores.


# %%
def product_in_tiles(a, b):
    """The loops of the schedule, by hand."""
    c = np.zeros((N, N), "float32")
    for i_0, j_0, i_1, j_1, k_0 in np.ndindex(2, 2, 2, 2, 4):
        for i_2, j_2, k_1, i_3, j_3 in np.ndindex(2, 2, 4, 2, 2):
            i = ((i_0 * 2 + i_1) * 2 + i_2) * 2 + i_3
            j = ((j_0 * 2 + j_1) * 2 + j_2) * 2 + j_3
            c[i, j] += a[i, k_0 * 4 + k_1] * b[k_0 * 4 + k_1, j]
    return c


a, b = np.random.default_rng(0).integers(-3, 4, (2, N, N)).astype("float32")
assert np.array_equal(product_in_tiles(a, b), a @ b)  # small integers: sums are exact
assert np.array_equal(mt.interpret(s, a, b), a @ b)

# %% [markdown]
# The structure needs two lists only: the spatial axes and the reduction axes. So a rule can write
# it for any block. For which blocks does it pay?
#
# ## The condition: data reuse
#
# A tile pays if an element that was loaded is needed again. Let the interpreter count.
#
# **Predict first.** Four programs: the product; the sums of rows; a row that is added to each row
# of a matrix; all products of two vectors. How often is an element of each input loaded?

# %%
X, v, w = (mt.placeholder((N,) * d, name=x) for d, x in ((2, "X"), (1, "v"), (1, "w")))
r = mt.reduce_axis(N, name="r")
sums = mt.compute((N,), lambda i: mt.sum(X[i, r], axis=r), name="sums")
added = mt.compute((N, N), lambda i, j: X[i, j] + v[j], name="added")
outer = mt.compute((N, N), lambda i, j: v[i] * w[j], name="outer")
loads = {}
for arguments in ([A, B, C], [X, sums], [X, v, added], [v, w, outer]):
    program = mt.lower(arguments)
    _, counts = mt.interpret(program, *small_arrays(program), counts=True)
    each = {x.name: counts.loads[x.name] // math.prod(x.shape) for x in program.inputs}
    loads[program.outputs[0].name] = each
print(loads)
assert loads["C"] == {"A": N, "B": N} and loads["sums"] == {"X": 1}
assert loads["added"] == {"X": 1, "v": N} and loads["outer"] == {"v": N, "w": N}

# %% [markdown]
# An input is loaded again where a spatial axis is *missing* in its indices: `A[i, k]` has no `j`,
# so each `j` loads it anew. The condition counts the inputs that miss an axis. It asks for two of
# them, or for one if the block reduces.
#
# So the product has reuse: `A` has no `j`, `B` no `i`. The sums have none: in any order of loops
# each element is loaded once. The added row has none: `v` is one input, nothing is reduced, and
# all of `X` passes through the caches whatever is done. The products of vectors have reuse.
# (An axis of one iteration does not count: missing it repeats nothing.)
#
# ## Sketches of the product
#
# `generate_sketches` derives; `rules="ansor"` has the rules of the paper and no others. `explain()`
# has a line for each application of a rule.

# %%
machine = mt.Target("c", num_cores=4, vector_bits=256)
found = generate_sketches(product, machine, rules="ansor")
for sketch in found:
    print(sketch.explain(), "\n")
assert len(found) == 3
print(found[2])
assert list(found[2].decisions.values()) == [None, None, None]  # None: open

# %% [markdown]
# All have SSRSRS; they differ in where sums are collected. In the third that is `C` itself. In the
# others it is a small array (*cache write*, lesson 10), which is copied to `C` after the first or
# the second space tile. Last comes the third sketch as a trace (lesson 17), with open decisions.
#
# ## A derivation is a tree
#
# A *state* is what has been done, and which stages are still to be visited. They are visited from
# the output to the inputs. At each, the rules are asked in order. A rule that applies gives one
# next state or several, and may *stop* the rules after it. A state with no stage left is a sketch.
#
# That is all, and we write it for toy programs. A toy stage has axes of one letter with extents,
# and reads buffers at axes: `("A", "ik")`. `costly` says that it should not be computed twice.


# %%
def stage(name, space, reads, reduce=(), costly=False):
    """A stage of a toy program: reads are pairs of a buffer and its axes."""
    found = {"name": name, "space": dict(space), "reduce": dict(reduce)}
    return {**found, "reads": reads, "costly": costly}


def readers(stages, one):
    """The stages that read a stage; none for an output."""
    return [s for s in stages if any(buffer == one["name"] for buffer, _ in s["reads"])]


def has_reuse(one):
    """Two buffers miss an axis of space; or one does, and the stage reduces."""
    used = {}
    for buffer, axes in one["reads"]:
        used.setdefault(buffer, set()).update(axes)
    space = {axis for axis, extent in one["space"].items() if extent > 1}
    missing = sum(not space <= axes for axes in used.values())
    return missing >= 2 or (missing == 1 and bool(one["reduce"]))


def is_free(stages, one):
    """It is no output, cheap, reduces nothing, and reads at its axes in order, none twice."""
    if one["reduce"] or one["costly"] or not readers(stages, one):
        return False
    places = [[[*one["space"]].index(axis) for axis in axes] for _, axes in one["reads"]]
    return all(at == sorted(set(at)) for at in places)


def can_follow(stages, one):
    """One stage reads it, which reduces nothing and reads element by element."""
    if len(found := readers(stages, one)) != 1 or found[0]["reduce"]:
        return False
    space = found[0]["space"]
    at = {axes for buffer, axes in found[0]["reads"] if buffer == one["name"]}
    return at == {"".join(space)} and [*space.values()] == [*one["space"].values()]


# %% [markdown]
# `is_free` is for *always inline*: the stage is computed where it is read. `can_follow` is for
# *fusion*: the reader works on each tile as soon as it is complete, while it is in a cache.
# (minitensor asks besides that the reader need not wait for anything else.)
#
# Inlining changes the program for the rules after it: what read the stage now reads what it read.


# %%
def without(stages, gone):
    """The stages after one was computed where it is read."""

    def now(buffer, axes):
        if buffer != gone["name"]:
            return [(buffer, axes)]
        here = dict(zip(gone["space"], axes))
        return [(inner, "".join(here[x] for x in at)) for inner, at in gone["reads"]]

    kept = (one for one in stages if one is not gone)
    return [{**one, "reads": [new for old in one["reads"] for new in now(*old)]} for one in kept]


def ways(stages, one):
    """The rules that apply to a stage, and the stages after each."""
    if is_free(stages, one):
        return [("inline", without(stages, one))]  # and stop
    if not has_reuse(one):
        return [("skip", stages)]
    levels = ("fusion 1", "fusion 2") if can_follow(stages, one) else ()
    return [(rule, stages) for rule in (*levels, "tiling")]  # after space tile 1, 2; and stop


def derive(stages, visited=()):
    """All sketches: a tuple of (stage, rule) for each, from the output to the inputs."""
    left = [one for one in stages if one["name"] not in visited]
    if not left:
        return [()]
    name = left[-1]["name"]
    below = ((rule, derive(after, (*visited, name))) for rule, after in ways(stages, left[-1]))
    return [((name, rule), *rest) for rule, sketches in below for rest in sketches]


# %% [markdown]
# A product, a bias that is added, and the positive part of that (`relu`), in our toy and in
# minitensor:

# %%
space = {"i": N, "j": N}
dense = [
    stage("C", space, [("A", "ik"), ("B", "kj")], reduce={"k": N}),
    stage("D", space, [("C", "ij"), ("v", "j")]),
    stage("R", space, [("D", "ij")]),
]
D = mt.compute((N, N), lambda i, j: C[i, j] + v[j], name="D")
R = mt.compute((N, N), lambda i, j: mt.maximum(D[i, j], 0.0), name="R")
layer = mt.lower([A, B, v, R], name="layer")
for one in derive(dense):
    print(" -> ".join(f"{name}: {rule}" for name, rule in one))
of_layer = generate_sketches(layer, machine, rules="ansor")
print(of_layer[0].explain())
assert len(derive(dense)) == len(of_layer) == 3

# %% [markdown]
# `R` is the output and is left as it is. `D` is free and disappears into `R`. Only for that reason
# is `R` the one reader of `C`, and may follow its tiles. As a tree, a node for each state:


# %%
def grown(node, sketches):
    """A node with the branches of sketches, which are grouped by their first steps."""
    for name, rule in dict.fromkeys(one[0] for one in sketches if one):
        rest = [one[1:] for one in sketches if one[0] == (name, rule)]
        text = "a sketch" if rest == [()] else f"visit {rest[0][0][0]}"
        below = pictures.Branch([text], f"{name}: {rule}", "green" if rest == [()] else "blue")
        node.below.append(grown(below, rest))
    return node


root = grown(pictures.Branch(["visit R"]), derive(dense))
picture("18_derivation", pictures.tree_picture("derivation", "Sketches of a layer", root))

# %% [markdown]
# ## Two rules that make new stages
#
# *Cache write* is for a stage with reuse that no reader can follow. It adds a reader that can: the
# copy of its tiles to the result. Then the stage is visited again, fused with this copy, and that
# is all (stop). Tiling without a copy is asked, too: three sketches, as of the product above.
#
# *Rfactor* (lesson 11) is for a reduction with too few results to keep all cores busy. Its loop is
# cut in two, and partial results are kept along the outer or along the inner part: two states, and
# the rules after it are asked as well. The condition for a stage without reuse: more reduction
# iterations than cores. For one with reuse: more than one reduction iteration, no more results
# than reduction iterations, and at most 16 results for each core. Rfactor comes before cache write
# and tiling.

# %%
long = mt.reduce_axis(512, name="long")
Y = mt.placeholder((512,), name="Y")
norm = mt.lower([Y, mt.compute((1,), lambda o: mt.sum(Y[long] * Y[long], axis=long), name="S")])
outer_part, inner_part, skip = generate_sketches(norm, machine, rules="ansor")
print(outer_part.explain(), inner_part.explain(), skip.explain(), sep="\n")
assert [len(one.decisions) for one in (outer_part, inner_part, skip)] == [1, 1, 0]

# %% [markdown]
# **Predict first.** Softmax of rows of 64 elements: the maximum of a row; `exps`, exponentials of
# differences; the sum of a row; the quotient. How many sketches are there for 4 cores? For 64?

# %%
softmax = mt.lower(mt.workloads.softmax(8, 64), name="softmax")
print(generate_sketches(softmax, machine, rules="ansor")[0].explain())
assert len(generate_sketches(softmax, machine, rules="ansor")) == 3 * 1 * 3 * 1
assert len(generate_sketches(softmax, machine, num_cores=64, rules="ansor")) == 1

# %% [markdown]
# Choices at different stages are independent here, so their numbers are multiplied: three for each
# reduction, one for each other stage. On 64 cores rfactor does not apply to 64 iterations.
#
# ## What is left open
#
# Structures are few, numbers are not. An extent is written as a product of factors, one a part, in
# any order; the innermost is at most 64.


# %%
def cuts(extent, parts, most=64):
    """The ways to write an extent as a product of so many factors, the last at most `most`."""
    if parts == 1:
        return int(extent <= most)
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    return sum(cuts(extent // d, parts - 1, most) for d in divisors)


assert cuts(16, 4) * cuts(16, 4) * cuts(16, 2) == 35 * 35 * 5 == 6125  # of one sketch
print(f"{cuts(1024, 4) ** 2 * cuts(1024, 2):,} for matrices of 1024 x 1024")

one, other = found[2].apply(seed=1), found[2].apply(seed=2)  # two draws: other numbers,
assert one.get_loops("C") == other.get_loops("C") == s.get_loops("C")  # but the same structure,
assert np.array_equal(mt.interpret(one, a, b), mt.interpret(other, a, b))  # and results

# %% [markdown]
# Left open is, too, what a sketch does not mention: which loops are parallel, vectorized, unrolled.
# The paper calls this *annotation*. A search adds it at random, and then changes it and the
# numbers by evolution (lesson 20).
#
# ## A rule of your own
#
# A rule is two functions of a state. `judge` says whether it applies: `SKIP`, `APPLY` (and the
# rules after it, too) or `APPLY_AND_STOP`. `apply` gives the next states. A state is not changed,
# so copy its schedule. This rule keeps some rows of the product together:


# %%
def judge(state, cores):
    """It is for a block named C."""
    return Verdict.APPLY_AND_STOP if state.name == "C" else Verdict.SKIP


def apply(state, cores):
    """Some rows at a time; the number of them is left open."""
    schedule = state.schedule.copy()
    rows = schedule.sample_categorical([2, 4, 8])
    i, j, k = schedule.get_loops(state.name)
    i_0, i_1 = schedule.split(i, [None, rows])
    schedule.reorder(i_0, k, i_1, j)
    return [state.after("rows", "some rows at a time", schedule)]


mine = [Rule("rows", judge, apply), *RULES["ansor"]["c"]]
(own,) = generate_sketches(product, machine, rules=mine)
print(own)
assert np.array_equal(mt.interpret(own.apply(seed=1), a, b), a @ b)
drawn = [ir.paths(own.apply(seed=n).program)["C"] for n in range(20)]
assert {i_1.extent for i_0, k, i_1, j in drawn} == {2, 4, 8}

# %% [markdown]
# `mt.tune(product, rules=mine)` searches with it. With `APPLY`, Ansor's three sketches would stay
# beside it. A rule cannot make a wrong program: its steps pass the checks of lesson 07. Without
# `rules`, minitensor takes a longer list (`mt.search.DEFAULT_RULES`): Ansor's, and rules for blocks
# that SSRSRS serves badly.
#
# ## Pitfalls
#
# - A sketch is no schedule. It has open decisions; `sketch.apply(seed=1)` draws them.
# - More sketches are not always better: each takes trials of a search from the others.
# - A condition is about the program *as it is now*. Who reads a stage may change by inlining.
# - A rule at a later block may move an earlier one: a reader that follows tiles gets new loops, and
#   what was done to its old ones is gone.
# - Reuse is about space that is missing, not about reductions: sums of rows reduce and have none.
# - A rule that raises counts as one that does not apply, and a warning is logged. If your sketch is
#   missing, look there first.
#
# ## Tasks
#
# Write these functions in `18_tasks.py`, and let `minitensor course check 18` judge them.
#
# 1. `tiled(space, reduce, structure)`: the names of the loops, outermost first, of a block with
#    these axes: `tiled(["i"], ["k"], "SRS")` is `["i_0", "k_0", "i_1"]`.
# 2. `numbers(space, reduce, structure, most)`: how many programs one sketch stands for. `space` and
#    `reduce` are extents by axis; an innermost factor is at most `most`.
# 3. `derive(stages, cores)`: the sketches of a toy program by all rules, with `"cache write"`,
#    `"rfactor outer"` and `"rfactor inner"`. Begin with the functions of this lesson.
# 4. `strips(name, widths)`: a rule that cuts the last loop of one block into strips of a width that
#    is left open, and vectorizes a strip.
#
# ## Sources
#
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 4.1: sketches and their rules; section 4.2: random annotation.
# - T. Chen et al., "Learning to optimize tensor programs", NeurIPS 2018: templates, which sketches
#   do without.
