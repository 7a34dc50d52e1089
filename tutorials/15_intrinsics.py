# %% [markdown]
# # Intrinsics: an instruction is a loop nest with a meaning
#
# **You will be able to** say in loops what an instruction does, have it do a part of a program,
# read why it may not, and find out whether its implementation does what you said.
#
# Processors have instructions that do many steps at once: sixteen dot products of bytes, a whole
# tile of a product of matrices. No compiler finds a use for all of them. An *intrinsic* is the
# bridge. It has two parts: a **meaning**, a loop nest like any other, and a **body**, some lines of
# C. The schedule deals with the meaning, the machine code with the body, and a test joins the two.

# %%
import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## The meaning
#
# Take an instruction that a processor's manual may describe so: *for each of 4 lanes, multiply 4
# signed bytes by the same 4 signed bytes of `a`, add up the products, and add the sum to the lane
# of the 32-bit accumulator c*. As a tensor expression:


# %%
def operands():
    """The operands of the instruction, and its meaning."""
    a = mt.placeholder((4,), "int8", name="a")
    b = mt.placeholder((4, 4), "int8", name="b")
    k = mt.reduce_axis(4, name="k")
    c = mt.compute(
        (4,), lambda j: mt.sum(a[k].astype("int32") * b[j, k].astype("int32"), axis=k), name="c"
    )
    return [a, b, c]


print(mt.lower(operands(), name="dot"))

# %% [markdown]
# The casts matter: a product of two bytes needs 16 bits. As a program the meaning begins at zero;
# as an intrinsic a reduction *updates* what is in `c`: the accumulator.
#
# ## The body
#
# The body is what stands between the braces of a C function. Of `b` it gets the address of the
# first element, and for each axis a *stride*: the distance from one index to the next, in elements.
# So the same body serves a small array and a tile in the middle of a large one. Here it relies on
# rows of `b` whose elements are side by side, and takes any distance between rows. This body is
# plain C, so that it runs everywhere; on a machine that has the instruction, it would be that one.

# %%
BODY = """
for (int j = 0; j < 4; ++j)
    for (int k = 0; k < 4; ++k)
        c[j * c_stride0] += a[k] * b[j * b_stride0 + k];
"""
STRIDES = {"a": [1], "b": [None, 1], "c": [None]}
dot = mt.intrinsic("dot", operands(), BODY, strides=STRIDES)
print(dot)


# %%
def dot_by_hand(a, b, b_stride0, c, c_stride0):
    """The body in Python, on flat lists that begin at the first element of the operand."""
    for j in range(4):
        for k in range(4):
            c[j * c_stride0] += a[k] * b[j * b_stride0 + k]


c = [100, 0, 0, 0]
dot_by_hand([1, 2, 3, 4], list(range(16)), 4, c, 1)
assert c == [100 + 20, 60, 100, 140]

# %% [markdown]
# ## In the place of loops
#
# A product of bytes, with B stored so that row `j` holds what column `j` of the result needs.
# `tensorize` wants the loops of the meaning innermost, and just as long: so tile by 4 and 4. And
# the instruction only adds, so the zeros at the start must come from somewhere else:
# `decompose_reduction` makes a block of its own for them.


# %%
def product(m, n, k, turned=True):
    """C = A B of bytes; `turned`: B is stored as n rows of k."""
    A = mt.placeholder((m, k), "int8", name="A")
    B = mt.placeholder((n, k) if turned else (k, n), "int8", name="B")
    r = mt.reduce_axis(k, name="k")

    def element(i, j):
        right = B[j, r] if turned else B[r, j]
        return mt.sum(A[i, r].astype("int32") * right.astype("int32"), axis=r)

    return mt.lower([A, B, mt.compute((m, n), element, name="C")], name="product")


def tiled(program, columns=4, depth=4):
    """Tiles for the instruction, their loops innermost."""
    s = mt.Schedule(program)
    j_0, j_1 = s.split("j", [None, columns])
    k_0, k_1 = s.split("k", [None, depth])
    s.reorder("i", j_0, k_0, j_1, k_1)
    s.decompose_reduction("C", k_0)
    return s


s = tiled(product(3, 8, 12))
s.show()
s.tensorize("j_1", dot)
s.show()

# %%
picture("15_tensorize", s)

# %% [markdown]
# The loops are still there, marked as `tensorize`: they are the meaning of the call.
#
# **Predict first.** The interpreter runs schedules. Does it run the body? Will the number of loads
# change?

# %%
rng = np.random.default_rng(0)
a = rng.integers(-128, 128, (3, 12)).astype("int8")
b = rng.integers(-128, 128, (8, 12)).astype("int8")
want = a.astype("int32") @ b.astype("int32").T
before, counts_before = mt.interpret(tiled(product(3, 8, 12)), a, b, counts=True)
after, counts = mt.interpret(s, a, b, counts=True)
assert np.array_equal(before, want) and np.array_equal(after, want)
assert counts.loads == counts_before.loads

# %% [markdown]
# It runs the meaning; the body is C, which it cannot. That is a choice: bounds, races and every
# rule of later steps are known from loops, so nothing in the compiler has to know about
# instructions. Only code generation writes a call. What it passes is the address and the strides of
# each operand:

# %%
flat_a, flat_b = a.ravel().tolist(), b.ravel().tolist()
flat_c = [0] * (3 * 8)  # the zeros of the block C_init
for i in range(3):
    for j_0 in range(2):
        for k_0 in range(3):
            lanes = flat_c[i * 8 + j_0 * 4 :]
            dot_by_hand(flat_a[i * 12 + k_0 * 4 :], flat_b[j_0 * 48 + k_0 * 4 :], 12, lanes, 1)
            flat_c[i * 8 + j_0 * 4 :] = lanes
assert flat_c == want.ravel().tolist()

try:
    kernel = mt.build(s)
    print(kernel.source)
    assert "intrinsic_dot" in kernel.source
except mt.CompileError as error:
    print(error)
    kernel = mt.build(s, target="interpreter")
assert np.array_equal(kernel(a, b), want)

# %% [markdown]
# ## Refusals: is it what the loops compute?
#
# The compiler compares the loops with the meaning: their lengths, the statement, its types, and for
# each operand which loop moves which axis. Four plausible mistakes:


# %%
def refused(s, loop="j_1"):
    """The rule that refuses the instruction."""
    try:
        s.tensorize(loop, dot)
    except mt.ScheduleError as error:
        print(error.message, "\n")
        return error.rule
    return None


assert refused(tiled(product(3, 8, 12), columns=8)) == "R7"  # loops of other lengths
assert refused(tiled(product(3, 10, 12))) == "R3"  # a tail: the last call would write too far
assert refused(tiled(product(3, 8, 12, turned=False))) == "R8"  # B lies the other way
s = mt.Schedule(product(3, 8, 4))
s.split("j", [None, 4])
assert refused(s) == "R4"  # the nest begins with zero, too

# %% [markdown]
# The third is common: data rarely lies as an instruction wants it. The remedy is a copy, in the
# layout of the operand (the *packing* of lesson 12). Here two axes of the copy are what the loops
# of the tile move, `j % 4` and `k % 4`:

# %%
s = tiled(product(3, 8, 12, turned=False))
copy = s.cache_read("C", "B", "global")
s.transform_layout(copy, lambda k, j: (j // 4, k // 4, j % 4, k % 4))
s.tensorize("j_1", dot)
assert np.array_equal(mt.interpret(s, a, np.ascontiguousarray(b.T)), want)

# %% [markdown]
# The same question is asked again after each later step (rule K3). A step that would pull an
# operand apart under the instruction is refused, and the schedule stays as it was:

# %%
try:
    s.transform_layout(copy, lambda j_0, k_0, j_1, k_1: (j_0, k_0, k_1, j_1))
except mt.ScheduleError as error:
    print(error.message)
    assert error.rule == "K3"

# %% [markdown]
# ## Does the body do what it means?
#
# The compiler believes the body. A wrong one gives wrong kernels, while the interpreter, which runs
# the meaning, gives right results. So bodies are tested, on operands that are drawn at random. Here
# is such a test for bodies in Python. **Predict first.** What must it draw, to find all of these?


# %%
def overwrites(a, b, b_stride0, c):
    """A body that forgets what is in the accumulator."""
    for j in range(4):
        c[j] = sum(a[k] * b[j * b_stride0 + k] for k in range(4))


def ignores_strides(a, b, b_stride0, c):
    """A body for rows of b that follow each other without a gap."""
    for j in range(4):
        c[j] += sum(a[k] * b[j * 4 + k] for k in range(4))


def saturates(a, b, b_stride0, c):
    """A body with sums of 16 bits, which stop at the largest."""
    for j in range(4):
        products = sum(a[k] * b[j * b_stride0 + k] for k in range(4))
        c[j] += max(-32768, min(products, 32767))


def is_wrong(body, tries, stride, start, largest):
    """Look for operands on which a body differs from the meaning."""
    draw = np.random.default_rng(0)
    for _ in range(tries):
        a, b = (draw.integers(-largest, largest, n).tolist() for n in (4, 4 * stride))
        c = draw.integers(-start, start + 1, 4).tolist()
        want = [c[j] + sum(a[k] * b[j * stride + k] for k in range(4)) for j in range(4)]
        body(a, b, stride, c)
        if c != want:
            return True
    return False


bodies = (overwrites, ignores_strides, saturates)
assert [is_wrong(body, 200, 4, 0, 3) for body in bodies] == [False, False, False]
assert [is_wrong(body, 200, 4, 9, 3) for body in bodies] == [True, False, False]
assert [is_wrong(body, 200, 7, 9, 3) for body in bodies] == [True, True, False]
assert [is_wrong(body, 200, 7, 9, 128) for body in bodies] == [True, True, True]

# %% [markdown]
# An accumulator that is not zero, strides that are not the usual ones, and numbers from the whole
# range of their type. `mt.testing.check_intrinsic` draws all of that for bodies in C, and noise
# around the output, which must stay as it was. It needs a C compiler and Hypothesis
# (`pip install 'minitensor[course]'`), which makes what it finds small.

# %%
wrong = mt.intrinsic("wrong_dot", operands(), BODY.replace("b_stride0", "4"), strides=STRIDES)
try:
    from minitensor.testing import check_intrinsic

    assert check_intrinsic(dot, max_examples=10) == {"portable": True}
    found = ""
    try:
        check_intrinsic(wrong, max_examples=10)
    except AssertionError as failure:
        found = str(failure)
    print(found)
    assert "the body of wrong_dot" in found
except (ImportError, mt.CompileError) as missing:
    print(missing)

# %% [markdown]
# ## Dot product or outer product
#
# Instructions for products of matrices come in two shapes. A *dot product* adds several products
# into each lane; an *outer product* multiplies each of some elements by each of some others, as the
# register tile of lesson 12. With how many loads for each multiply-add?

# %%
loads = {"dot, 4 lanes of 4": 4 + 16, "outer, 4 x 4": 4 + 4}
for shape, n in loads.items():
    print(f"{shape}: {n} elements for 16 multiply-adds")

tile = mt.intrinsics.matmul_f32(4, 8, 2, lanes=4)  # outer products, summed over 2 steps of k
print(tile)
assert dict(tile.axes) == {"i": 4, "j": 8, "l": 2}

# %% [markdown]
# The outer product reuses more, and needs a register for each pair. The dot product suits small
# types: four bytes fit where one float does. Both are micro-kernels, and the loops around them
# remain yours.
#
# ## Pitfalls
#
# - A trace names an intrinsic by its name and a digest of meaning and bodies. A process that
#   replays it has to declare the same one first.
# - Put a consumer (`reverse_compute_at`) in its place before `decompose_reduction` and `tensorize`.
# - Casts belong before the product. A product of bytes that is cast afterwards has lost its high
#   bits.
# - A correct result of the interpreter says nothing about the body.
#
# ## Tasks
#
# Write these functions in `15_tasks.py`, and let `minitensor course check 15` judge them.
#
# 1. `meaning(lanes, group)`: the program of an instruction that the stub describes.
# 2. `difference(body)`: `body` is a Python function for the meaning of `dot`, which you cannot see.
#    Find operands on which it differs from the meaning; or return None if it is right.
# 3. `tensorized(s, instruction)`: schedule a product of float32 so that all its multiply-adds are
#    done by an instruction with the meaning of `mt.intrinsics.matmul_f32`, of any size.
#
# ## Sources
#
# - T. Chen et al., "TVM: an automated end-to-end optimizing compiler for deep learning", OSDI 2018,
#   section 4.3: tensorization, and intrinsics that are declared.
# - S. Feng et al., "TensorIR: an abstraction for automatic tensorized program optimization", ASPLOS
#   2023: blocks, and matching them with instructions.
# - Y. Ikarashi et al., "Exocompilation for productive programming of hardware accelerators", PLDI
#   2022: instructions as procedures with a meaning, in the user's hands.
