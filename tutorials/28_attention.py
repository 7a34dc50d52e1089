# %% [markdown]
# # Fused attention: from three passes to one
#
# **You will be able to** derive attention that never holds its scores, say why it is right, write
# the test that finds a wrong version of it, and have a schedule fuse it.
#
# *Attention* is what language models spend their time on: each of `M` queries is compared with `N`
# keys, and gets the mean of `N` values, weighted by how well the keys fit. It is two matrix
# products with a softmax between them. Lesson 11 made a softmax of two passes in place of three,
# and carried a *state* along; here the same idea goes through the second product, and nothing is
# left of the large array in the middle.

# %%
import math

import numpy as np

import minitensor as mt
from minitensor_course import picture

# %% [markdown]
# ## The definition, and what it holds
#
# `S` has the *scores*, one for each query and key; `P`, the softmax of each row of `S`, has weights
# that add up to one; the result is `O = P V`. By numpy:


# %%
def attention_by_numpy(q, k, v):
    """O for queries (M, D), keys (N, D) and values (N, D)."""
    scores = q @ k.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ v / weights.sum(axis=1, keepdims=True)


M, N, D = 4, 16, 3
rng = np.random.default_rng(28)
q, k, v = (rng.normal(size=(size, D)).astype("float32") for size in (M, N, N))
want = attention_by_numpy(q, k, v)

# %% [markdown]
# (The scores are divided by the root of `D` in practice. That is one factor on `q`, so we leave it
# out.) The scores and the weights have `M N` elements, the operands and the result only `M D` and
# `N D`. A text of 32,768 words with D = 64 has 32,768² scores, 4 GiB of float32, and operands of
# 8 MiB. What is in the middle goes to memory and comes back, three times: for the maximum, for the
# sum, and for the second product.
#
# ## One more key
#
# Take one query, and let the keys come one by one. Suppose that we have seen some of them. With the
# largest score so far, `m`, we keep
#
#     z  =  sum of exp(score - m)             over the keys so far
#     o  =  sum of exp(score - m) * value     over the keys so far, D numbers
#
# so that `o / z` is the attention over what we have seen. Now a score comes that is larger. As in
# lesson 11, every term should have been divided by `exp(m' - m)`, which is *one* factor for the
# whole of `z`; and since it is the same for all keys, it is one factor for the whole of `o` too:


# %%
def one_pass(scores, values):
    """Attention of one query, in one pass over its scores and the values."""
    m, z, o = -math.inf, 0.0, [0.0] * len(values[0])
    for score, value in zip(scores, values):
        larger = max(m, score)
        old, new = math.exp(m - larger), math.exp(score - larger)
        z = z * old + new
        o = [a * old + x * new for a, x in zip(o, value)]
        m = larger
    return [a / z for a in o]


for row in range(M):
    assert np.allclose(one_pass((q @ k.T)[row].tolist(), v.tolist()), want[row], rtol=1e-5)

# %% [markdown]
# The state of a query is `D + 2` numbers, whatever the number of keys.
#
# ## A test that finds the wrong ones
#
# The factor is easy to get wrong. Here are three versions with a fault each: the first forgets to
# correct `o`, the second corrects by the inverse, the third begins with `m = 0`.


# %%
def broken(kind):
    """A version of one_pass with a fault."""

    def attend(scores, values):
        m, z, o = 0.0 if kind == "zero" else -math.inf, 0.0, [0.0] * len(values[0])
        for score, value in zip(scores, values):
            larger = max(m, score)
            old, new = math.exp(m - larger), math.exp(score - larger)
            if kind == "inverse" and z:
                old = 1 / old
            z = z * old + new
            kept = 1.0 if kind == "forgets" else old
            o = [a * kept + x * new for a, x in zip(o, value)]
            m = larger
        return [a / z if z else math.nan for a in o]

    return attend


# %% [markdown]
# **Predict first.** We try each of them on four rows of scores. Which faults does each row find?
# (One of them finds nothing at all.)

# %%
rows = {
    "falling": [3.0, 2.0, 1.0],
    "rising": [1.0, 2.0, 3.0],
    "all far below 0": [-800.0, -801.0, -802.0],
    "rising, far below 0": [-802.0, -801.0, -800.0],
}
values = [[1.0], [2.0], [5.0]]
found = {}
for name, scores in rows.items():
    weights = np.exp(np.array(scores) - max(scores))
    right = weights @ np.array(values) / weights.sum()
    kinds = ("forgets", "inverse", "zero")
    found[name] = [x for x in kinds if not np.allclose(broken(x)(scores, values), right)]
    print(f"{name:20}", *found[name])
assert found["falling"] == [] and found["rising, far below 0"] == ["forgets", "inverse", "zero"]

# %% [markdown]
# If the largest score comes first, the factor stays 1, and any correction passes. Random
# scores rise now and then, so a test with random rows finds the first two; the third needs scores
# that are small enough for `exp` to give 0. A test is made of what can go wrong: rows that rise,
# rows that fall, large scores of both signs, equal scores, one key, and keys that are masked
# (`-inf`).
#
# ## Attention is a reduction
#
# The state of two parts of the keys can be combined: both are brought to the larger maximum. So
# `(m, z, o)` is the state of a reduction as in lesson 11, with the identity `(-inf, 0, 0)`, and one
# key is the state `(score, 1, value)`. The combiner writes the derivation down, once:


# %%
def carried(x, y):
    """Two states as one."""
    m = mt.maximum(x[0], y[0])
    a, b = mt.exp(x[0] - m), mt.exp(y[0] - m)
    return m, x[1] * a + y[1] * b, x[2] * a + y[2] * b


attend = mt.comm_reducer(carried, (-math.inf, 0.0, 0.0), name="attend")


def attention(m, n, d):
    """The program of attention: m queries and n keys and values of d numbers."""
    Q, K, V = (mt.placeholder((size, d), name=x) for size, x in ((m, "Q"), (n, "K"), (n, "V")))
    r, key = mt.reduce_axis(d, name="r"), mt.reduce_axis(n, name="key")
    S = mt.compute((m, n), lambda i, j: mt.sum(Q[i, r] * K[j, r], axis=r), name="S")
    one = mt.const(1.0, "float32")
    _, L, W = mt.compute(
        (m, d), lambda i, e: attend((S[i, key], one, V[key, e]), axis=key), name="state"
    )
    Y = mt.compute((m, d), lambda i, e: W[i, e] / L[i, e], name="O")
    return mt.lower([Q, K, V, Y], name="attention")


program = attention(M, N, D)
assert np.allclose(mt.interpret(program, q, k, v), want, atol=1e-6)

# %% [markdown]
# What was proved of the reduction need not be proved again of a schedule: any order and any
# grouping of the keys is right, and `S` is a stage like any other. So let 4 scores of a query be
# computed where they are used, right before:

# %%
s = mt.Schedule(program)
i, e, key = s.get_loops("state_0")
s.reorder(i, key, e)
block, _ = s.split(key, [None, 4])
s.compute_at("S", block)
s.reverse_compute_at("O", i)
s.show()
assert np.allclose(mt.interpret(s, q, k, v), want, atol=1e-6)

# %%
picture("28_fused", s)

# %% [markdown]
# That is *FlashAttention*, without its memory of a GPU: blocks of keys go by, and of the scores
# only one block is alive. In the C `S` has 4 elements in place of 64, and the state is of one
# query:

# %%
text = mt.codegen.generate(s.program, mt.Target("c", num_cores=2, vector_bits=256)).source
print("\n".join(line for line in text.splitlines() if "aligned(64)" in line))
assert "float S[4]" in text and f"float state_1[{D}]" in text

# %% [markdown]
# ## When there are few queries
#
# A model that writes a text has *one* query at a time, and all keys so far. Its loop over queries
# has one iteration: nothing for a second thread to do. The keys can be shared instead, since the
# state is that of a reduction: `rfactor` gives each thread a part of them and a state of its own,
# and combines the states at the end (this is called *flash decoding*, or *split-k*).

# %%
one_query = mt.Schedule(attention(1, N, D))
i, e, key = one_query.get_loops("state_0")
one_query.reorder(i, key, e)
part, _ = one_query.split(key, [4, None])
own = one_query.rfactor(part)
one_query.parallel(part)
print(one_query.trace.as_python())
assert np.allclose(mt.interpret(one_query, q[:1], k, v), want[:1], atol=1e-6)

# %% [markdown]
# ## Pitfalls
#
# - The factor of `z` and that of `o` are the same number. A version that passes on falling rows has
#   shown nothing.
# - A masked score is `-inf`. If it comes first, `-inf - -inf` is NaN: the state of no key has to be
#   treated as such, as in task 1.
# - `exp` is computed for each of the `D` numbers of a value here, though it is the same for all.
#   Hand schedules hold it in a temporary (`tutorials/schedules/attention.py`).
# - One pass has more arithmetic than three, for it corrects. It wins where memory is the limit: a
#   correction is `D` multiplications, and a score that goes to memory and back costs more.
#
# ## Tasks
#
# Write these functions in `28_tasks.py`, and let `minitensor course check 28` judge them.
#
# 1. `step(state, score, value)`: take one more key. A state is `(m, z, o)`, with a list `o`; the
#    first is `(-inf, 0.0, [0.0, …])`. A key with the score -inf changes nothing.
# 2. `is_right(attend)`: `attend(scores, values)` is a version of `one_pass`; return True if it is
#    right, False if not. Its faults are of the kinds above, and some more.
# 3. `fuse(s, keys)`: `s` is a schedule of the program `attention`, of other sizes. Fuse it so that
#    the temporaries take no more than `keys` scores, the state of one query (`3 d` numbers) and the
#    6 numbers that the combiner works on, and that each score is computed once.
#
# ## Sources
#
# - T. Dao, D. Y. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention: fast and memory-efficient exact
#   attention with IO-awareness", NeurIPS 2022, section 3: blocks of keys, and the correction.
# - M. N. Rabe, C. Staats, "Self-attention does not need O(n²) memory", arXiv:2112.05682, 2021,
#   section 2: the state, one key at a time.
# - M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867, 2018.
# - T. Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", ICLR
#   2024, section 3: loops over queries outside, and parts of the keys for few of them.
