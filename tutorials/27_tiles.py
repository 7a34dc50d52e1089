# %% [markdown]
# # Instructions that multiply tiles: bytes, groups, and bits
#
# **You will be able to** say which loops of a program an instruction for bytes can do, bring data
# into the order that it wants, have it do a product whose sizes it does not divide, take signs and
# zero points out of a sum, and multiply without multiplying.
#
# Lesson 15 said what an instruction means. This one is about having it do real work. A network of
# bytes moves a quarter of the data of one of floats, and processors multiply and add up several
# bytes in each lane at once. But data seldom lies as such an instruction wants it, sizes are odd,
# and bytes have signs and zero points. What is between a definition and its instruction is five
# steps of a schedule, and a search takes them by itself.

# %%
import time

import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## What there is to win
#
# **Predict first.** A vector has 256 bits, and an instruction works on a whole vector. How many
# multiplications and additions does one instruction do for float32, and how many for bytes, if four
# neighbours go into one lane?

# %%
BITS = 256
lanes = BITS // 32
for name, group in (("float32, one in each lane", 1), ("int16, two in each lane", 2)):
    print(f"{name:28} {lanes * group:3} multiply-adds")
print(f"{'bytes, four in each lane':28} {lanes * 4:3} multiply-adds")

# %% [markdown]
# The sums stay 32 bits wide, so there are as many lanes as for float32, and each does more. x86 has
# such an instruction for bytes without signs times bytes with signs, *vpdpbusd*, and an older one
# for pairs of 16-bit integers, *vpmaddwd*. ARM has *sdot* and *udot*. This is the meaning of the
# first:


# %%
def vpdpbusd(c, a, b):
    """Add to each lane of c the products of 4 bytes of a and of b; a the same for all lanes."""
    return [c[j] + sum(a[k] * b[j][k] for k in range(4)) for j in range(len(c))]


dot = mt.intrinsics.dot("uint8", "int8", 8)
print(dot)
assert vpdpbusd([100, 0], [1, 2, 3, 4], [[1, 1, 1, 1], [0, 0, 0, -1]]) == [110, -4]

# %% [markdown]
# A still older one, *vpmaddubsw*, adds pairs of products into 16 bits, and stops at the largest
# number there. **Predict first.** With which bytes does that go wrong?

# %%
pair = 255 * 127 + 255 * 127
print(pair, "is cut to", min(pair, 2**15 - 1))
assert pair > 2**15 - 1

# %% [markdown]
# Libraries have used it and kept weights small. A compiler may not: a schedule changes the time of
# a program and never its results.
#
# ## Which loops are the instruction's?
#
# The instruction has two axes, j for the lanes and k for the four neighbours. Its operands are
# indexed by some of them: a by k, b by both, c by j. A program's loops can stand for them if they
# index *its* operands in the same way. So write down which loop indexes what:


# %%
def table(indexed):
    """The operands that each loop indexes."""
    loops = dict.fromkeys(loop for own in indexed.values() for loop in own)
    return {loop: [name for name, own in indexed.items() if loop in own] for loop in loops}


INSTRUCTION = {"a": ("k",), "b": ("j", "k"), "c": ("j",)}
MATMUL = {"A": ("i", "k"), "B": ("k", "j"), "C": ("i", "j")}
CONVOLUTION = {"x": ("n", "rc", "y", "ry"), "w": ("f", "rc", "ry"), "out": ("n", "f", "y")}
for one in (INSTRUCTION, MATMUL, CONVOLUTION):
    print(table(one))

# %% [markdown]
# k of the instruction is in both factors and not in the result; in the product of matrices that is
# k, in the convolution rc or ry. j is in the second factor and the result: j of the product, f of
# the convolution. What is left, i or n and y, are loops around the instruction. They index the
# *first* factor alone, so what is loaded of the second serves all of them.
#
# Nothing here asks how data lies in memory. That is the next step.
#
# ## Groups, lanes, and zeros behind the end
#
# The instruction reads four neighbours along k, then the same for the next lane. In a matrix B
# (k, n) neighbours along k are a row apart. And 7 is no multiple of 4, 6 none of 8. So: copy both
# factors (`cache_read`) and the result (`cache_write`), make the copies longer (`pad`), and lay
# B's copy out in groups (`transform_layout`). Zeros behind the end change no sum.

# %%
A = mt.placeholder((5, 7), "uint8", name="A")
B = mt.placeholder((7, 6), "int8", name="B")
k = mt.reduce_axis(7, name="k")
C = mt.compute(
    (5, 6),
    lambda i, j: mt.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k),
    name="C",
)
program = mt.lower([A, B, C], name="product")


def prepared():
    """The product on padded copies."""
    s = mt.Schedule(program)
    s.cache_write("C", "global")
    s.cache_read("C", "A", "global")
    s.cache_read("C", "B", "global")
    s.pad("k", 4)
    s.pad("j", 8)
    return s


s = prepared()
s.transform_layout("B_global", lambda k, j: (j // 8, k // 4, j % 8, k % 4))
j_0, j_1 = s.split("j", [None, 8])
k_0, k_1 = s.split("k", [None, 4])
s.reorder("i", j_0, k_0, j_1, k_1)
s.decompose_reduction("C", k_0)
s.tensorize(j_1, dot)
s.show()

# %%
picture("27_tensorize", s)

# %%
rng = np.random.default_rng(0)
a = rng.integers(0, 256, (5, 7)).astype("uint8")
b = rng.integers(-128, 128, (7, 6)).astype("int8")
want = a.astype("int32") @ b.astype("int32")
assert np.array_equal(mt.interpret(s, a, b), want)

# %% [markdown]
# Each step may be refused, and for a reason. Without zeros the last call would read beyond the end;
# without the layout, four neighbours are not side by side; and what is not a sum of products may
# not be padded at all:

# %%
s = prepared()
j_0, j_1 = s.split("j", [None, 8])
k_0, k_1 = s.split("k", [None, 4])
s.reorder("i", j_0, k_0, j_1, k_1)
s.decompose_reduction("C", k_0)
try:
    s.tensorize(j_1, dot)
    raise AssertionError("it was accepted")
except mt.ScheduleError as error:
    print(error.message)

largest = mt.compute((5,), lambda i: mt.max(A[i, k], axis=k), name="largest")
s = mt.Schedule(mt.lower([A, largest]))
s.cache_write("largest", "global")
s.cache_read("largest", "A", "global")
try:
    s.pad("k", 4)
    raise AssertionError("it was accepted")
except mt.ScheduleError as error:
    print(error.message)
    assert error.rule == "R4"

# %% [markdown]
# ## Signs
#
# vpdpbusd wants one factor without signs. Two with signs? Add 128 to the first, and subtract what
# that was too much: 128 times the sum of the second.

# %%
x, y = [-128, 5, -1, 127], [3, -128, 77, -2]
shifted = vpdpbusd([0], [n + 128 for n in x], [y])[0]
assert shifted - 128 * sum(y) == sum(p * q for p, q in zip(x, y))

# %% [markdown]
# The second term does not depend on x, so it is computed once for all rows: the cost of signs is
# one instruction for each vector of y, or nothing if y is a weight that is known before.
#
# A *zero point* is the same. A byte q of a quantised network stands for the number scale * (q - z),
# so that 0 has a byte of its own. The product of two such rows is a product of bytes, and sums:

# %%
zx, zy = 3, -7
qx, qy = rng.integers(0, 256, 16), rng.integers(-128, 128, 16)
wanted = int(((qx - zx) * (qy - zy)).sum())
sums = int((qx * qy).sum()) - zx * int(qy.sum()) - zy * int(qx.sum()) + 16 * zx * zy
assert sums == wanted

w = mt.placeholder((7, 6), "int8", name="w")
quantised = mt.ops.matmul_integer(A, w, a_zero_point=3)
whole = mt.lower([A, w, quantised], name="quantised")
got = mt.interpret(whole, a, b)
assert np.array_equal(got, (a.astype("int32") - 3) @ b.astype("int32"))
print(whole)

# %% [markdown]
# ## A search takes these steps
#
# It asks the question of the table, then pads, packs and tiles: from the definition, without a
# word about instructions in it.

# %%
plain = mt.lower(mt.workloads.matmul(96, 96, 96, "uint8", "int32"), name="bytes")
floats = mt.lower(mt.workloads.matmul(96, 96, 96), name="floats")
print(mt.search.generate_sketches(plain)[0].explain())


def shortest(kernel, *arrays):
    """Seconds of the fastest of some calls."""
    best = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        kernel(*arrays)
        best = min(best, time.perf_counter() - start)
    return best


try:
    for one, dtype in ((plain, "uint8"), (floats, "float32")):
        kernel = mt.build(mt.schedule_for(one))
        both = [rng.integers(0, 9, (96, 96)).astype(dtype) for _ in range(2)]
        assert np.array_equal(kernel(*both), both[0].astype("int64") @ both[1].astype("int64"))
        print(f"{one.name:7} {1e6 * shortest(kernel, *both):6.1f} µs a call")
except mt.CompileError as error:
    print(error)

# %% [markdown]
# The packing counts, too: a small product may lose with it what the instruction wins. Where weights
# are known before, they are packed once.
#
# ## Fewer bits: count instead of multiplying
#
# Weights of one bit, activations of two: "and" is the product of bits, and the number of bits that
# are set is a sum. A word holds 32 places of k.


# %%
def packed(bits):
    """A number whose bit k is bits[k]."""
    return sum(bit << k for k, bit in enumerate(bits))


codes, weights = rng.integers(0, 4, 32).tolist(), rng.integers(0, 2, 32).tolist()
planes = [packed([code >> p & 1 for code in codes]) for p in range(2)]
word = packed(weights)
counted = sum((plane & word).bit_count() << p for p, plane in enumerate(planes))
assert counted == sum(code * weight for code, weight in zip(codes, weights))

# %% [markdown]
# A bit may stand for -1 and 1 instead of 0 and 1 (*bipolar*). Then a number is 2 c - 1, and the 1
# is taken out of the sum as a zero point is. As an operator:

# %%
x = mt.placeholder((4, 64), "uint8", name="x")
signs = mt.placeholder((3, 64), "uint8", name="signs")
y = mt.ops.bitserial_dense(x, signs, activation_bits=2, weight_bits=1, weights="bipolar")
few = mt.lower([x, signs, y], name="few_bits")
xs = rng.integers(0, 4, (4, 64)).astype("uint8")
ws = rng.integers(0, 2, (3, 64)).astype("uint8")
got = mt.interpret(few, xs, ws)
assert np.array_equal(got, xs.astype("int32") @ (2 * ws.T.astype("int32") - 1))

# %% [markdown]
# ## Pitfalls
#
# - Casts belong before the product: `(a * b).astype("int32")` has lost its high bits.
# - Pad with what changes nothing: 0 for sums of products; a maximum has no such byte but its least.
# - Sums of bytes need 32 bits, and wrap there: 2^31 / (255 * 128) is 65,793 terms.
# - An instruction that saturates gives right results on small numbers. Test with the largest.
# - Compare with packing included, if the packed factor is not a constant.
#
# ## Tasks
#
# Write these functions in `27_tasks.py`, and let `minitensor course check 27` judge them.
#
# 1. `grouped(b, lanes, group)`: a matrix in the order that an instruction reads.
# 2. `assign(instruction, product)`: which loops are the instruction's.
# 3. `signed(dot, a, b)`: a product of bytes with signs, by an instruction that takes one without.
# 4. `tensorized(s, instruction)`: a product of bytes of any size, all of it by an instruction.
#
# ## Sources
#
# - B. Jacob et al., "Quantization and training of neural networks for efficient
#   integer-arithmetic-only inference", CVPR 2018, section 2: zero points out of the sum.
# - T. Chen et al., "TVM: an automated end-to-end optimizing compiler for deep learning", OSDI 2018,
#   sections 4.3 and 6.2: tensorization, and products of few bits.
# - S. Feng et al., "TensorIR: an abstraction for automatic tensorized program optimization", ASPLOS
#   2023, section 4: which loops are an instruction's.
# - Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VPDPBUSD, PMADDUBSW.
