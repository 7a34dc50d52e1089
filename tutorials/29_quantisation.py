# %% [markdown]
# # Quantisation, and its error
#
# **You will be able to** write floats as bytes and back, choose scales, multiply bytes without
# losing a bit, and predict the error of a product before you measure it.
#
# A byte takes a quarter of the memory of a float, and processors multiply four times as many of
# them at once (lesson 27). To *quantise* is to write an array of floats as bytes and one factor. It
# loses something, and the question of this lesson is how much: not by trying a network and hoping,
# but by a formula that is checked.

# %%
import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## A byte and a factor
#
# An *affine* code has a `scale` and a `zero_point`: the byte `q` stands for `(q - zero_point) *
# scale`. Back: divide, round, move, and *saturate*, which means that what lies outside of the bytes
# becomes the nearest byte.


# %%
def quantised(x, scale, zero_point, low=0, high=255):
    """Floats as bytes from low to high."""
    return np.clip(np.rint(x / scale) + zero_point, low, high)


def floats(q, scale, zero_point):
    """Bytes as the floats they stand for."""
    return (q - zero_point) * scale


x = np.array([-1.0, -0.4, 0.0, 0.1, 0.77, 1.5], "float32")
q = quantised(x, scale=0.01, zero_point=100)
print(q, floats(q, 0.01, 100))
assert q.tolist() == [0, 60, 100, 110, 177, 250]

# %% [markdown]
# In minitensor the same is `mt.ops.quantize`, with the rounding and the saturation that ONNX says:
# halves go to the even number, and a NaN becomes 0.

# %%
X = mt.placeholder((6,), "float32", name="X")
program = mt.lower([X, mt.ops.quantize(X, 0.01, 100, axis=0)], name="quantise")
print(program)
assert np.array_equal(mt.interpret(program, x), q.astype("uint8"))

# %% [markdown]
# Two things can go wrong with a value, and they ask for opposite scales. Inside the range the error
# is at most *half a step*, `scale / 2`: a small scale is better. Outside it is as large as the
# distance to the range: a large scale is better.
#
# **Predict first.** Here are 10,000 numbers from a normal distribution, and one *outlier*, 60. If
# the scale is chosen for the largest, how many different bytes do the 10,000 get? And what happens
# to the error of all of them together if the outlier is cut off at 4?

# %%
rng = np.random.default_rng(29)
many = np.append(rng.normal(size=10_000), 60.0)


def error_of(values, largest):
    """The root of the mean square error of int8 codes for -largest to largest, and bytes used."""
    scale = largest / 127
    q = quantised(values, scale, 0, -128, 127)
    return np.sqrt(np.mean((floats(q, scale, 0) - values) ** 2)), len(set(q[:10_000]))


for largest in (60.0, 16.0, 4.0, 2.0):
    found, used = error_of(many, largest)
    inner, _ = error_of(many[:10_000], largest)
    print(f"up to {largest:4}: error {found:.4f}, without the outlier {inner:.4f}; {used} bytes")
assert error_of(many, 60.0)[1] < 20
assert error_of(many[:10_000], 4.0)[0] < 0.1 * error_of(many[:10_000], 60.0)[0]

# %% [markdown]
# Cut off at 4, the 10,000 lose thirteen times less, and one number is wrong by 56. Whether that is
# a good bargain only the network can say. What always helps is a factor for fewer numbers: one *per
# channel*, so that an outlier spoils its own channel alone.

# %%
channels = rng.normal(size=(8, 1000)) * 4.0 ** np.arange(-4, 4)[:, None]
one_scale = np.abs(channels).max() / 127
own_scales = np.abs(channels).max(axis=1, keepdims=True) / 127
for name, scale in (("one scale", one_scale), ("one each", own_scales)):
    back = floats(quantised(channels, scale, 0, -128, 127), scale, 0)
    lost = np.sqrt(np.mean((back - channels) ** 2, axis=1) / np.mean(channels**2, axis=1))
    print(f"{name:10}", *(f"{x:7.4f}" for x in lost))
assert lost.max() < 0.02

# %% [markdown]
# ## The error of rounding is a number you know
#
# A value that is rounded lands anywhere in its step, so its error is as good as a random number
# between `-scale / 2` and `scale / 2`, whose mean square is `scale² / 12`:

# %%
scale = 4 / 127
inside = many[np.abs(many) < 4]
measured = np.mean((floats(quantised(inside, scale, 0, -128, 127), scale, 0) - inside) ** 2)
print(f"measured {measured:.3e}, scale² / 12 = {scale**2 / 12:.3e}")
assert abs(measured / (scale**2 / 12) - 1) < 0.05

# %% [markdown]
# From that follows the error of a product. In `sum of a[i] * b[i]` over `n` terms let `a` be off by
# `da` and `b` by `db`. A term is off by `a db + b da` (and `da db`, which is tiny). The errors of
# different terms have nothing to do with each other, so their *squares* add up:
#
#     (error of the sum)²  =  n * (A² sb² / 12  +  B² sa² / 12)
#
# where `A²` and `B²` are the mean squares of `a` and `b`, and `sa`, `sb` their scales. So the error
# grows with the *root* of n; and if the operands have signs, so does the result: a long sum is as
# good as a short one, relative to its size.


# %%
def predicted(n, a, b, sa, sb):
    """The error of a sum of n products, by the formula."""
    return np.sqrt(n * (np.mean(a**2) * sb**2 + np.mean(b**2) * sa**2) / 12)


for n in (64, 1024):
    a, b = rng.normal(size=(500, n)), rng.normal(size=(500, n))
    sa, sb = np.abs(a).max() / 127, np.abs(b).max() / 127
    qa, qb = quantised(a, sa, 0, -128, 127), quantised(b, sb, 0, -128, 127)
    off = (qa * qb).sum(axis=1) * sa * sb - (a * b).sum(axis=1)
    measured = np.sqrt(np.mean(off**2))
    guess = predicted(n, a, b, sa, sb)
    print(f"n = {n:5}: measured {measured:.4f}, predicted {guess:.4f}")
    assert abs(measured / guess - 1) < 0.15

# %% [markdown]
# If a measured error is *larger* than this, something else is wrong: a value is cut off, a sum
# overflows, a zero point is forgotten. That is what the formula is for.
#
# ## Products of bytes, without losing a bit
#
# The bytes themselves are integers, so their products and sums are exact, as long as the sum has
# room. One product of an unsigned byte and a signed one is up to 255 * 128 = 32,640: two of them
# overflow
# 16 bits. In 32 bits there is room for

# %%
print((2**31 - 1) // (255 * 128), "products")

# %% [markdown]
# which is enough for any layer. The zero points belong into the integers too: `sum of (qa - za) *
# (qb - zb)`. Multiplied out that is the plain product of the bytes, less sums of rows and columns,
# which are cheap; so the inner loop has bytes only:


# %%
def product(qa, qb, za, zb):
    """The sum of (qa - za) * (qb - zb), by the product of the bytes and three corrections."""
    wide_a, wide_b = qa.astype("int32"), qb.astype("int32")
    depth = wide_a.shape[1]
    rows, columns = wide_a.sum(axis=1, keepdims=True), wide_b.sum(axis=0)
    return wide_a @ wide_b - zb * rows - za * columns + depth * za * zb


qa = rng.integers(0, 256, (5, 40)).astype("uint8")
qb = rng.integers(-128, 128, (40, 7)).astype("int8")
right = (qa.astype("int64") - 131) @ (qb.astype("int64") - 7)
assert np.array_equal(product(qa, qb, 131, 7), right)

# %% [markdown]
# `mt.ops.matmul_integer` is this program, `mt.ops.qlinear_matmul` goes on to bytes again, and in
# both the results are numpy's bit for bit. The way back to bytes is one multiplication by
# `sa * sb / sy`, a rounding and a saturation, for each element of the result: it follows each tile
# of the product, while that is in registers.

# %%
A, B = mt.placeholder((5, 40), "uint8", name="A"), mt.placeholder((40, 7), "int8", name="B")
sa, sb, sy = 0.02, 0.03, 0.5
Y = mt.ops.qlinear_matmul(
    A, B, a_scale=sa, b_scale=sb, y_scale=sy, a_zero_point=131, b_zero_point=7, y_zero_point=90
)
program = mt.lower([A, B, Y], name="layer")
sums = right.astype("float32") * np.float32(sa * sb / sy)
want = np.clip(np.rint(sums) + 90, 0, 255).astype("uint8")
assert np.array_equal(mt.interpret(program, qa, qb), want)

# %%
picture("29_layer", program)

# %% [markdown]
# The first two nests are the corrections, `matmul_integer` the product of the bytes, and the last
# one goes back to bytes. Only the product has a loop of `m n k` steps.

# %% [markdown]
# ## Pitfalls
#
# - Zero has to be a byte: padding, rectifiers and masks write it a million times, and an error
#   there is the same everywhere, so it does not average out. So a zero point is an integer.
# - Arithmetic of `uint8` wraps around: `np.uint8(3) - np.uint8(5)` is 254. Widen, then subtract.
# - An error that has one sign (rounding down, say) adds up like n, not like its root.
# - Scales are float32 in ONNX, and `x / scale` is not `x * (1 / scale)`: a half may fall to the
#   other side. One program has one way, or two runtimes differ by one byte in a thousand.
#
# ## Tasks
#
# Write these functions in `29_tasks.py`, and let `minitensor course check 29` judge them.
#
# 1. `parameters(low, high)`: the scale and the zero point of the uint8 code for numbers from `low`
#    to `high`. The range is widened to contain 0, which has to be a byte; the lowest number is byte
#    0 and the highest 255, up to that rounding. If there is nothing but 0, the scale is 1.
# 2. `product(a, b, zero_a, zero_b)`: `a` (m, k) of uint8 and `b` (k, n) of int8. Return the sums
#    of `(a - zero_a) * (b - zero_b)` as an array of int32, exactly.
# 3. `error(n, rms_a, rms_b, largest_a, largest_b)`: the predicted error of a sum of `n` products,
#    if each operand is in int8 codes for minus to plus its largest; `rms` is the root of its mean
#    square.
# 4. `define(m, n, k, zero)`: return the program of `C = sum of (A - zero) * B`, for inputs `A`
#    (m, k) of uint8 and `B` (k, n) of int8, and an output `C` of int32.
#
# ## Sources
#
# - B. Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-
#   only inference", CVPR 2018, section 2: the affine code, and the product with zero points.
# - B. Widrow, I. Kollár, "Quantization noise", Cambridge University Press 2008, chapters 1 and 4:
#   when an error is as good as random, and the step squared over 12.
# - R. Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference: a
#   whitepaper", arXiv:1806.08342, 2018, section 3: scales of channels.
# - The operators QuantizeLinear, QLinearMatMul and DynamicQuantizeLinear of the ONNX standard.
