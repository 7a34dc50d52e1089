# %% [markdown]
# # Testing transformations: find planted faults
#
# **You will be able to** state what a transformation of loops must keep, draw programs and inputs
# that can show a fault, choose what to compare with, make a failure small, and measure how good a
# test is.
#
# A *transformation* takes a program and gives a program: a step of a schedule, a pass of code
# generation, or a function of yours. It is right if the results stay the same, for *all* programs
# and *all* inputs. No test tries all of them. So the question of this lesson is: which few?

# %%
from dataclasses import replace

import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor_course import picture

# %% [markdown]
# ## A transformation, and the test that comes to mind
#
# Here is a transformation written by hand, without `s.split`: cut a loop into tiles. It finds the
# loop (`ir.For`), puts two loops in its place, and writes `i_0 * size + i_1` where `i` was.
# `ir.rewrite` calls a function for every node of a program and keeps what it returns;
# `ir.substitute` puts an expression in the place of a variable.


# %%
def rewritten(program, kind, change):
    """The program with each node of a kind replaced by what `change` makes of it."""

    def at(node):
        return change(node) if isinstance(node, kind) else node

    return program.replace(body=ir.rewrite(program.body, at))


def with_loop(program, loop, change):
    """The program with one loop replaced."""
    return rewritten(program, ir.For, lambda old: change(old) if old.var == loop else old)


def in_tiles(loop, size, count):
    """So many tiles of `size` iterations in the place of a loop."""
    i_0, i_1 = ir.Var(f"{loop.var}_0"), ir.Var(f"{loop.var}_1")
    body = ir.substitute(loop.body, {loop.var: i_0 * size + i_1})
    return ir.For(i_0.name, count, ir.For(i_1.name, size, body))


def tiled_1(program, loop, size):
    """Cut a loop into tiles. First version."""
    return with_loop(program, loop, lambda old: in_tiles(old, size, old.extent // size))


def differences(n):
    """A program: D[i] = A[i + 1] - A[i]."""
    A = mt.placeholder((n + 1,), "float32", name="A")
    return mt.lower([A, mt.compute((n,), lambda i: A[i + 1] - A[i], name="D")], name="differences")


def row_sums(n):
    """A program: S[r] = the sum of A[r, i] for all i."""
    A = mt.placeholder((3, n), "float32", name="A")
    i = mt.reduce_axis(n, name="i")
    return mt.lower([A, mt.compute((3,), lambda r: mt.sum(A[r, i], axis=i), name="S")], name="sums")


print(differences(32))
print(tiled_1(differences(32), "i", 8))
a = np.arange(33, dtype="float32") ** 2
assert np.array_equal(mt.interpret(tiled_1(differences(32), "i", 8), a), np.diff(a))

# %% [markdown]
# The test passes: one program, one input, one number of elements that came to mind. Most people
# think of 32 and of 8.
#
# **Predict first.** Now take 30 elements. How many are computed? What will the interpreter say of
# `D`, whose elements are each stored once? What will it say of a sum of 30 elements?

# %%
try:
    mt.interpret(tiled_1(differences(30), "i", 8), np.ones(31, "float32"))
except mt.ExecutionError as error:
    print(error)
    assert "never written at [24]" in str(error)

sums = mt.interpret(tiled_1(row_sums(30), "i", 8), np.ones((3, 30), "float32"))
print("sums of thirty ones:", sums)
assert sums.tolist() == [24, 24, 24]

# %% [markdown]
# 30 // 8 is 3, and 3 tiles of 8 are 24 elements. The last six, the *tail*, are forgotten. Of `D`
# the interpreter notices, for it checks that each element of a result is written. Of the sum it
# cannot: 24 terms are a sum too. Only a comparison with the right result shows that.
#
# ## A property, and cases that are drawn
#
# So do not choose cases: draw them. A *property* is a sentence about all cases, here "the results
# are those of the program before". A *generator* draws a case, an *oracle* says what is right.
# (K. Claessen and J. Hughes had the idea in QuickCheck, in 2000.) In plain Python:


# %%
def fails(transform, case):
    """Test whether a transformation changes the sums of n elements, in tiles of `size`."""
    n, size = case
    a = np.random.default_rng(n).integers(-4, 5, (3, n)).astype("float32")
    try:
        found = mt.interpret(transform(row_sums(n), "i", size), a)
    except mt.ExecutionError:
        return True
    return not np.array_equal(found, a.sum(axis=1))


rng = np.random.default_rng(14)
cases = [(int(rng.integers(1, 40)), int(rng.integers(1, 16))) for _ in range(20)]
failing = [case for case in cases if fails(tiled_1, case)]
print(len(failing), "of", len(cases), "fail:", failing)
assert len(failing) > 10 and not fails(tiled_1, (32, 8))

# %% [markdown]
# ## A failure is made small
#
# The first of them fails, but why? Its numbers are as accidental as 30 and 8. *Shrinking* looks
# for a smaller case that fails as well, again and again, until each smaller one passes.


# %%
def shrunk(case, fails):
    """A case that passes when either of its numbers is made smaller."""
    while True:
        n, size = case
        smaller = [(m, size) for m in range(1, n)] + [(n, m) for m in range(1, size)]
        still = [c for c in smaller if fails(c)]
        if not still:
            return case
        case = still[0]


smallest = shrunk(failing[0], lambda case: fails(tiled_1, case))
print(failing[0], "->", smallest)
assert smallest == (1, 2)

# %% [markdown]
# One element in tiles of two: no tile at all. That says what is wrong. Round up, then:


# %%
def tiled_2(program, loop, size):
    """Cut a loop into tiles, as many as it takes. Second version."""
    return with_loop(program, loop, lambda old: in_tiles(old, size, -(-old.extent // size)))


assert shrunk((30, 8), lambda case: fails(tiled_2, case)) == (1, 2)
assert fails(tiled_2, (16, 5)) and not fails(tiled_2, (15, 5)) and not fails(tiled_2, (16, 4))

# %% [markdown]
# (A shrinker that only tried one less would stop at 16 elements in tiles of 5, for both
# neighbours pass: a *local* minimum.) Now the last tile runs too far. Instances beyond the end must
# do nothing: a condition at each block under the loop, its *predicate* or guard.


# %%
def guarded(loop):
    """The loop, with a guard that its iterations are fewer than its extent."""
    guard = ir.less(ir.Var(loop.var), loop.extent)

    def at(node):
        if isinstance(node, ir.Block):
            return replace(node, predicate=ir.conjunction([node.predicate, guard]))
        return node

    return ir.rewrite(loop, at)


def tiled(program, loop, size):
    """Cut a loop into tiles; what is too much does nothing. Third version."""
    return with_loop(
        program, loop, lambda old: in_tiles(guarded(old), size, -(-old.extent // size))
    )


print(tiled(differences(30), "i", 8))
assert not [case for case in cases if fails(tiled, case)]

# %%
picture("14_guarded", tiled(differences(30), "i", 8))

# %% [markdown]
# The same loops as plain Python:


# %%
def differences_in_tiles(a):
    """The loops above, by hand."""
    d = np.empty(30, "float32")
    for i_0 in range(4):
        for i_1 in range(8):
            if i_0 * 8 + i_1 < 30:
                d[i_0 * 8 + i_1] = a[i_0 * 8 + i_1 + 1] - a[i_0 * 8 + i_1]
    return d


a = np.arange(31, dtype="float32") ** 2
assert np.array_equal(differences_in_tiles(a), np.diff(a))
_, counts = mt.interpret(tiled(differences(30), "i", 8), a, counts=True)
assert counts.stores["D"] == 30  # of 32 instances, two do nothing

# %% [markdown]
# ## Inputs that can see a fault
#
# Let us turn the question around: plant faults, and look which inputs see them. A program with a
# planted fault is a *mutant*; a test that tells it from the right program *kills* it.


# %%
def swap(e):
    """The operands of a subtraction change places."""
    return ir.Binary("-", e.b, e.a) if e.op == "-" else e


def without_relu(e):
    """max(x, 0) becomes x."""
    return e.a if e.op == "max" else e


def one_short(loop):
    """The sum leaves out its last term."""
    return replace(loop, extent=loop.extent - 1) if loop.var == "k" else loop


def from_one(block):
    """The sum starts from 1."""
    return replace(block, init=replace(block.init, value=ir.const(1.0, ir.FLOAT32)))


A = mt.placeholder((6, 9), "float32", name="A")
B = mt.placeholder((6, 9), "float32", name="B")
k = mt.reduce_axis(9, name="k")
R = mt.compute((6,), lambda i: mt.sum(mt.maximum(A[i, k] - B[i, k], 0.0), axis=k), name="R")
program = mt.lower([A, B, R], name="excess")

mutants = {
    "swap": rewritten(program, ir.Binary, swap),
    "without_relu": rewritten(program, ir.Binary, without_relu),
    "one_short": rewritten(program, ir.For, one_short),
    "from_one": rewritten(program, ir.Block, from_one),
}

rng = np.random.default_rng(2)
inputs = {
    "zeros": [np.zeros((6, 9), "float32")] * 2,
    "ones": [np.ones((6, 9), "float32")] * 2,
    "a ramp, twice": [np.arange(54, dtype="float32").reshape(6, 9)] * 2,
    "small integers": [rng.integers(-4, 5, (6, 9)).astype("float32") for _ in range(2)],
}
for name, arrays in inputs.items():
    want = mt.interpret(program, *arrays)
    killed = [m for m in mutants if not np.array_equal(mt.interpret(mutants[m], *arrays), want)]
    print(f"{name:15} {killed}")
    assert len(killed) == (4 if name == "small integers" else 1)

# %% [markdown]
# Zeros, ones and equal inputs see one fault of four. The number of killed mutants measures a
# test. One draw may miss a fault too: with the seed 1 here all six last terms are at most 0, and
# `one_short` lives. So draw many times.
#
# **Why small integers?** A transformation may change the order of a sum. In floating point that
# changes the last bits, so with any other numbers one compares with a tolerance, and small faults
# hide in it. Sums and products of small integers are exact in any order. **What they cannot see**
# is rounding: a mutant that adds float64 numbers in float32 is right on all small integers. A
# property about accuracy needs other inputs, and a tolerance.

# %%
integers = rng.integers(-4, 5, 1000).astype("float32")
floats = rng.standard_normal(1000).astype("float32")
orders = [rng.permutation(1000) for _ in range(20)]


def sums(x):
    """The different sums of an array in these orders."""
    return {float(np.add.accumulate(x[order])[-1]) for order in orders}


print("sums in 20 orders:", len(sums(integers)), "of integers,", len(sums(floats)), "of floats")
assert len(sums(integers)) == 1 and len(sums(floats)) > 1
whole, parts = integers.astype("float64"), rng.standard_normal(1000)
assert whole.astype("float32").sum(dtype="float32") == whole.sum()
assert parts.astype("float32").sum(dtype="float32") != parts.sum()

# %% [markdown]
# ## An oracle that shares no code
#
# Compare with what is computed in another way. If both sides share a function, they share its
# faults. minitensor has three oracles: `evaluate_by_numpy` computes a whole stage at once, the
# interpreter runs loop by loop, and compiled C knows nothing of either. `assert_equivalent`
# compares them bit for bit. The module draws programs too, from `programs()`: one to four stages,
# extents such as 0, 1 and 13, sums, maxima, windows, updates in order, eight types.
#
# It needs Hypothesis (MacIver and others), the Python library for properties: it draws, keeps what
# is interesting, and shrinks. If the next cell says that it is missing, install it with
# `python -m pip install 'minitensor[course]'`. The tasks of this lesson do without.

# %%
from minitensor.testing import arrays_for, assert_equivalent, evaluate_by_numpy, programs

from hypothesis import Phase, given, settings  # isort: skip
from hypothesis import strategies as st  # isort: skip

(want,) = evaluate_by_numpy(program, inputs["small integers"])
assert np.array_equal(mt.interpret(program, *inputs["small integers"]), want)

same_each_time = settings(deadline=None, database=None, derandomize=True, max_examples=60)
tried = []


@same_each_time
@given(n=st.integers(1, 40), size=st.integers(1, 16))
def test_sums_in_tiles(n, size):
    """A property of the first version, which fails."""
    tried.append((n, size))
    assert not fails(tiled_1, (n, size))


try:
    test_sums_in_tiles()
except AssertionError:
    print(len(tried), "cases; the smallest that fails:", tried[-1])
    assert tried[-1] == smallest  # Hypothesis runs it last

# %% [markdown]
# And now any program, any of its loops, any size. `then=` is the transformation and its arguments.
# (Shrinking whole programs takes a while: here Hypothesis is asked to generate only.)


# %%
def test_of(transform):
    """The property of a transformation of one loop, as a function that tries drawn cases."""

    @settings(same_each_time, phases=[Phase.generate], max_examples=25)
    @given(st.data())
    def keeps_the_results(data):
        drawn = data.draw(programs(max_stages=2, max_steps=100))
        loops = [loop.var for loop in ir.loops_of(drawn.body)]
        if loops:
            change = (transform, data.draw(st.sampled_from(loops)), data.draw(st.integers(1, 8)))
            arrays = data.draw(arrays_for(drawn))
            assert_equivalent(drawn, mt.Schedule(drawn), ["interpreter"], arrays, then=change)

    return keeps_the_results


test_of(tiled)()  # passes
for wrong in (tiled_1, tiled_2):
    try:
        test_of(wrong)()
    except AssertionError as failure:
        print(str(failure).splitlines()[0])
    else:
        raise SystemExit("the fault was not found")

# %% [markdown]
# The whole text of a failure ends with a script: a program, one call, one comparison.
#
# **What a result does not show.** A kernel may read one element outside an array and not use it,
# or race so seldom that no run shows it. `minitensor.sanitize` looks while compiled code runs. In
# `check_memory` each array lies between *guard pages*, which may not be touched, and outputs are
# filled with NaN before: an access outside, and an element that is not written, are found for sure.
# `check_races` runs the iterations of a parallel loop one after the other and remembers which
# touched a byte: two of which one writes are a race, even if it never happens.
#
# ## Pitfalls
#
# - A test that cannot fail: `if loops:` above would skip all programs if the generator drew none
#   with loops. Count what your generator draws.
# - An exception is a finding. `ExecutionError` of the interpreter (out of bounds, not written, read
#   before written) means a wrong program, and must not end the test as if the test were wrong.
# - `assert a == b` of arrays with NaN fails although both are right: say what equal means.
# - A fault in a tail of n % size elements needs an n with a tail. One in `max` needs negative
#   numbers. Ask of each generator which faults it can *not* see.
#
# ## Tasks
#
# Write these functions in `14_tasks.py`, and let `minitensor course check 14` judge them.
#
# 1. `check(transform)`: `transform` takes a program and gives a program. Return True if it keeps
#    the results, False if it does not. Choose programs and inputs; the judge has right and wrong
#    transformations of all kinds of loops: tiles, sums that run backwards, neighbours, starts of
#    sums and of maxima, updates in order, operands of a subtraction.
# 2. `arrays(program, seed)`: an array for each of `program.inputs`, of its shape and dtype, which
#    can see faults, and whose sums are exact in any order. Equal for equal seeds only.
# 3. `smaller(case, fails)`: `case` is a list of integers of 0 or more, and `fails(case)` is True.
#    Return a list that fails, and does not if one element is left out or is one less.
#
# ## Sources
#
# - K. Claessen and J. Hughes, "QuickCheck: a lightweight tool for random testing of Haskell
#   programs", ICFP 2000, sections 2 and 3: properties and generators.
# - D. R. MacIver, Z. Hatfield-Dodds and others, "Hypothesis: a new approach to property-based
#   testing", Journal of Open Source Software 4(43), 2019.
# - D. R. MacIver and A. F. Donaldson, "Test-case reduction via test-case generation: insights from
#   the Hypothesis reducer", ECOOP 2020: shrinking the numbers that a generator drew.
# - R. A. DeMillo, R. J. Lipton and F. G. Sayward, "Hints on test data selection: help for the
#   practicing programmer", Computer, April 1978: mutants.
