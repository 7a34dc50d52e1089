# %% [markdown]
# # Expressions, and an interpreter of your own
#
# **You will be able to** read an expression as a tree, compute its value with a function of some
# lines, say what integer division and overflow mean here, and simplify an expression without
# changing its meaning.
#
# A compiler holds a program as data. Its smallest part is the expression.

# %%
import operator

import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor.pictures import Branch, tree_picture
from minitensor_course import picture

# %% [markdown]
# ## An expression is a tree
#
# `mt.var` gives a variable without a value, a *symbolic value*, as the index of each `lambda` in
# lesson 1 is. Arithmetic with it computes nothing, but builds a *tree*. A leaf is a variable
# (`ir.Var`) or a number (`ir.Const`); an inner node is an operation, such as `ir.Binary`, with its
# operands below it. Python's `match` takes a node apart: `case ir.Binary(op, a, b)` fits a node of
# this class, and gives its fields these names.

# %%
i, j = mt.var("i"), mt.var("j")
position = (i * 8 + j) // 4
tree = position.node  # what the symbolic value holds
print(position, repr(tree), sep="\n")


# %%
def branch(expr):
    """The same tree, as the boxes of a picture."""
    match expr:
        case ir.Var(name):
            return Branch([name], colour="green")
        case ir.Const(value):
            return Branch([str(value)], colour="grey")
        case ir.Binary(op, a, b):
            return Branch([op], below=[branch(a), branch(b)])


picture("03_tree", tree_picture("tree", "The tree of (i*8 + j)//4", branch(tree)))

# %% [markdown]
# Precedence and parentheses are gone: the shape of the tree says what belongs together. Nodes are
# *immutable*: a node never changes, so two trees can share a part. They are
# compared *by structure*: equal means the same shape and the same leaves, not the same value.

# %%
x, y = ir.Var("x"), ir.Var("y")
assert x + y == ir.Binary("+", x, y)
assert x + y != y + x  # equal values, but another structure

# %% [markdown]
# ## The value of a tree
#
# An *interpreter* computes a value from the tree and the values of the variables. The value of a
# node follows from the values of its operands, so the function calls itself.

# %%
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def value(expr, variables):
    """The value of a tree of sums, differences and products."""
    match expr:
        case ir.Var(name):
            return variables[name]
        case ir.Const(number):
            return number
        case ir.Binary(op, a, b):
            return ARITHMETIC[op](value(a, variables), value(b, variables))
    raise NotImplementedError(f"{type(expr).__name__} comes later")


assert value(x * 8 + y, {"x": 5, "y": 3}) == 43

# %% [markdown]
# The system has such a function too, `ir.evaluate`, and its meaning counts. Compare on many values:

# %%
for m, n in np.random.default_rng(3).integers(-20, 20, (50, 2)).tolist():
    given = {"x": m, "y": n}
    assert value((x - y) * (y + 3), given) == ir.evaluate((x - y) * (y + 3), given)

# %% [markdown]
# ## Division of negative numbers
#
# Indices become negative as soon as a program looks at a neighbour: `(i - 1) // 2` for `i = 0`.
#
# **Predict first.** What is `-7 // 2`, and what is `-7 % 2`? The language C gives -3 and -1.

# %%
seven = {"x": -7}
assert ir.evaluate(x // 2, seven) == -4
assert ir.evaluate(x % 2, seven) == 1
assert ir.evaluate(x // 0, seven) == ir.evaluate(x % 0, seven) == 0  # see below

# %% [markdown]
# minitensor divides as Python does: *floor division* goes down to the next integer, C goes towards
# zero. Both keep the law `x == (x // n) * n + x % n`. But only floor division cuts the integers
# into pieces of n, so that `x % n` is in 0 ... n-1 for each x. C has a longer piece around zero:


# %%
def divided_as_in_c(a, b):
    """The quotient, rounded towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


assert [n // 4 for n in range(-8, 8)].count(0) == 4
assert [divided_as_in_c(n, 4) for n in range(-8, 8)].count(0) == 7

# %% [markdown]
# Besides, division is *total*, `x // 0` and `x % 0` are 0. So no index can stop a program.
#
# ## Numbers that wrap, and numbers that are exact
#
# Each node has a `dtype`. Data have the types of numpy, and integers of them *wrap*: an int8 holds
# -128 ... 127, and 100 + 100 becomes 200 - 256. Loop variables have a type of their own, `index`.
# Its arithmetic is exact, as that of Python's integers.
#
# **Predict first.** May a compiler replace `(x * 8) // 8` by `x`?

# %%
narrow = ir.Var("x", ir.DType.of("int8"))
eight = ir.const(8, narrow.dtype)
wrapping = ir.Binary("//", ir.Binary("*", narrow, eight), eight)
assert ir.evaluate((x * 8) // 8, {"x": 40}) == 40
assert ir.evaluate(wrapping, {"x": np.int8(40)}) == 8  # 320 - 256 = 64, and 64 // 8

assert mt.simplify((x * 8) // 8) == x
assert mt.simplify(wrapping) == wrapping  # left alone: it would be wrong

# %% [markdown]
# It may for `index`, and may not for data. That is why indices have a type of their own: a compiler
# rewrites them all the time, by the laws of school arithmetic.
#
# ## Elements, and choosing between them
#
# Two more nodes: `ir.Load` is an element of an array, and `ir.Select` is a choice. Here is padding:
# the left neighbour, or 0 where there is none.

# %%
N = 8
A = mt.placeholder((N,), "float32", name="A")
B = mt.compute((N,), lambda i: mt.if_then_else(i > 0, A[i - 1], 0.0) + A[i], name="B")
program = mt.lower([A, B], name="pairs")
print(program)

# %% [markdown]
# **Predict first.** `mt.select(c, a, b)` has the same value as `mt.if_then_else(c, a, b)`, but it
# evaluates both sides. Could it stand here?

# %%
try:
    eager = mt.compute((N,), lambda i: mt.select(i > 0, A[i - 1], 0.0) + A[i], name="B")
    mt.lower([A, eager])
except mt.LoweringError as error:
    print(error)
    assert "out of bounds" in str(error)

# %% [markdown]
# No: for `i = 0` it would load `A[-1]`, although the value is thrown away. `if_then_else` is
# *lazy*, it evaluates only the side that is taken. In the tree both are an `ir.Select`; `lazy`
# tells them apart. As plain Python:


# %%
def pairs(a):
    """The loop of the program, by hand."""
    b = np.empty(N, "float32")
    for i in range(N):
        b[i] = (a[i - 1] if i >= 1 else 0) + a[i]
    return b


# %% [markdown]
# Now the whole interpreter. It runs *statements*: loops, blocks and stores. (The condition `i > 0`
# has become `1 <= i`, the same for integers, so `<=` is enough.) A block binds its own variables
# to expressions of the loops (the next lesson is about that). In `match`, `lazy=True` asks for a
# value of a field, and an `if` behind a pattern is one more condition.
#
# **Predict first.** The program reads `A` in two places. How many loads does it make for N = 8?


# %%
class Machine:
    """An interpreter of programs that compute one element in each iteration."""

    def __init__(self, arrays):
        self.arrays, self.loads = arrays, 0

    def value(self, expr, variables):
        """The value of an expression with loads and lazy choices."""
        match expr:
            case ir.Binary(op, a, b) if op in ARITHMETIC:
                return ARITHMETIC[op](self.value(a, variables), self.value(b, variables))
            case ir.Binary("<=", a, b):
                return self.value(a, variables) <= self.value(b, variables)
            case ir.Select(condition, a, b, lazy=True):
                return self.value(a if self.value(condition, variables) else b, variables)
            case ir.Load(buffer, indices):
                self.loads += 1
                return self.arrays[buffer][tuple(self.value(n, variables) for n in indices)]
        return value(expr, variables)

    def run(self, stmt, variables):
        """Run a statement."""
        match stmt:
            case ir.For(var, extent, body):
                for number in range(extent):
                    self.run(body, {**variables, var: number})
            case ir.Block(iters=iters, body=body):
                self.run(body, {it.var: self.value(it.binding, variables) for it in iters})
            case ir.Store(buffer, indices, expr):
                at = tuple(self.value(n, variables) for n in indices)
                self.arrays[buffer][at] = self.value(expr, variables)


a = np.arange(N, dtype="float32")
machine = Machine({"A": a, "B": np.empty(N, "float32")})
machine.run(program.body, {})
b, counts = mt.interpret(program, a, counts=True)
assert np.array_equal(machine.arrays["B"], b) and np.array_equal(pairs(a), b)
assert machine.loads == counts.loads["A"] == N - 1 + N  # one neighbour is not loaded

# %% [markdown]
# ## Simplification keeps the meaning
#
# A schedule leaves odd expressions behind. Fuse two loops (one loop of 4 x 8 iterations in their
# place), and split the loop that results:

# %%
M = mt.placeholder((4, 8), "float32", name="M")
C = mt.compute((4, 8), lambda i, j: M[i, j] * 2.0, name="C")
s = mt.Schedule(mt.lower([M, C], name="scale"))
f = s.fuse("i", "j")
print(s.program)
f_0, f_1 = s.split(f, [None, 8])
print(s.program)
assert "//" not in str(s.program)

# %% [markdown]
# The row was `f // 8`. After the split, `f` is `f_0*8 + f_1`, so the row is `(f_0*8 + f_1) // 8`.
# The program shows `f_0`: it was *simplified*. A simplifier has *rules*: each is an equation that
# is used from left to right. A rule is right if both sides are equal for *all* values. Drawn values
# cannot prove that, but they find most mistakes. Here is a mistake:

# %%
for left, right in [(x + 0, x), (x * 0, ir.Const(0)), ((x // 2) * 2, x)]:
    wrong = [n for n in range(-4, 5) if ir.evaluate(left, {"x": n}) != ir.evaluate(right, {"x": n})]
    print(
        f"{ir.print_expr(left)} -> {ir.print_expr(right)}:", f"wrong for {wrong}" if wrong else "ok"
    )
assert wrong == [-3, -1, 1, 3]  # the last rule holds for even numbers only


# %% [markdown]
# Rules are applied from the leaves up: first to the operands, then to the node that they give.


# %%
def without_zeros(expr):
    """The expression after the rule x + 0 -> x, and nothing else."""
    match expr:
        case ir.Binary(op, a, b):
            a, b = without_zeros(a), without_zeros(b)
            if op == "+" and b == ir.Const(0):
                return a
            return ir.Binary(op, a, b)
    return expr


assert without_zeros((x + 0) * (y + (x + 0) + 0)) == x * (y + x)

# %% [markdown]
# ## Bounds
#
# `(f_0*8 + f_1) // 8 -> f_0` is right only because 0 <= f_1 < 8. Without the bounds the rule is not
# to be used, and `mt.simplify`, which knows no bounds, leaves a rest:

# %%
assert repr(mt.simplify((i * 8 + j) // 8)) == "i + j//8"

# %% [markdown]
# So a compiler also evaluates trees with *intervals* in place of numbers: `j` is not 5 but 0 ... 7.
# The same recursion computes them. The least sum is the sum of the least values. A product is
# harder. **Predict first.** x is in -2 ... 3, y in -5 ... 4: which x and y give the least product?

# %%
least = min((p * q, p, q) for p in range(-2, 4) for q in range(-5, 5))
assert least == (-15, 3, -5)  # the greatest x, and the least y: one of the four corners

# %% [markdown]
# An interval is *sound* if it holds every value. It may be too wide: `x - x` for x in 0 ... 7 gives
# -7 ... 7, for the recursion has forgotten that both are the same x. Too wide costs speed: a rule
# is not used. Unsound costs correctness.
#
# ## Pitfalls
#
# - `==` of nodes (`ir.Var`, `ir.Binary`) compares structure, and gives a Python bool. `==` of
#   symbolic values (`mt.var`) builds a node, and that has no truth value.
# - A rule that holds for index arithmetic can be wrong for int8, and one for positive numbers can
#   be wrong for negative ones.
#
# ## Tasks
#
# Write these functions in `03_tasks.py`, and let `minitensor course check 03` judge them. (First,
# if you like, `minitensor course quiz 03` asks small questions.) The expressions are trees of
# `ir.Var`, `ir.Const`, `ir.Binary` and `ir.Select`, of type index; the conditions in them are
# comparisons. No function of minitensor that does the same may be used.
#
# 1. `size_and_depth(expr)`: return the number of nodes, and of those on the longest way down.
# 2. `evaluate(expr, variables)`: return the value, as the system defines it.
# 3. `interval(expr, ranges)`: return sound bounds `(low, high)`, for variables within `ranges`, as
#    `{"i": (0, 7)}`. Where each variable occurs once they are exact, but for `%`.
# 4. `simplify(expr)`: return an expression of the same value, no larger, in which none of the rules
#    in `03_tasks.py` applies to any node.
#
# ## Sources
#
# - The value of a tree: R. Nystrom, "Crafting Interpreters", 2021, chapters 5 and 7.
# - Division of negative numbers: R. T. Boute, "The Euclidean definition of the functions div and
#   mod", ACM TOPLAS 14(2), 1992, compares floor division with the others.
# - Simplification: J. L. Newcomb et al., "Verifying and improving Halide's term rewriting system
#   with program synthesis", OOPSLA 2020: rules of a real compiler, some of them wrong.
# - Bounds: R. E. Moore, R. B. Kearfott, M. J. Cloud, "Introduction to Interval Analysis", SIAM
#   2009; that `x - x` is too wide is called the dependency problem.
