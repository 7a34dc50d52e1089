# %% [markdown]
# # Convolution: borders, halos, and what follows in the same loops
#
# **You will be able to** define a convolution with padding and strides, say what im2col costs, cut
# an image into tiles with their halo, and fuse what comes before and after into the convolution.
#
# A convolution is a sum of products like a product of matrices, with one difference: neighbouring
# windows *overlap*. So there is more to reuse, and borders need care. Most of its speed comes from
# lesson 12; this one is about what is new.

# %%
import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor.codegen import lowered, report_of
from minitensor_course import picture

rng = np.random.default_rng(0)


def run(s):
    """The output of a program or schedule for small integers, and the counts of the interpreter."""
    program = s.program if isinstance(s, mt.Schedule) else s
    drawn = np.random.default_rng(1)
    arrays = [drawn.integers(-3, 4, b.shape).astype("float32") for b in program.inputs]
    return mt.interpret(s, *arrays, counts=True)


# %% [markdown]
# ## One axis
#
# A window of `kernel` elements slides over `n` elements, by `stride` each time. With *padding* p
# the row has p zeros before it and after it. The last window that fits decides how many there are:


# %%
def output_size(n, kernel, stride=1, padding=0):
    """The number of places of a window."""
    return (n + 2 * padding - kernel) // stride + 1


for n, kernel, stride, padding in (
    (8, 3, 1, 0),
    (8, 3, 1, 1),
    (8, 3, 2, 1),
    (7, 3, 2, 1),
    (5, 5, 3, 0),
):
    starts = range(0, n + 2 * padding - kernel + 1, stride)
    assert output_size(n, kernel, stride, padding) == len(starts)

# %% [markdown]
# Padding is a stage of its own: an element of A, or zero. `mt.select(c, a, b)` computes *both*
# sides and takes one of them, which suits vectors; but here one side reads `A[-1]`.
# `mt.if_then_else` computes only the side that is taken. Lowering proves that every access is
# inside its array, so the wrong one is refused before anything runs.

# %%
N = 8
A = mt.placeholder((N,), name="A")
try:
    P = mt.compute(
        (N + 2,), lambda x: mt.select(mt.logical_and(x >= 1, x <= N), A[x - 1], 0.0), name="P"
    )
    mt.lower([A, P])
except mt.LoweringError as error:
    print(error)
    assert "out of bounds" in str(error)

P = mt.compute(
    (N + 2,), lambda x: mt.if_then_else(mt.logical_and(x >= 1, x <= N), A[x - 1], 0.0), name="P"
)
W = mt.placeholder((3,), name="W")
r = mt.reduce_axis(3, name="r")
C = mt.compute((output_size(N, 3, 2, 1),), lambda x: mt.sum(P[2 * x + r] * W[r], axis=r), name="C")
row = mt.lower([A, W, C], name="row")
print(row)


# %%
def convolve(a, w, stride, padding):
    """The loops by hand: no padded copy, a test for each element of a window instead."""
    c = np.zeros(output_size(len(a), len(w), stride, padding), "float32")
    for x in range(len(c)):
        for r in range(len(w)):
            at = stride * x + r - padding
            if 0 <= at < len(a):
                c[x] += a[at] * w[r]
    return c


a, w = (rng.integers(-3, 4, n).astype("float32") for n in (N, 3))
assert np.array_equal(mt.interpret(row, a, w), convolve(a, w, 2, 1))

# %% [markdown]
# ## A layer
#
# An image has channels: `data[n, rc, y, x]`, in the layout *NCHW* (image, channel, row, column). An
# output channel `f` sums windows of all input channels. Here a bias for each channel and a *relu*
# (negative numbers become 0) follow, as in most networks. `mt.workloads` has the definition.
#
# **Predict first.** 2 channels of 8 x 8, a window of 3 x 3 and padding 1 give 3 channels of 8 x 8.
# How many multiplications are there, and how many of them have a zero of the padding as a factor?

# %%
layer = mt.lower(list(mt.workloads.conv2d_bias_relu(1, 2, 8, 8, 3, 3, 1, 1)), name="layer")
print(layer)
want, counts = run(layer)
assert counts.loads["weight"] == 3 * 8 * 8 * 2 * 3 * 3 == 3456

s = mt.Schedule(layer)
s.compute_inline("pad")  # the test moves into the sum: elements outside are not loaded
inlined, inside = run(s)
assert np.array_equal(inlined, want)
print("multiplications with the padding:", 3456 - inside.loads["data"])
assert inside.loads["data"] == 3 * 2 * 22 * 22  # 22 = 8 * 3 - 2 on each axis

# %% [markdown]
# On each axis 24 pairs of place and window meet 22 elements of the image. So 552 of 3456 are
# useless, a sixth. It is worth less to avoid them than to have loops without tests: code generation
# cuts the loops where the test changes, and the middle of the image is free of it.
#
# ## im2col against direct
#
# *im2col* copies all windows into the columns of a matrix. Then the convolution *is* a product of
# matrices, for which there are fast kernels. The *direct* convolution reads windows where they are.


# %%
def by_columns(c, h, w, f, k):
    """A convolution without padding, by im2col."""
    data, weight = (
        mt.placeholder((c, h, w), name="data"),
        mt.placeholder((f, c * k * k), name="weight"),
    )
    rows, columns = h - k + 1, w - k + 1
    cols = mt.compute(
        (c * k * k, rows * columns),
        lambda r, p: data[r // (k * k), p // columns + r // k % k, p % columns + r % k],
        name="cols",
    )
    r = mt.reduce_axis(c * k * k, name="r")
    conv = mt.compute(
        (f, rows * columns), lambda f, p: mt.sum(weight[f, r] * cols[r, p], axis=r), name="conv"
    )
    return mt.lower([data, weight, conv], name="by_columns")


copied = by_columns(2, 8, 8, 3, 3)
columns, counts = run(copied)
print("elements of the image:", 2 * 8 * 8, " of its columns:", counts.stores["cols"])
assert counts.stores["cols"] == 2 * 3 * 3 * 6 * 6

s = mt.Schedule(copied)
s.compute_inline("cols")
s.show()
direct, counts = run(s)
assert np.array_equal(direct, columns) and "cols" not in counts.stores

# %% [markdown]
# The columns are up to k² times as large as the image, written once and read again: a cache full of
# copies. Inlining makes the direct convolution of it: same sums, other addresses. The overlap is
# now an advantage: the window's elements are still in the cache, from the window before.
#
# ## Fusion: what follows, while it is hot
#
# The layer writes all of `conv` to memory and reads it again for bias and relu. Each is a cheap
# step on a number that was in a register a moment ago. `reverse_compute_at` moves a *consumer*
# under a loop of its producer: as soon as a row is done, its relu is taken.


# %%
def temporaries(s):
    """Bytes of each intermediate array in the code."""
    machine = mt.Target("c", num_cores=1, vector_bits=256)
    return {m.buffer: m.size for m in report_of(s.program, machine).storage}


s = mt.Schedule(layer)
print(temporaries(s))
assert temporaries(s) == {"pad": 4 * 2 * 10 * 10, "conv": 4 * 3 * 8 * 8}

n, f, y, x, *window = s.get_loops("conv")
s.reverse_compute_at("relu", y)
s.show()
print(temporaries(s))
assert temporaries(s)["conv"] == 4 * 8  # one row
fused, counts = run(s)
assert np.array_equal(fused, want) and counts.stores["relu"] == 3 * 8 * 8

# %% [markdown]
# Nothing is computed twice, so fusing a consumer of single elements is almost always right. The
# other direction is different: the *producer* `pad` is read by several windows.
#
# ## Tiles with a halo
#
# To have a tile of the output, a larger piece of the padded image is needed: neighbours overlap by
# the *halo* of `kernel - stride` rows and columns.


# %%
def needed(tile, kernel, stride):
    """Elements along one axis that a tile of the output reads."""
    return (tile - 1) * stride + kernel


s = mt.Schedule(layer)
n, f, y, x, *window = s.get_loops("conv")
(y_0, y_1), (x_0, x_1) = s.split(y, [None, 4]), s.split(x, [None, 4])
s.reorder(n, y_0, x_0, f, y_1, x_1, *window)
s.compute_at("pad", x_0)
s.reverse_compute_at("relu", f)
print(temporaries(s))
assert needed(4, 3, 1) == 6
assert temporaries(s) == {"pad": 4 * 2 * 6 * 6, "conv": 4 * 4 * 4}
tiled, counts = run(s)
assert np.array_equal(tiled, want)
assert counts.stores["pad"] == 4 * 2 * 6 * 6  # 4 tiles, in place of 2 * 10 * 10 elements

# %%
picture("13_tiles", s)

# %% [markdown]
# The price of tiles: 288 elements of `pad` are made in place of 200. It falls with the size of the
# tile: 4 x 4 makes 36 for 16, 32 x 32 makes 1156 for 1024. Note the order of the loops: all output
# channels `f` use the same piece of `pad`, which is made once for them.

# %%
for tile in (1, 4, 16, 32):
    print(f"{tile:2} x {tile:2}: {needed(tile, 3, 1) ** 2 / tile**2:.2f} for each of the output")

# %% [markdown]
# ## The layout decides about lanes
#
# A vector wants neighbours (lesson 12). In NCHW, pixels of a row are neighbours: lanes along `x`.
# With a stride of 2 they read every other element. In *NHWC* the channels are neighbours: lanes
# along `f`, for any stride and any width of the image; a tile of some pixels in some channels is
# the register tile of a product, with pixels as rows and channels as columns.

# %%
last = mt.lower(
    list(mt.workloads.conv2d_bias_relu(1, 4, 4, 12, 16, 3, 1, 1, layout="NHWC")), name="last"
)
want, _ = run(last)
s = mt.Schedule(last)
n, y, x, f, ry, rx, rc = s.get_loops("conv")
x_0, x_1 = s.split(x, [None, 6])
s.reorder(n, y, x_0, ry, rx, rc, x_1, f)
s.unroll(x_1)
s.vectorize(f)
*_, pixel, channel = s.reverse_compute_at("relu", x_0)
s.unroll(pixel)
s.vectorize(channel)
s.compute_at("pad", y)
s.show()

machine = mt.Target("c", num_cores=1, vector_bits=256)
print("remarks:", [str(r) for r in report_of(s.program, machine).remarks])
assert not report_of(s.program, machine).remarks
drawn = np.random.default_rng(1)
arrays = [drawn.integers(-3, 4, b.shape).astype("float32") for b in last.inputs]
(c,), counts = ir.interpret(lowered(s.program, machine), arrays, ["relu"])
assert np.array_equal(c, want)
products = 4 * 12 * 16 * 4 * 3 * 3
assert counts.loads["pad"] * 16 == counts.loads["weight"] * 6 == products

try:
    kernel = mt.build(s)
except mt.CompileError as error:
    print(error)
    kernel = mt.build(s, target="interpreter")
assert np.array_equal(kernel(*arrays), want)

# %% [markdown]
# ## Depthwise: when memory is the limit
#
# A *depthwise* convolution has one window for each channel, and no sum over channels. It does so
# little with each byte that no tile can help much: the roofline is its slope.


# %%
def operations_a_byte(tensors):
    """Operations of a program, for each byte of its inputs and outputs."""
    report = report_of(mt.lower(list(tensors)), machine)
    return report.operations / report.argument_bytes


full = operations_a_byte(mt.workloads.conv2d(1, 64, 56, 56, 64, 3, 1, 1))
single = operations_a_byte(mt.workloads.depthwise_conv2d(1, 64, 56, 56, 3, 1, 1))
print(f"operations a byte: {full:.0f} for a full convolution, {single:.1f} for a depthwise one")
assert full > 100 and single < 4

# %% [markdown]
# What helps here is fusion: with a neighbour in the same loops, the image between them is not moved
# at all.
#
# ## Pitfalls
#
# - `mt.select` around a read that may be outside is refused; `mt.if_then_else` is right.
# - `(n + 2 * padding - kernel) // stride + 1`: with a stride the last rows of the image may be
#   unused.
# - A producer under an inner loop is made again and again. Look at its stores.
# - To inline `pad` saves its array, and puts a test into each step of the sum. Code generation cuts
#   loops so that most of these tests vanish; of those that stay there are remarks (kind `guard`).
#
# ## Tasks
#
# Write these functions in `13_tasks.py`, and let `minitensor course check 13` judge them.
#
# 1. `touching_padding(h, w, kernel, stride, padding)`: for one input and one output channel, how
#    many multiplications have a zero of the padding as a factor.
# 2. `define(c, h, w, f, kernel, stride, padding)`: the program of a convolution of one image.
# 3. `fuse(s, most)`: of a layer as above, with any sizes, take bias and relu as soon as a part of
#    `conv` is there, so that all intermediate arrays together have at most `most` elements.
# 4. `strips(s, rows)`: make the padded image in strips, each for so many rows of the output, and
#    not once more for each output channel.
#
# ## Sources
#
# - K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document
#   processing", IWFHR 2006: convolutions as products of matrices.
# - E. Georganas et al., "Anatomy of high-performance deep learning convolutions on SIMD
#   architectures", SC 2018: direct convolutions with tiles in registers.
# - A. Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision
#   applications", 2017, section 3.1: depthwise convolutions.
