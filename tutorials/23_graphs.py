# %% [markdown]
# # Graphs: from a network to kernels, by rewrites and fusion
#
# **You will be able to** read a network as a graph, run it by an interpreter of your own, write a
# rewrite rule and say what it has to prove, decide which operators become one kernel, and see where
# the time of a model goes.
#
# So far there was one program, and the question was how it runs. A network is tens or hundreds of
# operators, and another question comes first: *which* programs should there be? If each operator is
# a program of its own, then each result is written to memory, and read again a moment later.

# %%
import numpy as np

import minitensor as mt
from minitensor import ops
from minitensor.graph import Rule, Var, call
from minitensor_course import picture

# %% [markdown]
# ## A graph is data
#
# `mt.ops` has the operators of networks: functions of tensors. `mt.graph.trace` calls a Python
# function once, on placeholders, and keeps which operators it called. What is given as an array is
# a *constant*, a weight; what is given as a shape and a dtype is an *input*.


# %%
def block(x, w, b, v):
    """A small block: a layer with an activation, a layer with a shortcut, a normalization."""
    h = ops.add(ops.matmul(x, w), b)
    h = ops.mul(h, ops.sigmoid(h))
    r = ops.add(ops.matmul(h, v), x)
    mean = ops.reduce_mean(ops.mul(r, r), axes=(1,), keepdims=True)
    return ops.div(r, ops.sqrt(mean))


rng = np.random.default_rng(23)
weights = {
    "w": rng.standard_normal((32, 64)).astype("float32"),
    "b": rng.standard_normal(64).astype("float32"),
    "v": rng.standard_normal((64, 32)).astype("float32"),
}
net = mt.graph.trace(block, x=((16, 32), "float32"), **weights)
print(net)
assert [node.operator for node in net.nodes][:4] == ["matmul", "add", "sigmoid", "mul"]

# %% [markdown]
# Each line is a *node*: one call of an operator, named after its result. Behind the `#` stands the
# type of the result; shapes are known numbers. The Python function is gone. What is left is data:

# %%
node = net.node("mul")
print(node.operator, node.operands, node.inputs, node.attributes)
print("read by:", {name: net.users[name] for name in ("add", "mul", "add2")})
assert node.inputs == ("add", "sigmoid") and net.outputs == ("div",)
assert net.users["add2"] == ("mul2", "div")

# %% [markdown]
# `users` are the edges in the other direction: who reads a value. The nodes are in a *topological*
# order, each behind those whose results it reads. So a graph has no cycles, and to run it is a loop
# over the nodes. An interpreter takes ten lines, with numpy for the operators:

# %%
NUMPY = {
    "matmul": np.matmul,
    "add": np.add,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "reduce_mean": lambda x, axes, keepdims: np.mean(x, axis=axes, keepdims=keepdims),
}


def run(graph, *arrays):
    """The outputs of a graph: an interpreter of the few operators above."""
    values = dict(graph.constants)
    values.update((given.name, array) for given, array in zip(graph.inputs, arrays))
    for node in graph.nodes:
        operands = [values[name] for name in node.inputs]
        values[node.name] = NUMPY[node.operator](*operands, **dict(node.attributes))
    return [values[name] for name in graph.outputs]


x = rng.standard_normal((16, 32)).astype("float32")
want = mt.interpret(net, x)
assert np.allclose(run(net, x)[0], want, rtol=1e-4, atol=1e-5)

# %% [markdown]
# `mt.interpret` is the meaning of a graph. It shares no code with yours: it runs the program of
# each operator, loop by loop. All that follows has to keep these results, and is compared with
# them.
#
# ## Rewrites
#
# An optimizer of graphs is a list of rules. A *rule* has a pattern, and says what takes the place
# of the node that the pattern matches. `Var("x")` matches any value, and the same one wherever the
# name comes back. Here is `x / sqrt(y)`, which is `x * rsqrt(y)`: processors have an instruction
# for the second one.

# %%
X, Y = Var("x"), Var("y")
rsqrt = Rule(
    "rsqrt",
    call("div", X, call("sqrt", Y)),
    lambda match, made: made.mul(match.x, made.rsqrt(match.y)),
    "equal as numbers; the last bits differ",
)
after = net.optimize([rsqrt])
print(after)
assert [n.operator for n in after.nodes][-2:] == ["rsqrt", "mul"] and after.outputs == net.outputs
assert np.allclose(mt.interpret(after, x), want, rtol=1e-5, atol=1e-6)

# %% [markdown]
# `optimize` applies rules until none applies. The last part of a rule is its *obligation*: the
# reason why both sides are equal. minitensor checks what can be checked without running: a rule
# that changes a shape or a dtype is refused. A rule that gives other numbers is not.

# %%
shape = Rule("no mean", call("reduce_mean", X), lambda match, made: match.x, "false")
try:
    net.optimize([shape])
except mt.VerifyError as error:
    print(error)
    assert "in the place of" in str(error)

number = Rule(
    "no minus", call("sub", X, Y), lambda match, made: made.add(match.x, match.y), "false"
)
minus = mt.graph.trace(ops.sub, a=((2,), "float32"), b=((2,), "float32"))
two, one = np.full(2, 2, "float32"), np.ones(2, "float32")
print("2 - 1 =", mt.interpret(minus.optimize([number]), two, one)[0])
assert mt.interpret(minus.optimize([number]), two, one)[0] == 3

# %% [markdown]
# So tests draw graphs and compare numbers, as in lesson 14. TASO, which finds its rules by
# enumeration, compares numbers first, and then proves what is left from axioms of the operators
# (Jia et al., SOSP 2019, sections 2 and 3).
#
# **Predict first.** `mt.graph.RULES` has the rule that `x * sigmoid(x)` is `silu(x)`. It applies to
# `mul(add, b=sigmoid)` above. Would it apply if the graph returned the sigmoid, too?

# %%
best = net.optimize([*mt.graph.RULES, rsqrt])
print(best)
assert len(net.nodes) == 10 and len(best.nodes) == 9


def both(x):
    """silu, and the sigmoid in it."""
    s = ops.sigmoid(x)
    return ops.mul(x, s), s


kept = mt.graph.trace(both, x=((4,), "float32")).optimize()
assert [n.operator for n in kept.nodes] == ["sigmoid", "mul"]

# %% [markdown]
# It would not. The sigmoid is computed in any case then, and a silu would compute it once more.
# What lies *inside* a pattern may have no other readers.
#
# ## What fusion saves
#
# One kernel for each node: how many bytes are moved between kernels and memory? Each kernel reads
# its inputs and writes its results.


# %%
def traffic(graph):
    """The bytes that all kernels read and write, each array once."""
    total = 0
    for kernel in graph.kernels:
        inputs = {name for node in kernel for name in graph.node(node).inputs}
        read_outside = [
            n for n in kernel if n in graph.outputs or set(graph.users[n]) - set(kernel)
        ]
        total += sum(graph.values[n].nbytes for n in {*inputs.difference(kernel), *read_outside})
    return total


fused = best.fuse()
print(fused)
print("bytes:", traffic(best), "and fused:", traffic(fused))
assert traffic(fused) < 0.7 * traffic(best) and len(fused.kernels) < len(best.kernels)

# %% [markdown]
# `fuse` has put nodes into groups, and each group becomes one kernel. Which groups are possible?
#
# - **One result.** A group is one program. Here it has one result, which others read; what lies
#   inside the group is never needed outside.
# - **No waiting in a circle.** If a value goes out of a group, through another one, and comes back,
#   then neither can run first.
# - **Nothing expensive twice.** A loop of the reader computes its operand where it needs it. For an
#   addition that is fine. A product whose result is read by another product would be computed again
#   for each column.
#
# The third one depends on what the operators are. TVM has classes for that (Chen et al., OSDI 2018,
# section 3): what is elementwise joins with everything in reach; a product takes in what follows it
# element by element, and not another product. minitensor finds the class by looking at the loops:

# %%
for node in best.nodes:
    print(f"{node.name:12} {mt.graph.kind_of_node(best, node).word}")
assert mt.graph.kind_of_node(best, best.node("matmul")) == mt.graph.Kind.PRODUCT

# %% [markdown]
# ## Where all paths meet
#
# The first two are about the shape of the graph. A first idea: join a node with its reader where
# there is just one. But the `add` of `net` has two readers, `sigmoid` and `mul`, and nothing of it
# is needed elsewhere: all its uses *meet* in `mul`. So take the node in which all paths to an
# output meet, and all that lies in between. That group has one result, and no path leaves it and
# comes back. The first node in which all paths from n meet is the *immediate post-dominator* of n.


# %%
def paths(graph, name):
    """All paths from a node to outputs, each without the node itself."""
    ends = [[]] if name in graph.outputs else []
    return ends + [[user, *rest] for user in graph.users[name] for rest in paths(graph, user)]


def meeting(graph, name):
    """The immediate post-dominator of a node by its definition; None if there is none."""
    every = paths(graph, name)
    return next((one for one in every[0] if all(one in path for path in every)), None)


for node in net.nodes:
    print(f"{node.name:12} read by {', '.join(net.users[node.name]):15} {meeting(net, node.name)}")
assert meeting(net, "add") == "mul" and meeting(net, "sigmoid") == "mul"
assert meeting(net, "add2") == "div" and meeting(net, "div") is None

# %% [markdown]
# A diamond behind a diamond doubles the number of paths, so this takes too long for real networks.
# In the second task you write it in one pass over the nodes, from the last to the first. (Cooper,
# Harvey and Kennedy, "A simple, fast dominance algorithm", 2001, section 3, do so for dominators.)
#
# The `add2` meets in `div`, with the reduction in between. May the three be one kernel with the
# product that `add2` belongs to? `explain` answers:

# %%
print(fused.explain("matmul", "silu"))
print(fused.explain("silu", "matmul2"))
print(fused.explain("add2", "div"))
assert "are one kernel" in fused.explain("matmul", "silu")
assert "reduce_mean is a reduction operator" in fused.explain("add2", "div")

# %% [markdown]
# They may not: the mean of a row is known only when the row is complete, so element by element
# behind the product is too early. A kernel takes in what it can: the mean with the square in front
# of it and the `rsqrt` behind it is a group too.

# %%
picture("23_groups", mt.graph.graph_picture(fused))

# %% [markdown]
# ## A group is a program
#
# From here on it is what you know: a program with stages, to be scheduled, tuned and compiled. Its
# names depend on the group alone. So equal groups of a network are one program, and tuned once.

# %%
part = mt.graph.program_of(fused, fused.kernels[0])
print(part.program)
assert part.outputs == (fused.kernels[0][-1],)
assert list(part.program.blocks) == ["matmul", "add", "silu"]

# %% [markdown]
# The loops by hand: the bias and the activation follow in the same loop, and neither the product
# nor the sum is ever stored as a whole. That is what a schedule makes of it with `compute_at`.


# %%
def first_kernel(x, w, b):
    """silu(x @ w + b), row by row."""
    result = np.empty((16, 64), "float32")
    for i in range(16):
        row = np.zeros(64, "float32")  # all that is kept of the product
        for k in range(32):
            row += x[i, k] * w[k]
        row += b
        result[i] = row / (1 + np.exp(-row))
    return result


by_parts = mt.interpret(part.program, x, weights["w"], weights["b"])
assert np.allclose(first_kernel(x, weights["w"], weights["b"]), by_parts, rtol=1e-4, atol=1e-5)

# %% [markdown]
# ## A model
#
# `mt.build` of a graph schedules and compiles the groups, and makes a function in C that calls one
# after the other. (A graph without groups is optimized and fused first.) `profile` times each
# kernel where it stands, in a call of the whole: with the caches as the kernel before it left them.

# %%
try:
    model = mt.build(fused)
    assert np.allclose(model(x), want, rtol=1e-4, atol=1e-5)
    assert len(model.kernels) == len(fused.kernels)
    print(model.source[model.source.index("int run_model") :])
    print(model.profile(x))
except mt.CompileError as error:  # without a compiler the interpreter still runs the graph
    print(error)

# %% [markdown]
# The times are of your machine; kernels as small as these take less than a microsecond, and a call
# from Python longer than all of them. In networks of a real size, look at the share of each kernel
# first: what takes 2 % of the time is not worth a search. `mt.tune(net)` shares its trials by that.
#
# ## Pitfalls
#
# - A rule that is right for numbers may change bits: `x + 0` makes 0 of -0, and a scale that is
#   folded into weights rounds at another place. Say in the obligation which of both you promise.
# - A rule that matches what it makes never ends. `optimize` gives up after a hundred rounds.
# - An output keeps its name, so an input of the graph cannot take its place: a rule that returns
#   `match.x` does not apply where the graph returns the node, and x is an input.
# - Patterns look at types of arguments too: an operand may be a number (an attribute), a constant,
#   or a value with one row that is repeated. Test a rule on each of them.
# - A square matrix hides a wrong transpose: the shape fits. Draw shapes with different extents.
# - More fusion is not always faster. A kernel with many inputs needs many registers, and a product
#   inside another loop is computed again. Measure, and keep `fuse("none")` to compare with.
# - An output of the graph has to be stored, even if another node reads it: no group has it inside.
#
# ## Tasks
#
# Write these functions in `23_tasks.py`, and let `minitensor course check 23` judge them.
#
# 1. `rules()`: a list of rules that take away two transposes with one elementwise operator between
#    them, where the second undoes the first. Exporters write many of them, for other layouts.
# 2. `meets(users, outputs)`: the immediate post-dominator of each node, in one pass.
# 3. `groups(kinds, users, outputs)`: the kernels of a graph of products and elementwise operators.
#
# ## Sources
#
# - T. Chen et al., "TVM: an automated end-to-end optimizing compiler for deep learning", OSDI 2018,
#   section 3: graphs, classes of operators, fusion. That groups grow along post-dominators is in
#   its code.
# - Z. Jia et al., "TASO: optimizing deep learning computation with automatic generation of graph
#   substitutions", SOSP 2019, sections 2 and 3: rules that are found, and proved.
# - K. D. Cooper, T. J. Harvey and K. Kennedy, "A simple, fast dominance algorithm", Rice
#   University, 2001, section 3: the nearest common dominator of two nodes.
# - W. Niu et al., "DNNFusion: accelerating deep neural networks execution with advanced operator
#   fusion", PLDI 2021, section 3: finer classes, and which pairs of them are worth a kernel.
