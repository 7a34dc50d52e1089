"""Drawn graphs: branches, shared values, several outputs; small integers, which floats hold."""

import numpy as np
from hypothesis import strategies as st

from minitensor import ops
from minitensor.graph import trace

SHAPES = ((4,), (3, 4), (2, 3, 4), (1, 4, 5, 4), (2, 2, 4, 6))
LARGEST = 200
"""Elements of a value: the interpreter runs them one by one."""


def small(rng, shape):
    """Integers whose sums and products stay exact in float32."""
    return rng.integers(-2, 3, shape).astype("float32")


def unary(x, draw):
    return draw((ops.relu, ops.neg, ops.abs, ops.identity))(x)


def with_number(x, draw):
    return draw((ops.add, ops.mul, ops.maximum))(x, draw((0.5, 1.0, -1.0)))


def moved(x, draw):
    rank = x.ndim
    kind = draw(("transpose", "twice", "reshape", "slice", "flat"))
    order = tuple((axis + 1) % rank for axis in range(rank))
    if kind == "transpose":
        return ops.transpose(x, axes=order)
    if kind == "twice":
        return ops.transpose(ops.transpose(x, axes=order))
    if kind == "reshape":
        return ops.reshape(x, shape=(*x.shape[1:], x.shape[0]))
    if kind == "flat":
        return ops.reshape(ops.reshape(x, shape=(-1,)), shape=x.shape)
    return ops.slice(x, starts=(1,), stops=(9,), axes=(rank - 1,)) if x.shape[-1] > 1 else x


def reduced(x, draw):
    kind = draw((ops.reduce_sum, ops.reduce_max))
    return kind(x, axes=(x.ndim - 1,), keepdims=draw((True, False)) or x.ndim == 1)


def product(x, draw, weights):
    w = weights["w"]
    return ops.matmul(x, w) if x.ndim > 1 and x.shape[-1] == w.shape[0] else None


def convolution(x, draw, weights):
    filters = weights.get("filters")
    if filters is None or x.ndim != 4 or x.shape[1] != filters.shape[1]:
        return None
    bias = draw((None, weights["c0"]))
    y = ops.conv2d(x, filters, bias, padding=1)
    if draw((True, False)):
        return ops.batch_norm(y, *(weights[f"c{n}"] for n in range(4)))
    return ops.add(y, ops.reshape(weights["c1"], shape=(1, 2, 1, 1)))


def constants(rng, shape):
    """Weights that fit tensors of the first shape: of products, and of convolutions of images."""
    found = {"w": small(rng, (shape[-1], 3))}
    if len(shape) == 4:
        found["filters"] = small(rng, (2, shape[1], 3, 3))
        found |= {f"c{n}": small(rng, (2,)) for n in range(3)}
        found["c3"] = np.full(2, 3.0, "float32")
    return found


@st.composite
def graphs(draw, most=8):
    """A graph, and arrays for its inputs, in their order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from(SHAPES))
    examples = {f"x{n}": (shape, "float32") for n in range(draw(st.integers(1, 2)))}
    weights = constants(rng, shape)
    plan = draw(st.lists(st.integers(0, 6), min_size=1, max_size=most))

    def pick(options):
        return draw(st.sampled_from(options))

    def network(**tensors):
        held = {name: tensors.pop(name) for name in weights}
        values = list(tensors.values())
        for kind in plan:
            x = pick(tuple(values[-3:]))
            if kind < 4:
                made = (unary, with_number, moved, reduced)[kind](x, pick)
            elif kind < 6:
                made = (product, convolution)[kind - 4](x, pick, held)
            else:
                others = tuple(v for v in values if v.shape == x.shape)
                made = pick((ops.add, ops.maximum))(x, pick(others))
            if made is not None and np.prod(made.shape) <= LARGEST:
                values.append(made)
        ends = [v for v in values[-pick((1, 2)) :] if v.origin is not None]
        return tuple(ends) or ops.identity(values[-1])

    return trace(network, **examples, **weights), [small(rng, s) for s, _ in examples.values()]
