"""A search for a GPU that nothing measures, whose best is run in the emulator."""

import pytest

import minitensor as mt

W = mt.workloads


@pytest.mark.parametrize(
    "definition",
    [W.matmul(m=13, n=10, k=9), W.softmax(3, 50), W.conv2d_bias_relu(1, 3, 5, 6, 4, 3, 1, 1)],
    ids=["product", "softmax", "convolution"],
)
def test_the_best_is_right_in_the_emulator(definition):
    result = mt.tune(mt.lower(definition), "cuda-emulator", trials=8)
    assert result.estimated == "right in the emulator, without races"
