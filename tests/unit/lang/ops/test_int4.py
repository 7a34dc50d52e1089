"""Products with weights of 4 bits against numpy, and their refusals."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.errors import ArgumentError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("m", "n", "k", "group"), [(1, 5, 64, 32), (3, 4, 24, 8), (2, 3, 6, 6)])
def test_rows_with_weights_of_four_bits(m, n, k, group):
    x = RNG.integers(-9, 9, (m, k)).astype("float32")
    codes = RNG.integers(0, 16, (n, k)).astype("uint8")
    scale = RNG.integers(1, 5, (n, k // group)).astype("float32")
    w = codes[:, 0::2] | codes[:, 1::2] << 4
    given = [mt.placeholder(a.shape, str(a.dtype), name=s) for a, s in zip((x, w, scale), "xws")]
    program = mt.lower([*given, ops.matmul_int4(*given, group=group)])
    weights = (codes.astype("float32") - 8) * np.repeat(scale, group, 1)
    np.testing.assert_array_equal(mt.interpret(program, x, w, scale), x @ weights.T)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"group": 5}, "an even number that divides k = 64"),
        ({"group": 48}, "an even number that divides k = 64"),
        ({"group": 0}, "group"),
        ({"w": ((5, 64), "uint8")}, r"expected w of shape \(5, 32\)"),
        ({"w": ((5, 32), "int8")}, "expected w of uint8 with 2 axes"),
        ({"x": ((64,), "float32")}, "expected x of float32 with 2 axes"),
        ({"scale": ((5, 3), "float32")}, r"expected scale of shape \(5, 2\)"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    shapes = {"x": ((2, 64), "float32"), "w": ((5, 32), "uint8"), "scale": ((5, 2), "float32")}
    group = change.get("group", 32)
    given = {
        name: mt.placeholder(*change.get(name, shape), name=name) for name, shape in shapes.items()
    }
    with pytest.raises(ArgumentError, match=words):
        ops.matmul_int4(**given, group=group)
