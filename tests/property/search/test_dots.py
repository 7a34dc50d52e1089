"""Drawn layers of bytes, scheduled by any sketch and any decisions: numpy's result, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ops
from tests.parts import examples

BYTES = ("uint8", "int8")
FEATURES = st.sampled_from([(), ("avx512_vnni",), ("avx_vnni",)])


def drawn(rng, dtype, shape):
    """Any integers of a type, its extremes more often than others."""
    info = np.iinfo(dtype)
    found = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    extreme = rng.integers(0, 8, shape)
    return np.where(extreme == 0, info.min, np.where(extreme == 1, info.max, found)).astype(dtype)


def zero_points(dtype):
    info = np.iinfo(dtype)
    return st.sampled_from([0, 0, int(info.min), int(info.max), 3])


@st.composite
def layers(draw):
    """A program, its arrays, and what numpy makes of them."""
    left, right = draw(st.sampled_from(BYTES)), draw(st.sampled_from(BYTES))
    za, zb = draw(zero_points(left)), draw(zero_points(right))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if draw(st.booleans()):
        m, n, k = (draw(st.integers(1, most)) for most in (20, 40, 30))
        a, b = drawn(rng, left, (m, k)), drawn(rng, right, (k, n))
        x, w = mt.placeholder(a.shape, left, name="x"), mt.placeholder(b.shape, right, name="w")
        made = ops.matmul_integer(x, w, za, zb)
        wanted = (a.astype("i4") - za) @ (b.astype("i4") - zb)
    else:
        c, f, side = (draw(st.integers(*span)) for span in ((1, 9), (1, 20), (3, 9)))
        kernel, padding, stride = draw(st.sampled_from([1, 3])), draw(st.booleans()), 1
        a, b = drawn(rng, left, (1, c, side, side)), drawn(rng, right, (f, c, kernel, kernel))
        x, w = mt.placeholder(a.shape, left, name="x"), mt.placeholder(b.shape, right, name="w")
        made = ops.conv_integer(x, w, zb, x_zero_point=za, padding=int(padding), stride=stride)
        around = np.pad(a.astype("i4") - za, [(0, 0), (0, 0), *[(int(padding),) * 2] * 2])
        windows = np.lib.stride_tricks.sliding_window_view(around, (kernel, kernel), (2, 3))
        wanted = np.einsum("ncyxij,fcij->nfyx", windows, b.astype("i4") - zb)
    if draw(st.booleans()):
        scale, moved = np.float32(draw(st.sampled_from([0.001, 0.02, 0.5]))), 7
        made = ops.requantize(made, float(scale), moved, dtype=left)
        info = np.iinfo(left)
        rounded = np.rint(wanted.astype("f") * scale) + moved
        wanted = np.clip(rounded, info.min, info.max).astype(left)
    return mt.lower([x, w, made], name="layer"), [a, b], wanted


@pytest.mark.slow
@examples(12, 300, deadline=None)
@given(layers(), FEATURES, st.sampled_from([128, 256]), st.integers(0, 2**16), st.integers(0, 23))
def test_layers_of_bytes_are_those_of_numpy(layer, features, bits, seed, sketch):
    program, arrays, wanted = layer
    target = mt.Target("c", 2, bits, features=features)
    sketches = mt.search.generate_sketches(program, target)
    chosen = [s for s in sketches if "dot products" in s.rules] or sketches
    schedule = chosen[sketch % len(chosen)].apply(seed=seed)
    mt.verify(schedule.program)
    got = mt.build(schedule, mt.Target("c", 2, bits))(*arrays)
    np.testing.assert_array_equal(got, wanted)
    if sketch % 4 == 0:
        np.testing.assert_array_equal(mt.interpret(schedule, *arrays), wanted)
