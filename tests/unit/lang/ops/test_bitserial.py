"""Products of a few bits against numpy, and their refusals."""

import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import minitensor as mt
from minitensor import ops
from minitensor.errors import ArgumentError

RNG = np.random.default_rng(0)
ENCODINGS = ("unipolar", "bipolar")
CASES = list(itertools.product((1, 2), (1, 2), ENCODINGS, ENCODINGS))


def numbers(codes, bits, encoding):
    """The numbers that the lowest bits of codes encode."""
    own = codes.astype(np.int64) & ((1 << bits) - 1)
    return own if encoding == "unipolar" else 2 * own - ((1 << bits) - 1)


def run(function, *arrays):
    """The result of an operator on arrays, by the interpreter"""
    given = [mt.placeholder(a.shape, str(a.dtype), name=f"x{n}") for n, a in enumerate(arrays)]
    return mt.interpret(mt.lower([*given, function(*given)]), *arrays)


@pytest.mark.slow
@pytest.mark.parametrize(("a_bits", "w_bits", "activations", "weights"), CASES)
def test_rows_with_rows(a_bits, w_bits, activations, weights):
    for depth, dtype in ((7, "uint8"), (16, "int8"), (45, "int32")):
        x = RNG.integers(0, 100, (3, depth)).astype(dtype)
        w = RNG.integers(0, 100, (4, depth)).astype(dtype)
        if dtype == "int8":
            x[0, 0] = w[0, 0] = -1  # all bits
        got = run(
            lambda x, w: ops.bitserial_dense(
                x, w, activation_bits=a_bits, weight_bits=w_bits, activations=activations,
                weights=weights,
            ),
            x,
            w,
        )  # fmt: skip
        wanted = numbers(x, a_bits, activations) @ numbers(w, w_bits, weights).T
        np.testing.assert_array_equal(got, wanted.astype("int32"))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(("a_bits", "w_bits", "activations", "weights"), CASES)
def test_convolutions(a_bits, w_bits, activations, weights):
    padding = 0 if activations == "bipolar" else ((1, 0), (2, 1))
    x = RNG.integers(0, 1 << a_bits, (2, 9, 5, 6), "uint8")
    w = RNG.integers(0, 1 << w_bits, (3, 9, 2, 3), "uint8")
    got = run(
        lambda x, w: ops.bitserial_conv2d(
            x, w, activation_bits=a_bits, weight_bits=w_bits, activations=activations,
            weights=weights, padding=padding, stride=(1, 2),
        ),
        x,
        w,
    )  # fmt: skip
    image = np.pad(
        numbers(x, a_bits, activations), ((0, 0), (0, 0), *(padding or ((0, 0), (0, 0))))
    )
    windows = sliding_window_view(image, w.shape[2:], axis=(2, 3))[:, :, :, ::2]
    wanted = np.einsum("ncyxij,fcij->nfyx", windows, numbers(w, w_bits, weights))
    np.testing.assert_array_equal(got, wanted)


def test_three_and_four_bits():
    x, w = RNG.integers(0, 16, (2, 20), "uint8"), RNG.integers(0, 8, (3, 20), "uint8")
    got = run(lambda x, w: ops.bitserial_dense(x, w, activation_bits=4, weight_bits=3), x, w)
    np.testing.assert_array_equal(got, x.astype("int32") @ w.T.astype("int32"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"activation_bits": 5}, "activation_bits"),
        ({"weight_bits": 0}, "weight_bits"),
        ({"weight_bits": True}, "weight_bits"),
        ({"weights": "binary"}, 'expected "unipolar" or "bipolar"'),
        ({"x": mt.placeholder((3, 8), "float32")}, "expected x of integers with 2 axes"),
        ({"x": mt.placeholder((3, 8, 1), "uint8")}, "expected x of integers with 2 axes"),
        ({"x": mt.placeholder((3, 9), "uint8")}, "must be equal"),
        ({"x": 3}, "ops.bitserial_dense: x"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    x, w = (mt.placeholder((3, 8), "uint8", name=n) for n in "xw")
    with pytest.raises(ArgumentError, match=words):
        ops.bitserial_dense(**{"x": x, "w": w, **change})


def test_bipolar_activations_are_not_padded():
    x, w = (mt.placeholder((1, 8, 5, 5), "uint8", name=n) for n in "xw")
    with pytest.raises(ArgumentError, match=r"no 0 to pad with.*ops\.pad"):
        ops.bitserial_conv2d(x, w, activations="bipolar", padding=2)


def test_popcount_takes_integers_only():
    x = mt.placeholder((3,), "float32", name="x")
    for wrong in (x[0], 1.5, True, mt.var("i")):
        with pytest.raises(ArgumentError, match="expected an integer of a type"):
            mt.popcount(wrong)
