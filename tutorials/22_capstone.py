# %% [markdown]
# # A primitive of your own: rules, a test, and a place in the search
#
# **You will be able to** write a step that minitensor does not have, find out when it is wrong,
# refuse it there, test it on drawn programs, and let the auto-scheduler use it.
#
# You have seen all parts of the system. In this lesson you add one: `peel`, which splits off the
# first iterations of a loop. It goes the whole way, from a first version that is wrong to a rule
# that a search applies.

# %%
from dataclasses import replace

import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor_course import picture

# %% [markdown]
# ## The wish
#
# `D[i]` is the difference of `A[i]` and the element before it. The first element has none before
# it, so there is a condition, and it is asked in each iteration.

# %%
N = 8
A = mt.placeholder((N,), "float32", name="A")
D = mt.compute((N,), lambda i: A[i] - mt.if_then_else(i > 0, A[i - 1], 0.0), name="D")
program = mt.lower([A, D], name="steps")
print(program)


def steps(a):
    """The loop, by hand."""
    d = np.empty(N, "float32")
    for i in range(N):
        d[i] = a[i] - (a[i - 1] if i > 0 else 0)
    return d


def steps_peeled(a):
    """The same without a question: the first iteration apart, and the other seven."""
    d = np.empty(N, "float32")
    for first in range(1):
        d[first] = a[first]
    for rest in range(N - 1):
        d[rest + 1] = a[rest + 1] - a[rest]
    return d


a = np.arange(N, dtype="float32") ** 2
want = mt.interpret(program, a)
assert np.array_equal(steps(a), want) and np.array_equal(steps_peeled(a), want)

# %% [markdown]
# ## First version: a function from a program to a program
#
# A program is a tree of *nodes* that never change: `ir.For` (a loop), `ir.Block` (what is
# scheduled), expressions. A transformation makes a new tree. `ir.loop_sites` finds a loop by its
# name, `ir.substitute` puts an expression in the place of a variable, and `ir.rewrite` calls a
# function for each node, from the leaves up. Loops begin at 0, so the second one is shifted by n.


# %%
def in_place(program, loop, stmt):
    """The program with a statement in the place of a loop."""

    def at(node):
        return stmt if isinstance(node, ir.For) and node.var == loop else node

    return program.replace(body=ir.rewrite(program.body, at))


def peel_1(program, loop, n):
    """Split off the first n iterations. First version."""
    old = ir.loop_sites(program)[loop].loop
    shifted = ir.substitute(old.body, {loop: ir.Var(loop) + n})
    first = replace(old, extent=n)
    rest = replace(old, extent=old.extent - n, body=shifted)
    return in_place(program, loop, ir.sequence(first, rest))


# %% [markdown]
# **Predict first.** The two loops compute the right elements. Why is the program no program?

# %%
print(peel_1(program, "i", 1))
try:
    mt.verify(peel_1(program, "i", 1))
except mt.VerifyError as error:
    print(error.message)
    assert "two loops are called i" in error.message

# %% [markdown]
# Names are how steps speak of loops and blocks, so each may occur once. (A name that is gone must
# not come back either: an old name could then mean something new. `program.retired` has those.)
# The copy that comes first gets new names for its loops and blocks.
#
# ## Second version: names


# %%
def renamed(stmt, names):
    """A copy of a statement with other names of loops and blocks."""

    def at(node):
        if isinstance(node, ir.For):
            new = ir.Var(names[node.var])
            return replace(node, var=new.name, body=ir.substitute(node.body, {node.var: new}))
        if isinstance(node, ir.Block):
            return replace(node, name=names[node.name])
        return node

    return ir.rewrite(stmt, at)


def peel_2(program, loop, n):
    """Split off the first n iterations. Second version: also the names of the two loops."""
    old = ir.loop_sites(program)[loop].loop
    taken = {*ir.names_in(program), *program.blocks, *program.retired}
    inside = [node.var for node in ir.loops_of(old)] + [b.name for b in ir.blocks_of(old)]
    names = {name: ir.fresh_name(f"{name}_first", taken) for name in inside}
    rest = ir.Var(ir.fresh_name(f"{loop}_rest", taken))
    first = renamed(replace(old, extent=n), names)
    shifted = ir.substitute(old.body, {loop: rest + n})
    second = replace(old, var=rest.name, extent=old.extent - n, body=shifted)
    return in_place(program, loop, ir.sequence(first, second)), (names[loop], rest.name)


s = mt.Schedule(program)
print(s.apply(peel_2, "i", 1))
print(s.program)
assert np.array_equal(mt.interpret(s, a), want)

# %%
picture("22_peeled", s)

# %% [markdown]
# `Schedule.apply` takes any function from a program to a program (and a result). It verifies what
# comes out, records the step, and replays it. The conditions are now `False` and `True`, so
# nothing is asked any more, and the interpreter counts as many loads as before.

# %%
_, before = mt.interpret(program, a, counts=True)
_, after = mt.interpret(s, a, counts=True)
assert before.loads["A"] == after.loads["A"] == 2 * N - 1
try:
    print(mt.build(s).source.split("workspace) ")[1])
except mt.CompileError as error:
    print(error)

# %% [markdown]
# ## When is it wrong?
#
# What may go wrong follows from what a step changes:
#
# | a step changes | as | and must ask |
# |---|---|---|
# | nothing about the order | `split`, `unroll`, `peel` | is the result well-formed? |
# | the order of iterations | `reorder`, running backwards | does one need what another wrote? |
# | what runs at the same time | `parallel`, `vectorize` | may two touch one element? |
#
# `peel` keeps the order of all iterations. So no dependence matters to it, not even of updates in
# order: this is why it is a good first primitive. A sum starts in the instance whose reduce iters
# are 0, which is in the first part; in the second part these are n and more.

# %%
k = mt.reduce_axis(N, name="k")
S = mt.compute((), lambda: mt.sum(A[k], axis=k), name="S")
s = mt.Schedule(mt.lower([A, S], name="total"))
s.apply(peel_2, "k", 3)
print(s.program)
assert mt.interpret(s, a) == a.sum()

# %% [markdown]
# But there is more than one way to be wrong. Try it on drawn programs, with drawn steps before it
# (lesson 14; it needs Hypothesis, `python -m pip install 'minitensor[course]'`). The property: the
# results are those of the definition, bit for bit. A refusal is no failure.

# %%
from minitensor.testing import arrays_for, assert_equivalent, programs, schedules

from hypothesis import Phase, given, settings  # isort: skip
from hypothesis import strategies as st  # isort: skip

SAME_EACH_TIME = settings(
    max_examples=40,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
LOOPS = ("split", "fuse", "reorder", "parallel", "compute_at", "decompose_reduction")


def tested(primitive):
    """The numbers of steps that were accepted and refused; raises for one that is wrong."""
    ended = {"accepted": 0, "refused": 0}

    @SAME_EACH_TIME
    @given(st.data())
    def results_are_kept(data):
        drawn = data.draw(programs(max_stages=2, max_steps=100))
        s = data.draw(schedules(drawn, max_steps=3, primitives=LOOPS))
        loops = [loop.var for loop in ir.loops_of(s.program.body)]
        if loops:
            loop, n = data.draw(st.sampled_from(loops)), data.draw(st.integers(1, 4))
            try:
                s.apply(primitive, loop, n)
            except mt.ScheduleError:
                ended["refused"] += 1
                return
            ended["accepted"] += 1
            assert_equivalent(drawn, s, ["interpreter"], data.draw(arrays_for(drawn)))

    results_are_kept()
    return ended


try:
    tested(peel_2)
except mt.VerifyError as error:
    print(error.message)
else:
    raise SystemExit("the fault was not found")

# %% [markdown]
# A loop of three iterations has no fourth: the second loop would run -1 times. And n = 0 or n =
# extent would leave a loop that does nothing.
#
# Then there is a trap, which no wrong result shows. A temporary that is used in one loop only
# *lives* in it: each iteration has an instance of its own, so it may be small and private.

# %%
M = 32
A = mt.placeholder((M + 2,), "float32", name="A")
P = mt.compute((M + 2,), lambda x: A[x] * 2.0, name="P")
Q = mt.compute((M,), lambda y: P[y] + P[y + 1] + P[y + 2], name="Q")
s = mt.Schedule(mt.lower([A, Q], name="blur"))
y_0, y_1 = s.split("y", [None, 8])
s.compute_at("P", y_0)
assert ir.lifetimes(s.program) == {"P": y_0}

t = s.copy()
_, rest = t.apply(peel_2, y_0, 1)
assert ir.lifetimes(t.program) == {"P": None}  # of two loops: it lives outside of both
try:
    t.parallel(rest)
except mt.ScheduleError as error:
    print(error.message)
    assert error.rule == "R4"

# %% [markdown]
# The results are right, but all of `P` is in memory again, and the loop can no longer be parallel.
# A rule may also keep a user from harm that is not an error.
#
# ## Third version: a primitive with rules
#
# `@mt.primitive` declares the rules: for each a condition, and what to do where it does not hold.
# `mt.refuse` refuses: it names the rule, a fact, and the culprit that the message marks. An
# argument that is annotated as `LoopName` is checked before the function runs.

# %%
from minitensor.schedule import LoopName


@mt.primitive(
    rules={
        "R1": ("the loop is serial", "peel it before it gets another kind"),
        "R2": ("both parts have iterations", "take n from 1 to the extent - 1"),
        "R3": ("no temporary lives in the loop or below", "peel before compute_at"),
    }
)
def peel(program: ir.Program, loop: LoopName, n: int = 1):
    """Split off the first n iterations of a loop. Returns the names of both loops."""
    old = ir.loop_sites(program)[loop].loop
    if old.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R1", marks=ir.Marks(loops={loop: old.kind.value}))
    if not 0 < n < old.extent:
        mt.refuse("R2", f"{loop} has {old.extent} iterations, n is {n}")
    inside = [node.var for node in ir.loops_of(old)]
    for buffer, home in ir.lifetimes(program).items():
        if home in inside:
            mt.refuse(
                "R3", f"{buffer} lives in {home}", marks=ir.Marks(loops={loop: "would be two"})
            )
    return peel_2(program, loop, n)


unchanged = s.program
for given_n, rule in ((1, "R3"), (4, "R2")):
    try:
        s.apply(peel, y_0, given_n)
    except mt.ScheduleError as error:
        print(error, "\n")
        assert error.rule == rule and s.program is unchanged

ended = tested(peel)
print(ended)
assert ended["accepted"] >= 5 and ended["refused"] >= 5

# %% [markdown]
# Look at both numbers: a property says nothing if all steps are refused. And does the test find a
# fault? Plant one, a shift that is forgotten:


# %%
def peel_unshifted(program, loop, n):
    """A faulty one: the second part begins at 0 again."""
    made, (first, rest) = peel(program, loop, n)
    second = ir.loop_sites(made)[rest].loop
    back = ir.substitute(second.body, {rest: ir.Var(rest) - n})
    return in_place(made, rest, replace(second, body=back)), (first, rest)


try:
    tested(peel_unshifted)
except AssertionError as failure:
    print(str(failure).splitlines()[0])
else:
    raise SystemExit("the fault was not found")

# %% [markdown]
# ## Recorded, printed, replayed
#
# Nothing more is needed for that: the decorator knows name, arguments and their types.

# %%
s = mt.Schedule(program)
first, rest = s.apply(peel, "i")
s.vectorize(rest)
print(s.trace.as_python())
again = mt.Trace.from_json(s.trace.to_json()).apply(program)
assert again.program == s.program and np.array_equal(mt.interpret(again, a), want)

# %% [markdown]
# ## A rule for the search
#
# A *sketch rule* (lesson 18) looks at one block after the other. `judge` says whether the rule
# applies to it, `apply` gives the states that come of it. Ours applies where a block asks whether
# this is the first iteration of its innermost loop. `Verdict.APPLY` lets the rules after it have
# their turn too, so a search can compare both ways; a refusal ends a way.

# %%
from minitensor.search import DEFAULT_RULES, Rule, Verdict, generate_sketches


def asks_for_the_first(state, cores):
    """Apply where a condition holds in all iterations of the innermost loop but the first."""
    loops = state.schedule.get_loops(state.name)
    inner = [i for i in state.block.iters if loops and i.binding == ir.Var(loops[-1])]
    for node in ir.walk(state.block.body):
        for i in inner:
            if isinstance(node, ir.Select) and [*ir.free_vars(node.condition)] == [i.var]:
                holds = [ir.evaluate(node.condition, {i.var: n}) for n in range(i.extent)]
                if holds == [False] + [True] * (i.extent - 1):
                    return Verdict.APPLY
    return Verdict.SKIP


def peel_the_first(state, cores):
    """One state: the first iteration of the innermost loop is apart."""
    schedule = state.schedule.copy()
    try:
        schedule.apply(peel, schedule.get_loops(state.name)[-1], 1)
    except mt.ScheduleError:
        return []
    return [state.after("peel", "the first iteration apart", schedule)]


target = mt.Target("c", num_cores=2, vector_bits=256)
rules = [Rule("peel", asks_for_the_first, peel_the_first), *DEFAULT_RULES]
sketches = generate_sketches(program, target, rules=rules)
for sketch in sketches:
    print(sketch.explain())
assert ["peel" in sketch.explain() for sketch in sketches] == [True, False]
assert len(generate_sketches(mt.lower([A, Q]), target, rules=rules)) == 1

# %% [markdown]
# `mt.tune(program, rules=rules)` searches with it. Whether it helps is not for us to say: the
# search measures both.
#
# ## Pitfalls
#
# - `ir.rewrite` goes from the leaves up. A function that replaces each loop by something that holds
#   the same loop again meets only the old one; but do not search by equality (`==`), since two
#   loops may be equal.
# - `ir.substitute` stops at the bindings of a block: inside it only its iters are known.
# - A result that is right for float inputs "up to 1e-3" may be wrong. Small integers are exact.
# - Of a primitive that is defined in `__main__` a trace can be read in the same process only. Put
#   it into a module that both sides import.
#
# ## Tasks
#
# Write these functions in `22_tasks.py`, and let `minitensor course check 22` judge them.
#
# 1. `rotate(program, loop, n)`: a primitive that lets a loop begin at iteration n: n, n + 1, … to
#    the end, then 0, 1, … n - 1. Refuse it where the loop is not serial, where n is not from 1 to
#    the extent - 1, and where results could change; and nowhere else.
# 2. `strips()`: return a sketch rule for blocks with a reduction. It cuts the innermost loop into
#    strips of 4 or 8 (a decision), and unrolls the inner one. The rules after it have their turn.
#
# ## Sources
#
# - R. Allen and K. Kennedy, "Optimizing Compilers for Modern Architectures", Morgan Kaufmann 2001,
#   chapter 2 (which reorderings keep dependences), and loop peeling in chapter 5.
# - M. Wolfe, "High Performance Compilers for Parallel Computing", Addison-Wesley 1996, chapter 9:
#   loop restructuring.
# - Y. Ikarashi et al., "Exocompilation for productive programming of hardware accelerators", PLDI
#   2022: scheduling operators that users define, each checked.
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 4.1: derivation rules, users' own among them.
